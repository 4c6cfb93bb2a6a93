"""Commands that change settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from ebbtide.agent.config.options import EFFORTS, OPTIONS_BY_KEY, THEMES, THOUGHTS_DISPLAYS, ThemeName
from ebbtide.agent.config.settings import Setting, SettingOrigin, Settings, format_as_toml_value, format_for_display
from ebbtide.agent.errors import AgentError
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.models import available_models
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, ShowMessage, TextRequest, heading_row


@dataclass(frozen=True, slots=True)
class OfferedTheme:
    """An available theme."""

    name: ThemeName
    help: str


OFFERED_THEMES: tuple[OfferedTheme, ...] = (
    OfferedTheme("auto", "light or dark, like your terminal"),
    OfferedTheme("dark", "the sea at night: blue-grey"),
    OfferedTheme("light", "paper and ink, with deep blue"),
    OfferedTheme("high-contrast", "bright on black"),
    OfferedTheme("ansi", "your terminal's own 16 colours"),
    OfferedTheme("catppuccin-mocha", "pastels on a dark ground"),
    OfferedTheme("catppuccin-latte", "pastels on a light ground"),
    OfferedTheme("dracula", "violet and pink on slate"),
    OfferedTheme("gruvbox", "warm and retro"),
    OfferedTheme("nord", "cold and calm"),
    OfferedTheme("solarized-dark", "sixteen colours on deep blue"),
    OfferedTheme("solarized-light", "sixteen colours on cream"),
    OfferedTheme("tokyo-night", "neon on midnight blue"),
)


def build_themes_panel(chosen_theme: ThemeName, is_colorless: bool, apply_theme: Callable[[ThemeName], None]) -> Panel:
    """Build the panel of themes, which previews the highlighted theme. `is_colorless`: whether colours are off in every
    theme."""
    message = "`NO_COLOR` is set, so all themes look alike"
    return Panel(
        "theme",
        ((("Theme", "strong"),),),
        tuple(
            PanelRow(
                theme.name,
                (
                    ("● " if theme.name == chosen_theme else "  ", "good"),
                    (f"{theme.name:<18}", "text"),
                    (theme.help, "dim"),
                ),
                search_text=f"{theme.name} {theme.help}",
                details=(parse_inline_code(message, "warn"),) if is_colorless else (),
            )
            for theme in OFFERED_THEMES
        ),
        "Up, Down preview   Enter select   Esc cancel",
        empty_message="No match.",
        initial_value=chosen_theme,
        on_row_marked=lambda row: apply_theme(cast(ThemeName, row.value)),
    )


_KEY_WIDTH = 36
_VALUE_WIDTH = 22
COMMON_SETTINGS = (
    "agent.model", "agent.permission_mode", "agent.reasoning_effort", "agent.sandbox", "permissions.allow",
    "permissions.sandboxed", "agent.max_cost", "tui.theme", "tui.detail", "tui.notify",
)  # fmt: skip
"""Common settings, which are shown first."""
SETTING_GROUPS = (
    ("Interface", ("tui.",)),
    (
        "Permissions and tools",
        ("permissions.", "tools.", "hooks.", "mcp.", "lsp.", "agents.", "jobs.", "sandbox.", "web."),
    ),
    ("Undo and recall", ("checkpoints.", "recall.", "archive.")),
    ("Retries", ("retry.",)),
    ("Telemetry", ("telemetry.",)),
    ("Model and context", ("agent.", "rewrite.")),
)
"""Groups for the other settings, by key prefix."""
_ORIGIN_STYLES: dict[SettingOrigin, TextStyle] = {
    "default": "dim",
    "yours": "accent",
    "project": "warn",
    "environment": "warn",
    "command line": "warn",
}


def build_settings_panel(
    list_settings: Callable[[], Sequence[Setting]], set_value: Callable[[str, str], str], search_text: str = ""
) -> Panel:
    """Build the settings panel. `set_value` takes a key and the new value as text, and returns a message; it may raise
    `AgentError`."""
    settings = {setting.key: setting for setting in list_settings()}

    def initial_value(row: PanelRow) -> str:
        value = settings[row.value].value
        if value is None or isinstance(value, str | bool):
            return "" if value is None else format_for_display(value)
        return format_as_toml_value(value)

    async def change_setting(row: PanelRow, text: str) -> Panel:
        message = ShowMessage(sanitise_line(set_value(row.value, text)), "good")
        return replace(build_settings_panel(list_settings, set_value), message=message)

    text_request = TextRequest(
        initial_value,
        "Enter save   empty: reset to default   Esc cancel",
        "New value",
        replaces_initial_text=True,
        placeholder=lambda row: f"{row.value}: not set",
        may_be_empty=True,
    )
    return Panel(
        "settings",
        ((("Settings", "strong"),),),
        tuple(_rows(settings)),
        "Up, Down   Enter change   Esc close",
        empty_message="No match.",
        actions=(PanelAction(("enter",), "change", change_setting, text_request=text_request),),
        search_text=search_text,
        previews_before_action=True,
    )


def _rows(settings: Mapping[str, Setting]) -> Iterator[PanelRow]:
    """Yield rows for the common settings, then for the others by group."""
    yield heading_row("Common")
    yield from (_row(settings[key]) for key in COMMON_SETTINGS if key in settings)
    for title, prefixes in SETTING_GROUPS:
        group = [
            setting for key, setting in settings.items() if key.startswith(prefixes) and key not in COMMON_SETTINGS
        ]
        if group:
            yield heading_row(title)
        yield from map(_row, group)


def _row(setting: Setting) -> PanelRow:
    return PanelRow(
        setting.key,
        partial(setting_line, setting),
        search_text=f"{setting.key} {setting.description} {setting.origin}",
        details=setting_details(setting),
    )


def setting_line(setting: Setting, width: int) -> Line:
    """Format a setting's key, value and source. Columns are not aligned if the list is narrow."""
    value = ellipsize(sanitise_line(format_for_display(setting.value)), _VALUE_WIDTH)
    key_width = _KEY_WIDTH if width > _KEY_WIDTH + _VALUE_WIDTH else len(setting.key) + 2
    return (
        (f"{setting.key:<{key_width}}", "text"),
        (f"{value:<{_VALUE_WIDTH}}  ", "dim" if setting.value is None or setting.origin == "default" else "strong"),
        (setting.origin, _ORIGIN_STYLES[setting.origin]),
    )


def setting_details(setting: Setting) -> tuple[Line, ...]:
    """Explain what a setting does, which values it allows and where its value comes from."""
    option = OPTIONS_BY_KEY[setting.key]
    value = sanitise_line(format_for_display(setting.value))
    lines: list[Line] = [parse_inline_code(setting.description, "text")]
    if len(value) > _VALUE_WIDTH:
        lines.append(((f"now: {value}", "dim"),))
    lines.append(parse_inline_code(f"values: {allowed_values(setting.key)}", "dim"))
    lines.append(((f"default: {format_for_display(setting.default)}", "dim"),))
    if setting.origin != "default":
        lines.append(((f"from: {sanitise_line(setting.source)}", "dim"),))
    if option.environment_variable and setting.origin != "environment":
        lines.append(((f"the environment variable {option.environment_variable} overrides the files", "dim"),))
    if setting.can_be_tightened:
        lines.append((("a project can only make it stricter", "dim"),))
    lines.append(((f"takes effect {'immediately' if setting.effect_time == 'now' else setting.effect_time}", "dim"),))
    return tuple(lines)


def allowed_values(key: str) -> str:
    """Describe a setting's allowed values."""
    try:
        OPTIONS_BY_KEY[key].parse(object())
    except ValueError as error:
        expected = str(error)
        if expected.startswith("one of "):
            return expected.removeprefix("one of ").replace('"', "")
        return {"true or false": "on or off", "a quoted string": "text"}.get(expected, expected)
    return "any value"


async def choose_theme(context: CommandContext, name: str) -> None:
    themes, settings = context.themes, context.settings
    if name and name not in THEMES:
        return context.controller.show_notice(
            f"unknown theme `{name}`. Themes: {', '.join(f'`{theme}`' for theme in THEMES)}"
        )
    if not name:
        if themes is None:
            return context.show_hint(
                "There are no colours here. `/theme NAME` sets those of the full-screen interface."
            )
        previous_theme = themes.chosen_theme
        choice = await context.show(build_themes_panel(previous_theme, themes.is_colorless, themes.apply_theme))
        if choice is None:
            return themes.apply_theme(previous_theme)
        name = choice.value
    if themes is not None:
        themes.apply_theme(next(theme for theme in THEMES if theme == name))
    if settings is not None:
        try:
            context.show_hint(settings.set_value("tui.theme", name))
        except AgentError as error:
            context.controller.show_notice(str(error))
    return None


async def toggle_side_panel(context: CommandContext, _: str) -> None:
    settings = context.settings
    if settings is None or context.themes is None:
        return context.show_hint("There is no side panel here. Use `/files`, `/todos` and `/context`.")
    is_on = not settings.config.tui_panel
    try:
        message = settings.set_value("tui.panel", "true" if is_on else "false")
    except AgentError as error:
        return context.controller.show_notice(str(error))
    context.apply_setting("tui.panel")
    if settings.config.tui_panel != is_on:
        return context.show_hint(message)  # a source of higher priority overrides the setting
    hint = "side panel on (from 140 columns); F5 hides it"
    return context.show_hint(hint if is_on else "side panel hidden; F5 shows it")


async def show_settings(context: CommandContext, search_text: str) -> None:
    settings = context.settings
    if settings is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)

    def change_setting(key: str, text: str) -> str:
        message = settings.set_value(key, text) if text.strip() else settings.unset_value(key)
        context.apply_setting(key)
        return message

    await context.show(build_settings_panel(settings.all_settings, change_setting, search_text))
    return None


NO_SETTINGS_NOTICE = "settings cannot be changed here; `ebb config` lists them"


async def choose_effort(context: CommandContext, level: str) -> None:
    """Set the reasoning effort from now on, in the current session too."""
    settings, session = context.settings, context.controller.session
    if settings is None or session is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)
    if not level:
        current_effort = settings.config.reasoning_effort or ""
        choice = await context.show(_build_efforts_panel(current_effort))
        if choice is None or choice.value == current_effort:
            return None
        level = choice.value
    message = settings.set_value("agent.reasoning_effort", level.lower())
    has_messages = bool(session.history.messages)
    if await context.controller.open(session_id=session.id if has_messages else None, model=session.model):
        context.show_session()
        context.controller.show_notice(_effort_message(settings, session.model, message))
    return None


def _effort_message(settings: Settings, model: str, message: str) -> str:
    """Add a warning to the message after a change if the model may ignore the setting."""
    _, describe = available_models(settings, model, ())
    is_supported = describe(model).supports_thinking
    message = message.replace("; takes effect in the next session", ", also in later sessions")
    return message if is_supported else f"{message}; `{model}` may ignore it"


def _build_efforts_panel(current_effort: str) -> Panel:
    rows = tuple(
        PanelRow(effort, (("● " if effort == current_effort else "  ", "good"), (effort, "text")), effort)
        for effort in EFFORTS
    )
    title: Line = (("Reasoning effort", "strong"), ("  more is slower and uses more tokens", "dim"))
    return Panel(
        "effort",
        (title,),
        rows,
        "Up, Down   Enter select   Esc cancel",
        search_placeholder="",
        initial_value=current_effort,
    )


async def choose_thoughts(context: CommandContext, mode_name: str) -> None:
    """Set how reasoning is shown. Without a name, switch to the next mode."""
    settings = context.settings
    if settings is None:
        return context.controller.show_notice(NO_SETTINGS_NOTICE)
    current_display = settings.config.tui_thoughts
    new_value = (
        mode_name.lower() or THOUGHTS_DISPLAYS[(THOUGHTS_DISPLAYS.index(current_display) + 1) % len(THOUGHTS_DISPLAYS)]
    )
    try:
        message = settings.set_value(
            "tui.thoughts", {"on": "open", "show": "open", "off": "hidden", "hide": "hidden"}.get(new_value, new_value)
        )
    except AgentError as error:
        return context.controller.show_notice(str(error))
    context.apply_setting("tui.thoughts")
    return context.show_hint(message)

"""The list of settings: Enter flips a switch, opens choices or a list, or asks for a value."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.cells import cell_len, set_cell_size

from ebbtide.agent.config.options import OPTIONS_BY_KEY
from ebbtide.agent.config.settings import Setting, SettingOrigin, format_as_toml_value, format_for_display
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.commands.setting_entries import SettingEntries, build_entries_panel, has_entries, read_entries
from ebbtide.tui.commands.setting_values import build_values_panel, values_of
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import (
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
    TextRequest,
    heading_row,
)
from ebbtide.tui.view.setting_labels import SETTING_LABELS

_LABEL_WIDTH, _VALUE_WIDTH, _KEY_WIDTH = 34, 24, 36
COMMON_SETTINGS = (
    "agent.model", "agent.permission_mode", "agent.reasoning_effort", "agent.sandbox", "permissions.allow",
    "permissions.sandboxed", "agent.max_cost", "context.style", "tui.theme", "tui.detail", "tui.notify",
)  # fmt: skip
"""Common settings, which are on the first tab."""
SETTING_GROUPS = (
    (
        "Model",
        (
            "agent.fallback_models",
            "agent.context_window",
            "agent.max_output",
            "agent.tokenizer",
            "agent.cache_",
            "agent.keep_alive",
            "agent.max_turns",
            "agents.",
        ),
    ),
    ("Permissions", ("permissions.", "sandbox.")),
    (
        "Tools",
        (
            "tools.",
            "web.",
            "mcp.",
            "lsp.",
            "hooks.",
            "jobs.",
            "agent.tool_",
            "agent.result_",
            "agent.preview_",
            "agent.max_message_",
            "agent.max_line_",
        ),
    ),
    ("Interface", ("tui.",)),
    ("Undo and recall", ("checkpoints.", "recall.", "archive.")),
    ("Network", ("retry.", "telemetry.")),
    ("Context", ("context.", "agent.", "rewrite.")),
)  # fmt: skip
"""The other tabs, by key prefix. A setting is on the first one that has its prefix."""
_ORIGIN_STYLES: dict[SettingOrigin, TextStyle] = {
    "default": "dim",
    "yours": "accent",
    "project": "warn",
    "environment": "warn",
    "command line": "warn",
}


@dataclass(frozen=True, slots=True)
class SettingsAccess:
    """What the list of settings reads and changes."""

    all_settings: Callable[[], Sequence[Setting]]
    own_value: Callable[[str], object]
    """Returns the value in the user's file, or None. Raises `AgentError`."""
    set_value: Callable[[str, str], str]
    """Takes a key and the new value as TOML, or empty text to unset it; returns a message. Raises `AgentError`."""
    show: Callable[[Panel], Awaitable[RowChosen | None]]

    def setting(self, key: str) -> Setting:
        return next(setting for setting in self.all_settings() if setting.key == key)


def build_settings_panel(access: SettingsAccess, search_text: str = "") -> Panel:
    settings = {setting.key: setting for setting in access.all_settings()}

    def rebuilt(message: str) -> Panel:
        panel = build_settings_panel(access)
        return replace(panel, message=ShowMessage(sanitise_line(message), "good")) if message else panel

    async def flip(row: PanelRow, _: str) -> Panel:
        return rebuilt(access.set_value(row.value, "false" if settings[row.value].value else "true"))

    async def choose(row: PanelRow, _: str) -> Panel:
        choice = await access.show(build_values_panel(settings[row.value]))
        return rebuilt(access.set_value(row.value, choice.value) if choice is not None else "")

    async def open_list(row: PanelRow, _: str) -> Panel:
        def current_entries() -> SettingEntries:
            return read_entries(access.setting(row.value), access.own_value(row.value))

        def save(text: str) -> SettingEntries:
            access.set_value(row.value, text)
            return current_entries()

        await access.show(build_entries_panel(current_entries(), save))
        return rebuilt("")

    async def change(row: PanelRow, text: str) -> Panel:
        return rebuilt(access.set_value(row.value, text))

    async def reset(row: PanelRow, _: str) -> Panel:
        return rebuilt(access.set_value(row.value, ""))

    def initial_value(row: PanelRow) -> str:
        value = settings[row.value].value
        return "" if value is None else value if isinstance(value, str) else format_as_toml_value(value)

    def is_own(row: PanelRow) -> bool:
        return settings[row.value].origin == "yours"

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
        lambda row: f"Left, Right tab   Up, Down   Enter {_verb(settings.get(row.value))}   Esc close",
        list_key_hints="Left, Right tab   Up, Down   Enter change   r reset to default   Esc close",
        empty_message="No match.",
        actions=(
            PanelAction(("enter",), "switch", flip, is_available=lambda row: is_switch(row.value)),
            PanelAction(("enter",), "choose", choose, is_available=lambda row: bool(values_of(row.value))),
            PanelAction(("enter",), "open", open_list, is_available=lambda row: has_entries(row.value)),
            PanelAction(("enter",), "change", change, text_request=text_request),
            PanelAction(("r",), "reset", reset, is_available=is_own),
        ),
        search_text=search_text,
        previews_before_action=True,
        has_tabs=True,
    )


def is_switch(key: str) -> bool:
    return isinstance(OPTIONS_BY_KEY[key].default, bool)


def _verb(setting: Setting | None) -> str:
    """Say what Enter does."""
    if setting is None:
        return "change"
    if is_switch(setting.key):
        return "switch off" if setting.value else "switch on"
    if values_of(setting.key):
        return "choose"
    return "open the list" if has_entries(setting.key) else "change"


def _rows(settings: Mapping[str, Setting]) -> Iterator[PanelRow]:
    """Yield rows for the common settings, then for the others by group."""
    yield heading_row("Common")
    yield from (_row(settings[key]) for key in COMMON_SETTINGS if key in settings)
    for title, _ in SETTING_GROUPS:
        group = [
            setting for key, setting in settings.items() if key not in COMMON_SETTINGS and setting_group(key) == title
        ]
        if group:
            yield heading_row(title)
        yield from map(_row, group)


def setting_group(key: str) -> str:
    return next(title for title, prefixes in SETTING_GROUPS if key.startswith(prefixes))


def _row(setting: Setting) -> PanelRow:
    label = SETTING_LABELS[setting.key]
    return PanelRow(
        setting.key,
        partial(setting_line, setting),
        search_text=f"{label} {setting.key} {setting.description} {setting.origin}",
        details=setting_details(setting),
    )


def setting_line(setting: Setting, width: int) -> Line:
    """Format a setting's name, value, key and source. A narrow list leaves out the key, and a very narrow one does not
    align the columns."""
    label = SETTING_LABELS[setting.key]
    value = ellipsize(format_value(setting), _VALUE_WIDTH)
    is_default = setting.value is None or setting.origin == "default"
    value_style: TextStyle = "dim" if is_default else "strong"
    origin: Span = ("" if setting.origin == "default" else setting.origin, _ORIGIN_STYLES[setting.origin])
    if width < _LABEL_WIDTH + _VALUE_WIDTH:
        return ((f"{label}  ", "text"), (f"{value}  ", value_style), origin)
    columns: Line = (
        (f"{label:<{_LABEL_WIDTH}}", "text"),
        (set_cell_size(value, _VALUE_WIDTH) + "  ", value_style),
    )
    has_room = width >= _LABEL_WIDTH + _VALUE_WIDTH + 2 + _KEY_WIDTH + cell_len(origin[0])
    return (*columns, (f"{setting.key:<{_KEY_WIDTH}}", "dim"), origin) if has_room else (*columns, origin)


def format_value(setting: Setting) -> str:
    """Format a value for its column: a switch with its state, a long list with the number of its entries."""
    if is_switch(setting.key):
        return "● on" if setting.value else "○ off"
    text = sanitise_line(format_for_display(setting.value))
    if isinstance(setting.value, tuple) and len(text) > _VALUE_WIDTH:
        return f"{len(setting.value)} entries"
    return text


def setting_details(setting: Setting) -> tuple[Line, ...]:
    """Explain what a setting does, which values it allows and where its value comes from."""
    option = OPTIONS_BY_KEY[setting.key]
    value = sanitise_line(format_for_display(setting.value))
    facts = [
        f"`{setting.key}`",
        f"values: {allowed_values(setting.key)}",
        f"default: {format_for_display(setting.default)}",
        f"takes effect {'immediately' if setting.effect_time == 'now' else setting.effect_time}",
    ]
    lines: list[Line] = [parse_inline_code(setting.description, "text"), parse_inline_code(" · ".join(facts), "dim")]
    if len(value) > _VALUE_WIDTH:
        lines.append(((f"now: {value}", "dim"),))
    if setting.origin != "default":
        lines.append(((f"from: {sanitise_line(setting.source)}", "dim"),))
    if option.environment_variable and setting.origin != "environment":
        lines.append(((f"the environment variable {option.environment_variable} overrides the files", "dim"),))
    if setting.can_be_tightened:
        lines.append((("a project can only make it stricter", "dim"),))
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

"""Settings as lines: a row each, and the details of one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ebbtide.agent.config.options import BY_KEY
from ebbtide.agent.config.settings import Setting, SettingOrigin, display_value, text_of
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import AskForText, Panel, PanelAction, PanelRow, ShowMessage, heading

_COLUMN = 36
_VALUE = 22
FIRST = (
    "agent.model", "agent.permission_mode", "agent.reasoning_effort", "agent.sandbox", "permissions.allow",
    "permissions.sandboxed", "agent.max_cost", "tui.theme", "tui.detail", "tui.notify",
)  # fmt: skip
"""Common settings, shown first."""
GROUPS = (
    ("The terminal", ("tui.",)),
    ("What may run", ("permissions.", "tools.", "hooks.", "mcp.", "lsp.", "agents.", "jobs.", "sandbox.", "web.")),
    ("Undo and recall", ("checkpoints.", "recall.", "archive.")),
    ("When a provider fails", ("retry.",)),
    ("What a collector is told", ("telemetry.",)),
    ("The window and what leaves it", ("agent.", "rewrite.")),
)
"""The other settings, grouped by key prefix."""
_ORIGINS: dict[SettingOrigin, TextStyle] = {
    "default": "dim",
    "yours": "accent",
    "project": "warn",
    "environment": "warn",
    "command line": "warn",
}


def settings_panel(read: Callable[[], Sequence[Setting]], change: Callable[[str, str], str], words: str = "") -> Panel:
    """The settings panel. `change` takes a key and the new text and returns a message. Raises `AgentError`."""
    settings = {setting.key: setting for setting in read()}

    def value_of(row: PanelRow) -> str:
        value = settings[row.value].value
        if value is None or isinstance(value, str | bool):
            return "" if value is None else display_value(value)
        return text_of(value)

    async def put(row: PanelRow, text: str) -> Panel:
        told = ShowMessage(sanitised_line(change(row.value, text)), "good")
        return replace(settings_panel(read, change), message=told)

    asks = AskForText(
        value_of,
        "Enter keeps it   empty: back to the default   Esc cancels",
        "New value, or `none` for the default; an empty line cancels: ",
        replaces=True,
        placeholder=lambda row: f"{row.value}: not set",
        nothing="none",
    )
    return Panel(
        "settings",
        ((("Settings", "strong"),),),
        tuple(_rows(settings)),
        "Up, Down   Enter changes   Esc closes",
        empty="No setting.",
        plain_head="Settings. A number shows one and changes it.",
        actions=(PanelAction(("enter",), "change", put, asks=asks),),
        words=words,
        looks=True,
    )


def _rows(settings: Mapping[str, Setting]) -> Iterator[PanelRow]:
    """Common settings first, then the others in groups."""
    yield heading("Changed most")
    yield from (_row(settings[key]) for key in FIRST if key in settings)
    for name, starts in GROUPS:
        of_it = [setting for key, setting in settings.items() if key.startswith(starts) and key not in FIRST]
        if of_it:
            yield heading(name)
        yield from map(_row, of_it)


def _row(setting: Setting) -> PanelRow:
    return PanelRow(
        setting.key,
        partial(setting_line, setting),
        sanitised_line(f"{setting.key}, {display_value(setting.value)}, {setting.origin}"),
        f"{setting.key} {setting.help} {setting.origin}",
        lines_about(setting),
    )


def setting_line(setting: Setting, width: int) -> Line:
    """Key, value and source. In a narrow list the value follows its key."""
    value = ellipsize(sanitised_line(display_value(setting.value)), _VALUE)
    column = _COLUMN if width > _COLUMN + _VALUE else len(setting.key) + 2
    return (
        (f"{setting.key:<{column}}", "text"),
        (f"{value:<{_VALUE}}  ", "dim" if setting.value is None or setting.origin == "default" else "strong"),
        (setting.origin, _ORIGINS[setting.origin]),
    )


def lines_about(setting: Setting) -> tuple[Line, ...]:
    """The details of a setting."""
    option = BY_KEY[setting.key]
    value = sanitised_line(display_value(setting.value))
    lines: list[Line] = [parse_inline_code(setting.help, "text")]
    if len(value) > _VALUE:
        lines.append(((f"now: {value}", "dim"),))
    lines.append(parse_inline_code(f"it may be {allowed_values(setting.key)}", "dim"))
    lines.append(((f"default: {display_value(setting.default)}", "dim"),))
    if setting.origin != "default":
        lines.append(((f"from: {sanitised_line(setting.source)}", "dim"),))
    if option.environment and setting.origin != "environment":
        lines.append(((f"the environment variable {option.environment} wins over the files", "dim"),))
    if setting.tightens:
        lines.append((("a project may set it, but only to something stricter", "dim"),))
    lines.append(((f"a change holds {'at once' if setting.begins == 'now' else setting.begins}", "dim"),))
    return tuple(lines)


def allowed_values(key: str) -> str:
    """The allowed values of a setting, from its parser's error message."""
    try:
        BY_KEY[key].parse(object())
    except ValueError as error:
        said = str(error)
        if said.startswith("one of "):
            return said.replace('"', "")
        return {"true or false": "on or off", "a text in quotes": "a text"}.get(said, said)
    return "anything"

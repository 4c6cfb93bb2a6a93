"""A setting with several entries, such as permission rules, as a list to add to, change and remove from."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.config.options import OPTIONS_BY_KEY
from ebbtide.agent.config.settings import Setting
from ebbtide.agent.errors import ConfigError
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, ShowMessage, TextRequest
from ebbtide.tui.view.setting_labels import SETTING_LABELS

_ENTRY_NAMES = {
    "agent.fallback_models": "a model",
    "hooks.after_tool": "a program, as `RULE: COMMAND`",
    "mcp.disabled": "a server",
    "permissions.allow": "a rule, such as `bash(git status)`",
    "permissions.deny": "a rule, such as `read(secrets/)`",
    "permissions.roots": "a folder",
    "tools.allowed": "a tool",
    "tools.denied": "a tool",
    "tui.status": "a part",
    "web.private": "a host",
}
_ADD = "+"
"""Value of the row that adds an entry."""
_HOOK = re.compile(r"(?P<match>[^\s:(]+(?:\(.*?\))?)\s*:\s+(?P<command>\S.*)")

Entry = str | AfterToolHook


@dataclass(frozen=True, slots=True)
class SettingEntries:
    """The entries of a setting, by where they come from."""

    setting: Setting
    own: tuple[Entry, ...]
    """Those that the user can change."""
    other: tuple[Entry, ...]
    """Those of a project, the environment or the command line."""


def has_entries(key: str) -> bool:
    """Whether a setting is a list."""
    return isinstance(OPTIONS_BY_KEY[key].default, tuple)


def read_entries(setting: Setting, own_value: object) -> SettingEntries:
    """Tell the user's own entries from the others. `own_value`: the value in the user's file, or None."""
    effective = _parse_entries(setting.key, setting.value)
    own = _parse_entries(setting.key, setting.default if own_value is None else own_value)
    return SettingEntries(setting, own, tuple(entry for entry in effective if entry not in own))


def _parse_entries(key: str, value: object) -> tuple[Entry, ...]:
    try:
        entries = OPTIONS_BY_KEY[key].parse(value)
    except ValueError:
        return ()
    assert isinstance(entries, tuple)
    return entries


def format_entry(entry: Entry) -> str:
    return entry if isinstance(entry, str) else f"{entry.match}: {entry.command_line}"


def parse_entry(text: str, replaced_entry: Entry | None, *, is_hook: bool) -> Entry:
    """Parse what the user typed. A hook keeps the timeout of the one that it replaces. Raises `ConfigError`."""
    if not is_hook:
        return text
    match = _HOOK.fullmatch(text)
    if match is None:
        raise ConfigError("type a permission rule, a colon and a command, such as `bash(git *): notify -q`")
    timeout = replaced_entry.timeout if isinstance(replaced_entry, AfterToolHook) else AfterToolHook("", "").timeout
    return AfterToolHook(match["match"], match["command"], timeout)


def format_entries_as_toml(entries: Sequence[Entry]) -> str:
    return f"[{', '.join(map(_format_as_toml, entries))}]"


def _format_as_toml(entry: Entry) -> str:
    if isinstance(entry, str):
        return json.dumps(entry, ensure_ascii=False)
    command = entry.command if isinstance(entry.command, str) else list(entry.command)
    fields: Mapping[str, object] = {"match": entry.match, "command": command, "timeout": entry.timeout}
    return "{" + ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()) + "}"


def build_entries_panel(entries: SettingEntries, save: Callable[[str], SettingEntries]) -> Panel:
    """Build the list of a setting's entries. `save` takes the user's entries as TOML and returns what then holds; it
    may raise `ConfigError`."""
    key, own = entries.setting.key, entries.own
    is_hook = key == "hooks.after_tool"

    def save_entries(new_entries: Sequence[Entry], message: str) -> Panel:
        text = format_entries_as_toml(new_entries)
        return replace(build_entries_panel(save(text), save), message=ShowMessage(sanitise_line(message), "good"))

    async def add(_: PanelRow, text: str) -> Panel | ShowMessage:
        text = text.strip()
        if not text:
            return ShowMessage("nothing was added")
        entry = parse_entry(text, None, is_hook=is_hook)
        if entry in own:
            return ShowMessage(f"`{text}` is in the list already")
        return save_entries((*own, entry), f"added `{text}`")

    async def change(row: PanelRow, text: str) -> Panel:
        text = text.strip()
        if not text:
            return await remove(row, "")
        index = int(row.value)
        entry = parse_entry(text, own[index], is_hook=is_hook)
        return save_entries((*own[:index], entry, *own[index + 1 :]), f"changed to `{text}`")

    async def remove(row: PanelRow, _: str) -> Panel:
        index = int(row.value)
        return save_entries((*own[:index], *own[index + 1 :]), f"removed `{format_entry(own[index])}`")

    def is_own(row: PanelRow) -> bool:
        return row.value.isdecimal()

    add_request = TextRequest(lambda row: "", "Enter add  Esc cancel", f"Add {_entry_name(key)}")
    change_request = TextRequest(
        lambda row: format_entry(own[int(row.value)]),
        "Enter save  empty: remove  Esc cancel",
        "Change it to",
        may_be_empty=True,
    )
    return Panel(
        "entries",
        _headline(entries),
        (*_rows(entries), PanelRow(_ADD, ((f"+ Add {_entry_name(key)}", "accent"),))),
        lambda row: "Enter change  d remove  a add  Esc back" if is_own(row) else "Enter, a add  Esc back",
        actions=(
            PanelAction(("enter",), "change", change, is_available=is_own, text_request=change_request),
            PanelAction(("d", "delete"), "remove", remove, is_available=is_own),
            PanelAction(("enter", "a"), "add", add, text_request=add_request, needs_row=False),
        ),
        search_placeholder="",
    )


def _entry_name(key: str) -> str:
    return _ENTRY_NAMES.get(key, "an entry").replace("`", "")


def _headline(entries: SettingEntries) -> tuple[Line, ...]:
    setting = entries.setting
    return (
        ((SETTING_LABELS[setting.key], "strong"), (f"  {setting.key}", "dim")),
        parse_inline_code(setting.description, "dim"),
        (),
    )


def _rows(entries: SettingEntries) -> tuple[PanelRow, ...]:
    own = (
        PanelRow(str(index), ((f"  {sanitise_line(format_entry(entry))}", "text"),))
        for index, entry in enumerate(entries.own)
    )
    other = (
        PanelRow(
            f"other {index}",
            ((f"  {sanitise_line(format_entry(entry))}", "dim"), ("  not from your file", "warn")),
            details=(((f"from {sanitise_line(entries.setting.source)}; it can only be changed there", "dim"),),),
        )
        for index, entry in enumerate(entries.other)
    )
    return (*own, *other)

"""The entries of the command palette, as lines. Each stands for a command that could be typed."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.commands import SlashCommand
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.text.numbers import age
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.help import key_value
from ebbtide.tui.view.panel import Panel, PanelRow, heading
from ebbtide.tui.view.themes import OFFERED_THEMES

MAX_PALETTE_SESSIONS = 20
_NAMES = 20
"""Minimum columns of a name with a description."""


def palette_panel(entries: Sequence[PanelRow]) -> Panel:
    """The command palette. Choosing returns a command line, or `action:NAME`."""
    head: Line = (("What would you like to do?", "strong"),)
    keys = "Up, Down   Enter does it   Esc cancels"
    return Panel("commands", (head,), tuple(entries), keys, empty="Nothing matches.", is_alone=True)


def palette_entries(
    commands: Sequence[SlashCommand],
    keys: Sequence[KeyBinding],
    sessions: Sequence[SessionInfo],
    models: Sequence[str],
    now: float,
) -> tuple[PanelRow, ...]:
    """Commands, keys, sessions, models, themes and settings. `now` is in Unix seconds."""
    by_action = {f"command('{command.name}')": command.name for command in commands}
    shown = {by_action[key.action]: key.label for key in keys if key.action in by_action}
    entries = [heading("Commands")]
    entries += [_entry(f"/{each.name}", each.usage, each.help, shown.get(each.name, "")) for each in commands]
    entries.append(heading("Keys"))
    entries += [
        _entry(key_value(key), key.help, "", key.label) for key in keys if key.action and key.action not in by_action
    ]
    recent = sessions[:MAX_PALETTE_SESSIONS]
    if recent:
        entries.append(heading("Sessions"))
        entries += [
            _entry(f"/resume {each.id}", each.title or "(nothing said yet)", age(now - each.updated_at), "session")
            for each in recent
        ]
    if models:
        entries.append(heading("Models"))
        entries += [_entry(f"/model {model}", model, "", "model") for model in models]
    entries.append(heading("Themes"))
    entries += [_entry(f"/theme {each.name}", each.name, each.help, "theme") for each in OFFERED_THEMES]
    entries.append(heading("Settings"))
    entries += [_entry(f"/settings {each.key}", each.key, each.help, "setting") for each in OPTIONS]
    return tuple(entries)


def _entry(value: str, name: str, said: str, kind: str) -> PanelRow:
    name, said = sanitised_line(name), sanitised_line(said)
    line: Line = (
        ((f"  {set_cell_size(name, max(_NAMES, cell_len(name)))}  ", "text"), *parse_inline_code(said, "dim"))
        if said
        else ((f"  {name}", "text"),)
    )
    return PanelRow(value, line, searched=f"{name} {said} {kind}", at_end=(kind, "accent") if kind else None)

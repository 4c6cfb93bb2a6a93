"""All keys and commands as lines, grouped by topic; those not assigned to a topic come last."""

from collections.abc import Sequence
from functools import partial

from ebbtide.tui.commands import SlashCommand
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading

_NAMES = 32

AREAS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Writing", ("Enter", "Ctrl-J", "Up, Down", "/", "@", "!", "#", "Ctrl-R", "Ctrl-G", "Tab", "Ctrl-V",
                 "history", "later", "shell", "remember", "vim", "edit", "editor")),
    ("While it works", ("Esc", "F3", "todos", "queue", "jobs", "plan", "mode")),
    ("Reading", ("PgUp", "PgDn", "Home", "End", "Ctrl-Up", "Ctrl-Down", "Ctrl-F", "Ctrl-O", "Ctrl-T", "F4", "F2",
                 "find", "diff", "print", "copy", "export")),
    ("What the model sees", ("Ctrl-X", "context", "compact", "archive", "why", "bring")),
    ("Sessions", ("resume", "sessions", "clear", "rewind", "undo", "redo", "fork", "rename", "delete", "files",
                  "tree", "add-dir")),
    ("Models, servers, settings", ("Ctrl-P", "model", "key", "mcp", "settings", "theme", "notify", "commands",
                                   "setup")),
    ("The program", ("F1", "Ctrl-Z", "Ctrl-C", "Ctrl-D", "help", "quit")),
)  # fmt: skip
"""The topics: names of commands, and labels of keys or their beginnings."""

OTHERS = "Besides"


def help_panel(keys: Sequence[KeyBinding], commands: Sequence[SlashCommand]) -> Panel:
    """All keys and commands, searchable."""
    return Panel(
        "help",
        ((("Help", "strong"), ("  keys and commands", "dim")),),
        help_entries(keys, commands),
        "Up, Down, PgUp, PgDn   Enter writes a command into the prompt   Esc closes",
        empty="Nothing matches.",
        actions=(PanelAction(("enter",), "write", can=lambda row: row.value.startswith("/")),),
    )


def help_entries(keys: Sequence[KeyBinding], commands: Sequence[SlashCommand]) -> tuple[PanelRow, ...]:
    """Every key and command, under its topic."""
    sorted_in: dict[str, list[PanelRow]] = {name: [] for name in (*(name for name, _ in AREAS), OTHERS)}
    for key in keys:
        sorted_in[_area_of_key(key)].append(_entry(key.label, key.help, key_value(key), ()))
    for command in commands:
        told: tuple[Line, ...] = () if command.when_busy else ((("it waits until the session is free", "dim"),),)
        sorted_in[_area_of(command.name)].append(_entry(command.usage, command.help, f"/{command.name}", told))
    entries: list[PanelRow] = []
    for name, lines in sorted_in.items():
        if lines:
            entries += [heading(name), *lines]
    return tuple(entries)


def key_value(key: KeyBinding) -> str:
    """The row value of a key: `action:NAME`; empty if the prompt handles it."""
    return f"action:{key.action}" if key.action else ""


def _area_of(name: str) -> str:
    return next((area for area, names in AREAS if name in names), OTHERS)


def _area_of_key(key: KeyBinding) -> str:
    first = key.label.split(",")[0].strip()
    return next((area for area, names in AREAS if key.label in names or first in names), OTHERS)


def _entry(name: str, said: str, value: str, about: tuple[Line, ...]) -> PanelRow:
    whole: Line = ((f"{name}  ", "accent"), *parse_inline_code(said, "text"))
    return PanelRow(value or name, partial(_line, name, said), searched=f"{name} {said}", about=(whole, *about))


def _line(name: str, said: str, width: int) -> Line:
    """A line; in a narrow list the description gets more than half."""
    room = min(_NAMES, width * 3 // 7)
    return (("  ", "text"), (f"{fit_width(name, room - 1)} ", "accent"), *parse_inline_code(said, "text"))

"""The instructions and notes that sessions start with, and where to save new ones. Pure."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ebbtide.agent.input.memory import MemoryFile, MemoryNote
from ebbtide.tui.text.numbers import size
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import Outcome, Panel, PanelAction, PanelRow, heading


def memory_panel(places: Sequence[MemoryFile]) -> Panel:
    return Panel(
        "remember",
        ((("Remember it for", "strong"),),),
        tuple(
            PanelRow(
                str(place.path),
                ((f"  {place.about}", "text"), (f"  {sanitised_line(str(place.path))}", "dim")),
                f"{place.about}: {sanitised_line(str(place.path))}",
            )
            for place in places
        ),
        "Up, Down   Enter chooses   Esc cancels",
        empty="there is no such place",
        plain_head="Remember it for",
        most=16,
    )


FILE = "file:"
"""Prefix of the row values of instruction files; other values are note numbers."""


def instructions_panel(
    files: Sequence[tuple[Path, int]],
    notes: Sequence[MemoryNote],
    root: Path,
    forget: Callable[[PanelRow, str], Awaitable[Outcome]],
) -> Panel:
    """`files`: instruction files with their size in bytes. `forget`: removes the note of a row."""
    rows = [_file(path, count, root) for path, count in files]
    kept = [_note(number, note) for number, note in enumerate(notes)]
    parts = (("Instructions", rows), ("Remembered", kept))
    return Panel(
        "memory",
        ((("Memory", "strong"), ("  # TEXT remembers something, /init proposes instructions", "dim")),),
        tuple(row for words, part in parts if part for row in (heading(words), *part)),
        "Up, Down   Enter opens in your editor   x forgets   Esc closes",
        empty="Nothing is remembered, and there are no instructions",
        plain_head="What sessions begin with here",
        actions=(
            PanelAction(("enter",), "open"),
            PanelAction(("x",), "forget", forget, can=lambda row: not row.value.startswith(FILE)),
        ),
        search="",
        most=20,
    )


def _file(path: Path, count: int, root: Path) -> PanelRow:
    name = sanitised_line(str(path.relative_to(root) if path.is_relative_to(root) else path))
    return PanelRow(f"{FILE}{path}", ((f"  {name}", "text"), (f"  {size(count)}", "dim")), f"{name}, {size(count)}")


def _note(number: int, note: MemoryNote) -> PanelRow:
    first, *more = note.text.strip().split("\n")
    said = sanitised_line(f"{first} …" if more else first)
    about: tuple[Line, ...] = (
        ((sanitised_line(str(note.path)), "dim"),),
        *(((sanitised_line(line), "text"),) for line in note.text.split("\n")),
    )
    return PanelRow(
        f"{number}",
        ((f"  {said}", "text"), (f"  {sanitised_line(note.about)}", "dim")),
        f"{said} ({note.about})",
        about=about,
    )

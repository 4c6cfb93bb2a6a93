"""The rows of the archive browser: one thing that was kept, as a line of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

from agent.archive.listing import ArchiveItem
from tui.text.numbers import age, size, tokens
from tui.text.sanitise import visible_line
from tui.view.titles import title_of

Ink: TypeAlias = Literal["text", "dim", "accent", "warn"]
Span: TypeAlias = tuple[str, Ink]

INKS: dict[str, Ink] = {"masked": "accent", "summarised": "accent", "removed": "warn"}
"""Those of states that have one."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """What is shown of one thing."""

    ref: str
    title: str
    lines: str
    size: str
    age: str
    state: str
    searched: str
    """What a filter looks at, in small letters."""
    recalled: str = ""
    """How often and when it was looked up; nothing when it never was."""


def rows_of(shelved: Sequence[ArchiveItem], now: float) -> tuple[ArchiveRow, ...]:
    """`now` is in Unix seconds."""
    return tuple(_row(one, now) for one in shelved)


def _row(one: ArchiveItem, now: float) -> ArchiveRow:
    if one.call is not None:
        title = title_of(one.call.name, one.call.arguments)
    else:
        title = visible_line(f"{one.role}: {one.said}")
    searched = f"{one.ref} {title} {one.state}".lower()
    return ArchiveRow(
        one.ref,
        title,
        f"{tokens(one.lines)} {'line' if one.lines == 1 else 'lines'}",
        size(one.size),
        age(now - one.created).removesuffix(" ago"),
        one.state,
        searched,
        _recalled(one, now),
    )


def _recalled(one: ArchiveItem, now: float) -> str:
    if not one.accesses or one.accessed is None:
        return ""
    return f"recalled {one.accesses}×, {age(now - one.accessed)}"


def matching(rows: Sequence[ArchiveRow], words: str) -> tuple[ArchiveRow, ...]:
    """The rows that hold every word, in the order given."""
    wanted = words.lower().split()
    return tuple(row for row in rows if all(word in row.searched for word in wanted))


def archive_line(row: ArchiveRow, width: int, ref_width: int) -> tuple[Span, ...]:
    """The row as wide as the screen is: what was done takes what the columns leave."""
    before = f"{row.ref:<{ref_width}}  "
    recalled = f"  {row.recalled}" if row.recalled else ""
    after = f"{recalled}  {row.lines:>11} {row.size:>8}  {row.age:>6}  "
    room = max(8, width - len(before) - len(after) - len("summarised"))
    title = row.title if cell_len(row.title) <= room else f"{set_cell_size(row.title, room - 1)}…"
    return (
        (before, "accent"),
        (set_cell_size(title, room), "text"),
        (after, "dim"),
        (f"{row.state:<10}", INKS.get(row.state, "dim")),
    )

"""The rows of the archive browser, one per stored item."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ebbtide.agent.archive.listing import ArchiveItem
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import age, size, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.call_titles import title_of
from ebbtide.tui.view.panel import CopyText, PagedText, PagedTexts, Panel, PanelAction, PanelRow

KEYS = "Enter inserts  Ctrl-Y copies  PgUp, PgDn read  Tab to list  Esc closes"
LIST_KEYS = "Enter inserts  y copies  PgUp, PgDn read  letters filter  Esc closes"
STATES = {"masked": "one line"}
"""States with a clearer name."""
INKS: dict[str, TextStyle] = {"one line": "accent", "summarised": "accent", "removed": "warn"}
"""Colours by state."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """One row of the archive browser."""

    ref: str
    title: str
    lines: str
    size: str
    age: str
    state: str
    recalled: str = ""
    """How often and when it was recalled; empty if never."""


def rows_of(shelved: Sequence[ArchiveItem], now: float) -> tuple[ArchiveRow, ...]:
    """`now` is in Unix seconds."""
    return tuple(_row(one, now) for one in shelved)


def _row(one: ArchiveItem, now: float) -> ArchiveRow:
    if one.call is not None:
        title = title_of(one.call.name, one.call.arguments)
    else:
        title = sanitised_line(f"{one.role}: {one.preview}")
    return ArchiveRow(
        one.ref,
        title,
        f"{tokens(one.lines)} {'line' if one.lines == 1 else 'lines'}",
        size(one.size),
        age(now - one.created).removesuffix(" ago"),
        STATES.get(one.state, one.state),
        _recall_text(one, now),
    )


def _recall_text(one: ArchiveItem, now: float) -> str:
    if not one.accesses or one.accessed is None:
        return ""
    return f"recalled {one.accesses}×, {age(now - one.accessed)}"


def archive_panel(listing: PagedTexts, rows: Sequence[ArchiveRow]) -> Panel:
    """The panel of stored items, to read and to insert into the prompt."""
    column = max((len(row.ref) for row in rows), default=0)

    async def copy(row: PanelRow, _: str) -> CopyText:
        return CopyText(row.value)

    return Panel(
        "archive",
        ((("Archive", "strong"),),),
        tuple(
            PanelRow(
                row.ref,
                partial(archive_line, row, ref_width=column),
                f"{row.ref}, {row.title}, {row.lines}, {row.size}, {row.age}, {row.state}",
                f"{row.ref} {row.title} {row.state}",
                content=PagedText(listing, row.ref),
            )
            for row in rows
        ),
        KEYS,
        LIST_KEYS,
        empty="nothing was kept yet",
        not_found="nothing is found",
        plain_head=f"{pluralize(len(rows), 'thing')} kept, the newest first.",
        actions=(PanelAction(("enter",), "insert"), PanelAction(("y", "ctrl+y"), do=copy)),
        unit="kept",
        reads=True,
        looks=True,
    )


def archive_line(row: ArchiveRow, width: int, ref_width: int) -> Line:
    """The row at the given width; the description takes what the columns leave."""
    before = f"{row.ref:<{ref_width}}  "
    recalled = f"  {row.recalled}" if row.recalled else ""
    after = f"{recalled}  {row.lines:>11} {row.size:>8}  {row.age:>6}  "
    room = max(8, width - len(before) - len(after) - len("summarised"))
    return (
        (before, "accent"),
        (fit_width(row.title, room), "text"),
        (after, "dim"),
        (f"{row.state:<10}", INKS.get(row.state, "dim")),
    )

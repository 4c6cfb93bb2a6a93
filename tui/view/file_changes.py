"""Changed files as rows of a list. Pure."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len, set_cell_size

from ebbtide.agent.records.file_change import ChangeScope, FileChange, FileChanges
from ebbtide.tools.files.change import diff_lines
from ebbtide.tools.outputs.extent import pluralize as so_many
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.panel import DiffText, Panel, PanelAction, PanelRow

KEYS = "Up, Down files  PgUp, PgDn read  n, p changes  s turn or session  Esc closes"
OTHER = "not by a tool of this session"
SCOPES: dict[ChangeScope, str] = {"turn": "in the last turn", "session": "in this session"}


@dataclass(frozen=True, slots=True)
class FileChangeRow:
    name: str
    diff: str
    """Empty if the files cannot be compared or are the same."""
    added: int
    removed: int
    note: str
    """Remarks; usually empty."""
    by_tool: bool = True
    is_known: bool = True


def rows_of(changes: FileChanges) -> tuple[FileChangeRow, ...]:
    """A row for each file, those changed by tools first."""
    return tuple(row_of(file) for file in sorted(changes.files, key=lambda file: not file.by_tool))


def row_of(file: FileChange, other: str = OTHER) -> FileChangeRow:
    """`other`: the remark for a file not changed by this session's tools."""
    told = "; ".join(part for part in (file.unknown, file.note, "" if file.by_tool else other) if part)
    if file.unknown:
        return FileChangeRow(file.name, "", 0, 0, told, file.by_tool, is_known=False)
    diff = "\n".join(diff_lines(file.name, file.before, file.now)) if file.before != file.now else ""
    added, removed = count_changes(diff)
    return FileChangeRow(file.name, diff, added, removed, told, file.by_tool)


def changes_panel(changes: FileChanges, of: Callable[[ChangeScope], Awaitable[Panel]], name: str = "") -> Panel:
    """The changed files with their diffs. `of` returns the panel of the last turn or the session; `name`: file
    marked first."""
    rows = rows_of(changes)

    async def turn(row: PanelRow, _: str) -> Panel:
        return await of("session" if changes.scope == "turn" else "turn")

    return Panel(
        "diff",
        headline_of(changes.scope, rows, changes.notes),
        tuple(
            PanelRow(
                row.name,
                partial(change_line, row),
                change_text(row),
                about=(((sanitised_line(row.note), "warn"),),) if row.note else (),
                content=DiffText(row.diff, "nothing differs" if row.is_known else ""),
            )
            for row in rows
        ),
        KEYS,
        actions=(PanelAction(("s",), do=turn, needs_row=False),),
        search="",
        reads=True,
        looks=True,
        mark=name,
        min_width_beside=100,
        most=8,
    )


def change_line(row: FileChangeRow, width: int) -> Line:
    """The file in one line. The name is cut so that the numbers always fit."""
    count = "?" if not row.is_known else f"+{row.added} −{row.removed}"
    mark = "  " if row.by_tool else "~ "
    room = max(1, width - cell_len(count) - len(mark) - 2)
    name = sanitised_line(row.name)
    if cell_len(name) > room:
        # The end of a path tells files apart.
        while name and cell_len(name) > max(0, room - 1):
            name = name[1:]
        name = f"…{name}"
    ink: TextStyle = "text" if row.by_tool else "dim"
    return ((mark, "warn"), (set_cell_size(name, room), ink), (f"  {count}", "dim"))


def change_text(row: FileChangeRow) -> str:
    """The file in one sentence, for line mode."""
    name = sanitised_line(row.name)
    numbers = f": {so_many(row.added, 'line')} added, {row.removed} removed" if row.is_known else ""
    return f"{name}{numbers}" + (f" ({sanitised_line(row.note)})" if row.note else "")


def headline_of(scope: ChangeScope, rows: Sequence[FileChangeRow], told: Sequence[str]) -> tuple[Line, ...]:
    """The heading: changes by tools, other changes, and what is unknown."""
    own, others = [row for row in rows if row.by_tool], sum(1 for row in rows if not row.by_tool)
    files = f"{so_many(len(own), 'file')} changed {SCOPES[scope]}" if own else f"no file changed {SCOPES[scope]}"
    numbers = f"  +{sum(row.added for row in own)} −{sum(row.removed for row in own)}" if own else ""
    more = f"; {others} more differ{'s' if others == 1 else ''} from the last commit" if others else ""
    head: Line = (("Files  ", "strong"), (files, "text"), (numbers, "dim"), (more, "text"))
    marks: tuple[Line, ...] = ((("~ ", "warn"), (OTHER, "dim")),) if others else ()
    return (head, *marks, *((((sanitised_line(each), "dim"),)) for each in told))

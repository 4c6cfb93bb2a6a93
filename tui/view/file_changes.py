"""Lists changed files as rows."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len, set_cell_size

from ebbtide.agent.records.file_change import ChangeScope, FileChange, FileChanges
from ebbtide.tools.files.change import diff_lines
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.change_choices import change_labels
from ebbtide.tui.view.panel import ActionOutcome, DiffText, Panel, PanelAction, PanelRow, ShowMessage

CHANGES_KEY_HINTS = "Up, Down files  PgUp, PgDn scroll  n, p changes  x revert a change  s turn or session  Esc close"
SINGLE_CHANGES_KEY_HINTS = "Enter revert this change  PgUp, PgDn scroll  Esc close"
NOT_BY_TOOLS_NOTE = "not changed by this session's tools"
SCOPE_TEXTS: dict[ChangeScope, str] = {"turn": "in the last turn", "session": "in this session"}


@dataclass(frozen=True, slots=True)
class FileChangeRow:
    name: str
    diff: str
    """The unified diff; empty if the versions are the same or cannot be compared."""
    added_count: int
    removed_count: int
    note: str
    """Notes about the file; usually empty."""
    is_by_tool: bool = True
    is_known: bool = True


def change_rows(changes: FileChanges) -> tuple[FileChangeRow, ...]:
    """Build a row for each file. Files changed by tools come first."""
    return tuple(change_row(file) for file in sorted(changes.files, key=lambda file: not file.is_by_tool))


def change_row(change: FileChange, other_note: str = NOT_BY_TOOLS_NOTE) -> FileChangeRow:
    """Build the row of a file. `other_note`: what to say about a file that this session's tools did not change."""
    note = "; ".join(
        text for text in (change.incomparable_reason, change.note, "" if change.is_by_tool else other_note) if text
    )
    if change.incomparable_reason:
        return FileChangeRow(change.name, "", 0, 0, note, change.is_by_tool, is_known=False)
    diff = (
        "\n".join(diff_lines(change.name, change.previous_content, change.current_content))
        if change.previous_content != change.current_content
        else ""
    )
    added_count, removed_count = count_changes(diff)
    return FileChangeRow(change.name, diff, added_count, removed_count, note, change.is_by_tool)


def build_changes_panel(
    changes: FileChanges,
    build_panel: Callable[[ChangeScope], Awaitable[Panel]],
    show_single_changes: Callable[[FileChange], Awaitable[ActionOutcome]],
    marked_name: str = "",
) -> Panel:
    """Build the list of changed files with their diffs. `build_panel` builds the panel for the last turn or the whole
    session. `show_single_changes` shows the changes of a file one by one. `marked_name`: the file to mark first."""
    rows = change_rows(changes)

    async def toggle_scope(row: PanelRow, _: str) -> Panel:
        return await build_panel("session" if changes.scope == "turn" else "turn")

    files_by_name = {file.name: file for file in changes.files if file.is_by_tool and not file.incomparable_reason}

    async def show_changes(row: PanelRow, _: str) -> ActionOutcome:
        return await show_single_changes(files_by_name[row.value])

    return Panel(
        "diff",
        changes_headline(changes.scope, rows, changes.notes),
        tuple(
            PanelRow(
                row.name,
                partial(change_line, row),
                change_text(row),
                details=(((sanitise_line(row.note), "warn"),),) if row.note else (),
                content=DiffText(row.diff, "unchanged" if row.is_known else ""),
            )
            for row in rows
        ),
        CHANGES_KEY_HINTS,
        actions=(
            PanelAction(("s",), run=toggle_scope, needs_row=False),
            PanelAction(("x",), "revert", run=show_changes, is_available=lambda row: row.value in files_by_name),
        ),
        search_placeholder="",
        page_keys_scroll_details=True,
        previews_before_action=True,
        initial_value=marked_name,
        min_side_by_side_width=100,
        max_list_lines=8,
    )


def build_single_changes_panel(
    name: str,
    diffs: Sequence[str],
    revert: Callable[[int], Awaitable[ActionOutcome]],
    message: ShowMessage | None = None,
) -> Panel:
    """Build the list of the changes in a file. `diffs`: one for each change. `revert` reverts the change at an
    index."""

    async def revert_marked(row: PanelRow, _: str) -> ActionOutcome:
        return await revert(int(row.value))

    labels = [", ".join(change_labels(diff)) for diff in diffs]
    return Panel(
        "diff",
        ((("Revert  ", "strong"), (f"{sanitise_line(name)}: {pluralize(len(diffs), 'change')}", "text")),),
        tuple(
            PanelRow(str(index), ((label, "text"),), label, content=DiffText(diff))
            for index, (label, diff) in enumerate(zip(labels, diffs, strict=True))
        ),
        SINGLE_CHANGES_KEY_HINTS,
        empty_message="No changes are left in this file.",
        actions=(PanelAction(("enter",), "revert", run=revert_marked),),
        search_placeholder="",
        page_keys_scroll_details=True,
        previews_before_action=True,
        min_side_by_side_width=100,
        max_list_lines=8,
        is_guarded=True,
        message=message,
    )


def change_line(row: FileChangeRow, width: int) -> Line:
    """Format a file as one line. Its name is shortened so that the numbers always fit."""
    counts_text = "?" if not row.is_known else f"+{row.added_count} −{row.removed_count}"
    prefix = "  " if row.is_by_tool else "~ "
    name_width = max(1, width - cell_len(counts_text) - len(prefix) - 2)
    name = sanitise_line(row.name)
    if cell_len(name) > name_width:
        # Keep the end of the path, which distinguishes files best.
        while name and cell_len(name) > max(0, name_width - 1):
            name = name[1:]
        name = f"…{name}"
    style: TextStyle = "text" if row.is_by_tool else "dim"
    return ((prefix, "warn"), (set_cell_size(name, name_width), style), (f"  {counts_text}", "dim"))


def change_text(row: FileChangeRow) -> str:
    """Describe a file's changes in a sentence, for line mode."""
    name = sanitise_line(row.name)
    counts_text = f": {pluralize(row.added_count, 'line')} added, {row.removed_count} removed" if row.is_known else ""
    return f"{name}{counts_text}" + (f" ({sanitise_line(row.note)})" if row.note else "")


def changes_headline(scope: ChangeScope, rows: Sequence[FileChangeRow], notes: Sequence[str]) -> tuple[Line, ...]:
    """Build the heading: changes made by tools, other changes, and what is unknown."""
    tool_rows = [row for row in rows if row.is_by_tool]
    other_count = sum(1 for row in rows if not row.is_by_tool)
    files_text = (
        f"{pluralize(len(tool_rows), 'file')} changed {SCOPE_TEXTS[scope]}"
        if tool_rows
        else f"no files changed {SCOPE_TEXTS[scope]}"
    )
    counts_text = (
        f"  +{sum(row.added_count for row in tool_rows)} −{sum(row.removed_count for row in tool_rows)}"
        if tool_rows
        else ""
    )
    other_files_text = (
        f"; {other_count} other{' differs' if other_count == 1 else 's differ'} from the last commit"
        if other_count
        else ""
    )
    heading: Line = (("Files  ", "strong"), (files_text, "text"), (counts_text, "dim"), (other_files_text, "text"))
    legend: tuple[Line, ...] = ((("~ ", "warn"), (NOT_BY_TOOLS_NOTE, "dim")),) if other_count else ()
    return (heading, *legend, *((((sanitise_line(note), "dim"),)) for note in notes))

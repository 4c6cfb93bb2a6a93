"""Commands that show and revert file changes made by turns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import time

from ebbtide.agent.checkpoints.file_state import FileState, PathChange, PlannedPath, RestorePlan, path_label
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.checkpoints.undo_points import (
    PointKind,
    RestoreResult,
    UndoPoint,
    next_redo,
    next_undo,
    points_of_lineage,
)
from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.user_actions import announce_restored_files, revert_file_change
from ebbtide.agent.records.file_change import ChangeScope, FileChange
from ebbtide.agent.session import Session
from ebbtide.tools import files
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.change import Change, diff_changes, diff_lines
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.memory import undo_last_note
from ebbtide.tui.text.numbers import format_age
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.file_changes import (
    FileChangeRow,
    build_changes_panel,
    build_single_changes_panel,
    change_line,
    change_row,
    change_text,
)
from ebbtide.tui.view.panel import ActionOutcome, DiffText, LoadedText, Panel, PanelAction, PanelRow, ShowMessage

RESTORE_KEY_HINTS = "Enter apply  a include changes made by others  PgUp, PgDn scroll  Esc cancel"
SIMPLE_RESTORE_KEY_HINTS = "Enter apply  PgUp, PgDn scroll  Esc cancel"
UNDO_POINTS_KEY_HINTS = "Enter preview  PgUp, PgDn scroll  Esc close"
NOT_COVERED_NOTE = "Not covered: ignored files, other folders, commits and branches, databases, the network."
MAX_NAMED_FILES = 5
MAX_DIFF_LINES = 1000

PathContents = Mapping[str, tuple[bytes | None, bytes | None]]
"""The current content of each path and its content after restoring. None means that the file does not exist."""
_DIFF_STYLES: Mapping[str, TextStyle] = {"+": "good", "-": "bad", " ": "text"}


def build_restore_panel(name: str, title: str, plan: RestorePlan, contents: PathContents) -> Panel:
    """Build a panel that shows what would change, as diffs, for the user to confirm. `name`: the command's name."""
    needs_choice = plan.paths_with_outcome("ask")
    changes = [
        planned
        for planned in plan.paths
        if planned.outcome != "unchanged" and "folder" not in (planned.current.kind, planned.target.kind)
    ]
    changes = changes or [planned for planned in plan.paths if planned.outcome != "unchanged"]
    restored_paths = [planned for planned in changes if planned.outcome == "restore"]
    staged_count = sum(1 for planned in restored_paths if planned.target.kind == "staged")
    summary = f"{pluralize(len(restored_paths) - staged_count, 'file')} would change"
    summary += f", and the staged content of {pluralize(staged_count, 'path')}" if staged_count else ""
    title_lines: list[Line] = [((f"{name.capitalize()}  ", "strong"), (summary, "text"))]
    if title:
        title_lines.append(((sanitise_line(title), "dim"),))
    if needs_choice:
        others_note = (
            f"~ {pluralize(len(needs_choice), 'path')} changed by others: left unchanged unless you choose `a`"
        )
        title_lines.append(parse_inline_code(others_note, "warn"))
    title_lines.append(((NOT_COVERED_NOTE, "dim"),))
    rows = tuple(_path_row(planned, contents) for planned in changes)
    actions = (
        PanelAction(("enter",), name, needs_row=False),
        *((PanelAction(("a",), "all", needs_row=False),) if needs_choice else ()),
    )
    return Panel(
        name,
        tuple(title_lines),
        rows,
        RESTORE_KEY_HINTS if needs_choice else SIMPLE_RESTORE_KEY_HINTS,
        empty_message="Only folders would change.",
        actions=actions,
        search_placeholder="",
        page_keys_scroll_details=True,
        previews_before_action=True,
        min_side_by_side_width=100,
        max_list_lines=8,
        is_guarded=True,
    )


def _path_row(planned: PlannedPath, contents: PathContents) -> PanelRow:
    row = _change_row(planned, contents)
    return PanelRow(
        planned.path,
        partial(change_line, row),
        change_text(row),
        details=(((sanitise_line(row.note), "warn"),),) if row.note else (),
        content=DiffText(row.diff, "content unchanged"),
    )


def _change_row(planned: PlannedPath, contents: PathContents) -> FileChangeRow:
    current_content, restored_content = contents.get(planned.path, (None, None))
    if planned.outcome == "impossible":
        return change_row(
            FileChange(
                path_label(planned.path), incomparable_reason=f"left unchanged: {planned.reason}", is_by_tool=False
            )
        )
    note = "; ".join(text for text in (planned.reason, _kind_change_note(planned.current, planned.target)) if text)
    return change_row(
        FileChange(
            path_label(planned.path),
            current_content,
            restored_content,
            note=note,
            is_by_tool=planned.outcome == "restore",
        ),
        other_note="",
    )


def _kind_change_note(current: FileState, restored: FileState) -> str:
    if current.kind == restored.kind == "file" and current.mode != restored.mode:
        return f"mode restored to {restored.mode:o}"
    if "link" in (current.kind, restored.kind) and restored.kind != "absent":
        return "becomes a link again" if restored.kind == "link" else "no longer a link"
    return ""


def build_points_panel(
    points: Sequence[UndoPoint],
    get_files: Callable[[int], Sequence[str]],
    load_diff: Callable[[int], Awaitable[Sequence[Line]]],
    now: float,
) -> Panel:
    """Build a panel of a session's undo points, newest first. `get_files` returns the files that a point changed.
    `load_diff` returns the point's changes. `now` is in Unix seconds."""
    rows = tuple(_point_row(point, get_files(point.id), load_diff, now) for point in reversed(points))
    return Panel(
        "undo",
        ((("Undo  ", "strong"), (pluralize(len(rows), "point"), "dim")), ((NOT_COVERED_NOTE, "dim"),)),
        rows,
        UNDO_POINTS_KEY_HINTS,
        empty_message="No turn has changed files yet.",
        actions=(PanelAction(("enter",), "preview", is_available=lambda row: not row.right_text),),
        page_keys_scroll_details=True,
        previews_before_action=True,
        min_side_by_side_width=100,
        max_list_lines=8,
    )


def _point_row(
    point: UndoPoint, files: Sequence[str], load_diff: Callable[[int], Awaitable[Sequence[Line]]], now: float
) -> PanelRow:
    kind = "" if point.kind == "turn" else f"{point.kind} of "
    line = (
        f"{kind}{sanitise_line(point.title) or 'a turn'}  {pluralize(len(files), 'path')}  {format_age(now - point.at)}"
    )
    return PanelRow(
        str(point.id), ((line, "dim" if point.is_undone else "text"),), content=LoadedText(load_diff, (point.id,)),
        right_text=("reverted", "dim") if point.is_undone else None,
    )  # fmt: skip


def change_lines(changes: Sequence[tuple[PathChange, bytes | None, bytes | None]]) -> tuple[Line, ...]:
    """Format the changes of an undo point: a diff for each file."""
    lines: list[Line] = []
    for change, old_content, new_content in changes:
        note = "; ".join(text for text in (change.other_cause, _kind_change_note(change.before, change.after)) if text)
        kinds = (change.before.kind, change.after.kind)
        action = "created" if kinds[0] == "absent" else "removed" if kinds[1] == "absent" else "changed"
        action += " (a folder)" if "folder" in kinds else ""
        lines.append(((sanitise_line(path_label(change.path)), "strong"), (f"  {action}", "dim")))
        lines += [((note, "warn"),)] if note else []
        if not {"large", "unreadable", "special", "unknown"}.isdisjoint(kinds):
            lines.append((("content not stored", "dim"),))
        elif old_content != new_content:
            diff = [sanitise_line(line) for line in diff_lines(change.path, old_content, new_content)]
            lines += [
                ((line, _DIFF_STYLES.get(line[:1], "dim")),) for line in diff if not line.startswith(("---", "+++"))
            ]
        if len(lines) > MAX_DIFF_LINES:
            return (*lines[:MAX_DIFF_LINES], (("more: press Enter to see it file by file", "dim"),))
    return tuple(lines)


def restored_message(result: RestoreResult, *, is_redone: bool) -> str:
    """Build the message to show after restoring files. It names the command that reverts the restore."""
    files_text = pluralize(len(result.files), "file")
    changes = "change" if len(result.files) == 1 else "changes"
    message = (
        f"{files_text} changed again · `/undo` to revert"
        if is_redone
        else f"{files_text} restored · `/redo` reapplies the {changes}"
    )
    if result.staged_count:
        message += f" · staged content of {pluralize(result.staged_count, 'path')} restored"
    if result.unrestored:
        paths = [sanitise_line(path_label(planned.path)) for planned in result.unrestored]
        message += f" · left unchanged: {join_limited(paths, MAX_NAMED_FILES)}"
    return message


NOT_DIVISIBLE = "the changes of this file can only be reverted together: `/undo`"
REVERTED = ShowMessage("reverted, and the model is told · /undo restores the change", "good")
NOTHING_TO_UNDO = "nothing to undo: no turn has changed files. `/context undo` reverts the last context change"
ALL_UNDONE = "nothing to undo: all changes are reverted; `/redo` reapplies the last one"
NOTHING_TO_REDO = "nothing to redo: nothing was reverted, or files have changed since"


async def undo(context: CommandContext, argument: str) -> None:
    """Revert the last turn's file changes. If a note was saved after that turn, remove the note instead. `list` shows
    all undo points."""
    session = context.controller.session
    if await undo_last_note(context.controller) or session is None:
        return
    points = await _undo_points(context, session)
    point = await _pick_point(context, session.checkpoints, points) if argument.strip() == "list" else next_undo(points)
    if point is None:
        if not argument.strip():
            context.controller.show_notice(
                ALL_UNDONE if any(undone.kind == "turn" for undone in points) else NOTHING_TO_UNDO
            )
        return
    await revert_points(context, (point,), "undo" if point.kind == "turn" else "redo")


async def redo(context: CommandContext, _: str) -> None:
    """Reapply the last reverted change."""
    session = context.controller.session
    if session is None:
        return
    point = next_redo(await _undo_points(context, session))
    if point is None:
        context.controller.show_notice(NOTHING_TO_REDO)
    else:
        await revert_points(context, (point,), "redo")


async def _undo_points(context: CommandContext, session: Session) -> tuple[UndoPoint, ...]:
    """Get the session's undo points, and those of its ancestors from before each fork."""
    library = await context.controller.sessions.open_library()
    ancestors = await library.ancestry(session.id)
    await session.checkpoints.run(lambda project: project.finish_interrupted_turns(session.id))
    return points_of_lineage(await session.checkpoints.run(lambda project: project.points()), ancestors)


async def _pick_point(
    context: CommandContext, checkpoints: SessionCheckpoints, points: Sequence[UndoPoint]
) -> UndoPoint | None:
    """Let the user choose from a list of undo points that shows their changes."""
    files_by_point = await checkpoints.run(
        lambda project: {point.id: [change.path for change in project.merged_changes((point.id,))] for point in points}
    )

    async def load_diff(point_id: int) -> tuple[Line, ...]:
        return change_lines(await checkpoints.run(lambda project: project.point_contents(point_id)))

    choice = await context.show(
        build_points_panel(points, lambda point_id: files_by_point[point_id], load_diff, time())
    )
    return next((point for point in points if choice is not None and str(point.id) == choice.value), None)


async def revert_points(context: CommandContext, points: Sequence[UndoPoint], kind: PointKind) -> None:
    """Revert undo points after showing a preview."""
    confirmed_restore = await confirm_restore(context, points, kind)
    if confirmed_restore is not None:
        await run_restore(context, confirmed_restore, kind)


@dataclass(frozen=True, slots=True)
class ConfirmedRestore:
    plan: RestorePlan
    overwrites_other_changes: bool


async def confirm_restore(
    context: CommandContext, points: Sequence[UndoPoint], kind: PointKind
) -> ConfirmedRestore | None:
    """Show a preview and let the user confirm it. Returns None if they do not or if nothing would change."""
    session = context.controller.session
    if session is None:
        return None
    checkpoints = session.checkpoints
    point_ids = tuple(point.id for point in points)
    plan = await checkpoints.run(lambda project: project.plan_undo(point_ids))
    if not plan.paths_with_outcome("restore", "ask", "impossible"):
        context.controller.show_notice("these files are already restored")
        return None
    contents = await checkpoints.run(lambda project: project.planned_contents(plan))
    title = points[0].title if len(points) == 1 else ""
    choice = await context.show(build_restore_panel(kind, title, plan, contents))
    return None if choice is None else ConfirmedRestore(plan, choice.action == "all")


async def run_restore(context: CommandContext, confirmed_restore: ConfirmedRestore, kind: PointKind) -> None:
    """Restore the files as confirmed. On failure, no files are changed and the error is shown."""
    session = context.controller.session
    if session is None:
        return
    checkpoints = session.checkpoints
    current_turn = checkpoints.turn
    try:
        with context.controller.busy_with("restoring files"):
            result = await checkpoints.run(
                lambda project: project.restore(
                    confirmed_restore.plan, current_turn, kind, is_forced=confirmed_restore.overwrites_other_changes
                )
            )
    except AgentError as error:
        return context.controller.show_failure(error)
    await context.controller.run_with_activity(
        "informing the model",
        lambda session: session.change_conversation(announce_restored_files, session.calls, result.files),
    )
    return context.controller.show_notice(restored_message(result, is_redone=kind == "redo"))


async def show_turn_changes(context: CommandContext, argument: str) -> None:
    """Show the last turn's changes, or the whole session's if the argument is `session`."""
    await _show_changes(context, "session" if argument.strip().lower() == "session" else "turn")


async def show_session_changes(context: CommandContext, name: str) -> None:
    """Show the session's changes, starting at the file `name`."""
    await _show_changes(context, "session", name.strip())


async def _show_changes(context: CommandContext, scope: ChangeScope, name: str = "") -> None:
    if context.controller.session is None:
        return
    session = context.controller.session

    async def build_panel(scope: ChangeScope) -> Panel:
        changes = await session.file_history.changes(scope)
        return await asyncio.to_thread(build_changes_panel, changes, build_panel, show_single_changes, name)

    async def show_single_changes(file: FileChange) -> ActionOutcome:
        return await _single_changes_panel(session, file) or ShowMessage(NOT_DIVISIBLE, "warn")

    await context.show(await build_panel(scope))


async def _single_changes_panel(session: Session, file: FileChange, message: ShowMessage | None = None) -> Panel | None:
    """Build the list of the changes in a file, to revert one of them; None if they cannot be told apart."""
    change = Change(session.working_folder / file.name, file.previous_content, file.current_content)
    try:
        changes = await asyncio.to_thread(files.change_selection.single_changes, change, file.name)
    except ToolError:
        return None

    async def revert(index: int) -> ActionOutcome:
        single_change = changes[index]
        reverted = replace(single_change, old_content=single_change.new_content, new_content=single_change.old_content)
        await session.change_conversation(revert_file_change, session.calls, session.checkpoints, reverted)
        remaining_file = replace(file, current_content=reverted.new_content)
        return await _single_changes_panel(session, remaining_file, REVERTED) or REVERTED

    if not changes and file.previous_content != file.current_content:
        return None
    diffs = [diff_changes((single_change,), session.working_folder) for single_change in changes]
    return build_single_changes_panel(file.name, diffs, revert, message)

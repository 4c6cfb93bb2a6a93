"""Commands that revert file changes of turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import time

from ebbtide.agent.checkpoints.file_state import RestorePlan
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.checkpoints.undo_points import PointKind, UndoPoint, points_of_lineage, to_redo, to_undo
from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.restored_files import announce_restored_files
from ebbtide.agent.session import Session
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.session.memory import take_back_note
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.undo_points import change_lines, plan_panel, points_panel, restored_message

NOTHING = (
    "there is nothing to undo: no turn of this session has changed a file. `/context undo` takes back the last change "
    "of what the model sees"
)
ALL_UNDONE = "there is nothing to undo: the changes of all turns are undone; `/redo` reapplies the last one"
NOTHING_TO_REDO = "there is nothing to redo: nothing was taken back, or files were changed since"


async def undo(context: CommandContext, written: str) -> None:
    """Revert the note just saved, or else the last turn's file changes; `list` shows all undo points."""
    session = context.controller.session
    if await take_back_note(context.controller) or session is None:
        return
    points = await _points_here(context, session)
    point = await _pick_point(context, session.checkpoints, points) if written.strip() == "list" else to_undo(points)
    if point is None:
        if not written.strip():
            context.controller.notice(ALL_UNDONE if any(one.kind == "turn" for one in points) else NOTHING)
        return
    await take_back(context, (point,), "undo" if point.kind == "turn" else "redo")


async def redo(context: CommandContext, _: str) -> None:
    """Reapply the last reverted change."""
    session = context.controller.session
    if session is None:
        return
    point = to_redo(await _points_here(context, session))
    if point is None:
        context.controller.notice(NOTHING_TO_REDO)
    else:
        await take_back(context, (point,), "redo")


async def _points_here(context: CommandContext, session: Session) -> tuple[UndoPoint, ...]:
    """The undo points of the session, and of the session that it was forked from, up to the fork."""
    library = await context.controller.sessions.library()
    line = await library.ancestors(session.id)
    await session.checkpoints.run(lambda project: project.finish_interrupted(session.id))
    return points_of_lineage(await session.checkpoints.run(lambda project: project.points()), line)


async def _pick_point(
    context: CommandContext, kept: SessionCheckpoints, points: Sequence[UndoPoint]
) -> UndoPoint | None:
    """Let the user choose an undo point from a list with its changes."""
    files = await kept.run(
        lambda project: {point.id: [change.path for change in project.changes_of((point.id,))] for point in points}
    )

    async def diff(id: int) -> tuple[Line, ...]:
        return change_lines(await kept.run(lambda project: project.point_contents(id)))

    taken = await context.show(points_panel(points, lambda id: files[id], diff, time()))
    return next((point for point in points if taken is not None and str(point.id) == taken.value), None)


async def take_back(context: CommandContext, points: Sequence[UndoPoint], kind: PointKind) -> None:
    """Revert undo points after a preview."""
    agreed = await confirm_restore(context, points, kind)
    if agreed is not None:
        await carry_out(context, agreed, kind)


@dataclass(frozen=True, slots=True)
class ConfirmedRestore:
    plan: RestorePlan
    forced: bool


async def confirm_restore(
    context: CommandContext, points: Sequence[UndoPoint], kind: PointKind
) -> ConfirmedRestore | None:
    """Show a preview and return what the user confirms; None if there is nothing to do."""
    session = context.controller.session
    if session is None:
        return None
    kept, ids = session.checkpoints, tuple(point.id for point in points)
    plan = await kept.run(lambda project: project.plan(ids))
    if not plan.of("restore", "ask", "cannot"):
        context.controller.notice("all these files are as they were before already")
        return None
    contents = await kept.run(lambda project: project.contents(plan))
    title = points[0].title if len(points) == 1 else ""
    taken = await context.show(plan_panel(kind, title, plan, contents))
    return None if taken is None else ConfirmedRestore(plan, taken.action == "all")


async def carry_out(context: CommandContext, agreed: ConfirmedRestore, kind: PointKind) -> None:
    """Run the plan. Errors are shown, and then nothing has changed."""
    session = context.controller.session
    if session is None:
        return
    kept = session.checkpoints
    place = kept.turn
    try:
        with context.controller.busy_with("bringing files back"):
            done = await kept.run(lambda project: project.restore(agreed.plan, place, kind, forced=agreed.forced))
    except AgentError as error:
        return context.controller.fail(error)
    await context.controller.run_with_activity(
        "telling", lambda session: session.change(announce_restored_files, done.files)
    )
    return context.controller.notice(restored_message(done, is_redone=kind == "redo"))

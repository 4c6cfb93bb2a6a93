"""Commands about what the model sees: making room, finding out, bringing back."""

from time import time

from agent.errors import AgentError
from tui.actions.desk import CommandContext

# What only they need is loaded when it is first needed: the prompt is there sooner without it.


async def compact(desk: CommandContext, focus: str) -> None:
    from tui.session.compaction import begin  # noqa: PLC0415  # deferred: see above

    by_hand = await begin(desk.talk, focus)
    if by_hand is not None:
        await desk.compact(by_hand)
        by_hand.leave()


async def undo(desk: CommandContext, _: str) -> None:
    from tui.session.compaction import take_back, what_undo_does  # noqa: PLC0415  # deferred: see above
    from tui.session.memory import take_back_note  # noqa: PLC0415  # deferred: see above
    from tui.view.compaction_preview import undo_lines  # noqa: PLC0415  # deferred: see above

    event = None if await take_back_note(desk.talk) else await what_undo_does(desk.talk)
    if event is not None and await desk.confirm("Undo the last rewrite?", undo_lines(event), "undoes it"):
        await take_back(desk.talk)


async def show_context(desk: CommandContext, written: str) -> None:
    """Shows what the context holds; with an act and what it is meant for, does that."""
    if not written.strip():
        return await desk.show_context()
    try:
        await desk.steer(written)
    except AgentError as error:
        desk.talk.notice(str(error))
    return None


async def why(desk: CommandContext, text: str) -> None:
    from tui.view.provenance import places_panel  # noqa: PLC0415  # deferred: see above

    trace = await desk.talk.why(text)
    if trace.places and desk.talk.session is not None:
        taken = await desk.show(places_panel(desk.talk.session.shelf, text, trace))
        if taken is not None:
            await desk.talk.bring(taken.value)


async def bring(desk: CommandContext, ref: str) -> None:
    await desk.talk.bring(ref)


async def show_archive(desk: CommandContext, _: str) -> None:
    from tui.view.archive import archive_panel, rows_of  # noqa: PLC0415  # deferred: see above

    session = desk.talk.session
    if session is not None:
        shelf = session.shelf
        taken = await desk.show(archive_panel(shelf, rows_of(await shelf.entries(session.history), time())))
        if taken is not None:
            desk.insert(f"{taken.value} ")


async def show_todos(desk: CommandContext, _: str) -> None:
    from agent.context.control_calls import last_todos  # noqa: PLC0415  # deferred: see above
    from tui.view.todos import todos_in, todos_panel  # noqa: PLC0415  # deferred: see above

    session = desk.talk.session
    items = todos_in(desk.talk.view.blocks)
    if items is None and session is not None:
        items = last_todos(session.history.messages)
    if items:
        await desk.show(todos_panel(items))
    else:
        desk.talk.notice("the model keeps no list in this session: it makes one where a task has several steps")

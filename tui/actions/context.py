"""Commands about the context: undo a rewrite, show it, find and bring back texts."""

from time import time

from ebbtide.agent.context.control_calls import last_todos
from ebbtide.agent.errors import AgentError
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.session.compaction import begin, take_back, what_undo_does
from ebbtide.tui.view.archive import archive_panel, rows_of
from ebbtide.tui.view.compaction_preview import undo_lines
from ebbtide.tui.view.plan import plan_in, plan_panel
from ebbtide.tui.view.provenance import places_panel
from ebbtide.tui.view.todos import todos_in, todos_panel


async def compact(context: CommandContext, focus: str) -> None:
    by_hand = await begin(context.controller, focus)
    if by_hand is not None:
        await context.compact(by_hand)
        by_hand.leave()


async def undo_rewrite(context: CommandContext) -> None:
    """Undo the last context change after confirming its price."""
    event = await what_undo_does(context.controller)
    if event is not None and await context.confirm(
        "Undo the last change of what the model sees?", undo_lines(event), "undo it"
    ):
        await take_back(context.controller)


async def show_context(context: CommandContext, written: str) -> None:
    """Show the context; with an action and a reference, run that action."""
    if not written.strip():
        return await context.show_context()
    if written.strip() == "undo":
        return await undo_rewrite(context)
    try:
        await context.steer(written)
    except AgentError as error:
        context.controller.notice(str(error))
    return None


async def why(context: CommandContext, text: str) -> None:
    trace = await context.controller.why(text)
    if trace.places and context.controller.session is not None:
        taken = await context.show(places_panel(context.controller.session.listing, text, trace))
        if taken is not None:
            await context.controller.bring(taken.value)


async def bring(context: CommandContext, ref: str) -> None:
    await context.controller.bring(ref)


async def show_archive(context: CommandContext, _: str) -> None:
    session = context.controller.session
    if session is not None:
        listing = session.listing
        taken = await context.show(archive_panel(listing, rows_of(await listing.entries(session.history), time())))
        if taken is not None:
            context.insert(f"{taken.value} ")


async def show_todos(context: CommandContext, _: str) -> None:
    session = context.controller.session
    items = todos_in(context.controller.view.blocks)
    if items is None and session is not None:
        items = last_todos(session.history.messages)
    if items:
        await context.show(todos_panel(items))
    else:
        context.controller.notice(
            "the model keeps no list in this session: it makes one where a task has several steps"
        )


async def show_plan(context: CommandContext, _: str) -> None:
    plan = plan_in(context.controller.view.blocks)
    if plan is not None:
        await context.show(plan_panel(plan))
    else:
        context.controller.notice("no plan was handed in here yet; after `/mode plan` the model makes one first")

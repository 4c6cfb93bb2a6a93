"""Commands about what the model sees: making room, finding out, bringing back."""

from tui.actions.desk import CommandContext

# Screens and what only they need are loaded when they are first shown.


async def compact(desk: CommandContext, focus: str) -> None:
    from tui.screens.compaction import CompactionScreen  # noqa: PLC0415  # deferred: see above
    from tui.session.compaction import begin  # noqa: PLC0415  # deferred: see above

    by_hand = await begin(desk.talk, focus)
    if by_hand is not None:
        await desk.app.push_screen_wait(CompactionScreen(by_hand))
        by_hand.leave()


async def undo(desk: CommandContext, _: str) -> None:
    from tui.screens.confirm import ConfirmScreen  # noqa: PLC0415  # deferred: see above
    from tui.session.compaction import take_back, what_undo_does  # noqa: PLC0415  # deferred: see above
    from tui.session.memory import take_back_note  # noqa: PLC0415  # deferred: see above
    from tui.view.compaction_preview import undo_lines  # noqa: PLC0415  # deferred: see above

    event = None if await take_back_note(desk.talk) else await what_undo_does(desk.talk)
    if event is None:
        return
    if await desk.app.push_screen_wait(ConfirmScreen("Undo the last rewrite?", undo_lines(event), "undoes it")):
        await take_back(desk.talk)


async def why(desk: CommandContext, text: str) -> None:
    from tui.screens.places import PlacesScreen  # noqa: PLC0415  # deferred: a screen is loaded when it is first shown

    trace = await desk.talk.why(text)
    if trace.places and desk.talk.session is not None:
        ref = await desk.app.push_screen_wait(PlacesScreen(desk.talk.session.shelf, text, trace))
        if ref:
            await desk.talk.bring(ref)


async def bring(desk: CommandContext, ref: str) -> None:
    await desk.talk.bring(ref)

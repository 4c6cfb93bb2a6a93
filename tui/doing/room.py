"""Commands about what the model sees: making room, finding out, bringing back."""

from tui.doing.desk import Desk


async def compact(desk: Desk, focus: str) -> None:
    await desk.talk.compact(focus)


async def why(desk: Desk, text: str) -> None:
    from tui.screens.places import PlacesScreen  # noqa: PLC0415  # deferred: a screen is loaded when it is first shown

    trace = await desk.talk.why(text)
    if trace.places and desk.talk.session is not None:
        ref = await desk.app.push_screen_wait(PlacesScreen(desk.talk.session.shelf, text, trace))
        if ref:
            await desk.talk.bring(ref)


async def bring(desk: Desk, ref: str) -> None:
    await desk.talk.bring(ref)

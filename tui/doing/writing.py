"""Commands that help to write a message."""

from tui.doing.desk import Desk


async def find_message(desk: Desk, _: str) -> None:
    from tui.widgets.past import Past  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.app.query(Past) or not desk.prompt.has_focus:
        return
    past = Past(desk.prompt.past.entries())
    await desk.app.mount(past, before=desk.prompt)
    taken = await past.taken
    await past.remove()
    desk.prompt.focus()
    if taken:
        desk.prompt.put(taken)

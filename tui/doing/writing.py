"""Commands that help to write a message."""

from tui.doing.desk import Desk


async def run_shell(desk: Desk, command: str) -> None:
    if not command:
        return desk.talk.notice("write a command after `!`, such as `!git status`")
    if desk.talk.session is not None and desk.talk.session.mode == "plan":
        desk.talk.notice("plan mode holds for the model; what you run yourself runs")
    await desk.talk.run(command)


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

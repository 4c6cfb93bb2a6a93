"""Commands that say something to the model, or help to write it."""

from tui.actions.desk import CommandContext
from tui.terminal.copy import last_answer


async def later(desk: CommandContext, text: str) -> None:
    if text:
        desk.send(text, later=True)
    else:
        desk.talk.notice("write a message after `/later`; it is sent when the turn is over")


async def run_shell(desk: CommandContext, command: str) -> None:
    if not command:
        return desk.talk.notice("write a command after `!`, such as `!git status`")
    if desk.talk.session is not None and desk.talk.session.mode == "plan":
        desk.talk.notice("plan mode holds for the model; what you run yourself runs")
    await desk.talk.run(command)
    return None


async def remember(desk: CommandContext, text: str) -> None:
    from agent.input.memory import places as places_for  # noqa: PLC0415  # deferred: loaded when it is first needed
    from tui.session.memory import keep_note  # noqa: PLC0415  # as above
    from tui.view.memory import memory_panel  # noqa: PLC0415  # as above

    if not text or desk.settings is None:
        return desk.talk.notice("write what to remember after `#`, such as `# tests run with tox`")
    places = {str(place.path): place for place in places_for(desk.settings.config)}
    taken = await desk.show(memory_panel(tuple(places.values())))
    if taken is not None:
        return await keep_note(desk.talk, text, places[taken.value].path)
    return desk.write(f"# {text}")


async def copy_answer(desk: CommandContext, _: str) -> None:
    desk.copy(last_answer(desk.talk.view.blocks))


async def print_conversation(desk: CommandContext, _: str) -> None:
    await desk.talk.read_earlier(all=True)
    await desk.print_conversation()

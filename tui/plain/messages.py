"""Commands that say something to the model, or help to write it, in lines."""

from agent.errors import AgentError
from tui.plain.desk import LineContext, choose
from tui.text.sanitise import visible_line


async def later(desk: LineContext, text: str) -> None:
    if text:
        desk.send(text, later=True)
    else:
        desk.talk.notice("write a message after `/later`; it is sent when the turn is over")


async def find_message(desk: LineContext, _: str) -> None:
    past = desk.history.entries()
    if not past:
        return desk.say(("Nothing was written yet.",))
    index = await choose(desk, "What you wrote before, the newest first.", [visible_line(text) for text in past])
    if index is not None:
        desk.write(past[index])
    return None


async def run_shell(desk: LineContext, command: str) -> None:
    if not command:
        return desk.talk.notice("write a command after `!`, such as `!git status`")
    if desk.talk.session is not None and desk.talk.session.mode == "plan":
        desk.talk.notice("plan mode holds for the model; what you run yourself runs")
    await desk.talk.run(command)
    return None


async def remember(desk: LineContext, text: str) -> None:
    from agent.input.memory import places as places_for  # noqa: PLC0415  # deferred: loaded when it is first needed
    from tui.session.memory import keep_note  # noqa: PLC0415  # as above

    if not text or desk.settings is None:
        return desk.talk.notice("write what to remember after `#`, such as `# tests run with tox`")
    places = places_for(desk.settings.config)
    index = await choose(
        desk, "Remember it for", [f"{place.about}: {visible_line(str(place.path))}" for place in places]
    )
    return await keep_note(desk.talk, text, places[index].path) if index is not None else None


async def write_in_editor(desk: LineContext, text: str) -> None:
    from tui.plain.edit_call import in_editor  # noqa: PLC0415  # deferred: loaded when it is first needed

    try:
        written = (await in_editor(desk, text, "message.md")).strip()
    except AgentError as error:
        return desk.talk.fail(error)
    if written:
        desk.write(written, unsent=True)
        if not desk.reader().edits:
            desk.say(("An empty line sends what you wrote.",))
    return None


async def only_on_a_screen(desk: LineContext, _: str) -> None:
    desk.talk.notice("this is for the prompt of the screen; here a line goes on after `\\` at its end")

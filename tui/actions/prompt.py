"""Commands that help to write a message."""

from agent.errors import AgentError
from tui.actions.desk import CommandContext


async def run_shell(desk: CommandContext, command: str) -> None:
    if not command:
        return desk.talk.notice("write a command after `!`, such as `!git status`")
    if desk.talk.session is not None and desk.talk.session.mode == "plan":
        desk.talk.notice("plan mode holds for the model; what you run yourself runs")
    await desk.talk.run(command)


async def find_message(desk: CommandContext, _: str) -> None:
    from tui.widgets.past import Past  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.app.query(Past) or not desk.prompt.has_focus:
        return
    past = Past(desk.prompt.past.entries())
    await desk.app.mount(past, before=desk.prompt)
    past.seek(desk.prompt.take_typed_ahead())
    taken = await past.taken
    await past.remove()
    desk.prompt.focus()
    if taken:
        desk.prompt.put(taken)


async def edit_message(desk: CommandContext, _: str) -> None:
    from tui.terminal.editor_screen import edited_meanwhile  # noqa: PLC0415  # deferred: loaded when it is first needed

    before, pastes = desk.prompt.text, desk.talk.pastes
    try:
        text = await edited_meanwhile(desk.app, pastes.unfolded(before), "message.md")
    except AgentError as error:
        desk.talk.notice(str(error))
    else:
        desk.prompt.put(pastes.folded_again(text.rstrip("\n"), before))


async def remember(desk: CommandContext, text: str) -> None:
    from agent.input.memory import places as places_for  # noqa: PLC0415  # deferred: loaded when it is first needed
    from tui.screens.picker import Picker, PickerChoice  # noqa: PLC0415  # as above
    from tui.session.memory import keep_note  # noqa: PLC0415  # as above

    if not text or desk.settings is None:
        return desk.talk.notice("write what to remember after `#`, such as `# tests run with tox`")
    places = {str(place.path): place for place in places_for(desk.settings.config)}
    choices = [PickerChoice(path, place.about, after=path) for path, place in places.items()]
    chosen = await desk.app.push_screen_wait(Picker("Remember it for", choices, "no place is called so"))
    if chosen:
        return await keep_note(desk.talk, text, places[chosen].path)
    return desk.prompt.put(f"# {text}")


async def switch_vim(desk: CommandContext, _: str) -> None:
    keys = "usual" if desk.prompt.uses_vim else "vim"
    desk.prompt.use_vim(keys == "vim")
    if desk.settings is not None:
        try:
            desk.showing.for_a_moment(desk.settings.put("tui.keys", keys))
        except AgentError as error:
            desk.talk.notice(str(error))

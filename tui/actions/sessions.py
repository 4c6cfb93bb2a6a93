"""Commands that go on with another session or another model, or end this one."""

from time import time

from agent.errors import AgentError
from tui.actions.desk import CommandContext
from tui.text.sanitise import visible_line


async def resume(desk: CommandContext, id: str) -> None:
    current = desk.talk.session.id if desk.talk.session is not None else ""
    if not id:
        id = await pick_session(desk)
    if id and id != current and await desk.talk.open(resume=id):
        desk.showing.session()


async def show_sessions(desk: CommandContext, _: str = "") -> None:
    await resume(desk, "")


async def pick_session(desk: CommandContext) -> str:
    """The id of the session that the user picks from the list; empty when none is. What is to be deleted goes then."""
    from tui.screens.sessions import SessionsScreen  # noqa: PLC0415  # deferred: loaded when it is first shown

    current = desk.talk.session.id if desk.talk.session is not None else ""
    library = await desk.talk.sessions.library()
    left = await desk.app.push_screen_wait(SessionsScreen(library, current, time()))
    for id in left.delete:
        try:
            desk.talk.notice(f"deleted {id}  {visible_line((await library.delete(id)).title)}")
        except AgentError as error:
            desk.talk.fail(error)
    return left.open


async def rewind(desk: CommandContext, _: str = "") -> None:
    """Goes on before one of the user's messages, which comes back to the prompt. The session stays as it is."""
    from agent.archive.tree import rows_of  # noqa: PLC0415  # deferred: as above
    from tui.screens.rewind import RewindScreen  # noqa: PLC0415  # deferred: as above
    from tui.session.controller import go_back, tree_here  # noqa: PLC0415  # deferred: as above

    library, session = await desk.talk.sessions.library(), desk.talk.session
    tree = await tree_here(desk.talk, library)
    if tree is None or session is None:
        return
    choice = await desk.app.push_screen_wait(RewindScreen(tree, rows_of(tree, session.id), time()))
    if choice is None:
        return
    said = choice.row.said
    if choice.what == "open":
        if said.session != session.id and await desk.talk.open(resume=said.session):
            desk.showing.session()
    elif await go_back(desk.talk, library, tree, said):
        desk.showing.session()
        desk.prompt.put(said.text)


async def choose_model(desk: CommandContext, name: str) -> None:
    session = desk.talk.session
    current = session.model if session is not None else ""
    said = session is not None and session.history.messages
    if not name or (said and name != current):  # what another model costs is told before it is taken
        name = await pick_model(desk, current, name)
    if not name or name == current:
        return
    if await desk.talk.open(resume=session.id if session is not None and said else None, model=name):
        desk.showing.session()
        desk.talk.notice(f"the model is now {name}")


async def pick_model(desk: CommandContext, current: str, words: str) -> str:
    """The model that the user picks, which may be one that is not in the list; empty when none is."""
    from tui.screens.models import ModelsScreen  # noqa: PLC0415  # deferred: as above
    from tui.view.models import offers_here  # noqa: PLC0415  # deferred: loaded when it is first shown

    listed, offer_of = offers_here(desk.settings, current, desk.talk.sessions.models())
    return await desk.app.push_screen_wait(ModelsScreen(listed, offer_of, current, desk.talk.view.used, words))


async def change_mode(desk: CommandContext, name: str) -> None:
    meaning = await desk.talk.change_mode(name)
    if meaning:
        desk.showing.for_a_moment(meaning)


async def clear(desk: CommandContext, _: str) -> None:
    if await desk.talk.open(model=desk.talk.session.model if desk.talk.session is not None else desk.model):
        desk.showing.session()


async def leave(desk: CommandContext, _: str) -> None:
    await desk.leave()

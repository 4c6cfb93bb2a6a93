"""Commands that go on with another session or another model, or end this one."""

from time import time

from agent.errors import AgentError
from tui.actions.desk import CommandContext
from tui.text.sanitise import visible_line
from tui.view.panel import Taken


async def resume(desk: CommandContext, id: str) -> None:
    current = desk.talk.session.id if desk.talk.session is not None else ""
    id = id or await pick_session(desk)
    if id and id != current and await desk.talk.open(resume=id):
        desk.show_session()


async def show_sessions(desk: CommandContext, _: str) -> None:
    await resume(desk, "")


async def pick_session(desk: CommandContext) -> str:
    """The id of the session that the user picks from the list; empty when none is. What is to be deleted goes then."""
    from tui.session.session_list import SessionList  # noqa: PLC0415  # deferred: loaded when it is first shown

    current = desk.talk.session.id if desk.talk.session is not None else ""
    library = await desk.talk.sessions.library()
    listed = SessionList(library, current, time())
    taken = await desk.show(listed.panel())
    for id in listed.doomed:
        try:
            desk.talk.notice(f"deleted {id}  {visible_line((await library.delete(id)).title)}")
        except AgentError as error:
            desk.talk.fail(error)
    return taken.value if taken is not None else ""


async def rewind(desk: CommandContext, _: str) -> None:
    """Goes on before one of the user's messages, which comes back to the prompt. The session stays as it is."""
    from agent.archive.tree import rows_of  # noqa: PLC0415  # deferred: as above
    from tui.session.controller import go_back, tree_here  # noqa: PLC0415  # deferred: as above
    from tui.view.session_tree import tree_panel  # noqa: PLC0415  # deferred: as above

    library, session = await desk.talk.sessions.library(), desk.talk.session
    tree = await tree_here(desk.talk, library)
    if tree is None or session is None:
        return
    rows = rows_of(tree, session.id)
    match await desk.show(tree_panel(tree, rows, time())):
        case Taken(value, "rewind"):
            said = rows[int(value)].said
            if await go_back(desk.talk, library, tree, said):
                desk.show_session()
                desk.write(said.text)
        case Taken(value):
            other = rows[int(value)].said.session
            if other != session.id and await desk.talk.open(resume=other):
                desk.show_session()


async def choose_model(desk: CommandContext, name: str) -> None:
    session = desk.talk.session
    current = session.model if session is not None else ""
    said = session is not None and bool(session.history.messages)
    if not name or (said and name != current):  # what another model costs is told before it is taken
        name = await pick_model(desk, current, name, asks=said)
    if not name or name == current:
        return
    if await desk.talk.open(resume=session.id if session is not None and said else None, model=name):
        desk.show_session()
        desk.talk.notice(f"the model is now {name}")


async def pick_model(desk: CommandContext, current: str, words: str, *, asks: bool = False) -> str:
    """The model that the user picks, which may be one that is not in the list; empty when none is. `asks`: to go on
    with another one costs something."""
    from tui.view.models import models_panel, offers_here  # noqa: PLC0415  # deferred: loaded when it is first shown

    listed, offer_of = offers_here(desk.settings, current, desk.talk.sessions.models())
    taken = await desk.show(models_panel(listed, offer_of, current, desk.talk.view.used, words, asks=asks))
    return taken.value if taken is not None else ""


async def change_mode(desk: CommandContext, name: str) -> None:
    if meaning := await desk.talk.change_mode(name):
        desk.hint(meaning)


async def clear(desk: CommandContext, _: str) -> None:
    if await desk.talk.open(model=desk.talk.session.model if desk.talk.session is not None else desk.model):
        desk.show_session()

"""Commands that go on with another session or another model, or end this one."""

from time import time

from tui.doing.desk import Desk


async def resume(desk: Desk, id: str) -> None:
    current = desk.talk.session.id if desk.talk.session is not None else ""
    if not id:
        id = await pick_session(desk)
    if id and id != current and await desk.talk.open(resume=id):
        desk.showing.session()


async def pick_session(desk: Desk) -> str:
    """The id of the session that the user picks; empty when none is."""
    from tui.screens.sessions import session_picker  # noqa: PLC0415  # deferred: loaded when it is first shown

    current = desk.talk.session.id if desk.talk.session is not None else ""
    recent = await desk.talk.sessions.recent()
    return await desk.app.push_screen_wait(session_picker(recent, current, time()))


async def choose_model(desk: Desk, name: str) -> None:
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


async def pick_model(desk: Desk, current: str, words: str) -> str:
    """The model that the user picks, which may be one that is not in the list; empty when none is."""
    from agent.offers import Offer, offer_of, offers  # noqa: PLC0415  # deferred: loaded when it is first shown
    from tui.screens.models import ModelsScreen  # noqa: PLC0415  # deferred: as above

    used, settings = desk.talk.view.used, desk.settings
    if settings is None:
        listed = tuple(dict.fromkeys((*([current] if current else []), *desk.talk.sessions.models())))
        screen = ModelsScreen([Offer(model) for model in listed], Offer, current, used, words)
    else:
        config, environment = settings.config, settings.environment
        found = offers(config, environment, (current,) if current else ())
        screen = ModelsScreen(found, lambda model: offer_of(model, config, environment), current, used, words)
    return await desk.app.push_screen_wait(screen)


async def clear(desk: Desk, _: str) -> None:
    if await desk.talk.open(model=desk.talk.session.model if desk.talk.session is not None else desk.model):
        desk.showing.session()


async def leave(desk: Desk, _: str) -> None:
    await desk.leave()

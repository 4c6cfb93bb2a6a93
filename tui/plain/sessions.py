"""Commands that go on with another session or another model, or end this one, in lines."""

from time import time

from tools.extent import counted
from tui.plain.desk import LineContext, choose
from tui.plain.print_events import plain_lines, words_of
from tui.text.numbers import age
from tui.text.sanitise import visible_line
from tui.view.blocks import AnswerText, SessionView, UserText
from tui.view.first_run import chosen_by_key


async def resume(desk: LineContext, id: str) -> None:
    current = desk.talk.session.id if desk.talk.session is not None else ""
    id = id or await pick_session(desk)
    if id and id != current and await desk.talk.open(resume=id):
        greet(desk)


async def pick_session(desk: LineContext) -> str:
    """The id of the session that the user picks; empty when none is."""
    recent = await desk.talk.sessions.recent()
    if not recent:
        desk.say(("There is no session to go on with.",))
        return ""
    rows = [
        visible_line(
            f"{info.title or '(nothing said yet)'}, {age(time() - info.updated_at)}, "
            f"{counted(info.messages, 'message')}, {info.model}, {info.id}"
        )
        for info in recent
    ]
    index = await choose(desk, "Go on with a session.", rows)
    return recent[index].id if index is not None else ""


async def show_sessions(desk: LineContext, _: str) -> None:
    await resume(desk, "")


async def rewind(desk: LineContext, _: str) -> None:
    """Goes on before one of the user's messages, which comes back to the prompt. The session stays as it is."""
    from agent.archive.tree import rows_of  # noqa: PLC0415  # deferred: few sessions are gone back in
    from tui.session.controller import go_back, tree_here  # noqa: PLC0415  # deferred: as above
    from tui.view.session_tree import FILES, in_words  # noqa: PLC0415  # deferred: as above

    library, session = await desk.talk.sessions.library(), desk.talk.session
    tree = await tree_here(desk.talk, library)
    if tree is None or session is None:
        return
    rows = tuple(reversed(rows_of(tree, session.id)))
    told = f"Go back to before one of your messages, in a fork, the newest first. {FILES}"
    index = await choose(desk, told, [in_words(row, time()) for row in rows])
    if index is not None and await go_back(desk.talk, library, tree, rows[index].said):
        greet(desk)
        desk.write(rows[index].said.text)


async def choose_model(desk: LineContext, name: str) -> None:
    session = desk.talk.session
    current = session.model if session is not None else ""
    from tui.view.models import in_words, lines_about, offers_here  # noqa: PLC0415  # deferred: loaded when first shown

    listed, offer_of = offers_here(desk.settings, current, desk.talk.sessions.models())
    if not name:
        rows = [in_words(offer, current) for offer in listed]
        told = "Go on with a model; `/model PROVIDER/NAME` takes any other. Prices are in $ for a million tokens."
        index = await choose(desk, told, rows)
        name = listed[index].model if index is not None else ""
    if not name or name == current:
        return
    said = session is not None and session.history.messages
    if said:  # what another model costs is told before it is taken
        desk.say(plain_lines(lines_about(offer_of(name), current, desk.talk.view.used)))
        if (await desk.ask(f"y goes on with {visible_line(name)}; an empty line leaves: ")).strip().lower() != "y":
            return
    if await desk.talk.open(resume=session.id if session is not None and said else None, model=name):
        desk.talk.notice(f"the model is now {name}")


async def change_mode(desk: LineContext, name: str) -> None:
    if meaning := await desk.talk.change_mode(name):
        desk.say((f"Mode {meaning}",))


async def clear(desk: LineContext, _: str) -> None:
    if await desk.talk.open(model=desk.talk.session.model if desk.talk.session is not None else desk.model):
        greet(desk)


async def leave(desk: LineContext, _: str) -> None:
    desk.leave()


def greet(desk: LineContext) -> None:
    """Says which session is open, and how it ended when it goes on."""
    session = desk.talk.session
    if session is not None:
        where = (
            f"Ebbtide in {visible_line(str(session.root))}, model {visible_line(session.model)}, mode {session.mode}."
        )
        advice = chosen_by_key(session.model, desk.settings)
        desk.say(
            (
                where,
                *advice,
                "`/help` lists what can be typed.",
                *before_this(desk.talk.view),
                *last_said(desk.talk.view),
            )
        )
        if draft := desk.talk.take_draft():
            desk.write(draft, unsent=True)


def before_this(view: SessionView) -> tuple[str, ...]:
    """How much was said before what the model is shown in full, and how it is read."""
    return words_of(view.past[0]) if view.earlier else ()


def last_said(view: SessionView) -> tuple[str, ...]:
    """The last message and its answer, of a session that goes on."""
    said = [index for index, block in enumerate(view.blocks) if isinstance(block, UserText)]
    if not said:
        return ()
    last = view.blocks[said[-1] :]
    answers = [block for block in last if isinstance(block, AnswerText)][-1:]
    words = tuple(line for block in (last[0], *answers) for line in words_of(block))
    return (f"The session goes on after {counted(len(said), 'message')} of yours. The last one:", *words)

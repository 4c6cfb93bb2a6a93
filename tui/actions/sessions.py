"""Commands that switch the session or model, or end the session."""

from time import time
from typing import TYPE_CHECKING

from ebbtide.agent.archive.tree import MessagePreview, Tree, changed_since, rows_of
from ebbtide.agent.checkpoints.undo_points import UndoPoint, turns_since
from ebbtide.agent.errors import AgentError
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.actions.undo import carry_out, confirm_restore
from ebbtide.tui.session.session_list import SessionList
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.blocks import UserText
from ebbtide.tui.view.models import models_panel, offers_here
from ebbtide.tui.view.session_tree import rewound, tree_panel
from ebbtide.tui.view.sessions import deleted_message

if TYPE_CHECKING:
    from ebbtide.agent.archive.library import Library
    from ebbtide.tui.session.controller import SessionController


async def resume(context: CommandContext, id: str) -> None:
    current = context.controller.session.id if context.controller.session is not None else ""
    id = id or await pick_session(context)
    if id and id != current and await context.controller.open(resume=id):
        context.show_session()


async def show_sessions(context: CommandContext, _: str) -> None:
    await resume(context, "")


async def pick_session(context: CommandContext) -> str:
    """Let the user choose a session; return its id, or empty. Sessions marked for deletion are deleted then."""
    current = context.controller.session.id if context.controller.session is not None else ""
    library = await context.controller.sessions.library()
    listed = SessionList(library, current, time())
    taken = await context.show(listed.panel())
    for id in listed.ids_to_delete:
        try:
            context.controller.notice(deleted_message(await library.delete(id)))
        except AgentError as error:
            context.controller.fail(error)
    return taken.value if taken is not None else ""


async def rewind(context: CommandContext, _: str) -> None:
    """Rewind to before one of the user's messages, which returns to the prompt; restore the files of that time; or
    both. The original session is not changed."""
    library, session = await context.controller.sessions.library(), context.controller.session
    tree = await _tree_here(context.controller, library)
    if tree is None or session is None:
        return
    rows = rows_of(tree, session.id)
    taken = await context.show(tree_panel(tree, rows, time()))
    if taken is None:
        return
    said = rows[int(taken.value)].message
    if taken.action == "open":
        if said.session != session.id and await context.controller.open(resume=said.session):
            context.show_session()
        return
    files = None
    if taken.action in ("files", "both"):
        points = await _changed_since(context, tree, said)
        files = await confirm_restore(context, points, "rewind") if points else None
        if files is None and (points or taken.action == "files"):
            return
    if taken.action != "files":
        if not await _go_back(context.controller, library, tree, said, with_files=files is not None):
            return
        context.show_session()
        context.write(said.text)
    if files is not None:
        await carry_out(context, files, "rewind")


async def _tree_here(controller: "SessionController", library: "Library") -> Tree | None:
    """The user's messages of the session and its forks; None if there are none, which is shown."""
    tree = await library.tree(controller.session.id) if controller.session is not None else None
    if tree is None or not any(branch.own_messages for branch in tree.branches):
        controller.notice("there is nothing to go back to: nothing was said yet")
        return None
    return tree


async def _go_back(
    controller: "SessionController", library: "Library", tree: Tree, said: MessagePreview, *, with_files: bool = False
) -> bool:
    """Switch to a fork from before the message, if it can be opened. The original session is not changed.
    `with_files`: also restore the files."""
    fork = await library.fork(said.session, said.position, draft=True)
    if is_open := await controller.open(resume=fork.id):
        controller.notice(rewound(() if with_files else changed_since(tree, said)))
    return is_open


async def _changed_since(context: CommandContext, tree: Tree, said: MessagePreview) -> tuple[UndoPoint, ...]:
    """The turns since then that changed files. If there are none, that is shown."""
    session = context.controller.session
    if session is None:
        return ()
    await session.checkpoints.run(lambda project: project.finish_interrupted(session.id))
    points = await session.checkpoints.run(lambda project: project.points())
    sessions = [branch.session for branch in tree.branches]
    since = turns_since(points, sessions, said.at, said.session, said.position)
    if not since:
        context.controller.notice("no turn since then has changed a file, as far as that is kept")
    return since


async def choose_model(context: CommandContext, name: str) -> None:
    session = context.controller.session
    current = session.model if session is not None else ""
    said = session is not None and bool(session.history.messages)
    if not name or (said and name != current):  # what another model costs is told before it is taken
        name = await pick_model(context, current, name, asks=said)
    if not name or name == current:
        return
    if await context.controller.open(resume=session.id if session is not None and said else None, model=name):
        context.show_session()
        context.controller.notice(f"the model is now {name}")


async def pick_model(context: CommandContext, current: str, words: str, *, asks: bool = False) -> str:
    """Let the user choose a model, which need not be in the list; empty if none was chosen. `asks`: switching costs
    money."""
    listed, offer_of = offers_here(context.settings, current, context.controller.sessions.models())
    taken = await context.show(models_panel(listed, offer_of, current, context.controller.view.used, words, asks=asks))
    return taken.value if taken is not None else ""


def has_messages(context: CommandContext) -> bool:
    """Whether the session has messages, and so is stored."""
    return any(isinstance(block, UserText) for block in context.controller.view.blocks)


async def rename(context: CommandContext, title: str) -> None:
    session = context.controller.session
    if session is None:
        return
    if not title or not has_messages(context):
        context.controller.notice(
            "write a title after `/rename`"
            if not title
            else "say something first: a session without a word has no title"
        )
        return
    library = await context.controller.sessions.library()
    context.hint(f"the session is now called {sanitised_line((await library.rename(session.id, title)).title)}")


async def fork(context: CommandContext, _: str) -> None:
    """Switch to a copy of the session."""
    session = context.controller.session
    if session is None or not has_messages(context):
        return context.controller.notice("there is nothing to go on from in a copy: nothing was said yet")
    copy = await (await context.controller.sessions.library()).fork(session.id)
    if await context.controller.open(resume=copy.id, model=session.model):
        context.show_session()
        context.controller.notice(f"this is a copy of the session; `/resume {session.id}` goes back to that")
    return None


async def change_mode(context: CommandContext, name: str) -> None:
    if meaning := await context.controller.change_mode(name):
        context.hint(meaning)


async def clear(context: CommandContext, _: str) -> None:
    if await context.controller.open(
        model=context.controller.session.model if context.controller.session is not None else context.model
    ):
        context.show_session()

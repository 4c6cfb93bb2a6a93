"""Commands that show a screen to look at or to pick from."""

from time import time

from agent.errors import AgentError
from tui.actions.desk import CommandContext

# Each screen is loaded when it is first shown: the prompt is there sooner without them.


async def show_help(desk: CommandContext, _: str = "") -> None:
    from tui.screens.help import HelpScreen  # noqa: PLC0415  # deferred: see above

    if isinstance(desk.app.screen, HelpScreen):
        return
    command = await desk.app.push_screen_wait(HelpScreen())
    if command:
        desk.prompt.put(f"{command} ")


async def show_archive(desk: CommandContext, _: str = "") -> None:
    from tui.screens.archive import archive_screen  # noqa: PLC0415  # deferred: see above

    if desk.talk.session is not None:
        ref = await desk.app.push_screen_wait(await archive_screen(desk.talk.session, time()))
        if ref:
            desk.prompt.insert(f"{ref} ")


async def show_context(desk: CommandContext, written: str = "") -> None:
    """Shows what the context holds; with an act and what it is meant for, does that."""
    if written.strip():
        await steer(desk, written)
        return
    from tui.screens.context import ContextScreen  # noqa: PLC0415  # deferred: see above

    if desk.talk.session is not None:
        overview = await desk.talk.sessions.overview(desk.talk.session.id)
        if not isinstance(desk.app.screen, ContextScreen):
            desk.app.push_screen(ContextScreen(desk.talk, overview))


async def steer(desk: CommandContext, written: str) -> None:
    from tui.session.view_edits import carry_out_written  # noqa: PLC0415  # deferred: it is not needed before the first paint

    try:
        await carry_out_written(desk.talk, written)
    except AgentError as error:
        desk.talk.notice(str(error))


async def show_servers(desk: CommandContext, _: str = "") -> None:
    from tui.screens.servers import ServersScreen  # noqa: PLC0415  # deferred: see above

    board = desk.talk.session.servers if desk.talk.session is not None else None
    if board is None:
        desk.talk.notice("no server is declared; `ebb mcp add` declares one")
    else:
        desk.app.push_screen(ServersScreen(board))


async def show_todos(desk: CommandContext, _: str = "") -> None:
    from agent.context.control_calls import last_todos  # noqa: PLC0415  # deferred: see above
    from tui.screens.todos import TodosScreen  # noqa: PLC0415  # deferred: see above
    from tui.view.todos import todos_in  # noqa: PLC0415  # deferred: see above

    session = desk.talk.session
    items = todos_in(desk.talk.view.blocks)
    if items is None and session is not None:
        items = last_todos(session.history.messages)
    if items:
        desk.app.push_screen(TodosScreen(items))
    else:
        desk.talk.notice("the model keeps no list in this session: it makes one where a task has several steps")

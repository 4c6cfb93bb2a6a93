"""Commands that print what a screen shows, and take numbers and words where it takes keys."""

from time import time

from agent.errors import AgentError
from tools.extent import counted
from tui.commands import COMMANDS
from tui.plain.desk import LineContext, choose
from tui.plain.print_events import plain_lines
from tui.text.sanitise import visible_line

PAGE = 40
"""Lines that are printed at once."""

HELP = (
    "Type a message and press Enter. A line that ends with \\ goes on with the next.",
    "What you type while the session works goes in at its next step; `/later TEXT` waits for the end of the turn.",
    "Ctrl-C interrupts the session; twice in a row it quits. Ctrl-D on an empty line quits.",
    "@ and the name of a file shows the model that file, ! runs a command, # remembers something.",
)
EDITING = (
    "Alt-Enter begins a new line. Up, Down, Ctrl-R go through what you typed before; Tab completes commands and files."
)
"""Where keys do more than the terminal itself lets them."""
PRINTING = "Keys do here what the terminal lets them do; `/history` brings back what you typed before."


async def show_help(desk: LineContext, _: str) -> None:
    commands = (f"{command.usage}: {command.help}" for command in COMMANDS)
    desk.say((*HELP, EDITING if desk.reader().edits else PRINTING, "Commands:", *commands))


async def show_context(desk: LineContext, written: str) -> None:
    """Prints what the context holds; with an act and what it is meant for, does that once its price was agreed to."""
    if written.strip():
        await steer(desk, written)
        return
    from tui.view.context import overview_lines  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.talk.session is not None:
        desk.say(plain_lines(overview_lines(await desk.talk.sessions.overview(desk.talk.session.id), 80)))


async def steer(desk: LineContext, written: str) -> None:
    from tui.session.view_edits import carry_out_written, propose_written  # noqa: PLC0415  # deferred: as above

    try:
        found = await propose_written(desk.talk, written)
        if not found.is_possible:
            desk.say((found.text,))
        elif (await desk.ask(f"{found.text}. Do it? y or n: ")).strip().lower() in ("y", "yes"):
            await carry_out_written(desk.talk, written)
    except AgentError as error:
        desk.say((visible_line(str(error)),))


async def show_archive(desk: LineContext, _: str) -> None:
    from tui.view.archive import rows_of  # noqa: PLC0415  # deferred: loaded when it is first shown

    if desk.talk.session is None:
        return
    shelf = desk.talk.session.shelf
    rows = rows_of(await shelf.entries(desk.talk.session.history), time())
    if not rows:
        return desk.say(("Nothing was kept yet.",))
    lines = [f"{row.ref}, {row.title}, {row.lines}, {row.size}, {row.age}, {row.state}" for row in rows]
    index = await choose(desk, f"{counted(len(rows), 'thing')} kept, the newest first.", lines)
    if index is not None:
        await show_pages(desk, rows[index].ref)
        desk.write(f"{rows[index].ref} ")
    return None


async def show_servers(desk: LineContext, words: str) -> None:
    from tui.view.servers import lines_about, log_lines, server_line, summary  # noqa: PLC0415  # deferred: see above

    board = desk.talk.session.servers if desk.talk.session is not None else None
    if board is None:
        return desk.talk.notice("no server is declared; `ebb mcp add` declares one")
    servers = tuple(board.servers())
    index = await choose(desk, summary(servers), plain_lines([server_line(server, 0) for server in servers]))
    if index is None:
        return None
    server = servers[index]
    desk.say(plain_lines(lines_about(server)))
    match (await desk.ask("on, off, restart, login or log; an empty line leaves: ")).strip().lower():
        case "on" | "off" as wanted:
            if (wanted == "on") != server.is_on:
                await board.switch(server.name)
        case "restart":
            await board.restart(server.name)
        case "login":
            await board.login(server.name, lambda url: desk.say((f"Open this address to log in: {visible_line(url)}",)))
        case "log":
            return desk.say(plain_lines(log_lines(server, board.log(server.name, 200))))
        case _:
            return None
    now = next((each for each in board.servers() if each.name == server.name), server)
    return desk.say(plain_lines([server_line(now, 0)]))


async def show_pages(desk: LineContext, ref: str, first: int = 1) -> None:
    """Prints what a reference stands for, a page at a time."""
    while desk.talk.session is not None:
        try:
            page = await desk.talk.session.shelf.page(ref, first, PAGE)
        except AgentError as error:
            return desk.talk.fail(error)
        last = page.first + len(page.lines) - 1
        desk.say((f"{ref}, lines {page.first} to {last} of {page.total}:", *map(visible_line, page.lines)))
        if last >= page.total or not page.lines:
            return None
        answer = (await desk.ask("Enter for more, a line number, or q: ")).strip().lower()
        if answer and not answer.isdecimal():
            return None
        first = int(answer) if answer else last + 1
    return None


async def show_todos(desk: LineContext, _: str) -> None:
    from agent.context.control_calls import last_todos  # noqa: PLC0415  # deferred: loaded when it is first shown
    from tui.view.todos import todos_in  # noqa: PLC0415  # deferred: as above

    session = desk.talk.session
    items = todos_in(desk.talk.view.blocks)
    if items is None and session is not None:
        items = last_todos(session.history.messages)
    if items:
        desk.say([f"{visible_line(item.status)}: {visible_line(item.text)}" for item in items])
    else:
        desk.talk.notice("the model keeps no list in this session: it makes one where a task has several steps")

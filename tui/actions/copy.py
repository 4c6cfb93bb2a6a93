"""Commands that take something out of the terminal: into the clipboard, into its scrollback."""

from textual.app import SuspendNotSupported

from tui.actions.desk import CommandContext
from tui.terminal.attention import given_away
from tui.terminal.copy import last_answer


async def copy_answer(desk: CommandContext, _: str = "") -> None:
    desk.app.copy_to_clipboard(last_answer(desk.talk.view.blocks))


async def print_conversation(desk: CommandContext, _: str = "") -> None:
    from tui.terminal.scrollback import print_all  # noqa: PLC0415  # deferred: few take it out

    app = desk.app
    await desk.talk.read_earlier(all=True)
    try:
        with given_away(app):
            await print_all(desk.talk.view.blocks, app.size.width, dark=app.current_theme.dark, colorless=app.no_color)
    except SuspendNotSupported:
        desk.talk.notice("there is no scrollback here to print into; open it in a terminal")

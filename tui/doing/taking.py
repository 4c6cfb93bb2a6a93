"""Commands that take something out of the terminal: into the clipboard, into its scrollback."""

from textual.app import SuspendNotSupported

from tui.copying import last_answer
from tui.doing.desk import Desk
from tui.outside import given_away


async def copy_answer(desk: Desk, _: str = "") -> None:
    desk.app.copy_to_clipboard(last_answer(desk.talk.view.blocks))


async def print_conversation(desk: Desk, _: str = "") -> None:
    from tui.scrollback import print_all  # noqa: PLC0415  # deferred: few take it out

    app = desk.app
    await desk.talk.read_earlier(all=True)
    try:
        with given_away(app):
            await print_all(desk.talk.view.blocks, app.size.width, dark=app.current_theme.dark, colorless=app.no_color)
    except SuspendNotSupported:
        desk.talk.notice("there is no scrollback here to print into; open it in a terminal")

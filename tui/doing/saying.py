"""Commands that say something to the model."""

from tui.doing.desk import Desk


async def later(desk: Desk, text: str) -> None:
    if text:
        desk.send(text, later=True)
    else:
        desk.talk.notice("write a message after `/later`; it is sent when the turn is over")

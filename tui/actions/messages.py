"""Commands that say something to the model."""

from tui.actions.desk import CommandContext


async def later(desk: CommandContext, text: str) -> None:
    if text:
        desk.send(text, later=True)
    else:
        desk.talk.notice("write a message after `/later`; it is sent when the turn is over")

"""Commands that take something out of the session, in lines: what is to be copied is printed as it was written."""

from tui.plain.desk import LineContext
from tui.plain.print_events import lines_of_text, words_of
from tui.terminal.copy import last_answer


async def print_answer(desk: LineContext, _: str) -> None:
    """A clipboard is reached with what steers a terminal, which lines do without."""
    desk.say(lines_of_text(last_answer(desk.talk.view.blocks)) or ("Nothing to copy.",))


async def print_conversation(desk: LineContext, _: str) -> None:
    await desk.talk.read_earlier(all=True)
    desk.say([line for block in desk.talk.view.blocks for line in words_of(block)] or ("Nothing was said yet.",))

"""Commands that take something out of the session, in lines: what is to be copied is printed as it was written."""

from tui.copying import last_answer
from tui.plain.desk import PlainDesk
from tui.plain.printing import lines_of_text, words_of


async def print_answer(desk: PlainDesk, _: str) -> None:
    """A clipboard is reached with what steers a terminal, which lines do without."""
    desk.say(lines_of_text(last_answer(desk.talk.view.blocks)) or ("Nothing to copy.",))


async def print_conversation(desk: PlainDesk, _: str) -> None:
    await desk.talk.read_earlier(all=True)
    desk.say([line for block in desk.talk.view.blocks for line in words_of(block)] or ("Nothing was said yet.",))

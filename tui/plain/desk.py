"""What commands act on where there is no screen. A desk knows how to say and how to ask, not what."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.config.settings import Settings
from tui.plain.reader import PromptReader
from tui.prompt.history import History
from tui.session.controller import SessionController


class SendLine(Protocol):
    """Says a message at once, or with the next step of what runs; `later` only when that is over."""

    def __call__(self, text: str, *, later: bool = False) -> None: ...


class PutText(Protocol):
    """Lets the user go on with a text in the prompt; where that cannot be, `unsent` ones wait to be sent."""

    def __call__(self, text: str, unsent: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class LineContext:
    talk: SessionController
    history: History
    say: Callable[[Sequence[str]], None]
    """Prints lines."""
    ask: Callable[[str], Awaitable[str]]
    """What the user types next; empty when the user does not want to answer."""
    write: PutText
    model: str | None
    """For new sessions, where no other was chosen."""
    send: SendLine
    settings: Settings | None
    """None where nobody can change them."""
    leave: Callable[[], None]
    reader: Callable[[], PromptReader]
    """Who reads lines now."""


async def choose(desk: LineContext, heading: str, rows: Sequence[str], most: int = 20) -> int | None:
    """The index of the row that the user chooses by number; None when none is. Words show the rows that hold them."""
    shown = list(range(len(rows)))
    while True:
        desk.say(list_of(heading, [(index, rows[index]) for index in shown], most))
        answer = (await desk.ask("Number, or words to find; an empty line leaves: ")).strip()
        if not answer:
            return None
        if answer.isdecimal() and 0 < int(answer) <= len(rows):
            return int(answer) - 1
        wanted = answer.lower().split()
        found = [index for index, row in enumerate(rows) if all(word in row.lower() for word in wanted)]
        if not found:
            desk.say((f"Nothing in the list holds {answer!r}.",))
        shown = found or shown


def list_of(heading: str, rows: Sequence[tuple[int, str]], most: int) -> tuple[str, ...]:
    """A numbered list; of a long one the beginning."""
    left = len(rows) - most
    more = (f"{left} more: type words to find them.",) if left > 0 else ()
    return (heading, *(f"{index + 1}: {row}" for index, row in rows[:most]), *more)

"""How lines are said, asked for and sent."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbtide.agent.config.settings import Settings
from ebbtide.tui.commands import Invocation
from ebbtide.tui.plain.reader import PromptReader, read_hidden
from ebbtide.tui.prompt.history import History
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.greeter import Greeter


class SendLine(Protocol):
    def __call__(self, text: str, *, later: bool = False) -> None: ...


class PutText(Protocol):
    """Lets the user go on with a text in the prompt; where that cannot be, `unsent` ones wait to be sent."""

    def __call__(self, text: str, unsent: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class Lines:
    """What a session in lines is made of."""

    controller: SessionController
    history: History
    print_lines: Callable[[Sequence[str]], None]
    """Prints lines."""
    ask: Callable[[str], Awaitable[str]]
    """What the user types next; empty when the user does not want to answer."""
    write: PutText
    model: str | None
    send: SendLine
    invoke: Callable[[Invocation], None]
    settings: Settings | None
    close: Callable[[], None]
    greeter: Greeter
    reader: Callable[[], PromptReader]
    """Who reads lines now."""

    async def ask_hidden(self, question: str) -> str:
        """As `ask`, for what is not shown as it is typed; empty, too, where that cannot be."""
        return await self.reader().lend_terminal(lambda: read_hidden(question))

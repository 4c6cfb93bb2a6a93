"""Printing, asking and sending in line mode."""

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
    """Puts a text into the prompt; if that is impossible, `unsent` messages stay queued."""

    def __call__(self, text: str, unsent: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class Lines:
    """The parts of a session in line mode."""

    controller: SessionController
    history: History
    print_lines: Callable[[Sequence[str]], None]
    """Prints lines."""
    ask: Callable[[str], Awaitable[str]]
    """Returns the user's next line; empty to cancel."""
    write: PutText
    model: str | None
    send: SendLine
    invoke: Callable[[Invocation], None]
    settings: Settings | None
    close: Callable[[], None]
    greeter: Greeter
    reader: Callable[[], PromptReader]
    """Returns the current reader."""

    async def ask_hidden(self, question: str) -> str:
        """Ask with hidden input; empty if cancelled or impossible."""
        return await self.reader().lend_terminal(lambda: read_hidden(question))

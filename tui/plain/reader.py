"""The reader interface of line mode, for any kind of terminal."""

import getpass
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ebbtide.tui.prompt.key_arrivals import Arrival

PROMPT = "> "

CompletionItem: TypeAlias = tuple[str, str]
"""A completion and its display text."""


@dataclass(frozen=True, slots=True)
class LineKeys:
    """Callbacks for control keys."""

    interrupted: Callable[[], None] = lambda: None
    """Ctrl-C on an empty line."""
    may_end: Callable[[], bool] = lambda: True
    """Ctrl-D on an empty line; returns whether to stop reading."""
    cleared: Callable[[str], None] = lambda text: None
    """Receives the text that Ctrl-C cleared."""


class PromptReader(Protocol):
    """Reads lines from the user and prints lines in between, without redrawing."""

    async def read(self) -> str:
        """Return the user's next line. Raises `EOFError` at the end of input."""

    @property
    def arrival(self) -> Arrival:
        """The arrival of the last line; alone if the read brought no other line and no paste."""

    def show(self, lines: Sequence[str]) -> None:
        """Print lines above the line being typed."""

    async def wait_until_printed(self) -> None:
        """Return when all lines are printed."""

    def ask(self, prompt: str) -> None:
        """Set the prompt: `PROMPT` for messages, empty while the session works, or a question. Text typed for
        another prompt is kept until that is shown again."""

    def prefill(self, text: str) -> bool:
        """Put a text on the line as if typed; return False if impossible."""

    def prefill_answer(self, prompt: str, text: str) -> bool:
        """Start the answer to the next question with a text; return False if impossible."""

    async def lend_terminal(self, work: Callable[[], str]) -> str:
        """Run work that uses the terminal, and return its result."""

    @property
    def has_line_editing(self) -> bool:
        """Whether line editing, completion and history are available."""

    @property
    def draft(self) -> str:
        """The message being typed, as far as known."""

    def close(self) -> None:
        """Make `read` raise `EOFError`."""


def read_hidden(question: str) -> str:
    """Read a line from the terminal without echo; empty if impossible."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # it would be shown
        try:
            return getpass.getpass(question)
        except (getpass.GetPassWarning, EOFError):
            return ""


def join_continued(lines: Sequence[str]) -> str:
    """Join lines that end with a backslash."""
    return "\n".join([*(line[:-1] for line in lines[:-1]), *lines[-1:]])


def is_continued(line: str) -> bool:
    """Whether the next line continues the message: it ends with an unpaired backslash."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1

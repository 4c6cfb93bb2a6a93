"""The interface of line mode's readers, for any kind of terminal."""

import getpass
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ebbtide.tui.prompt.key_arrivals import KeyArrival

PROMPT = "> "

CompletionItem: TypeAlias = tuple[str, str]
"""A completion, and the text that is displayed for it."""


@dataclass(frozen=True, slots=True)
class KeyCallbacks:
    """Callbacks for control keys."""

    on_interrupt: Callable[[], None] = lambda: None
    """Called on Ctrl-C on an empty line."""
    on_end_key: Callable[[], bool] = lambda: True
    """Called on Ctrl-D on an empty line. Returns whether to stop reading."""
    on_clear: Callable[[str], None] = lambda text: None
    """Called with the text that Ctrl-C has cleared."""


class PromptReader(Protocol):
    """Reads lines from the user and prints lines, without redrawing the screen."""

    async def read(self) -> str:
        """Read the user's next line. Raises `EOFError` at the end of input."""

    @property
    def arrival(self) -> KeyArrival:
        """When and how the last line arrived. `is_alone` is set if nothing else was read with the line and it was not
        part of a paste."""

    def print_lines(self, lines: Sequence[str]) -> None:
        """Print lines above the one being typed."""

    async def wait_until_printed(self) -> None:
        """Wait until all lines are printed."""

    def set_prompt(self, prompt: str) -> None:
        """Set the prompt: `PROMPT` for messages, empty while the session works, or a question. Text typed at one prompt
        is kept until that prompt is shown again."""

    def prefill(self, text: str, prompt: str = PROMPT) -> bool:
        """Put text into a prompt's line as if it had been typed. Returns False if that is impossible."""

    async def run_with_terminal(self, work: Callable[[], str]) -> str:
        """Run work that uses the terminal itself, and return its result."""

    @property
    def has_line_editing(self) -> bool:
        """Whether line editing, completion and history are available."""

    @property
    def draft(self) -> str:
        """The message that the user is typing; empty if unknown."""

    def close(self) -> None:
        """Make `read` raise `EOFError`."""


def read_hidden(question: str) -> str:
    """Read a line from the terminal without echo; empty if that is impossible."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # without this, the input would be visible
        try:
            return getpass.getpass(question)
        except (getpass.GetPassWarning, EOFError):
            return ""


def join_continued_lines(lines: Sequence[str]) -> str:
    """Join the lines of a message. All but the last end with a backslash."""
    return "\n".join([*(line[:-1] for line in lines[:-1]), *lines[-1:]])


def is_continued(line: str) -> bool:
    """Whether the line ends with an unescaped backslash, so that the message continues on the next line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1

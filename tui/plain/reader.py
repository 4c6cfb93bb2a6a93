"""How lines come in and go out, whatever kind of terminal there is. A reader knows no session."""

import getpass
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ebbtide.tui.prompt.key_arrivals import Arrival

PROMPT = "> "

CompletionItem: TypeAlias = tuple[str, str]
"""What a text may become, and how that is shown."""


@dataclass(frozen=True, slots=True)
class LineKeys:
    """What keys do that write nothing."""

    interrupted: Callable[[], None] = lambda: None
    """Ctrl-C where nothing is written."""
    may_end: Callable[[], bool] = lambda: True
    """Ctrl-D where nothing is written: whether nothing more is read."""
    cleared: Callable[[str], None] = lambda text: None
    """Takes what was written when Ctrl-C took it away."""


class PromptReader(Protocol):
    """One line after the other from the user; lines for the user in between. No line is drawn twice."""

    async def read(self) -> str:
        """What the user has typed next. Raises `EOFError` when there is nothing more to come."""

    @property
    def arrival(self) -> Arrival:
        """How the line came that was read last; alone, if that read brought no other line and nothing pasted."""

    def show(self, lines: Sequence[str]) -> None:
        """Prints lines, above what is being typed."""

    async def wait_until_printed(self) -> None:
        """Returns once all lines are printed."""

    def ask(self, prompt: str) -> None:
        """What is typed from now on is for this: `PROMPT` for messages, empty for messages while the session works, or
        a question. What was being typed for another one is kept for when that is back."""

    def prefill(self, text: str) -> bool:
        """Lets the user go on with a text, as if it had been typed; False where that cannot be."""

    def prefill_answer(self, prompt: str, text: str) -> bool:
        """Lets the answer to a question that is asked next begin with a text; False where that cannot be."""

    async def lend_terminal(self, work: Callable[[], str]) -> str:
        """What the work gives, which has the terminal for itself meanwhile."""

    @property
    def has_line_editing(self) -> bool:
        """Whether keys move in what is typed, complete it and bring back what was typed before."""

    @property
    def draft(self) -> str:
        """The message that is being typed, as far as that is known."""

    def close(self) -> None:
        """Lets `read` raise `EOFError`."""


def read_hidden(question: str) -> str:
    """A line from the terminal that is not shown as it is typed; empty where there is none, or that cannot be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # it would be shown
        try:
            return getpass.getpass(question)
        except (getpass.GetPassWarning, EOFError):
            return ""


def join_continued(lines: Sequence[str]) -> str:
    """Lines that end with a backslash, but the last, as one message."""
    return "\n".join([*(line[:-1] for line in lines[:-1]), *lines[-1:]])


def is_continued(line: str) -> bool:
    """Whether the next line belongs to the same message: it ends with a backslash that is not one of a pair."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1

"""Asks the terminal for its size. The system may have a wrong one, set by `stty` or by a program that does not pass
sizes on."""

from textual.geometry import Size
from textual.message import Message

from ebbtide.tools.lazy import regex

QUESTION = "\x1b7\x1b[999;999H\x1b[6n\x1b8"
"""Moves to the last corner and asks for the cursor position, which all terminals support. XTWINOPS 18 is unreliable:
tmux before 3.4 swapped columns and lines."""
_NUMBERS = regex(r"\x1b\[(\d{1,4});(\d{1,4})R")
_MIN_CELLS = 2
"""Minimum columns and lines of a plausible reply."""


class SizeReported(Message):
    """The terminal reported its size."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size


class SizeMismatch(Message):
    """The terminal's size differs from the system's."""

    def __init__(self, size: Size, said: Size) -> None:
        """`said`: the size according to the system."""
        super().__init__()
        self.size, self.said = size, said

    @property
    def message_text(self) -> str:
        size, said = self.size, self.said
        return (
            f"the terminal says that it is {size.width}×{size.height}, the system says {said.width}×{said.height}: "
            f"the terminal is believed; `stty cols {size.width} rows {size.height}` tells the system"
        )


def size_of(answer: str) -> Size | None:
    """The size in a reply, or None."""
    found = _NUMBERS.fullmatch(answer)
    if found is None:
        return None
    lines, columns = int(found[1]), int(found[2])
    return Size(columns, lines) if min(columns, lines) >= _MIN_CELLS else None


class BelievedSize:
    """The size reported by the terminal, valid until the system reports a change."""

    def __init__(self) -> None:
        self._at_question: Size | None = None
        """The system's size at the time of the query."""
        self._told: Size | None = None

    def record_query(self, system: Size) -> None:
        self._at_question = system

    def record_reply(self, told: Size, system: Size) -> bool:
        """Record a reply and return whether the size changed. A reply possibly overtaken by a resize is ignored."""
        if self._at_question != system:
            return False
        before, self._told = self.of(system), told if told != system else None
        return self.of(system) != before

    def reset(self) -> None:
        """The system reported a change."""
        self._at_question = self._told = None

    def of(self, system: Size) -> Size:
        return self._told or system

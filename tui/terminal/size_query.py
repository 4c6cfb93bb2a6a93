"""What a terminal answers when it is asked how large it is. The system may have been told something else: by `stty`, by
a program in between that does not pass sizes on."""

from textual.geometry import Size
from textual.message import Message

from ebbtide.tools.lazy import regex

QUESTION = "\x1b7\x1b[999;999H\x1b[6n\x1b8"
"""Asks where the cursor is, in the last corner. All terminals answer that. Asked for the size itself (XTWINOPS 18),
some give columns for lines: tmux did before 3.4."""
_NUMBERS = regex(r"\x1b\[(\d{1,4});(\d{1,4})R")
_MIN_CELLS = 2
"""Columns and lines below which an answer is none."""


class SizeReported(Message):
    """The terminal has said how large it is."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size


class SizeMismatch(Message):
    """The terminal is not as large as the system says."""

    def __init__(self, size: Size, said: Size) -> None:
        """`said`: by the system."""
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
    """The size that an answer tells; None where it tells none."""
    found = _NUMBERS.fullmatch(answer)
    if found is None:
        return None
    lines, columns = int(found[1]), int(found[2])
    return Size(columns, lines) if min(columns, lines) >= _MIN_CELLS else None


class BelievedSize:
    """The size that the terminal has told, until the system has news."""

    def __init__(self) -> None:
        self._at_question: Size | None = None
        """What the system said when the terminal was asked."""
        self._told: Size | None = None

    def record_query(self, system: Size) -> None:
        self._at_question = system

    def record_reply(self, told: Size, system: Size) -> bool:
        """Tells whether it is another size than before. An answer that a change may have overtaken is none."""
        if self._at_question != system:
            return False
        before, self._told = self.of(system), told if told != system else None
        return self.of(system) != before

    def reset(self) -> None:
        """The system has news."""
        self._at_question = self._told = None

    def of(self, system: Size) -> Size:
        return self._told or system

"""Asks the terminal for its size. The system's value may be wrong if it was set with `stty`, or if a program between
the terminal and this one does not pass sizes on."""

from textual.geometry import Size
from textual.message import Message

from ebbtide.tools.lazy import regex

SIZE_QUERY = "\x1b7\x1b[999;999H\x1b[6n\x1b8"
"""Moves the cursor to the bottom right corner and asks for its position, which all terminals support. XTWINOPS 18 is
unreliable: tmux before 3.4 swapped columns and lines."""
_CURSOR_POSITION = regex(r"\x1b\[(\d{1,4});(\d{1,4})R")
_MIN_CELLS = 2
"""Minimum number of columns and lines of a plausible reply."""


class SizeReported(Message):
    """The terminal reported its size."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size


class SizeMismatch(Message):
    """The terminal's size differs from the system's."""

    def __init__(self, size: Size, system_size: Size) -> None:
        """`system_size`: the size according to the system."""
        super().__init__()
        self.size, self.system = size, system_size

    @property
    def message_text(self) -> str:
        size, system = self.size, self.system
        return (
            f"the terminal reports {size.width}×{size.height}, the system {system.width}×{system.height}: "
            f"using the terminal's size; `stty cols {size.width} rows {size.height}` corrects the system's"
        )


def size_in_reply(answer: str) -> Size | None:
    """Return the size that a reply reports; None if it reports none."""
    match = _CURSOR_POSITION.fullmatch(answer)
    if match is None:
        return None
    lines, columns = int(match[1]), int(match[2])
    return Size(columns, lines) if min(columns, lines) >= _MIN_CELLS else None


class TrackedSize:
    """The window's size: the size that the terminal reported, or the system's once that has changed."""

    def __init__(self) -> None:
        self._system_at_query: Size | None = None
        """The system's size at the time of the query."""
        self._reported: Size | None = None

    def record_query(self, system_size: Size) -> None:
        self._system_at_query = system_size

    def record_reply(self, reported: Size, system_size: Size) -> bool:
        """Record a reply and return whether the size changed. A reply is ignored if the system's size has changed since
        the query."""
        if self._system_at_query != system_size:
            return False
        previous_size, self._reported = self.current_size(system_size), reported if reported != system_size else None
        return self.current_size(system_size) != previous_size

    def reset(self) -> None:
        """Discard the reported size after the system has reported a change."""
        self._system_at_query = self._reported = None

    def current_size(self, system_size: Size) -> Size:
        return self._reported or system_size

"""Asks the terminal for its size. The system's value may be wrong if it was set with `stty`, or if a program between
the terminal and this one does not pass on size changes."""

from textual.geometry import Size
from textual.message import Message

from ebbtide.tools.lazy import regex

SIZE_QUERY = "\x1b7\x1b[999;999H\x1b[6n\x1b8"
"""Moves the cursor to the bottom right corner and asks where it is, which works on all terminals. XTWINOPS 18 is
unreliable: tmux before 3.4 swapped columns and lines."""
_CURSOR_POSITION = regex(r"\x1b\[(\d{1,4});(\d{1,4})R")
_MIN_CELLS = 2
"""A reply with fewer columns or lines than this is not plausible."""


class SizeReported(Message):
    """The terminal reported its size."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size


class SizeMismatch(Message):
    """The terminal's size is not what the system says."""

    def __init__(self, size: Size, system_size: Size) -> None:
        """`system_size`: the size according to the system."""
        super().__init__()
        self.size, self.system_size = size, system_size

    @property
    def message_text(self) -> str:
        size, system = self.size, self.system_size
        return (
            f"the terminal reports {size.width}×{size.height}, the system {system.width}×{system.height}: "
            f"using the terminal's size; `stty cols {size.width} rows {size.height}` corrects the system's"
        )


def size_in_reply(reply: str) -> Size | None:
    """Parse the size from a reply; None if it does not contain one."""
    match = _CURSOR_POSITION.fullmatch(reply)
    if match is None:
        return None
    lines, columns = int(match[1]), int(match[2])
    return Size(columns, lines) if min(columns, lines) >= _MIN_CELLS else None


class TrackedSize:
    """The window's size. This is what the terminal reported, unless the system's size has changed since then. In that
    case, it is the system's size."""

    def __init__(self) -> None:
        self._queried_system_size: Size | None = None
        """The system's size when the terminal was asked."""
        self._reported_size: Size | None = None

    def record_query(self, system_size: Size) -> None:
        self._queried_system_size = system_size

    def record_reply(self, reported_size: Size, system_size: Size) -> bool:
        """Record a reply. Returns whether the size changed. The reply is ignored if the system's size has changed since
        the query."""
        if self._queried_system_size != system_size:
            return False
        previous_size = self.current_size(system_size)
        self._reported_size = reported_size if reported_size != system_size else None
        return self.current_size(system_size) != previous_size

    def reset(self) -> None:
        """Forget the reported size, because the system has reported a change."""
        self._queried_system_size = self._reported_size = None

    def current_size(self, system_size: Size) -> Size:
        return self._reported_size or system_size

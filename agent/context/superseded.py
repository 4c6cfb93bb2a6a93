"""Which lines of a file an output shows; older outputs of the same lines are redundant. Pure."""

from ebbtide.agent.messages import ToolCall, ToolOutput
from ebbtide.tools.lazy import dataclass

_ALL = (1, 2**62)
_NOTES = 3
"""Lines of notes that may follow a read."""


@dataclass(frozen=True, slots=True)
class ViewedLines:
    """The lines of a file that an output shows or a call has written."""

    path: str
    first: int
    last: int

    def covers(self, other: "ViewedLines") -> bool:
        return self.path == other.path and self.first <= other.first and other.last <= self.last


def lines_of(call: ToolCall, output: ToolOutput) -> ViewedLines | None:
    """Return the lines of a file that a call shows: the numbered lines of a read, or everything for a write. None
    otherwise."""
    path = call.arguments.get("path")
    if output.status != "done" or not isinstance(path, str) or call.name not in ("read", "write"):
        return None
    path = path.removeprefix("./")
    if call.name == "write":
        return ViewedLines(path, *_ALL)
    span = _numbered_span(output.text)
    return ViewedLines(path, *span) if span else None


def _numbered_span(text: str) -> tuple[int, int] | None:
    """Return the first and last line number of a read; None if lines in between were left out."""
    first, end, notes = _number(text, 0), len(text), 0
    while first is not None and notes <= _NOTES:
        start = text.rfind("\n", 0, end) + 1
        last = _number(text, start)
        if last is not None:
            is_whole = text.count("\n", 0, start) == last - first
            return (first, last) if is_whole else None
        if start == 0:
            break
        end, notes = start - 1, notes + 1
    return None


def _number(text: str, start: int) -> int | None:
    digits = text[start : text.find("\t", start, start + 12)] if "\t" in text[start : start + 12] else ""
    return int(digits) if digits.isascii() and digits.isdecimal() else None

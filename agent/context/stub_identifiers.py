"""The names that the line of a masked output tells: each is told by the line of the first output in which it stands,
and so once in a view. Pure.

Half of what recorded sessions needed again of their outputs were names that lines have room for. Lines would repeat
each other otherwise: the same files stand in what was searched, listed and read. What a line tells depends on the
outputs before it in the view alone, so it stays as it is from request to request.
"""

from collections.abc import Sequence
from dataclasses import field

from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.name_index import names_in_order
from ebbtide.agent.messages import ToolOutput
from ebbtide.tools.lazy import dataclass

NAME_SHARE = 0.12
"""The share of a long output that the names in its line take."""
MIN_NAME_BYTES, MAX_NAME_BYTES = 40, 4_500
"""Bytes of names: a line has none where its share would be less."""
HEADING = "names in it"


@dataclass(slots=True)
class StubIdentifiers:
    """What the lines of a view's outputs tell, should they be masked: for each in order, as it comes in."""

    _seen: set[str] = field(default_factory=set)

    def suffix_for(self, output: ToolOutput) -> str:
        """What stands behind the line of an output that follows those so far; empty where it tells no name."""
        room = min(int(NAME_SHARE * len(output.text)), MAX_NAME_BYTES)
        if room < MIN_NAME_BYTES:
            return ""
        names, are_more = list[str](), False
        in_order, are_alike = _names_of(output)
        for name in in_order:
            if name in self._seen:
                continue
            room -= len(name) + 1
            if are_more := room < 0:
                break
            names.append(name)
        self._seen.update(names)
        return f"\n{HEADING}: {' '.join(names)}{' …' if are_more or are_alike else ''}" if names else ""


@dataclass(slots=True)
class SeenIdentifiers:
    """The same for a number of outputs, made when it is asked for."""

    outputs: Sequence[ToolOutput]
    _lines: tuple[str, ...] | None = None

    def at(self, index: int) -> str:
        if self._lines is None:  # two threads may both make them, and make the same
            names = StubIdentifiers()
            self._lines = tuple(map(names.suffix_for, self.outputs))
        return self._lines[index]


@memoized
def _names_of(output: ToolOutput) -> tuple[tuple[str, ...], bool]:
    return names_in_order(output.text)

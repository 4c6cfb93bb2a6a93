"""Identifiers listed in the stubs of masked outputs. Each is listed only by the first output that contains it. Pure.

Half of what recorded sessions needed again of their outputs were names short enough for a stub. Without deduplication
stubs would repeat each other, because the same files are searched, listed and read. A stub depends only on earlier
outputs in the view, so it stays the same from request to request.
"""

from collections.abc import Sequence
from dataclasses import field

from ebbtide.agent.context.incremental import memoized
from ebbtide.agent.context.name_index import names_in_order
from ebbtide.agent.messages import ToolOutput
from ebbtide.tools.lazy import dataclass

NAME_SHARE = 0.12
"""Share of a long output that the names in its stub may take."""
MIN_NAME_BYTES, MAX_NAME_BYTES = 40, 4_500
"""Bytes of names: a stub has none if its share would be less."""
HEADING = "names in it"


@dataclass(slots=True)
class StubIdentifiers:
    """Generates the stub suffixes for a view's outputs, one by one in order."""

    _seen: set[str] = field(default_factory=set)

    def suffix_for(self, output: ToolOutput) -> str:
        """Return the suffix for the next output; empty if it adds no name."""
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
    """Stub suffixes of several outputs, computed on first use."""

    outputs: Sequence[ToolOutput]
    _lines: tuple[str, ...] | None = None

    def at(self, index: int) -> str:
        if self._lines is None:  # harmless race: two threads compute the same result
            names = StubIdentifiers()
            self._lines = tuple(map(names.suffix_for, self.outputs))
        return self._lines[index]


@memoized
def _names_of(output: ToolOutput) -> tuple[tuple[str, ...], bool]:
    return names_in_order(output.text)

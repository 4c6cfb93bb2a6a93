"""Identifiers listed in the stubs of masked outputs. Each is listed only for the first output that contains it.

In recorded sessions, half of what models needed again from masked outputs was names that fit in a stub. A session keeps
searching, listing and reading the same files, so stubs would otherwise mostly repeat each other's names. A stub depends
only on earlier outputs in the view, so it is the same in all requests.
"""

from collections.abc import Sequence
from dataclasses import field

from ebbtide.agent.messages import ToolOutput
from ebbtide.agent.tokens.incremental import memoized
from ebbtide.agent.view.name_index import names_in_order, without_similar_names
from ebbtide.tools.lazy import dataclass

MAX_NAMES_SHARE = 0.35
"""Maximum share of an output's size that the names in its stub may take."""
MIN_NAMES_BYTES, MAX_NAMES_BYTES = 40, 4_500
"""Minimum and maximum size of the names in a stub, in bytes. If the share allows less than the minimum, the stub lists
no names."""
NAMES_HEADING = "names in it"


@dataclass(slots=True)
class StubNameLists:
    """Builds the name lists for the stubs in a view. Outputs must be passed in order."""

    _listed_names: set[str] = field(default_factory=set)

    def suffix_for(self, output: ToolOutput) -> str:
        """Return the name list to append to the next output's stub. Empty if the output has no new names."""
        remaining_bytes = min(int(MAX_NAMES_SHARE * len(output.text)), MAX_NAMES_BYTES)
        if remaining_bytes < MIN_NAMES_BYTES:
            return ""
        names, has_more = list[str](), False
        ordered_names, has_similar = _listable_names(output)
        for name in ordered_names:
            if name in self._listed_names:
                continue
            remaining_bytes -= len(name) + 1
            if has_more := remaining_bytes < 0:
                break
            names.append(name)
        self._listed_names.update(names)
        return f"\n{NAMES_HEADING}: {' '.join(names)}{' …' if has_more or has_similar else ''}" if names else ""


@dataclass(slots=True)
class LazyNameLists:
    """The name lists of several outputs, computed when first used."""

    outputs: Sequence[ToolOutput]
    _suffixes: tuple[str, ...] | None = None

    def suffix_at(self, index: int) -> str:
        if self._suffixes is None:  # if two threads get here, both compute the same result
            identifiers = StubNameLists()
            self._suffixes = tuple(map(identifiers.suffix_for, self.outputs))
        return self._suffixes[index]


@memoized
def _listable_names(output: ToolOutput) -> tuple[tuple[str, ...], bool]:
    return without_similar_names(names_in_output(output))


@memoized
def names_in_output(output: ToolOutput) -> tuple[str, ...]:
    """Return all names in an output's text, each once, in order. Long sessions have megabytes of outputs, so they are
    looked through only once."""
    return names_in_order(output.text)

"""Which tools the next request offers. Pure: specs in, specs out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Mapping[str, object]


def select_tools(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools in the order they are offered, every name once: the first of a name wins, the order never changes."""
    chosen: dict[str, ToolSpec] = {}
    for spec in specs:
        chosen.setdefault(spec.name, spec)
    return tuple(chosen.values())

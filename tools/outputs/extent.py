"""How much of the available content an output shows, and helpers to format counts, lists and truncated text."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ExtentUnit: TypeAlias = Literal["lines", "matches", "files", "entries", "cells", "pages"]

_NOUNS: Mapping[ExtentUnit, str] = {
    "lines": "line", "matches": "match", "files": "file", "entries": "entry", "cells": "cell", "pages": "page",
}  # fmt: skip


MAX_OUTPUT_BYTES = 64_000_000
"""Default limit on the stored output of a program, in bytes."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of the available content an output shows, not counting notes."""

    unit: ExtentUnit
    shown: int
    total: int | None = None
    """Total number of units; None if it is unknown but larger than `shown`."""
    first: int = 1
    """Number of the first unit shown, if the units are numbered."""

    @property
    def noun(self) -> str:
        """The singular noun of the unit."""
        return _NOUNS[self.unit]

    @property
    def shows_all(self) -> bool:
        return self.shown == self.total


def pluralize(count: int, noun: str) -> str:
    """Format a count with its noun: `1 line`, `12 lines`, `2 matches`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{count:,} {noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}s"


def join_limited(names: Sequence[str], max_names: int) -> str:
    """Join names to text such as `a, b and 3 more`, with at most `max_names` names."""
    return ", ".join(names[:max_names]) + (f" and {len(names) - max_names} more" if len(names) > max_names else "")


def ellipsize(text: str, max_chars: int) -> str:
    """Cut text that is longer than `max_chars` characters, and end it with an ellipsis."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def truncate(text: str, max_chars: int) -> str:
    """Cut text after `max_chars` characters, and add a note if it was longer."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… [cut]"

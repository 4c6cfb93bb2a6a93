"""How much of the whole a tool has shown, as numbers, with helpers to put counts in words."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

Unit: TypeAlias = Literal["lines", "matches", "files", "entries", "cells", "pages"]

_NOUNS: Mapping[Unit, str] = {
    "lines": "line", "matches": "match", "files": "file", "entries": "entry", "cells": "cell", "pages": "page",
}  # fmt: skip


MAX_OUTPUT_BYTES = 64_000_000
"""Default limit on the stored output of a program, in bytes."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of the whole that an output shows, not counting notes."""

    unit: Unit
    shown: int
    total: int | None = None
    """The total, or None if it is unknown but larger than `shown`."""
    first: int = 1
    """Number of the first one, if they are numbered."""

    @property
    def noun(self) -> str:
        """The singular noun for the unit."""
        return _NOUNS[self.unit]

    @property
    def is_all(self) -> bool:
        return self.shown == self.total


def pluralize(count: int, noun: str) -> str:
    """`1 line`, `12 lines`, `2 matches`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{count:,} {noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}s"


def join_limited(names: Sequence[str], most: int) -> str:
    """Return `a, b and 3 more`, with at most `most` of the names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def ellipsize(text: str, most: int) -> str:
    """Return the text in at most `most` characters, ending in an ellipsis if it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def truncate(text: str, most: int) -> str:
    """Return the text, or its first `most` characters with a note."""
    return text if len(text) <= most else f"{text[:most]}… [cut]"

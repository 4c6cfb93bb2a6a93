"""How much of what there is a tool has shown, in figures; how many there are, in words."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

Unit: TypeAlias = Literal["lines", "matches", "files", "entries", "cells", "pages"]

_NOUNS: Mapping[Unit, str] = {
    "lines": "line", "matches": "match", "files": "file", "entries": "entry", "cells": "cell", "pages": "page",
}  # fmt: skip


MAX_OUTPUT_BYTES = 64_000_000
"""Bytes of one program's output that are stored, where nothing else is configured."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What stands in an output. What says so in words beside it is not counted."""

    unit: Unit
    shown: int
    total: int | None = None
    """None when nobody has counted all there is, which is more than is shown."""
    first: int = 1
    """The number of the first of them, where they are numbered."""

    @property
    def noun(self) -> str:
        """What one of them is called."""
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
    """`a, b and 3 more`: so many of the names, and how many others there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def ellipsize(text: str, most: int) -> str:
    """The text in at most so many characters, the last of which says where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def truncate(text: str, most: int) -> str:
    """The text, or so many characters of it with a note that there were more."""
    return text if len(text) <= most else f"{text[:most]}… [cut]"

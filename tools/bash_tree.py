"""The syntax tree of a command line, parsed within limits on work and time."""

import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_MAX_STEPS = 30
"""In hundreds of parser operations. 500 pieces of a sensible line take at most 25."""
_PIECE, _MAX_READS = 1_024, 60
"""Bytes per read of the parser, and maximum number of reads. A sensible line is read two or three times."""
_HURRY = 0.002
"""Seconds of processor time. A sensible line takes 0.3 ms, or 0.6 ms on a busy machine."""


def tree_of(source: bytes, *, in_a_hurry: bool = False) -> "Node | None":
    """Return the root of the syntax tree of a UTF-8 line, or None if parsing takes too much work.

    The parser tries many readings of nonsense at once, and scans to the end for each opening bracket: a line of 10,000
    characters can take 200 ms. Work is counted because a count is the same on every machine. `in_a_hurry` also limits
    time, since some operations take twenty times as long as others.
    """
    parser, reads, steps = _parser(_language()), 0, 0
    end = time.thread_time() + _HURRY if in_a_hurry else 0

    def piece(at: int, _: object) -> bytes:
        nonlocal reads
        reads += 1
        if is_over():
            return b""
        behind = at + _PIECE
        while behind < len(source) and source[behind] & 0xC0 == 0x80:
            behind += 1  # the parser fails if its last piece ends within a character
        return source[at:behind]

    def is_too_much(_at: int, _has_error: bool) -> bool:  # called by the parser
        nonlocal steps
        steps += 1
        return is_over()

    def is_over() -> bool:
        return steps > _MAX_STEPS or reads > _MAX_READS or (in_a_hurry and time.thread_time() > end)

    try:
        root = parser.parse(piece, progress_callback=is_too_much).root_node
    except ValueError:
        return None
    return None if is_over() else root


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415  # deferred: only commands need the grammar
    from tree_sitter import Language  # noqa: PLC0415  # deferred: as above

    return Language(tree_sitter_bash.language())


def _parser(language: "Language") -> "Parser":
    """Return a new parser for each line: parsers are not shared between threads, and one that was stopped would resume
    its old text."""
    from tree_sitter import Parser  # noqa: PLC0415  # deferred: as above

    return Parser(language)

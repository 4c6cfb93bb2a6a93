"""The syntax tree of a command line, parsed within limits on work and time."""

import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_MAX_STEPS = 30
"""Maximum work, in hundreds of parser operations. A sensible line of 500 pieces takes at most 25."""
_PIECE_BYTES, _MAX_READS = 1_024, 60
"""Bytes per read of the parser, and maximum number of reads. The parser reads a sensible line two or three times."""
_MAX_PARSE_SECONDS = 0.002
"""Maximum seconds of processor time. A sensible line takes 0.3 ms, or 0.6 ms on a busy machine."""


def syntax_tree(source: bytes, *, with_time_limit: bool = False) -> "Node | None":
    """Return the root of the syntax tree of a UTF-8 line, or None if parsing takes too much work.

    For meaningless input the parser tries many interpretations at once, and scans to the end for each opening bracket:
    a line of 10,000 characters can take 200 ms. Work is limited by a count, which is the same on every machine.
    `with_time_limit` also limits the time, because some operations take twenty times as long as others.
    """
    parser, reads, steps = _parser(_language()), 0, 0
    end = time.thread_time() + _MAX_PARSE_SECONDS if with_time_limit else 0

    def read_piece(at: int, _: object) -> bytes:
        nonlocal reads
        reads += 1
        if is_over():
            return b""
        behind = at + _PIECE_BYTES
        while behind < len(source) and source[behind] & 0xC0 == 0x80:
            behind += 1  # the parser fails if a piece ends within a character
        return source[at:behind]

    def is_too_much(_at: int, _has_error: bool) -> bool:  # called by the parser
        nonlocal steps
        steps += 1
        return is_over()

    def is_over() -> bool:
        return steps > _MAX_STEPS or reads > _MAX_READS or (with_time_limit and time.thread_time() > end)

    try:
        root = parser.parse(read_piece, progress_callback=is_too_much).root_node
    except ValueError:
        return None
    return None if is_over() else root


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415  # deferred: only commands need the grammar
    from tree_sitter import Language  # noqa: PLC0415  # deferred: as above

    return Language(tree_sitter_bash.language())


def _parser(language: "Language") -> "Parser":
    """Return a new parser. Each line needs its own: parsers must not be shared between threads, and one that was
    stopped would continue with its old text."""
    from tree_sitter import Parser  # noqa: PLC0415  # deferred: as above

    return Parser(language)

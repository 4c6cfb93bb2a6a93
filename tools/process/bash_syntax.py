"""Parses a command line into a syntax tree, within limits on work and time."""

import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_MAX_STEPS = 30
"""Limit on the parser's work, in hundreds of operations. A realistic command line of 500 nodes takes at most 25."""
_CHUNK_BYTES, _MAX_READS = 1_024, 60
"""Number of bytes that the parser reads at a time, and maximum number of reads. A realistic command line takes two or
three."""
_MAX_PARSE_SECONDS = 0.002
"""Maximum processor time in seconds. A realistic command line takes 0.3 ms, or 0.6 ms on a busy machine."""


def parse_syntax_tree(source: bytes, *, with_time_limit: bool = False) -> "Node | None":
    """Parse a UTF-8 command line and return the root of its syntax tree. None if parsing takes too much work.

    For meaningless input, the parser tries many interpretations at once and scans to the end for each opening bracket.
    A line of 10,000 characters can take 200 ms. The work limit is a count, so it is the same on every machine.
    `with_time_limit` also limits the time, because some operations take twenty times as long as others.
    """
    parser, read_count, step_count = _create_parser(_load_language()), 0, 0
    deadline = time.thread_time() + _MAX_PARSE_SECONDS if with_time_limit else 0

    def read_chunk(start: int, _: object) -> bytes:
        nonlocal read_count
        read_count += 1
        if is_over_limit():
            return b""
        end = start + _CHUNK_BYTES
        while end < len(source) and source[end] & 0xC0 == 0x80:
            end += 1  # the parser fails if a chunk ends within a character
        return source[start:end]

    def should_stop(_offset: int, _has_error: bool) -> bool:  # called by the parser
        nonlocal step_count
        step_count += 1
        return is_over_limit()

    def is_over_limit() -> bool:
        return step_count > _MAX_STEPS or read_count > _MAX_READS or (with_time_limit and time.thread_time() > deadline)

    try:
        root = parser.parse(read_chunk, progress_callback=should_stop).root_node
    except ValueError:
        return None
    return None if is_over_limit() else root


@cache
def _load_language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415  # deferred: only commands need the grammar
    from tree_sitter import Language  # noqa: PLC0415  # deferred: as above

    return Language(tree_sitter_bash.language())


def _create_parser(language: "Language") -> "Parser":
    """Create a parser. Each line needs a new one: parsers cannot be shared between threads, and a stopped parser would
    resume with its previous text."""
    from tree_sitter import Parser  # noqa: PLC0415  # deferred: as above

    return Parser(language)

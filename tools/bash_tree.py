"""The syntax tree of a command line, made within limits of work and of time."""

import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

_MAX_STEPS = 30
"""Hundreds of operations of the parser: 500 pieces of a line that makes sense take 25 at most."""
_PIECE, _MAX_READS = 1_024, 60
"""Bytes that the parser gets at once, and how often: a line that makes sense is looked at twice or three times."""
_HURRY = 0.002
"""Seconds of the processor: what makes sense takes 0.3 ms, 0.6 on a busy machine, and must not depend on that."""


def tree_of(source: bytes, *, in_a_hurry: bool = False) -> "Node | None":
    """The root of the tree of a line in UTF-8; None where it takes more work than a line that somebody wrote.

    What makes little sense is tried in many ways at once, and what opens brackets is looked through to its end for each
    of them: a line of 10,000 characters can take 200 ms. So the work is counted, which is the same on every machine.
    `in_a_hurry`: so is the time, since operations of one kind take twenty times as long as those of another.
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
            behind += 1  # where its last piece ends within a character, the parser reads on from nowhere
        return source[at:behind]

    def is_too_much(_at: int, _has_error: bool) -> bool:  # the parser calls it
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
    import tree_sitter_bash  # noqa: PLC0415  # deferred: a run without commands needs no grammar
    from tree_sitter import Language  # noqa: PLC0415  # deferred: as above

    return Language(tree_sitter_bash.language())


def _parser(language: "Language") -> "Parser":
    """One for each line: others may ask while this one reads, and one that was stopped would go on with its text."""
    from tree_sitter import Parser  # noqa: PLC0415  # deferred: as above

    return Parser(language)

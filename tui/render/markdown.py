"""Splits Markdown into pieces that can be rendered separately."""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
"""HTML is treated as text, so that anything in angle brackets stays visible. Images become links."""

_BLOCK_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table").disable("inline")
"""Finds the blocks, without parsing what is in them."""

_MAX_FENCE_LINES = 40
"""Maximum number of lines in an unfinished code fence. Once the fence is longer, its first half is rendered and never
redrawn."""
_MAX_LIST_LINES = 24
_MAX_TABLE_ROWS = 24
_MAX_PARAGRAPH_CHARS = 6_000

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    """A piece of Markdown that can be rendered separately."""

    source: str
    has_gap: bool = True
    """Whether a blank line precedes it. Ignored for the first piece."""


def split_finished_pieces(
    pieces: tuple[MarkdownPiece, ...], unfinished_text: str, has_gap: bool, *, cuts_long_blocks: bool = True
) -> tuple[tuple[MarkdownPiece, ...], str, bool]:
    """Move finished blocks from `unfinished_text` to `pieces`. All blocks but the last are finished; if the last one is
    very long, its first part is moved too, unless `cuts_long_blocks` is off.

    Returns the pieces, the remaining text, and whether a blank line precedes that text. `has_gap`: whether a blank line
    precedes `unfinished_text`.
    """
    unfinished_text = unfinished_text.replace("\r\n", "\n").replace("\r", "\n")  # the parser counts lines the same way
    tokens = [token for token in _BLOCK_PARSER.parse(unfinished_text) if token.level == 0 and token.map is not None]
    lines = unfinished_text.split("\n")
    starts = [token.map[0] for token in tokens if token.map is not None and token.nesting >= 0]
    finished = list(pieces)
    for index, start in enumerate(starts[:-1]):
        finished.append(MarkdownPiece("\n".join(lines[start : starts[index + 1]]).rstrip("\n"), has_gap))
        has_gap = True
    last_start = starts[-1] if starts else 0
    unfinished_text = "\n".join(lines[last_start:])
    while cuts_long_blocks:
        halves = _cut_overlong(unfinished_text, tokens[-1] if tokens else None)
        if halves is None:
            break
        head, unfinished_text = halves
        finished.append(MarkdownPiece(head, has_gap))
        has_gap = False
    return tuple(finished), unfinished_text, has_gap


def _cut_overlong(block: str, token: Token | None) -> tuple[str, str] | None:
    """Split a very long block into two valid pieces of Markdown; None if it is not that long or cannot be split."""
    if token is None:
        return None
    if token.type == "fence":
        return _cut_fence(block)
    if token.type in ("bullet_list_open", "ordered_list_open"):
        return _cut_list(block)
    if token.type == "table_open":
        return _cut_table(block)
    if token.type == "paragraph_open" and len(block) > _MAX_PARAGRAPH_CHARS:
        return _cut_paragraph(block)
    return None


def _cut_fence(block: str) -> tuple[str, str] | None:
    lines = block.split("\n")
    match = _FENCE.match(lines[0])
    if match is None or len(lines) <= _MAX_FENCE_LINES:
        return None
    half = _MAX_FENCE_LINES // 2
    closing = match.group(1) + match.group(2)
    return "\n".join((*lines[: half + 1], closing)), "\n".join((lines[0], *lines[half + 1 :]))


def _cut_table(block: str) -> tuple[str, str] | None:
    """Split a table. Both parts have its header, so that both are tables."""
    lines = block.split("\n")
    header, rows = lines[:2], lines[2:]
    half = _MAX_TABLE_ROWS // 2
    if not any(line.strip() for line in rows[_MAX_TABLE_ROWS:]):
        return None
    return "\n".join((*header, *rows[:half])), "\n".join((*header, *rows[half:]))


def has_same_header(table: str, other_table: str) -> bool:
    """Whether two pieces begin with the same header, as the parts of a table do."""
    return table.split("\n", 2)[:2] == other_table.split("\n", 2)[:2]


def _cut_list(block: str) -> tuple[str, str] | None:
    lines = block.split("\n")
    if len(lines) <= _MAX_LIST_LINES:
        return None
    parsed_line_count = 2 * _MAX_LIST_LINES
    while True:  # parse only what the cut needs, because parsing a long list once per piece takes minutes
        item_starts = [
            token.map[0]
            for token in _BLOCK_PARSER.parse("\n".join(lines[:parsed_line_count]))
            if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        cut = next((start for start in item_starts if start >= _MAX_LIST_LINES // 2), None)
        if cut is None and parsed_line_count < len(lines):
            parsed_line_count *= 4
            continue
        if cut is None and len(item_starts) < 2:
            return None
        cut = item_starts[-1] if cut is None else cut
        return "\n".join(lines[:cut]).rstrip("\n"), "\n".join(lines[cut:])


def _cut_paragraph(block: str) -> tuple[str, str] | None:
    """Split a paragraph after a sentence. The second piece then starts on a new line, but this is better than redrawing
    the whole paragraph on every update."""
    end = block.rfind(". ", 0, _MAX_PARAGRAPH_CHARS)
    end = end + 1 if end > 0 else block.rfind(" ", 0, _MAX_PARAGRAPH_CHARS)
    if end <= 0:
        end = _MAX_PARAGRAPH_CHARS
    return block[:end], block[end:].lstrip(" ")

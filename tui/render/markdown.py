"""Splits Markdown into pieces that can be rendered separately."""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
"""HTML is treated as text: what a model writes in angle brackets must stay visible. Images are links."""

_LONG_FENCE = 60
"""Lines of an open code fence after which its first half is rendered for good."""
_LONG_LIST = 40
_LONG_PARAGRAPH = 6_000

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    """Markdown that can be rendered by itself."""

    source: str
    gap: bool = True
    """Whether a blank line comes before it, unless it is the first."""


def advance_pieces(
    pieces: tuple[MarkdownPiece, ...], rest: str, gap: bool
) -> tuple[tuple[MarkdownPiece, ...], str, bool]:
    """Move finished blocks from `rest` to `pieces`: all but the last, and the first part of an overlong one.

    `gap`: whether a blank line comes before `rest`; the value for the new rest is returned.
    """
    rest = rest.replace("\r\n", "\n").replace("\r", "\n")  # as the parser counts lines
    tokens = [token for token in PARSER.parse(rest) if token.level == 0 and token.map is not None]
    lines = rest.split("\n")
    starts = [token.map[0] for token in tokens if token.map is not None and token.nesting >= 0]
    done = list(pieces)
    for index, start in enumerate(starts[:-1]):
        done.append(MarkdownPiece("\n".join(lines[start : starts[index + 1]]).rstrip("\n"), gap))
        gap = True
    last = starts[-1] if starts else 0
    rest = "\n".join(lines[last:])
    while True:
        cut = _cut_overlong(rest, tokens[-1] if tokens else None)
        if cut is None:
            return tuple(done), rest, gap
        head, rest = cut
        done.append(MarkdownPiece(head, gap))
        gap = False


def _cut_overlong(rest: str, token: Token | None) -> tuple[str, str] | None:
    """Split an overlong block into two pieces of valid Markdown."""
    if token is None:
        return None
    if token.type == "fence":
        return _cut_fence(rest)
    if token.type in ("bullet_list_open", "ordered_list_open"):
        return _cut_list(rest)
    if token.type == "paragraph_open" and len(rest) > _LONG_PARAGRAPH:
        return _cut_paragraph(rest)
    return None


def _cut_fence(rest: str) -> tuple[str, str] | None:
    lines = rest.split("\n")
    opening = _FENCE.match(lines[0])
    if opening is None or len(lines) <= _LONG_FENCE:
        return None
    half = _LONG_FENCE // 2
    closing = opening.group(1) + opening.group(2)
    return "\n".join((*lines[: half + 1], closing)), "\n".join((lines[0], *lines[half + 1 :]))


def _cut_list(rest: str) -> tuple[str, str] | None:
    lines = rest.split("\n")
    if len(lines) <= _LONG_LIST:
        return None
    seen = 2 * _LONG_LIST
    while True:  # only as much as the cut needs: to parse all of a long list for each of its parts takes minutes
        items = [
            token.map[0]
            for token in PARSER.parse("\n".join(lines[:seen]))
            if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        cut = next((start for start in items if start >= _LONG_LIST // 2), None)
        if cut is None and seen < len(lines):
            seen *= 4
            continue
        if cut is None and len(items) < 2:
            return None
        cut = items[-1] if cut is None else cut
        return "\n".join(lines[:cut]).rstrip("\n"), "\n".join(lines[cut:])


def _cut_paragraph(rest: str) -> tuple[str, str] | None:
    """Split after a sentence. The rest starts on a new line, which is better than redrawing everything each time."""
    end = rest.rfind(". ", 0, _LONG_PARAGRAPH)
    end = end + 1 if end > 0 else rest.rfind(" ", 0, _LONG_PARAGRAPH)
    if end <= 0:
        end = _LONG_PARAGRAPH
    return rest[:end], rest[end:].lstrip(" ")

"""Styled lines as plain values, drawn elsewhere."""

from typing import Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.tools.lazy import regex

TextStyle: TypeAlias = Literal["text", "strong", "dim", "accent", "good", "warn", "bad", "code"]
Span: TypeAlias = tuple[str, TextStyle]
Line: TypeAlias = tuple[Span, ...]

_CODE = regex(r"`([^`\n]+)`")
_WORD = regex(r"\s*\S+|\s+")


def parse_inline_code(text: str, ink: TextStyle) -> Line:
    """A sentence with the text between backticks styled as code. Unpaired backticks are kept."""
    if text.count("`") % 2:
        return ((text, ink),)
    pieces = _CODE.split(text)
    return tuple((piece, "code" if at % 2 else ink) for at, piece in enumerate(pieces) if piece) or (("", ink),)


def strip_backticks(text: str) -> str:
    """The sentence without backticks around code."""
    return "".join(words for words, _ in parse_inline_code(text, "text"))


def wrap_spans(line: Line, width: int, indent: int) -> tuple[Line, ...]:
    """The line wrapped to `width` cells, between words if possible; lines after the first are indented."""
    if sum(cell_len(words) for words, _ in line) <= width or width <= indent + 1:
        return (line,)
    margin: Line = ((" " * indent, "text"),) if indent else ()
    now: Line = ()
    lines, used = list[Line](), 0
    for words, ink in line:
        for word in _WORD.findall(words):
            if used + cell_len(word.rstrip()) > width and now and now != margin:
                lines.append(now)
                now, used, word = margin, indent, word.lstrip()
            now, used = (*now, (word, ink)), used + cell_len(word)
    return (*lines, now)

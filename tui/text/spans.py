"""Styled lines as data, which other modules draw."""

from typing import Literal, TypeAlias

from rich.cells import cell_len

from ebbtide.tools.lazy import regex

TextStyle: TypeAlias = Literal["text", "strong", "dim", "accent", "good", "warn", "bad", "code"]
Span: TypeAlias = tuple[str, TextStyle]
Line: TypeAlias = tuple[Span, ...]

_CODE = regex(r"`([^`\n]+)`")
_WORD = regex(r"\s*\S+|\s+")


def parse_inline_code(text: str, style: TextStyle) -> Line:
    """Style the text between backticks as code. Unpaired backticks are kept."""
    if text.count("`") % 2:
        return ((text, style),)
    pieces = _CODE.split(text)
    return tuple((piece, "code" if index % 2 else style) for index, piece in enumerate(pieces) if piece) or (
        ("", style),
    )


def line_text(line: Line, code_delimiter: str = "") -> str:
    """Get the text of a line without styles. `code_delimiter`: what to put around code."""
    return "".join(f"{code_delimiter}{text}{code_delimiter}" if style == "code" else text for text, style in line)


def strip_backticks(text: str) -> str:
    """Remove the backticks around code."""
    return line_text(parse_inline_code(text, "text"))


def wrap_spans(line: Line, width: int, indent: int) -> tuple[Line, ...]:
    """Wrap a line to `width` cells, between words if possible. All lines but the first are indented."""
    if sum(cell_len(text) for text, _ in line) <= width or width <= indent + 1:
        return (line,)
    margin: Line = ((" " * indent, "text"),) if indent else ()
    current_line: Line = ()
    lines = list[Line]()
    used_width = 0
    for text, style in line:
        for word in _WORD.findall(text):
            if used_width + cell_len(word.rstrip()) > width and current_line and current_line != margin:
                lines.append(current_line)
                current_line, used_width, word = margin, indent, word.lstrip()
            current_line, used_width = (*current_line, (word, style)), used_width + cell_len(word)
    return (*lines, current_line)

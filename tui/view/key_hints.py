"""The line with a screen's key hints."""

import re
from itertools import groupby

from rich.cells import cell_len

from ebbtide.tools.lazy import regex
from ebbtide.tui.text.spans import Line, Span, TextStyle

MAX_HINT_LINES = 3
"""Maximum number of hint lines on a narrow screen."""

_KEY = r"(?:Up|Down|Left|Right|PgUp|PgDn|Home|End|Enter|Esc|Tab|Space|Del|F\d+|(?:Ctrl|Shift|Alt)-\w+|[A-Za-z/])"
_KEYS = regex(rf"{_KEY}(?:, {_KEY})*(?= |$)")


def key_hint_lines(hints: str, width: int) -> list[Line]:
    """Split hints into phrases at two or more spaces, and highlight the keys. A phrase never continues on the next
    line. If everything fits into one line, the phrases are spread out more."""
    phrases = [_phrase(hint) for hint in re.split(r" {2,}", hints.strip()) if hint]
    rows: list[list[Line]] = [[]]
    gap = 3 if _phrases_width(phrases, 3) <= width else 2
    for phrase in phrases:
        if rows[-1] and _phrases_width([*rows[-1], phrase], gap) > width:
            rows.append([])
        rows[-1].append(phrase)
    return [_row(row, gap) for row in rows[:MAX_HINT_LINES]]


def _phrase(hint: str) -> Line:
    match = _KEYS.match(hint)
    if match is None:
        return ((hint, "dim"),)
    spans: tuple[Span, Span] = ((match[0], "text"), (hint[match.end() :], "dim"))
    return tuple(span for span in spans if span[0])


def _row(phrases: list[Line], gap: int) -> Line:
    spans: list[Span] = []
    for phrase in phrases:
        spans += [(" " * gap, "dim"), *phrase] if spans else phrase
    groups = groupby(spans, key=lambda span: span[1])
    return tuple(_join_spans(style, list(group)) for style, group in groups)


def _join_spans(style: TextStyle, spans: list[Span]) -> Span:
    return ("".join(text for text, _ in spans), style)


def _phrases_width(phrases: list[Line], gap: int) -> int:
    return sum(cell_len(text) for phrase in phrases for text, _ in phrase) + gap * max(len(phrases) - 1, 0)

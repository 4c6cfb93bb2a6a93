"""The key hint line of a screen."""

import re
from itertools import groupby

from rich.cells import cell_len

from ebbtide.tools.lazy import regex
from ebbtide.tui.text.spans import Line, Span, TextStyle

MAX_HINT_LINES = 3
"""Maximum hint lines on a narrow screen."""

_KEY = r"(?:Up|Down|Left|Right|PgUp|PgDn|Home|End|Enter|Esc|Tab|Space|Del|F\d+|(?:Ctrl|Shift)-\w+|[A-Za-z/])"
_KEYS = regex(rf"{_KEY}(?:, {_KEY})*(?= |$)")


def key_lines(said: str, width: int) -> list[Line]:
    """Split hints at two or more spaces into phrases, with keys highlighted. Phrases are not broken across lines,
    and are spaced wider if all fit into one line."""
    phrases = [_phrase(words) for words in re.split(r" {2,}", said.strip()) if words]
    rows: list[list[Line]] = [[]]
    between = 3 if _cells(phrases, 3) <= width else 2
    for phrase in phrases:
        if rows[-1] and _cells([*rows[-1], phrase], between) > width:
            rows.append([])
        rows[-1].append(phrase)
    return [_row(row, between) for row in rows[:MAX_HINT_LINES]]


def _phrase(words: str) -> Line:
    found = _KEYS.match(words)
    if found is None:
        return ((words, "dim"),)
    spans: tuple[Span, Span] = ((found[0], "text"), (words[found.end() :], "dim"))
    return tuple(span for span in spans if span[0])


def _row(phrases: list[Line], between: int) -> Line:
    spans: list[Span] = []
    for phrase in phrases:
        spans += [(" " * between, "dim"), *phrase] if spans else phrase
    inks = groupby(spans, key=lambda span: span[1])
    return tuple(_together(ink, list(same)) for ink, same in inks)


def _together(ink: TextStyle, spans: list[Span]) -> Span:
    return ("".join(words for words, _ in spans), ink)


def _cells(phrases: list[Line], between: int) -> int:
    return sum(cell_len(words) for phrase in phrases for words, _ in phrase) + between * max(len(phrases) - 1, 0)

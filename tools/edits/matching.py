r"""Finds text that a model quoted from a file, and adapts the replacement to the file. Every line ending is `\n`.

An exact match comes first. If there is none, the comparison ignores typographic punctuation, then trailing whitespace,
then indentation, and finally the amount of whitespace within a line. A looser comparison is used only if no stricter
one matches. Whole lines are never skipped: a wrong position is worse than an error.
"""

from collections.abc import Callable, Iterator, Sequence
from re import Match
from typing import Literal, TypeAlias, get_args

from ebbtide.tools.edits.alignment import AlignedBlock, rewrite_block
from ebbtide.tools.edits.indentation import indent_step
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.lazy import dataclass, regex

Closeness: TypeAlias = Literal["exact", "punctuation", "whitespace", "none"]
CLOSENESS_ORDER: tuple[Closeness, ...] = get_args(Closeness)

MIN_NEAR_MISS_SCORE = 60.0
"""Minimum similarity, from 0 to 100, for lines to be shown as a near miss."""

MAX_COMPARED_POSITIONS, MAX_COMPARED_CHARS = 20_000, 4_000
"""Maximum number of positions and of characters compared when looking for a near miss."""

_WHITESPACE = regex(r"\s+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A range of characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    spans: tuple[TextSpan, ...]
    """The matches in order; they may overlap."""
    closeness: Closeness

    @property
    def non_overlapping(self) -> tuple[TextSpan, ...]:
        """The spans that do not overlap an earlier one."""
        spans: list[TextSpan] = []
        for span in self.spans:
            if not spans or span.start >= spans[-1].end:
                spans.append(span)
        return tuple(spans)


@dataclass(frozen=True, slots=True)
class LineMatches:
    starts: tuple[int, ...]
    """Indices of the first lines of the matches, in order. Matches may overlap."""
    closeness: Closeness


@dataclass(frozen=True, slots=True)
class NearMiss:
    first_line: int
    """Number of the first line, counted from 1."""
    lines: tuple[str, ...]


def find_text(text: str, old: str) -> Matches:
    """Return every occurrence of `old`, using the strictest comparison that finds one."""
    exact_offsets = list(find_occurrences(text, old))
    if exact_offsets:
        return Matches(tuple(TextSpan(offset, offset + len(old)) for offset in exact_offsets), "exact")
    similar_offsets = list(find_occurrences(ascii_punctuation(text), ascii_punctuation(old)))
    if similar_offsets:
        matches = Matches(tuple(TextSpan(offset, offset + len(old)) for offset in similar_offsets), "punctuation")
        return matches if is_only_match(text, old, matches) else find_loosely(text, old)
    lines = text.split("\n")
    old_lines = old.removesuffix("\n").split("\n")
    line_matches = find_lines(lines, old_lines)
    return Matches(
        tuple(_line_spans(lines, line_matches.starts, len(old_lines), old.endswith("\n"))), line_matches.closeness
    )


def begins_inside_indent(text: str, span: TextSpan) -> bool:
    """Whether the span starts inside a line's indentation."""
    line_start = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    return bool(line_start) and not line_start.strip(" \t") and text[span.start] in " \t"


def find_loosely(text: str, old: str) -> Matches:
    """Find every span of whole lines that equals `old` in the loosest comparison."""
    lines, old_lines = text.split("\n"), old.removesuffix("\n").split("\n")
    starts = _find_normalised(lines, old_lines, 0, _without_inner_whitespace)
    return Matches(tuple(_line_spans(lines, starts, len(old_lines), old.endswith("\n"))), "whitespace")


def is_only_match(text: str, old: str, matches: Matches) -> bool:
    """Whether the loosest comparison finds no further matches. If the text was quoted inexactly, its best match is not
    always the intended one."""
    loose_spans = find_loosely(text, old).spans
    return len(loose_spans) <= len(matches.spans) and all(
        any(span.start < loose_span.end and loose_span.start < span.end for span in matches.spans)
        for loose_span in loose_spans
    )


def find_lines(lines: Sequence[str], sought_lines: Sequence[str], start: int = 0) -> LineMatches:
    """Find the lines `sought_lines` at index `start` or later, using the strictest comparison that finds them."""
    normalisers = _NORMALISERS if any(line.strip() for line in sought_lines) else _NORMALISERS[:1]
    for closeness, normalise in normalisers:
        starts = _find_normalised(lines, sought_lines, start, normalise)
        if starts and closeness != "exact":  # the best match may not be the intended one
            starts = _find_normalised(lines, sought_lines, start, _without_inner_whitespace)
        if starts:
            return LineMatches(tuple(starts), closeness)
    return LineMatches((), "none")


def _find_normalised(
    lines: Sequence[str], sought_lines: Sequence[str], start: int, normalise: Callable[[str], str]
) -> list[int]:
    starts = _find_equal_lines([normalise(line) for line in lines[start:]], [normalise(line) for line in sought_lines])
    return [index + start for index in starts]


def adapt_replacement(text: str, span: TextSpan, old: str, new: str) -> Replacement:
    """Build the replacement for one occurrence of `old`. Raises `AmbiguousLineError` if it is ambiguous."""
    file_text = text[span.start : span.end]
    if file_text == old or not new:
        return Replacement(span.start, span.end, new)
    trimmed_new = new.removesuffix("\n") if old.endswith("\n") else new
    old_lines = old.removesuffix("\n").split("\n")
    lines = rewrite_block(
        AlignedBlock(
            old_lines,
            file_text.split("\n")[: len(old_lines)],
            trimmed_new.split("\n"),
            indent_step=lambda: indent_step(text.split("\n")),
        )
    )
    final_newline = "\n" if new.endswith("\n") and file_text.count("\n") == len(old_lines) else ""
    return Replacement(span.start, span.end, "\n".join(lines) + final_newline)


def extend_over_newline(text: str, span: TextSpan, old: str) -> TextSpan:
    """If the span covers whole lines, extend it over the final newline, so that deleting it leaves no empty line."""
    start = text.rfind("\n", 0, span.start) + 1
    if text[start : span.start].strip(" \t"):
        return span
    if text[span.end - 1] == "\n" and old.endswith("\n"):  # remaining whitespace would indent the next line
        return span if text[span.start] == "\n" else TextSpan(start, span.end)
    end = text.find("\n", span.end)
    if text[span.end : end if end >= 0 else None].strip(" \t"):
        return span
    return TextSpan(start, end + 1) if end >= 0 else TextSpan(max(start - 1, 0), len(text))


def apply_replacements(text: str, changes: Sequence[Replacement]) -> str:
    """Apply changes, which must be in order and must not overlap."""
    chunks, offset = [], 0
    for change in changes:
        chunks += [text[offset : change.start], change.text]
        offset = change.end
    return "".join([*chunks, text[offset:]])


def line_number(text: str, offset: int) -> int:
    """Return the number of the line at `offset`, counted from 1."""
    return text.count("\n", 0, offset) + 1


def find_nearest_lines(text: str, quoted_text: str) -> NearMiss | None:
    """Find the lines most similar to `quoted_text`. None if no lines are similar. Only the beginning of long text is
    searched."""
    from rapidfuzz import fuzz  # noqa: PLC0415  # deferred: only a failed edit needs it

    lines, line_count = text.split("\n"), quoted_text.strip("\n").count("\n") + 1
    sought_text = quoted_text.strip("\n")[:MAX_COMPARED_CHARS]
    compared_count = sought_text.count("\n") + 1
    best_index, best_score = -1, MIN_NEAR_MISS_SCORE
    for index in range(min(len(lines), MAX_COMPARED_POSITIONS)):
        window = "\n".join(lines[index : index + compared_count])[: 2 * MAX_COMPARED_CHARS]
        score = fuzz.ratio(window, sought_text, score_cutoff=best_score)
        if score > best_score or (score == best_score and best_index < 0 and score > 0):
            best_index, best_score = index, score
    return NearMiss(best_index + 1, tuple(lines[best_index : best_index + line_count])) if best_index >= 0 else None


def find_occurrences(text: str, sought: str) -> Iterator[int]:
    """Yield the offset of each occurrence, including overlapping ones."""
    offset = text.find(sought) if sought else -1
    while offset >= 0:
        yield offset
        offset = text.find(sought, offset + 1)


def _without_trailing_whitespace(line: str) -> str:
    return ascii_punctuation(line).rstrip()


def _without_outer_whitespace(line: str) -> str:
    return ascii_punctuation(line).strip()


def _without_inner_whitespace(line: str) -> str:
    """Remove whitespace, except that one space is kept between two words."""
    return _WHITESPACE.sub(_space_between_words, ascii_punctuation(line).strip())


def _space_between_words(whitespace: Match[str]) -> str:
    previous, following = whitespace.string[whitespace.start() - 1], whitespace.string[whitespace.end()]
    return " " if (previous.isalnum() or previous == "_") and (following.isalnum() or following == "_") else ""


_NORMALISERS: tuple[tuple[Closeness, Callable[[str], str]], ...] = (
    ("exact", str),
    ("punctuation", ascii_punctuation),
    ("whitespace", _without_trailing_whitespace),
    ("whitespace", _without_outer_whitespace),
    ("whitespace", _without_inner_whitespace),
)


def _find_equal_lines(lines: Sequence[str], sought: Sequence[str]) -> list[int]:
    """Return the indices at which the lines occur. The longest line is searched for first, because it is probably the
    rarest."""
    longest = max(range(len(sought)), key=lambda index: len(sought[index]))
    sought_lines, starts = list(sought), []
    index = _find_line(lines, sought_lines[longest], longest)
    while index >= 0:
        if lines[index - longest : index - longest + len(sought_lines)] == sought_lines:
            starts.append(index - longest)
        index = _find_line(lines, sought_lines[longest], index + 1)
    return starts


def _find_line(lines: Sequence[str], sought_line: str, start: int) -> int:
    try:
        return lines.index(sought_line, start)
    except ValueError:
        return -1


def _line_spans(lines: Sequence[str], starts: Sequence[int], line_count: int, ends_line: bool) -> Iterator[TextSpan]:
    """Yield the spans of the lines in the text. With `ends_line`, they include the final newline if there is one."""
    index = offset = 0
    for start in starts:
        offset += sum(len(line) + 1 for line in lines[index:start])
        index = start
        length = sum(len(line) + 1 for line in lines[start : start + line_count])
        yield TextSpan(offset, offset + length - (not (ends_line and start + line_count < len(lines))))

"""Finds the most important error lines of a long output while it streams, and renders them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from ebbtide.agent.view.error_lines import (
    ERROR_KEYWORDS,
    MAX_LINE_CHARS,
    VERDICT_WEIGHT,
    WORDS_WEIGHT,
    error_weight,
    is_routine_line,
    line_shape,
)
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.plain_text import terminal_text

MAX_MATCH_BYTES, MIN_MATCH_BYTES = 1024, 512
"""Maximum size of the error lines in a large and in a small preview, in bytes."""
_MAX_LINE_CHARS = 240
"""Maximum number of characters shown of a line."""
_MAX_CONTEXT_LINES, _MAX_CONTEXT_DISTANCE = 2, 6
"""Maximum number of non-blank context lines on each side, and their maximum distance in lines."""
_NO_CONTEXT_SHARE = 0.4
"""If less than this share of the room is left, error lines are added without context."""
_MIN_STRONG_SHAPES = 3
"""If there are at least this many strong shapes (cause or verdict), all weaker lines are left out."""
_MAX_SHAPES, _RETAINED_OLDEST_SHAPES = 256, 8
_MAX_CACHED_WEIGHTS = 4096
_MAX_WEIGHED_LINES, _MAX_RARE_COUNT = 20_000, 100
"""Number of lines that are always weighed. After that, a string of `ERROR_KEYWORDS` is searched for only if fewer than
`_MAX_RARE_COUNT` of these lines contained it."""
_BLOCK_BYTES = 1 << 16

_KEYWORDS = tuple(sign.encode() for sign in ERROR_KEYWORDS)
_DIGIT_TABLE = bytes.maketrans(b"23456789", b"1" * 8)
"""Maps digits to one digit when lines are compared. Only 0 stays, because "0 errors" has another meaning."""
_FAILURE_WORD = regex(r"(?i)error|fail|fatal|panic|exception|cannot|not found|expected")


@dataclass(slots=True)
class _ShapeGroup:
    """Lines of one shape: the newest line with its context, the number of the first line, and how many there are."""

    weight: int
    line_number: int
    line: bytes
    first_line_number: int
    count: int = 1
    before: Sequence[bytes] = ()
    after: Sequence[bytes] = ()


@dataclass(slots=True)
class ErrorMatches:
    """Collects error lines by shape from an output, which must be passed in whole lines and in order."""

    _by_shape: dict[str, _ShapeGroup] = field(default_factory=dict)
    _cached_weights: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """Weight and shape of lines, by the line with its digits normalised."""
    _weighed_count: int = 0
    _keyword_counts: Counter[bytes] = field(default_factory=Counter)
    """How many of the weighed lines contained each string of `ERROR_KEYWORDS`."""
    _active_keywords: tuple[bytes, ...] = _KEYWORDS
    """The strings that are still searched for."""
    _recent_lines: list[bytes] = field(default_factory=list)
    """The last lines processed, because they may be context of the next error line."""
    _open_groups: list[_ShapeGroup] = field(default_factory=list)
    """Groups whose newest line still lacks some of its following context."""

    def add_lines(self, text: bytes, first: int) -> None:
        """Process more output. `text` ends with a newline; `first` is the number of its first line."""
        at = 0
        while at < len(text):
            end = text.rfind(b"\n", at, at + _BLOCK_BYTES) + 1 or text.find(b"\n", at) + 1
            block = text[at : end - 1]
            count = block.count(b"\n") + 1
            if count > 4 * _MAX_CONTEXT_DISTANCE and not self._keywords_in(block.lower()):
                self._skip_block(block, first)
            else:
                self._scan_lines([line[:MAX_LINE_CHARS] for line in block.split(b"\n")], first)
            first += count
            at = end

    def _keywords_in(self, lowered: bytes) -> list[bytes]:
        """Return the searched strings that the text contains."""
        return [sign for sign in self._active_keywords if sign in lowered]

    def _skip_block(self, block: bytes, first: int) -> None:
        """Skip a block of more than `2 * _REACH` lines that contains no error line, without splitting all of it."""
        near = self._recent_lines + [
            line[:MAX_LINE_CHARS] for line in block.split(b"\n", _MAX_CONTEXT_DISTANCE)[:_MAX_CONTEXT_DISTANCE]
        ]
        _set_context(self._open_groups, near, first - len(self._recent_lines))
        self._open_groups = []
        self._recent_lines = [line[:MAX_LINE_CHARS] for line in block.rsplit(b"\n", 2 * _MAX_CONTEXT_DISTANCE)[1:]]

    def _scan_lines(self, lines: list[bytes], first: int) -> None:
        near, start = self._recent_lines + lines, first - len(self._recent_lines)
        recent = {id(found): found for found in self._open_groups}
        for index, weight, shape in self._error_lines(lines):
            number, found = first + index, self._by_shape.get(shape)
            if found is None:
                self._prune_shapes()
                found = self._by_shape[shape] = _ShapeGroup(weight, number, lines[index], number)
            else:
                found.line_number, found.line, found.count = number, lines[index], found.count + 1
            recent[id(found)] = found
        _set_context(recent.values(), near, start)
        self._open_groups = [
            found for found in recent.values() if found.line_number - start + _MAX_CONTEXT_DISTANCE >= len(near)
        ]
        self._recent_lines = near[-2 * _MAX_CONTEXT_DISTANCE :]

    def _error_lines(self, lines: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
        """Yield index, weight and shape of the lines that report errors."""
        lowered = b"\n".join(lines).lower()
        present = self._keywords_in(lowered)
        for index, line in enumerate(lowered.split(b"\n") if present else ()):
            if not any(map(line.__contains__, present)):
                continue
            if self._weighed_count < _MAX_WEIGHED_LINES or any(map(line.__contains__, self._active_keywords)):
                weight, shape = self._weigh_line(lines[index], line)
                if weight:
                    yield index, weight, shape

    def _weigh_line(self, line: bytes, lowered: bytes) -> tuple[int, str]:
        """Return weight and shape of a line. Once very many different lines have been weighed, strings that occur in
        many of them are no longer searched for."""
        normalised = line.translate(_DIGIT_TABLE)
        cached = self._cached_weights.get(normalised)
        if cached is None:
            text = terminal_line(line)
            weight = error_weight(text)
            cached = weight, line_shape(text) if weight else ""
            if len(self._cached_weights) >= _MAX_CACHED_WEIGHTS:
                self._cached_weights.clear()
            self._cached_weights[normalised] = cached
            self._weighed_count += 1
            self._keyword_counts.update(data for data in self._active_keywords if data in lowered)
            if self._weighed_count >= _MAX_WEIGHED_LINES:
                self._active_keywords = tuple(
                    data for data in self._active_keywords if self._keyword_counts[data] < _MAX_RARE_COUNT
                )
        return cached

    def _prune_shapes(self) -> None:
        """If there are too many shapes, keep only the newest shapes with the highest weights, and a few of the oldest
        with the highest weight."""
        if len(self._by_shape) < _MAX_SHAPES:
            return
        order = sorted(
            self._by_shape, key=lambda shape: (-self._by_shape[shape].weight, -self._by_shape[shape].line_number)
        )
        best = self._by_shape[order[0]].weight
        oldest = [shape for shape in order if self._by_shape[shape].weight == best][-_RETAINED_OLDEST_SHAPES:]
        self._by_shape = {shape: self._by_shape[shape] for shape in (*order[: _MAX_SHAPES // 2], *oldest)}

    def excerpt_between(self, head: int, tail: int, max_bytes: int = MAX_MATCH_BYTES) -> str:
        """Return the error lines after line `head` and before line `tail`, highest weight first and then newest first,
        with context as in `grep -C`, within `max_bytes` bytes. Empty if there are none."""
        blocks, listed, remaining_bytes = list[str](), set[int](), max_bytes
        for found in self._selected_groups(head, tail):
            if found.line_number in listed:
                continue
            is_roomy = remaining_bytes > max_bytes * _NO_CONTEXT_SHARE and (
                found.weight >= VERDICT_WEIGHT or not blocks
            )
            for around in (True, False) if is_roomy else (False,):
                lines = [one for one in group_lines(found, around) if head < one[0] < tail and one[0] not in listed]
                text = "\n".join(f"{number}{sign} {words}" for number, sign, words in lines)
                size = len(text.encode()) + 1
                if size <= remaining_bytes:
                    blocks.append(text)
                    listed.update(number for number, _, _ in lines)
                    remaining_bytes -= size
                    break
        return "\n".join(blocks)

    def _selected_groups(self, head: int, tail: int) -> list[_ShapeGroup]:
        found = [one for one in self._by_shape.values() if head < one.line_number < tail]
        found.sort(key=lambda one: (-one.weight, -one.line_number))
        if found and found[0].weight >= VERDICT_WEIGHT:
            min_weight = (
                WORDS_WEIGHT
                if len([one for one in found if one.weight >= VERDICT_WEIGHT]) < _MIN_STRONG_SHAPES
                else VERDICT_WEIGHT
            )
            found = [one for one in found if one.weight >= min_weight]
        same = [one for one in found if one.weight == found[0].weight]
        return found if len(same) < 3 else [same[0], same[-1], *same[1:-1], *found[len(same) :]]


def _set_context(found: Iterable[_ShapeGroup], near: Sequence[bytes], start: int) -> None:
    """Set the context lines of each group. `near`: the lines from number `start` on."""
    for group in found:
        at = group.line_number - start
        group.before, group.after = (
            near[max(at - _MAX_CONTEXT_DISTANCE, 0) : at],
            near[at + 1 : at + 1 + _MAX_CONTEXT_DISTANCE],
        )


def group_lines(found: _ShapeGroup, with_context: bool) -> list[tuple[int, str, str]]:
    """Return number, separator and text of the group's line and, if `with_context`, of its context lines."""
    repeat_note = f" (and {found.count - 1} like it, from line {found.first_line_number})" if found.count > 1 else ""
    line = (found.line_number, ":", _truncate_line(terminal_line(found.line)) + repeat_note)
    if not with_context:
        return [line]
    before = _context_lines(list(enumerate(found.before, found.line_number - len(found.before)))[::-1])
    return [*before[::-1], line, *_context_lines(list(enumerate(found.after, found.line_number + 1)))]


def terminal_line(line: bytes) -> str:
    """Return the line as a terminal would show it."""
    return terminal_text(line.decode("utf-8", "replace")).rstrip()


def _context_lines(lines: Sequence[tuple[int, bytes]]) -> list[tuple[int, str, str]]:
    """Return the first few lines that are neither blank nor routine."""
    words = ((number, "-", terminal_line(line)) for number, line in lines)
    return [
        (number, sign, _truncate_line(text))
        for number, sign, text in words
        if text.strip() and not is_routine_line(text)
    ][:_MAX_CONTEXT_LINES]


def _truncate_line(line: str) -> str:
    """Truncate a line to its beginning, or to the part around its first word of failure."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    word = _FAILURE_WORD.search(line)
    start = max(word.start() - _MAX_LINE_CHARS // 3, 0) if word and word.end() > _MAX_LINE_CHARS else 0
    return f"{'…' if start else ''}{line[start : start + _MAX_LINE_CHARS]}… [cut]"

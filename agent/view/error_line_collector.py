"""Finds the most important error lines of a long output while it streams, and renders them."""

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
"""Maximum size of the error lines in a large preview and in a small preview, in bytes."""
_MAX_LINE_CHARS = 240
"""Maximum number of characters shown from a line."""
_MAX_CONTEXT_LINES, _MAX_CONTEXT_DISTANCE = 2, 6
"""Context of an error line: the maximum number of lines on each side, and their maximum distance in lines."""
_NO_CONTEXT_SHARE = 0.4
"""If less than this share of the space remains, error lines are added without context."""
_MIN_STRONG_SHAPES = 3
"""If there are at least this many shapes of high weight (cause or verdict), all weaker lines are omitted."""
_MAX_SHAPES, _RETAINED_OLDEST_SHAPES = 256, 8
_MAX_CACHED_WEIGHTS = 4096
_MAX_WEIGHED_LINES, _MAX_RARE_COUNT = 20_000, 100
"""After `_MAX_WEIGHED_LINES` different lines, a keyword from `ERROR_KEYWORDS` is searched for only if fewer than
`_MAX_RARE_COUNT` of these lines contained it."""
_BLOCK_BYTES = 1 << 16

_KEYWORDS = tuple(keyword.encode() for keyword in ERROR_KEYWORDS)
_DIGIT_TABLE = bytes.maketrans(b"23456789", b"1" * 8)
"""Maps the digits 2 to 9 to 1 when lines are compared. 0 stays, because "0 errors" has a different meaning."""
_FAILURE_WORD = regex(r"(?i)error|fail|fatal|panic|exception|cannot|not found|expected")


@dataclass(slots=True)
class _ShapeGroup:
    """Lines with the same shape: the newest line with its context, the first line's number, and the number of lines."""

    weight: int
    line_number: int
    line: bytes
    first_line_number: int
    count: int = 1
    context_before: Sequence[bytes] = ()
    context_after: Sequence[bytes] = ()


@dataclass(slots=True)
class ErrorLineCollector:
    """Collects error lines by shape from an output, which must be passed in whole lines and in order."""

    _by_shape: dict[str, _ShapeGroup] = field(default_factory=dict)
    _cached_weights: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """Weight and shape of lines, by the line with its digits normalised."""
    _weighed_count: int = 0
    _keyword_counts: Counter[bytes] = field(default_factory=Counter)
    """For each keyword in `ERROR_KEYWORDS`, the number of weighed lines that contained it."""
    _active_keywords: tuple[bytes, ...] = _KEYWORDS
    """The keywords that are still searched for."""
    _recent_lines: list[bytes] = field(default_factory=list)
    """The last lines processed, which may become context of the next error line."""
    _open_groups: list[_ShapeGroup] = field(default_factory=list)
    """Groups whose newest line still lacks some of the context after it."""

    def add_lines(self, text: bytes, first_number: int) -> None:
        """Process more output. `text` ends with a newline; `first_number` is the number of its first line."""
        offset = 0
        while offset < len(text):
            end = text.rfind(b"\n", offset, offset + _BLOCK_BYTES) + 1 or text.find(b"\n", offset) + 1
            block = text[offset : end - 1]
            line_count = block.count(b"\n") + 1
            if line_count > 4 * _MAX_CONTEXT_DISTANCE and not self._keywords_in(block.lower()):
                self._skip_block(block, first_number)
            else:
                self._scan_lines([line[:MAX_LINE_CHARS] for line in block.split(b"\n")], first_number)
            first_number += line_count
            offset = end

    def _keywords_in(self, lowered: bytes) -> list[bytes]:
        """Return the active keywords that the text contains."""
        return [keyword for keyword in self._active_keywords if keyword in lowered]

    def _skip_block(self, block: bytes, first_number: int) -> None:
        """Skip a block that contains no error line, without splitting all of it. The block must have more than
        `2 * _MAX_CONTEXT_DISTANCE` lines."""
        nearby_lines = self._recent_lines + [
            line[:MAX_LINE_CHARS] for line in block.split(b"\n", _MAX_CONTEXT_DISTANCE)[:_MAX_CONTEXT_DISTANCE]
        ]
        _set_context(self._open_groups, nearby_lines, first_number - len(self._recent_lines))
        self._open_groups = []
        self._recent_lines = [line[:MAX_LINE_CHARS] for line in block.rsplit(b"\n", 2 * _MAX_CONTEXT_DISTANCE)[1:]]

    def _scan_lines(self, lines: list[bytes], first_number: int) -> None:
        nearby_lines, start = self._recent_lines + lines, first_number - len(self._recent_lines)
        recent = {id(group): group for group in self._open_groups}
        for index, weight, shape in self._error_lines(lines):
            number, group = first_number + index, self._by_shape.get(shape)
            if group is None:
                self._prune_shapes()
                group = self._by_shape[shape] = _ShapeGroup(weight, number, lines[index], number)
            else:
                group.line_number, group.line, group.count = number, lines[index], group.count + 1
            recent[id(group)] = group
        _set_context(recent.values(), nearby_lines, start)
        self._open_groups = [
            group for group in recent.values() if group.line_number - start + _MAX_CONTEXT_DISTANCE >= len(nearby_lines)
        ]
        self._recent_lines = nearby_lines[-2 * _MAX_CONTEXT_DISTANCE :]

    def _error_lines(self, lines: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
        """Yield the index, weight and shape of each line that reports an error."""
        lowered_text = b"\n".join(lines).lower()
        keywords = self._keywords_in(lowered_text)
        for index, lowered_line in enumerate(lowered_text.split(b"\n") if keywords else ()):
            if not any(map(lowered_line.__contains__, keywords)):
                continue
            if self._weighed_count < _MAX_WEIGHED_LINES or any(map(lowered_line.__contains__, self._active_keywords)):
                weight, shape = self._weigh_line(lines[index], lowered_line)
                if weight:
                    yield index, weight, shape

    def _weigh_line(self, line: bytes, lowered: bytes) -> tuple[int, str]:
        """Return a line's weight and shape. Once `_MAX_WEIGHED_LINES` different lines have been weighed, keywords that
        occur in many of them are no longer searched for."""
        normalised = line.translate(_DIGIT_TABLE)
        weight_and_shape = self._cached_weights.get(normalised)
        if weight_and_shape is None:
            text = terminal_line(line)
            weight = error_weight(text)
            weight_and_shape = weight, line_shape(text) if weight else ""
            if len(self._cached_weights) >= _MAX_CACHED_WEIGHTS:
                self._cached_weights.clear()
            self._cached_weights[normalised] = weight_and_shape
            self._weighed_count += 1
            self._keyword_counts.update(keyword for keyword in self._active_keywords if keyword in lowered)
            if self._weighed_count >= _MAX_WEIGHED_LINES:
                self._active_keywords = tuple(
                    keyword for keyword in self._active_keywords if self._keyword_counts[keyword] < _MAX_RARE_COUNT
                )
        return weight_and_shape

    def _prune_shapes(self) -> None:
        """If there are too many shapes, keep those with the highest weights and, among equal weights, the newer ones. A
        few of the oldest shapes with the highest weight are also kept."""
        if len(self._by_shape) < _MAX_SHAPES:
            return
        shapes = sorted(
            self._by_shape, key=lambda shape: (-self._by_shape[shape].weight, -self._by_shape[shape].line_number)
        )
        highest_weight = self._by_shape[shapes[0]].weight
        oldest = [shape for shape in shapes if self._by_shape[shape].weight == highest_weight][
            -_RETAINED_OLDEST_SHAPES:
        ]
        self._by_shape = {shape: self._by_shape[shape] for shape in (*shapes[: _MAX_SHAPES // 2], *oldest)}

    def excerpt_between(self, head_end: int, tail_start: int, max_bytes: int = MAX_MATCH_BYTES) -> str:
        """Return the error lines between the lines `head_end` and `tail_start`, in at most `max_bytes` bytes. The
        highest weights take precedence, then the newest lines. Context is shown as in `grep -C`. Empty if there are no
        error lines."""
        blocks, visible_numbers, remaining_bytes = list[str](), set[int](), max_bytes
        for group in self._selected_groups(head_end, tail_start):
            if group.line_number in visible_numbers:
                continue
            has_context_room = remaining_bytes > max_bytes * _NO_CONTEXT_SHARE and (
                group.weight >= VERDICT_WEIGHT or not blocks
            )
            for with_context in (True, False) if has_context_room else (False,):
                lines = [
                    (number, separator, text)
                    for number, separator, text in group_lines(group, with_context)
                    if head_end < number < tail_start and number not in visible_numbers
                ]
                block = "\n".join(f"{number}{separator} {text}" for number, separator, text in lines)
                block_bytes = len(block.encode()) + 1
                if block_bytes <= remaining_bytes:
                    blocks.append(block)
                    visible_numbers.update(number for number, _, _ in lines)
                    remaining_bytes -= block_bytes
                    break
        return "\n".join(blocks)

    def _selected_groups(self, head_end: int, tail_start: int) -> list[_ShapeGroup]:
        groups = [group for group in self._by_shape.values() if head_end < group.line_number < tail_start]
        groups.sort(key=lambda group: (-group.weight, -group.line_number))
        if groups and groups[0].weight >= VERDICT_WEIGHT:
            min_weight = (
                WORDS_WEIGHT
                if len([group for group in groups if group.weight >= VERDICT_WEIGHT]) < _MIN_STRONG_SHAPES
                else VERDICT_WEIGHT
            )
            groups = [group for group in groups if group.weight >= min_weight]
        strongest = [group for group in groups if group.weight == groups[0].weight]
        if len(strongest) < 3:
            return groups
        return [strongest[0], strongest[-1], *strongest[1:-1], *groups[len(strongest) :]]


def _set_context(groups: Iterable[_ShapeGroup], nearby_lines: Sequence[bytes], start: int) -> None:
    """Set the context lines of each group. `nearby_lines`: the lines from number `start` on."""
    for group in groups:
        index = group.line_number - start
        group.context_before = nearby_lines[max(index - _MAX_CONTEXT_DISTANCE, 0) : index]
        group.context_after = nearby_lines[index + 1 : index + 1 + _MAX_CONTEXT_DISTANCE]


def group_lines(group: _ShapeGroup, with_context: bool) -> list[tuple[int, str, str]]:
    """Return the number, separator and text of the group's line and, if `with_context`, of its context lines."""
    repeat_note = f" (and {group.count - 1} like it, from line {group.first_line_number})" if group.count > 1 else ""
    line = (group.line_number, ":", _truncate_line(terminal_line(group.line)) + repeat_note)
    if not with_context:
        return [line]
    lines_before = _context_lines(
        list(enumerate(group.context_before, group.line_number - len(group.context_before)))[::-1]
    )
    return [*lines_before[::-1], line, *_context_lines(list(enumerate(group.context_after, group.line_number + 1)))]


def terminal_line(line: bytes) -> str:
    """Return the line as a terminal would show it."""
    return terminal_text(line.decode("utf-8", "replace")).rstrip()


def _context_lines(lines: Sequence[tuple[int, bytes]]) -> list[tuple[int, str, str]]:
    """Return the first few lines that are neither blank nor routine."""
    numbered_texts = ((number, terminal_line(line)) for number, line in lines)
    return [
        (number, "-", _truncate_line(text))
        for number, text in numbered_texts
        if text.strip() and not is_routine_line(text)
    ][:_MAX_CONTEXT_LINES]


def _truncate_line(line: str) -> str:
    """Truncate a line to its beginning, or to the part around the first word that means failure."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    failure_word = _FAILURE_WORD.search(line)
    start = (
        max(failure_word.start() - _MAX_LINE_CHARS // 3, 0)
        if failure_word and failure_word.end() > _MAX_LINE_CHARS
        else 0
    )
    return f"{'…' if start else ''}{line[start : start + _MAX_LINE_CHARS]}… [cut]"

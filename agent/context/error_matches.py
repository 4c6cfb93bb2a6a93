"""Find the most important error lines of a long output while it streams, and render them. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from ebbtide.agent.context.error_lines import MAX_LINE_CHARS, SIGNS, VERDICT, WORDS, is_routine, shape_of, weight_of
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.plain_text import plain

MAX_MATCH_BYTES, MIN_MATCH_BYTES = 1024, 512
"""Bytes of error lines shown, in large previews and in small ones."""
_MAX_LINE_CHARS = 240
"""Characters shown of a line."""
_AROUND, _REACH = 2, 6
"""Non-blank context lines shown on each side, and how far away they may be."""
_ALONE = 0.4
"""Share of the room reserved for lines without context."""
_MIN_STRONG_SHAPES = 3
"""Number of strong shapes (cause or verdict) from which lines with mere words of failure are left out."""
_MOST_SHAPES, _OLDEST = 256, 8
_MOST_JUDGED = 4096
_MOST_LOOKS, _RARE = 20_000, 100
"""Lines that are judged in any case. After that, a sign counts only if fewer than `_RARE` of them contained it."""
_BLOCK = 1 << 16

_SIGNS = tuple(sign.encode() for sign in SIGNS)
_ALIKE = bytes.maketrans(b"23456789", b"1" * 8)
"""Digits that are treated as equal; 0 is not, because "0 errors" differs."""
_WORD = regex(r"(?i)error|fail|fatal|panic|exception|cannot|not found|expected")


@dataclass(slots=True)
class _ShapeGroup:
    """Lines of one shape: the newest of them, and how many there are."""

    weight: int
    number: int
    line: bytes
    first: int
    count: int = 1
    before: Sequence[bytes] = ()
    after: Sequence[bytes] = ()


@dataclass(slots=True)
class ErrorMatches:
    """Collects error lines by shape from an output that is passed in whole lines, in order."""

    _by_shape: dict[str, _ShapeGroup] = field(default_factory=dict)
    _judged: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """Weight and shape of lines, with digits normalised."""
    _looks: int = 0
    _sign_counts: Counter[bytes] = field(default_factory=Counter)
    """Number of judged lines that contained each sign."""
    _signs: tuple[bytes, ...] = _SIGNS
    """Signs still searched for."""
    _last: list[bytes] = field(default_factory=list)
    """The lines before the next ones."""
    _open: list[_ShapeGroup] = field(default_factory=list)
    """Groups whose following lines are not yet complete."""

    def take(self, text: bytes, first: int) -> None:
        """Process more output. `text` ends with a newline; `first` is the number of its first line."""
        at = 0
        while at < len(text):
            end = text.rfind(b"\n", at, at + _BLOCK) + 1 or text.find(b"\n", at) + 1
            block = text[at : end - 1]
            count = block.count(b"\n") + 1
            if count > 4 * _REACH and not self._present(block.lower()):
                self._pass_over(block, first)
            else:
                self._look([line[:MAX_LINE_CHARS] for line in block.split(b"\n")], first)
            first += count
            at = end

    def _present(self, small: bytes) -> list[bytes]:
        """Return the signs found in the text."""
        return [sign for sign in self._signs if sign in small]

    def _pass_over(self, block: bytes, first: int) -> None:
        """Skip a block of more than `2 * _REACH` lines without any error line, without splitting all of it."""
        near = self._last + [line[:MAX_LINE_CHARS] for line in block.split(b"\n", _REACH)[:_REACH]]
        _set_around(self._open, near, first - len(self._last))
        self._open = []
        self._last = [line[:MAX_LINE_CHARS] for line in block.rsplit(b"\n", 2 * _REACH)[1:]]

    def _look(self, lines: list[bytes], first: int) -> None:
        near, start = self._last + lines, first - len(self._last)
        recent = {id(found): found for found in self._open}
        for index, weight, shape in self._telling(lines):
            number, found = first + index, self._by_shape.get(shape)
            if found is None:
                self._forget_some()
                found = self._by_shape[shape] = _ShapeGroup(weight, number, lines[index], number)
            else:
                found.number, found.line, found.count = number, lines[index], found.count + 1
            recent[id(found)] = found
        _set_around(recent.values(), near, start)
        self._open = [found for found in recent.values() if found.number - start + _REACH >= len(near)]
        self._last = near[-2 * _REACH :]

    def _telling(self, lines: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
        """Yield index, weight and shape of the lines that report errors."""
        small = b"\n".join(lines).lower()
        present = self._present(small)
        for index, line in enumerate(small.split(b"\n") if present else ()):
            if not any(map(line.__contains__, present)):
                continue
            if self._looks < _MOST_LOOKS or any(map(line.__contains__, self._signs)):
                weight, shape = self._judge(lines[index], line)
                if weight:
                    yield index, weight, shape

    def _judge(self, line: bytes, small: bytes) -> tuple[int, str]:
        """Return weight and shape. If very many lines differ in more than numbers, signs that many of them contain are
        ignored from then on."""
        alike = line.translate(_ALIKE)
        known = self._judged.get(alike)
        if known is None:
            text = readable(line)
            weight = weight_of(text)
            known = weight, shape_of(text) if weight else ""
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            self._judged[alike] = known
            self._looks += 1
            self._sign_counts.update(data for data in self._signs if data in small)
            if self._looks >= _MOST_LOOKS:
                self._signs = tuple(data for data in self._signs if self._sign_counts[data] < _RARE)
        return known

    def _forget_some(self) -> None:
        """If there are too many shapes, keep the heaviest: the newest of them, and a few of the oldest."""
        if len(self._by_shape) < _MOST_SHAPES:
            return
        order = sorted(self._by_shape, key=lambda shape: (-self._by_shape[shape].weight, -self._by_shape[shape].number))
        best = self._by_shape[order[0]].weight
        oldest = [shape for shape in order if self._by_shape[shape].weight == best][-_OLDEST:]
        self._by_shape = {shape: self._by_shape[shape] for shape in (*order[: _MOST_SHAPES // 2], *oldest)}

    def excerpt_between(self, head: int, tail: int, room: int = MAX_MATCH_BYTES) -> str:
        """Return the error lines after line `head` and before line `tail`, the heaviest first and then the newest, with
        context as in `grep -C`, within `room` bytes. Empty if there are none."""
        blocks, told, left = list[str](), set[int](), room
        for found in self._best(head, tail):
            if found.number in told:
                continue
            is_roomy = left > room * _ALONE and (found.weight >= VERDICT or not blocks)
            for around in (True, False) if is_roomy else (False,):
                lines = [one for one in found_lines(found, around) if head < one[0] < tail and one[0] not in told]
                text = "\n".join(f"{number}{sign} {words}" for number, sign, words in lines)
                size = len(text.encode()) + 1
                if size <= left:
                    blocks.append(text)
                    told.update(number for number, _, _ in lines)
                    left -= size
                    break
        return "\n".join(blocks)

    def _best(self, head: int, tail: int) -> list[_ShapeGroup]:
        found = [one for one in self._by_shape.values() if head < one.number < tail]
        found.sort(key=lambda one: (-one.weight, -one.number))
        if found and found[0].weight >= VERDICT:
            more = WORDS if len([one for one in found if one.weight >= VERDICT]) < _MIN_STRONG_SHAPES else VERDICT
            found = [one for one in found if one.weight >= more]
        same = [one for one in found if one.weight == found[0].weight]
        return found if len(same) < 3 else [same[0], same[-1], *same[1:-1], *found[len(same) :]]


def _set_around(found: Iterable[_ShapeGroup], near: Sequence[bytes], start: int) -> None:
    """Set the context lines of each group. `near`: lines from number `start` on."""
    for each in found:
        at = each.number - start
        each.before, each.after = near[max(at - _REACH, 0) : at], near[at + 1 : at + 1 + _REACH]


def found_lines(found: _ShapeGroup, around: bool) -> list[tuple[int, str, str]]:
    """Return number, separator and text of a line and, if `around`, of its context lines."""
    alike = f" (and {found.count - 1} like it, from line {found.first})" if found.count > 1 else ""
    line = (found.number, ":", _truncate_line(readable(found.line)) + alike)
    if not around:
        return [line]
    before = _context_lines(list(enumerate(found.before, found.number - len(found.before)))[::-1])
    return [*before[::-1], line, *_context_lines(list(enumerate(found.after, found.number + 1)))]


def readable(line: bytes) -> str:
    """Return the line as a terminal would show it."""
    return plain(line.decode("utf-8", "replace")).rstrip()


def _context_lines(lines: Sequence[tuple[int, bytes]]) -> list[tuple[int, str, str]]:
    """Return the first lines that are not routine."""
    words = ((number, "-", readable(line)) for number, line in lines)
    return [
        (number, sign, _truncate_line(text)) for number, sign, text in words if text.strip() and not is_routine(text)
    ][:_AROUND]


def _truncate_line(line: str) -> str:
    """Truncate a line to its beginning, or to the part around its first word of failure."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    word = _WORD.search(line)
    start = max(word.start() - _MAX_LINE_CHARS // 3, 0) if word and word.end() > _MAX_LINE_CHARS else 0
    return f"{'…' if start else ''}{line[start : start + _MAX_LINE_CHARS]}… [cut]"

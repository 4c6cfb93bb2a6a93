"""Detects parts of secrets: values split or cut off by line breaks, values in hex dumps, and incomplete private
keys."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.tools.lazy import dataclass, regex

MIN_SECRET_CHARS = 8
"""Minimum length of a value that is redacted anywhere. A shorter one could be part of an ordinary word."""

_LINE_BREAKS = regex(r"[\r\n\0\b]+")
_MIN_SPLIT_SECRET_CHARS = 16
"""Minimum length of a value that is also detected in pieces."""

_DUMP_LINE = regex(r"^(?:[0-9A-Fa-f]{4,16}:?)?[ \t]+((?:[0-9A-Fa-f]{2} {0,2}){1,16})[^\n]*", re.MULTILINE)
"""A line of bytes as printed by `xxd`, `hexdump -C` or `od -tx1`, followed by the bytes as characters."""

_MAX_KEY_CHARS = 20_000
_KEY_EDGE = regex(r"-----(BEGIN|END) (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = regex(r"[A-Za-z0-9+/]{40,}={0,2}")
_KEY_HEADER = regex(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): |^\W*\d*\W*$")

_PIECE = regex(r"[A-Za-z0-9+/=_-]+")
_MIN_PIECE_CHARS = 40
"""Minimum length of the last word of a line that may continue on the next line."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    start: int
    end: int
    name: str


def find_secret_pieces(text: str, known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the positions of pieces of known values, in no particular order and possibly with duplicates. `known_forms`
    maps forms of values to names."""
    yield from _find_wrapped(text, known_forms)
    yield from _find_broken(text, known_forms)
    yield from _find_cut_off(text, known_forms)
    yield from _find_dumped(text, known_forms)


def _find_broken(text: str, known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the pieces of values split by line breaks at any position."""
    joined = _LINE_BREAKS.sub("", text)
    if len(joined) == len(text):
        return
    broken = [
        value
        for value in known_forms
        if len(value) >= _MIN_SPLIT_SECRET_CHARS and joined.count(value) > text.count(value)
    ]
    break_positions: list[int] = []
    """Positions of the line breaks in the joined text, and for each the total number of break characters so far."""
    break_chars_before = [0]
    for match in _LINE_BREAKS.finditer(text) if broken else ():
        break_positions.append(match.start() - break_chars_before[-1])
        break_chars_before.append(break_chars_before[-1] + len(match[0]))
    for value in broken:
        for match in re.finditer(re.escape(value), joined):
            at, index = match.start(), bisect_right(break_positions, match.start())
            while index < len(break_positions) and break_positions[index] < match.end():
                yield FoundSecret(
                    at + break_chars_before[index],
                    break_positions[index] + break_chars_before[index],
                    known_forms[value],
                )
                at, index = break_positions[index], index + 1
            yield FoundSecret(
                at + break_chars_before[index], match.end() + break_chars_before[index], known_forms[value]
            )


def _find_cut_off(text: str, known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the visible parts of values that are cut off at the end or start of a line."""
    for value, name in known_forms.items():
        size, min_visible = len(value), max(MIN_SECRET_CHARS, len(value) // 3)
        if size < _MIN_SPLIT_SECRET_CHARS or not re.search(r"\d", value):
            continue
        for start in _positions_of(value[:min_visible], text):
            if not text.startswith(value, start):
                end = start + _common_prefix_length(text[start : start + size], value)
                if end == len(text) or text[end] in "\r\n":
                    yield FoundSecret(start, end, name)
        for end in (start + min_visible for start in _positions_of(value[-min_visible:], text)):
            if not text.endswith(value, 0, end):
                start = end - _common_prefix_length(text[max(end - size, 0) : end][::-1], value[::-1])
                if start == 0 or text[start - 1] in "\r\n":
                    yield FoundSecret(start, end, name)


def _find_dumped(text: str, known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the lines of a dump that contain bytes of a value."""
    lines = [(line.start(1), line.end(), re.sub(r"\s", "", line[1]).lower()) for line in _DUMP_LINE.finditer(text)]
    joined = "".join(digits for *_, digits in lines)
    for value, name in known_forms.items():
        for at in _positions_of(value, joined) if value in joined else ():
            begin = 0
            for start, end, digits in lines:
                if begin < at + len(value) and at < begin + len(digits):
                    yield FoundSecret(start, end, name)
                begin += len(digits)


def _positions_of(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + len(piece))


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def find_private_key_parts(text: str) -> Iterator[FoundSecret]:
    """Yield private keys that are cut off, or whose lines each have a prefix, as in a diff."""
    for edge in _KEY_EDGE.finditer(text):
        if edge[1] == "END":
            if (start := _key_start_above(text, edge.start())) < edge.start():
                yield FoundSecret(start, edge.end(), "private-key")
        elif (end := _key_end_below(text, edge.end())) > edge.end():
            yield FoundSecret(edge.start(), end, "private-key")


def _key_end_below(text: str, start: int) -> int:
    """Return the end of the private key whose first line precedes `start`."""
    last, at, other_lines = start, start, 0
    while at < min(len(text), start + _MAX_KEY_CHARS):
        line_end = text.find("\n", at) + 1 or len(text)
        line = text[at:line_end]
        if (edge := _KEY_EDGE.search(line)) is not None:
            return at + edge.end() if last > start else last
        if (end := _key_part(line)[1]) > 0:
            last, other_lines = at + end, 0
        elif at > start and not _KEY_HEADER.search(line):
            other_lines += 1
            if other_lines > (last > start):  # the last line of a key is shorter and may not look like one
                break
        at = line_end
    return last


def _key_start_above(text: str, end: int) -> int:
    """Return the start of the private key whose last line follows `end`."""
    first = line_end = end
    for number in range(_MAX_KEY_CHARS // _MIN_PIECE_CHARS):
        at = text.rfind("\n", 0, max(line_end - 1, 0)) + 1
        begin, behind = _key_part(text[at:line_end])
        if behind > 0:
            first = at + begin
        elif number > 1:  # allows for the edge and a shorter last line
            break
        line_end = at
        if at == 0:
            break
    return first


def _key_part(line: str) -> tuple[int, int]:
    """Return start and end of the part of a line that looks like a key, or (0, 0) if there is none."""
    runs = [run for run in _KEY_LINE.finditer(line) if looks_random(run[0])]
    return (runs[0].start(), runs[-1].end()) if runs else (0, 0)


def _find_wrapped(text: str, known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the pieces of values wrapped by `base64` or `xxd -p`, with or without line numbers. The last word of each
    line continues on the next."""
    pieces: list[tuple[int, str]] = []
    at = 0
    for line in text.splitlines(keepends=True) if text.count("\n") else ():
        words = line.rstrip()
        piece = words[max(words.rfind(" "), words.rfind("\t")) + 1 :]
        is_piece = _PIECE.fullmatch(piece) is not None
        if is_piece and (pieces or len(piece) >= _MIN_PIECE_CHARS):
            pieces.append((at + len(words) - len(piece), piece))
        if pieces and not (is_piece and len(piece) >= _MIN_PIECE_CHARS):
            yield from _find_joined(pieces, known_forms)
            pieces = []
        at += len(line)
    yield from _find_joined(pieces, known_forms)


def _find_joined(pieces: Sequence[tuple[int, str]], known_forms: Mapping[str, str]) -> Iterator[FoundSecret]:
    joined = "".join(piece for _, piece in pieces) if len(pieces) > 1 else ""
    for value, name in known_forms.items():
        if (start := joined.find(value)) < 0:
            continue
        end = start + len(value)
        for place, piece in pieces:
            first, last = max(start, 0), min(end, len(piece))
            if first < last:
                yield FoundSecret(place + first, place + last, name)
            start, end = start - len(piece), end - len(piece)


def looks_random(text: str) -> bool:
    """Whether text looks random, as keys do: it contains upper-case letters, lower-case letters and digits."""
    return all(re.search(signs, text) for signs in ("[a-z]", "[A-Z]", r"\d"))

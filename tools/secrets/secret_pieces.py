"""Detects parts of secrets: values split or cut off by line breaks, hex dumps, and partial private keys."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.tools.lazy import dataclass, regex

MIN_SECRET_CHARS = 8
"""Minimum length of a value that is redacted anywhere. A shorter one may be part of any word."""

_BREAKS = regex(r"[\r\n\0\b]+")
_MIN_SPLIT_SECRET_CHARS = 16
"""Minimum length of a value that is also detected in pieces."""

_DUMP = regex(r"^(?:[0-9A-Fa-f]{4,16}:?)?[ \t]+((?:[0-9A-Fa-f]{2} {0,2}){1,16})[^\n]*", re.MULTILINE)
"""A line of bytes as printed by `xxd`, `hexdump -C` and `od -tx1`, followed by their characters."""

_MAX_KEY_CHARS = 20_000
_KEY_EDGE = regex(r"-----(BEGIN|END) (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = regex(r"[A-Za-z0-9+/]{40,}={0,2}")
_KEY_HEADER = regex(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): |^\W*\d*\W*$")

_PIECE = regex(r"[A-Za-z0-9+/=_-]+")
_MIN_PIECE_CHARS = 40
"""Minimum number of characters of a line that continues on the next."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    start: int
    end: int
    name: str


def pieces_in(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the positions of pieces of known values, unordered and possibly with duplicates. `known` maps forms of
    values to names."""
    yield from _find_wrapped(text, known)
    yield from _find_broken(text, known)
    yield from _cut_off(text, known)
    yield from _find_dumped(text, known)


def _find_broken(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the pieces of values split by line breaks at any position."""
    whole = _BREAKS.sub("", text)
    if len(whole) == len(text):
        return
    broken = [
        value for value in known if len(value) >= _MIN_SPLIT_SECRET_CHARS and whole.count(value) > text.count(value)
    ]
    places: list[int] = []
    """Positions of the breaks in the joined text, and the total number of break characters up to each."""
    before = [0]
    for match in _BREAKS.finditer(text) if broken else ():
        places.append(match.start() - before[-1])
        before.append(before[-1] + len(match[0]))
    for value in broken:
        for match in re.finditer(re.escape(value), whole):
            at, index = match.start(), bisect_right(places, match.start())
            while index < len(places) and places[index] < match.end():
                yield FoundSecret(at + before[index], places[index] + before[index], known[value])
                at, index = places[index], index + 1
            yield FoundSecret(at + before[index], match.end() + before[index], known[value])


def _cut_off(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the visible parts of values that are cut off at the end or start of a line."""
    for value, name in known.items():
        size, fewest = len(value), max(MIN_SECRET_CHARS, len(value) // 3)
        if size < _MIN_SPLIT_SECRET_CHARS or not re.search(r"\d", value):
            continue
        for start in _places_of(value[:fewest], text):
            if not text.startswith(value, start):
                end = start + _alike(text[start : start + size], value)
                if end == len(text) or text[end] in "\r\n":
                    yield FoundSecret(start, end, name)
        for end in (start + fewest for start in _places_of(value[-fewest:], text)):
            if not text.endswith(value, 0, end):
                start = end - _alike(text[max(end - size, 0) : end][::-1], value[::-1])
                if start == 0 or text[start - 1] in "\r\n":
                    yield FoundSecret(start, end, name)


def _find_dumped(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the lines of a dump that contain bytes of a value."""
    lines = [(line.start(1), line.end(), re.sub(r"\s", "", line[1]).lower()) for line in _DUMP.finditer(text)]
    whole = "".join(digits for *_, digits in lines)
    for value, name in known.items():
        for at in _places_of(value, whole) if value in whole else ():
            begin = 0
            for start, end, digits in lines:
                if begin < at + len(value) and at < begin + len(digits):
                    yield FoundSecret(start, end, name)
                begin += len(digits)


def _places_of(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + len(piece))


def _alike(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def parts_of_keys(text: str) -> Iterator[FoundSecret]:
    """Yield private keys that are cut off, or whose lines have a prefix, as in a diff."""
    for edge in _KEY_EDGE.finditer(text):
        if edge[1] == "END":
            if (start := _key_above(text, edge.start())) < edge.start():
                yield FoundSecret(start, edge.end(), "private-key")
        elif (end := _key_below(text, edge.end())) > edge.end():
            yield FoundSecret(edge.start(), end, "private-key")


def _key_below(text: str, start: int) -> int:
    """Return the end of a key that starts here."""
    last, at, others = start, start, 0
    while at < min(len(text), start + _MAX_KEY_CHARS):
        until = text.find("\n", at) + 1 or len(text)
        line = text[at:until]
        if (edge := _KEY_EDGE.search(line)) is not None:
            return at + edge.end() if last > start else last
        if (end := _key_part(line)[1]) > 0:
            last, others = at + end, 0
        elif at > start and not _KEY_HEADER.search(line):
            others += 1
            if others > (last > start):  # the last line of a key is shorter
                break
        at = until
    return last


def _key_above(text: str, end: int) -> int:
    """Return the start of a key that ends here."""
    first = until = end
    for number in range(_MAX_KEY_CHARS // _MIN_PIECE_CHARS):
        at = text.rfind("\n", 0, max(until - 1, 0)) + 1
        begin, behind = _key_part(text[at:until])
        if behind > 0:
            first = at + begin
        elif number > 1:  # the edge itself, and the last line, which is shorter
            break
        until = at
        if at == 0:
            break
    return first


def _key_part(line: str) -> tuple[int, int]:
    """Return start and end of the key's part of a line, or zeros."""
    runs = [run for run in _KEY_LINE.finditer(line) if is_mixed(run[0])]
    return (runs[0].start(), runs[-1].end()) if runs else (0, 0)


def _find_wrapped(text: str, known: Mapping[str, str]) -> Iterator[FoundSecret]:
    """Yield the pieces of values wrapped by `base64` or `xxd -p`, with or without line numbers: the last word of a line
    continues on the next."""
    pieces: list[tuple[int, str]] = []
    at = 0
    for line in text.splitlines(keepends=True) if text.count("\n") else ():
        words = line.rstrip()
        piece = words[max(words.rfind(" "), words.rfind("\t")) + 1 :]
        is_piece = _PIECE.fullmatch(piece) is not None
        if is_piece and (pieces or len(piece) >= _MIN_PIECE_CHARS):
            pieces.append((at + len(words) - len(piece), piece))
        if pieces and not (is_piece and len(piece) >= _MIN_PIECE_CHARS):
            yield from _find_joined(pieces, known)
            pieces = []
        at += len(line)
    yield from _find_joined(pieces, known)


def _find_joined(pieces: Sequence[tuple[int, str]], known: Mapping[str, str]) -> Iterator[FoundSecret]:
    whole = "".join(piece for _, piece in pieces) if len(pieces) > 1 else ""
    for value, name in known.items():
        if (start := whole.find(value)) < 0:
            continue
        end = start + len(value)
        for place, piece in pieces:
            first, last = max(start, 0), min(end, len(piece))
            if first < last:
                yield FoundSecret(place + first, place + last, name)
            start, end = start - len(piece), end - len(piece)


def is_mixed(text: str) -> bool:
    """Whether it looks random, as keys do."""
    return all(re.search(signs, text) for signs in ("[a-z]", "[A-Z]", r"\d"))

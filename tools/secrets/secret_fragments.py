"""Detects incomplete secrets: values split or cut off by line breaks, values in hex dumps, and partial private keys."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.plain_text import common_prefix_length

MIN_SECRET_CHARS = 8
"""Minimum length of a value that is redacted wherever it appears. Shorter values could be part of an ordinary word."""

_LINE_BREAKS = regex(r"[\r\n\0\b]+")
_MIN_SPLIT_SECRET_CHARS = 16
"""Minimum length of a value that is also detected in pieces."""

_DUMP_LINE = regex(r"^(?:[0-9A-Fa-f]{4,16}:?)?[ \t]+((?:[0-9A-Fa-f]{2} {0,2}){1,16})[^\n]*", re.MULTILINE)
"""A line of bytes as printed by `xxd`, `hexdump -C` or `od -tx1`, followed by the bytes as characters."""

_MAX_KEY_CHARS = 20_000
_KEY_MARKER = regex(r"-----(BEGIN|END) (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = regex(r"[A-Za-z0-9+/]{40,}={0,2}")
_KEY_HEADER = regex(r"(?:Proc-Type|DEK-Info|Version|Comment|Hash): |^\W*\d*\W*$")

_PIECE_WORD = regex(r"[A-Za-z0-9+/=_-]+")
_MIN_PIECE_CHARS = 40
"""Only a last word of at least this many characters is assumed to continue on the next line."""


@dataclass(frozen=True, slots=True)
class SecretSpan:
    start: int
    end: int
    name: str


def find_secret_fragments(text: str, names_by_encoding: Mapping[str, str]) -> Iterator[SecretSpan]:
    """Find pieces of known secrets, in no particular order and possibly with duplicates. `names_by_encoding` maps each
    form of a value to its name."""
    yield from _find_in_wrapped_lines(text, names_by_encoding)
    yield from _find_split_by_line_breaks(text, names_by_encoding)
    yield from _find_cut_off(text, names_by_encoding)
    yield from _find_in_hex_dump(text, names_by_encoding)


def _find_split_by_line_breaks(text: str, names_by_encoding: Mapping[str, str]) -> Iterator[SecretSpan]:
    """Find values that line breaks have split at any position."""
    joined = _LINE_BREAKS.sub("", text)
    if len(joined) == len(text):
        return
    split_values = [
        value
        for value in names_by_encoding
        if len(value) >= _MIN_SPLIT_SECRET_CHARS and joined.count(value) > text.count(value)
    ]
    break_positions: list[int] = []
    """Offset of each line break in the joined text."""
    break_chars_before = [0]
    """Number of break characters before each line break. The last item is the total."""
    for match in _LINE_BREAKS.finditer(text) if split_values else ():
        break_positions.append(match.start() - break_chars_before[-1])
        break_chars_before.append(break_chars_before[-1] + len(match[0]))
    for value in split_values:
        for match in re.finditer(re.escape(value), joined):
            offset, index = match.start(), bisect_right(break_positions, match.start())
            while index < len(break_positions) and break_positions[index] < match.end():
                yield SecretSpan(
                    offset + break_chars_before[index],
                    break_positions[index] + break_chars_before[index],
                    names_by_encoding[value],
                )
                offset, index = break_positions[index], index + 1
            yield SecretSpan(
                offset + break_chars_before[index], match.end() + break_chars_before[index], names_by_encoding[value]
            )


def _find_cut_off(text: str, names_by_encoding: Mapping[str, str]) -> Iterator[SecretSpan]:
    """Find the visible parts of values that are cut off at the start or end of a line."""
    for value, name in names_by_encoding.items():
        length, min_visible_chars = len(value), max(MIN_SECRET_CHARS, len(value) // 3)
        if length < _MIN_SPLIT_SECRET_CHARS or not re.search(r"\d", value):
            continue
        for start in _positions_of(value[:min_visible_chars], text):
            if not text.startswith(value, start):
                end = start + common_prefix_length(text[start : start + length], value)
                if end == len(text) or text[end] in "\r\n":
                    yield SecretSpan(start, end, name)
        for end in (start + min_visible_chars for start in _positions_of(value[-min_visible_chars:], text)):
            if not text.endswith(value, 0, end):
                start = end - common_prefix_length(text[max(end - length, 0) : end][::-1], value[::-1])
                if start == 0 or text[start - 1] in "\r\n":
                    yield SecretSpan(start, end, name)


def _find_in_hex_dump(text: str, names_by_encoding: Mapping[str, str]) -> Iterator[SecretSpan]:
    """Find the lines of a hex dump that contain bytes of a value."""
    lines = [(line.start(1), line.end(), re.sub(r"\s", "", line[1]).lower()) for line in _DUMP_LINE.finditer(text)]
    joined = "".join(digits for *_, digits in lines)
    for value, name in names_by_encoding.items():
        for offset in _positions_of(value, joined) if value in joined else ():
            line_offset = 0
            for start, end, digits in lines:
                if line_offset < offset + len(value) and offset < line_offset + len(digits):
                    yield SecretSpan(start, end, name)
                line_offset += len(digits)


def _positions_of(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + len(piece))


def find_private_key_parts(text: str) -> Iterator[SecretSpan]:
    """Find private keys that are cut off or have a prefix on every line, as in a diff."""
    for marker in _KEY_MARKER.finditer(text):
        if marker[1] == "END":
            if (start := _key_start_above(text, marker.start())) < marker.start():
                yield SecretSpan(start, marker.end(), "private-key")
        elif (end := _key_end_below(text, marker.end())) > marker.end():
            yield SecretSpan(marker.start(), end, "private-key")


def _key_end_below(text: str, start: int) -> int:
    """Find the end of the private key whose first line ends at `start`."""
    key_end, line_start, other_line_count = start, start, 0
    while line_start < min(len(text), start + _MAX_KEY_CHARS):
        line_end = text.find("\n", line_start) + 1 or len(text)
        line = text[line_start:line_end]
        if (marker := _KEY_MARKER.search(line)) is not None:
            return line_start + marker.end() if key_end > start else key_end
        if (end := _key_span(line)[1]) > 0:
            key_end, other_line_count = line_start + end, 0
        elif line_start > start and not _KEY_HEADER.search(line):
            other_line_count += 1
            if other_line_count > (key_end > start):  # the last line of a key is shorter and may not look like one
                break
        line_start = line_end
    return key_end


def _key_start_above(text: str, end: int) -> int:
    """Find the start of the private key whose last line starts at `end`."""
    key_start = line_end = end
    for line_index in range(_MAX_KEY_CHARS // _MIN_PIECE_CHARS):
        line_start = text.rfind("\n", 0, max(line_end - 1, 0)) + 1
        span_start, span_end = _key_span(text[line_start:line_end])
        if span_end > 0:
            key_start = line_start + span_start
        elif line_index > 1:  # allows for the marker and a shorter last line
            break
        line_end = line_start
        if line_start == 0:
            break
    return key_start


def _key_span(line: str) -> tuple[int, int]:
    """Find the part of a line that looks like key data. Returns its start and end, or (0, 0) if there is none."""
    matches = [match for match in _KEY_LINE.finditer(line) if looks_random(match[0])]
    return (matches[0].start(), matches[-1].end()) if matches else (0, 0)


def _find_in_wrapped_lines(text: str, names_by_encoding: Mapping[str, str]) -> Iterator[SecretSpan]:
    """Find pieces of values in wrapped output, such as that of `base64` or `xxd -p`, with or without line numbers. In
    such output, the last word of each line continues on the next line."""
    pieces: list[tuple[int, str]] = []
    line_start = 0
    for line in text.splitlines(keepends=True) if text.count("\n") else ():
        stripped_line = line.rstrip()
        piece = stripped_line[max(stripped_line.rfind(" "), stripped_line.rfind("\t")) + 1 :]
        is_piece = _PIECE_WORD.fullmatch(piece) is not None
        if is_piece and (pieces or len(piece) >= _MIN_PIECE_CHARS):
            pieces.append((line_start + len(stripped_line) - len(piece), piece))
        if pieces and not (is_piece and len(piece) >= _MIN_PIECE_CHARS):
            yield from _find_in_joined_pieces(pieces, names_by_encoding)
            pieces = []
        line_start += len(line)
    yield from _find_in_joined_pieces(pieces, names_by_encoding)


def _find_in_joined_pieces(
    pieces: Sequence[tuple[int, str]], names_by_encoding: Mapping[str, str]
) -> Iterator[SecretSpan]:
    joined = "".join(piece for _, piece in pieces) if len(pieces) > 1 else ""
    for value, name in names_by_encoding.items():
        if (start := joined.find(value)) < 0:
            continue
        end = start + len(value)
        for piece_start, piece in pieces:
            overlap_start, overlap_end = max(start, 0), min(end, len(piece))
            if overlap_start < overlap_end:
                yield SecretSpan(piece_start + overlap_start, piece_start + overlap_end, name)
            start, end = start - len(piece), end - len(piece)


def looks_random(text: str) -> bool:
    """Whether text looks like a random key: it mixes upper-case letters, lower-case letters and digits."""
    return all(re.search(character_class, text) for character_class in ("[a-z]", "[A-Z]", r"\d"))

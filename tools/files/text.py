"""A text file as bytes and as text for the model. Pure. Edits preserve all other bytes."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from ebbtide.tools.files.byte_order import BOMS
from ebbtide.tools.files.encodings import MULTIBYTE, declared_encoding, guessed_encoding
from ebbtide.tools.lazy import dataclass, regex

Newline: TypeAlias = Literal["\n", "\r\n", "\r"]

_SURROGATE = regex("[\ud800-\udfff]")

_HIGH_RUN = regex(r"[^\x00-\x7f]+")
_BROKEN_BYTE = regex("[\udc80-\udcff]")
_SURE = 10
"""Minimum number of valid characters per undecodable byte for a declared encoding to be accepted."""
_MAX_CHARACTER_BYTES = 4
"""Maximum number of bytes per character in any encoding."""

_MAGIC = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive (or a document or package in that form)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"MZ", "a Windows program"),
    (b"\0asm", "a WebAssembly module"),
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change of a text: `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


class EncodingError(Exception):
    """The file's encoding cannot represent the text."""


class UnsureEncodingError(EncodingError):
    """The encoding is only a guess, so the bytes to write are uncertain."""


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    """Decoded, without byte order mark, line endings unchanged. Undecodable bytes are lone surrogates."""
    codec: str = "utf-8"
    bom: bytes = b""
    newline: Newline = "\n"
    """The most common line ending."""
    raw: bytes = b""
    """The bytes that `text` was decoded from."""
    is_guess: bool = False
    """Whether `codec` is only a guess."""

    @property
    def normalised_text(self) -> str:
        r"""The text with every line ending as `\n`, for matching and display."""
        if self.newline == "\r":
            return self.text.replace("\r", "\n")
        return self.text.replace("\r\n", "\n")

    def with_changes(self, changes: Sequence[Replacement]) -> "TextFile":
        """Apply changes at positions of `normalised_text`, in order and without overlaps. Every other byte is
        preserved. Raises `EncodingError`."""
        shortened = self._crlf_offsets()
        if shortened and "\n" in self.text.replace("\r\n", ""):
            unified = self.normalised_text
            changes = [part for change in changes for part in _least(unified, change)]
        text, raw, at, byte = list[str](), list[bytes](), 0, 0
        for change in changes:
            start = change.start + bisect_left(shortened, change.start)
            end = change.end + bisect_left(shortened, change.end)
            first = byte + self._size(at, start, byte)
            last = first + self._size(start, end, first)
            self._require_whole_characters(first, last)
            put = with_newline(change.text, self.newline)
            text += [self.text[at:start], put]
            raw += [self.raw[byte:first], self._splice(self.text[start:end], self.raw[first:last], put)]
            at, byte = end, last
        text.append(self.text[at:])
        raw.append(self.raw[byte:])
        return self._holding("".join(text), b"".join(raw))

    def with_text(self, text: str) -> "TextFile":
        """Replace the text, using the most common line ending of the old one. Raises `EncodingError`."""
        text = with_newline(text, self.newline)
        return self._holding(text, self._bytes_of(text))

    def _holding(self, text: str, raw: bytes) -> "TextFile":
        return TextFile(text, self.codec, self.bom, self.newline, raw, self.is_guess)

    def _size(self, start: int, end: int, byte: int) -> int:
        """Return the number of bytes of a part of the text that starts at a byte."""
        part = self.text[start:end]
        size = len(part.encode(self.codec, _errors(self.codec)))
        if self.raw[byte : byte + size].decode(self.codec, _errors(self.codec)) != part:
            raise EncodingError(f"it is unclear which of its bytes are which characters in {self.codec}")
        return size

    def _splice(self, old: str, raw: bytes, new: str) -> bytes:
        """Return the bytes of the new text, keeping those of its common prefix and suffix with the old one."""
        head = old[: _common(old, new)]
        end = _common(old[len(head) :][::-1], new[len(head) :][::-1])
        tail = old[len(old) - end :]
        before, after = (len(part.encode(self.codec, _errors(self.codec))) for part in (head, tail))
        self._require_sure_encoding(new)
        middle = self._encode(new[len(head) : len(new) - end])
        return raw[:before] + middle + raw[len(raw) - after :]

    def _bytes_of(self, text: str) -> bytes:
        self._require_sure_encoding(text)
        return self._encode(text)

    def _require_sure_encoding(self, new: str) -> None:
        """Raise `UnsureEncodingError` for new non-ASCII text if the encoding is a guess, and `EncodingError` for a lone
        surrogate that is not a byte of the file."""
        if any(each not in self.text for each in _SURROGATE.findall(new)):
            raise EncodingError("half a surrogate pair is not a character")
        if self.is_guess and not new.isascii():
            known = set(_HIGH_RUN.findall(self.text))
            unknown = next((run for run in _HIGH_RUN.findall(new) if run not in known), None)
            if unknown is not None:
                raise UnsureEncodingError(f"to add {_quote(unknown)}")

    def _require_whole_characters(self, *places: int) -> None:
        """Raise `UnsureEncodingError` for a position that may be inside a character if the guessed encoding is
        wrong."""
        for place in places if self.is_guess else ():
            if self.raw[max(place - _MAX_CHARACTER_BYTES + 1, 0) : place].isascii():
                continue
            start, end = self.raw.rfind(b"\n", 0, place) + 1, self.raw.find(b"\n", place)
            line = self.raw[start : end if end >= 0 else None]
            for codec in (*MULTIBYTE, "big5hkscs"):
                is_split = _try_decode(line[: place - start], codec) is None and _try_decode(line, codec) is not None
                if is_split and _try_decode(self.raw, codec) is not None:
                    raise UnsureEncodingError("to change a part of what may be one character")

    def _encode(self, text: str) -> bytes:
        try:
            return text.encode(self.codec, _errors(self.codec))
        except UnicodeEncodeError as error:
            raise EncodingError(f"{self.codec} lacks {_quote(text[error.start : error.end])}") from error

    def _crlf_offsets(self) -> list[int]:
        """Return the offsets in `normalised_text` of line endings that have two characters."""
        if self.newline == "\r":
            return []
        found: list[int] = []
        at = self.text.find("\r\n")
        while at >= 0:
            found.append(at - len(found))
            at = self.text.find("\r\n", at + 2)
        return found

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return self.bom + self.raw


def decode(raw: bytes, encoding: str = "") -> TextFile:
    """Decode bytes so that encoding restores them. `encoding`: the encoding named by the model or the user, which is
    ignored if the bytes are certainly UTF-8 or UTF-16."""
    for bom, codec in BOMS:
        if raw.startswith(bom):
            body = raw[len(bom) :]
            text = _try_decode(body, codec)
            if text is not None:
                return TextFile(text, codec, bom, newline_of(text), body)
    codec, is_guess = _codec_of(raw, encoding)
    text = raw.decode(codec, _errors(codec))
    return TextFile(text, codec, b"", newline_of(text), raw, is_guess)


def _codec_of(raw: bytes, encoding: str) -> tuple[str, bool]:
    """Return the codec of bytes without a byte order mark, and whether it is a guess."""
    text = raw.decode("utf-8", "surrogateescape")
    valid, broken = _outside_ascii(text)
    if not broken and not raw.isascii():
        return "utf-8", False
    if encoding and _fits(raw, encoding, 1):
        return encoding, False
    named = declared_encoding(raw)
    if named and _fits(raw, named, _SURE):
        return named, False
    if valid >= 2 * broken:
        return "utf-8", False
    codec = guessed_encoding(raw)
    return codec if _fits(raw, codec, 0) else "latin-1", True


def _fits(raw: bytes, codec: str, sure: int) -> bool:
    """Whether the codec decodes the bytes, with at least `sure` valid characters per undecodable byte."""
    try:
        valid, broken = _outside_ascii(raw.decode(codec, _errors(codec)))
    except UnicodeDecodeError:
        return False
    return valid >= sure * broken


def _outside_ascii(text: str) -> tuple[int, int]:
    """Return the number of non-ASCII characters of a text, and of undecodable bytes."""
    if text.isascii():
        return 0, 0
    broken = len(_BROKEN_BYTE.findall(text))
    return sum(map(len, _HIGH_RUN.findall(text))) - broken, broken


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _quote(text: str) -> str:
    return repr(text[:20])


def newline_of(text: str) -> Newline:
    windows = text.count("\r\n")
    unix = text.count("\n") - windows
    if windows == unix == 0 and "\r" in text:
        return "\r"
    return "\r\n" if windows > unix else "\n"


def with_newline(text: str, newline: Newline) -> str:
    r"""Convert `\n` or `\r\n` line endings to the given one."""
    return text.replace("\r\n", "\n").replace("\n", newline)


def showable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent or printed."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def binary_kind(raw: bytes) -> str | None:
    """Return what kind of binary file it is, or None for text."""
    for magic, kind in _MAGIC:
        if raw.startswith(magic) and (b"\0" in raw[:8192] or not raw[:512].isascii()):
            return kind
    if raw.startswith(tuple(bom for bom, _ in BOMS)):
        return None
    return "binary data" if b"\0" in raw[:8192] else None


def _least(text: str, change: Replacement) -> Iterator[Replacement]:
    """Split a change into smaller ones, so that lines it does not change keep their line endings."""
    from ebbtide.tools.files.line_diff import differing  # noqa: PLC0415  # deferred: only files with mixed line ends need it

    old = text[change.start : change.end].split("\n")
    new = change.text.split("\n")
    starts = [change.start, *accumulate((len(line) + 1 for line in old), initial=change.start)][1:]
    for region in differing(old, new):
        lines, put = old[region.old_start : region.old_end], new[region.new_start : region.new_end]
        start = starts[region.old_start]
        if len(lines) == len(put):
            ends = [starts[at] for at in range(region.old_start, region.old_end)]
            yield from (
                Replacement(at, at + len(line), other) for at, line, other in zip(ends, lines, put, strict=True)
            )
        elif region.old_end < len(old):
            end = starts[region.old_end]
            yield Replacement(start, end, "".join(line + "\n" for line in put))
        elif region.old_start:
            yield Replacement(start - 1, change.end, "".join("\n" + line for line in put))
        else:
            yield Replacement(change.start, change.end, change.text)


def _try_decode(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def _errors(codec: str) -> str:
    return "strict" if codec.startswith(("utf-16", "utf-32")) else "surrogateescape"

"""A text file as bytes and as the text a model works with. Pure; whatever an edit does not touch keeps its bytes."""

import codecs
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal, TypeAlias

from tools.lazy import dataclass, regex

Newline: TypeAlias = Literal["\n", "\r\n", "\r"]

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # it begins as the next one does
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
)
_SURROGATE = regex("[\ud800-\udfff]")

_MULTIBYTE = ("big5", "cp932", "cp949", "euc", "gb", "iso2022", "johab", "shift", "cp1251", "koi8")
"""Families in which a guess is worth more than Latin-1: reading those as Latin-1 gives no letters at all."""

_HIGH = bytes(range(0x80, 0x100))
_LETTER = regex(rb"(?<![\x80-\xff])[\xc0-\xff](?![\x80-\xff])")

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
    """One change of a text: what stands from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    r"""As decoded, without byte order mark, line ends as in the file. An undecodable byte is a lone surrogate."""
    codec: str = "utf-8"
    bom: bytes = b""
    newline: Newline = "\n"
    r"""The line end of most lines."""

    @property
    def unified(self) -> str:
        r"""The text with every line end as `\n`: what is matched and shown."""
        if self.newline == "\r":
            return self.text.replace("\r", "\n")
        return self.text.replace("\r\n", "\n")

    def replaced(self, changes: Sequence[Replacement]) -> "TextFile":
        """The file after changes given in positions of `unified`, in order and not overlapping."""
        shortened = self._shortened()
        if shortened and "\n" in self.text.replace("\r\n", ""):
            unified = self.unified
            changes = [part for change in changes for part in _least(unified, change)]
        pieces, at = [], 0
        for change in changes:
            start = change.start + bisect_left(shortened, change.start)
            end = change.end + bisect_left(shortened, change.end)
            pieces += [self.text[at:start], with_newline(change.text, self.newline)]
            at = end
        return replace(self, text="".join([*pieces, self.text[at:]]))

    def _shortened(self) -> list[int]:
        r"""Where in `unified` a `\n` stands for two characters."""
        if self.newline == "\r":
            return []
        found: list[int] = []
        at = self.text.find("\r\n")
        while at >= 0:
            found.append(at - len(found))
            at = self.text.find("\r\n", at + 2)
        return found

    def encode(self) -> bytes:
        """The bytes of the file. Raises `UnicodeEncodeError` for a character that its encoding does not have."""
        return self.bom + self.text.encode(self.codec, _errors(self.codec))


def decode(raw: bytes) -> TextFile:
    """The text of the bytes, in a way that gives the same bytes back."""
    for bom, codec in _BOMS:
        if raw.startswith(bom):
            text = _decoded(raw[len(bom) :], codec)
            if text is not None:
                return TextFile(text, codec, bom, newline_of(text))
    text = _decoded(raw, "utf-8")
    if text is not None:
        return TextFile(text, newline=newline_of(text))
    codec = _guessed_codec(raw)
    text = raw.decode(codec, _errors(codec))
    return TextFile(text, codec, b"", newline_of(text))


def newline_of(text: str) -> Newline:
    windows = text.count("\r\n")
    unix = text.count("\n") - windows
    if windows == unix == 0 and "\r" in text:
        return "\r"
    return "\r\n" if windows > unix else "\n"


def with_newline(text: str, newline: Newline) -> str:
    r"""The text with its line ends, `\n` or `\r\n`, as the given one."""
    return text.replace("\r\n", "\n").replace("\n", newline)


def showable(text: str) -> str:
    """The text without lone surrogates, which cannot be sent or printed."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def binary_kind(raw: bytes) -> str | None:
    """What a file is that no text editor could show, or None for a text."""
    for magic, kind in _MAGIC:
        if raw.startswith(magic) and (b"\0" in raw[:8192] or not raw[:512].isascii()):
            return kind
    if raw.startswith(tuple(bom for bom, _ in _BOMS)):
        return None
    return "binary data" if b"\0" in raw[:8192] else None


def _least(text: str, change: Replacement) -> Iterator[Replacement]:
    """The change as smaller ones, so that lines that it does not change keep their own line ends."""
    from tools.files.line_diff import differing  # noqa: PLC0415  # deferred: only files with mixed line ends need it

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


def _decoded(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def _errors(codec: str) -> str:
    return "surrogateescape" if codec == "utf-8" else "strict"


def _guessed_codec(raw: bytes) -> str:
    """An encoding that reads any of these bytes and writes them back unchanged."""
    if _holds_utf8(raw):
        return "utf-8"
    if _has_single_letters(raw[:65536]):
        return "latin-1"
    import charset_normalizer  # noqa: PLC0415  # deferred: only files that are not UTF-8 need it

    guess = charset_normalizer.from_bytes(raw[:65536]).best()
    codec = guess.encoding if guess is not None else "latin-1"
    text = _decoded(raw, codec) if codec.startswith(_MULTIBYTE) else None
    return codec if text is not None and _encoded(text, codec) == raw else "latin-1"


def _has_single_letters(raw: bytes) -> bool:
    """Whether nearly all that is not ASCII are letters of Latin-1, each by itself. Of a few such bytes a guess makes
    signs of Chinese as easily; where there are such signs, their bytes stand together."""
    high = len(raw) - len(raw.translate(None, _HIGH))
    return high > 0 and len(_LETTER.findall(raw)) * 10 >= high * 9


def _encoded(text: str, codec: str) -> bytes | None:
    try:
        return text.encode(codec)
    except UnicodeEncodeError:
        return None


def _holds_utf8(raw: bytes) -> bool:
    """Whether most of what is not ASCII is valid UTF-8, so that only single bytes of it are broken."""
    text = raw.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= character <= "\udcff" for character in text)
    valid = sum(character > "\x7f" for character in text) - broken
    return valid > broken

"""Decodes a page: the encoding comes from its bytes, a declaration, or a guess. No I/O.

`charset_normalizer` recognises scripts well but cannot tell Latin encodings apart: French text decoded in the Central
European code page contains almost no impossible characters. A Latin encoding is therefore chosen by checking whose
alphabet the letters fit.
"""

import codecs
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_CODEC_ALIASES = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "cp950",
    "utf-16": "utf-16-le", "utf-32": "utf-32-le",
}  # fmt: skip
"""Maps each declared encoding to the larger one that such pages really use, as browsers do."""

_DECLARATION = regex(
    rb"""(?is)<meta[^>]{0,500}?charset\s*=\s*["']?([\w.:-]+)|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)"""
)
_MAX_DECLARATION_BYTES = 65_536
"""Number of bytes at the start of a page that are searched for an encoding declaration."""

_DOUBLE_BYTE_CODECS = ("gb18030", "cp932", "euc_jp", "big5", "cp949")
_NON_LATIN_CODECS = (
    "cp1251", "koi8_u", "koi8_r", "iso8859_5", "cp1253", "iso8859_7", "cp1255", "cp1256", "iso8859_6", "cp874",
)  # fmt: skip
_LATIN_ALPHABETS = (
    ("cp1252", ("äöüß", "àâæçéèêëîïôœùûü", "áéíñóúü", "áâãàçéêíóôõú", "àèéìòù", "åäöé", "æøåé", "áéíðóúýþæö", "äöõü")),
    ("cp1250 iso8859_2", ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ")),
    ("cp1254", ("çğıöşüâîû",)),
    ("cp1257", ("ąčęėįšųūž", "āčēģīķļņšūž")),
)
"""Encodings of Latin scripts, most likely first, with the non-ASCII letters of their languages."""

_LONG_NON_ASCII_RUN = regex(rb"[\x80-\xff]{10}")
"""A run of non-ASCII bytes so long that, if every pair is valid, the text must be in a double-byte encoding.
`charset_normalizer` does not check this."""
_NON_ASCII_TEXT = regex(rb"[^<>\r\n]*[\x80-\xff][^<>\r\n]*")
_CONTROL = regex(r"[\x00-\x08\x0e-\x1a]")
_MAX_SAMPLE_BYTES = 16_384
"""Number of bytes used to guess an encoding."""
_MAX_CHAOS = 0.15
"""Maximum "mess" (as measured by `charset_normalizer`) at which text is accepted as being in another script."""


def decode_page(content: bytes, declared: str = "", *, is_truncated: bool = False) -> str | None:
    """Decode a page; None if it is not text. `declared`: the server's charset, which may be wrong or unknown.
    `is_truncated`: whether the last character may be incomplete. Invalid bytes become U+FFFD."""
    for bom, codec in _BOMS:
        if content.startswith(bom):
            return content[len(bom) :].decode(codec, "replace")
    if b"\0" in content:
        wide_codecs = [
            codec
            for codec in (*_wide_codecs(content), _actual_codec(declared))
            if codec.startswith(("utf-16", "utf-32"))
        ]
        texts = (_decode_if_valid(content, codec, is_truncated) for codec in wide_codecs)
        return next((text for text in texts if text is not None and not _CONTROL.search(text)), None)
    for codec in _codecs_to_try(content, declared):
        if (text := _decode_if_valid(content, codec, is_truncated)) is not None:
            return text
    if _is_mostly_utf8(content):
        return content.decode("utf-8", "replace")
    return content.decode(_guess_codec(content), "replace")


def _codecs_to_try(content: bytes, declared: str) -> Iterator[str]:
    """Yield the encodings to try, in order. UTF-8 comes first, because text in other encodings is hardly ever valid
    UTF-8."""
    yield "iso2022_jp" if b"\x1b$B" in content or b"\x1b$@" in content else "utf-8"
    yield _actual_codec(declared)
    if match := _DECLARATION.search(content[:_MAX_DECLARATION_BYTES]):
        codec = _actual_codec((match[1] or match[2]).decode("ascii", "replace"))
        yield "" if codec.startswith(("utf-16", "utf-32")) else codec  # in UTF-16 the declaration would be unreadable


def _actual_codec(declared: str) -> str:
    """Map a declared encoding to the codec that such pages really use; empty if it is unknown."""
    try:
        codec_info = codecs.lookup(declared) if declared else None
    except (LookupError, ValueError):
        return ""
    if codec_info is None or not codec_info._is_text_encoding:  # rejects transformations such as base64
        return ""
    return _CODEC_ALIASES.get(codec_info.name, codec_info.name)


def _decode_if_valid(content: bytes, codec: str, is_cut: bool) -> str | None:
    """Decode the content; None if it is not in this encoding. Up to one in a hundred non-ASCII characters may be
    invalid, except in UTF-8."""
    if not codec:
        return None
    try:
        return codecs.getincrementaldecoder(codec)().decode(content, not is_cut)
    except UnicodeError:
        if codec == "utf-8":
            return None
    text = content.decode(codec, "replace")
    non_ascii_count = sum(character > "\x7f" for character in text)
    return text if text.count("\ufffd") * 100 <= non_ascii_count and "\0" not in text else None


def _wide_codecs(content: bytes) -> Iterator[str]:
    """Yield the UTF-16 and UTF-32 encodings that fit the positions of zero bytes."""
    sample = content[:4096]
    zero_shares = [sample[offset::4].count(0) / max(len(sample[offset::4]), 1) for offset in range(4)]
    if zero_shares[2] > 0.9 and zero_shares[3] > 0.9:
        yield "utf-32-le"
    if zero_shares[0] > 0.9 and zero_shares[1] > 0.9:
        yield "utf-32-be"
    even, odd = zero_shares[0] + zero_shares[2], zero_shares[1] + zero_shares[3]
    if odd > 2 * even:
        yield "utf-16-le"
    if even > 2 * odd:
        yield "utf-16-be"


def _is_mostly_utf8(content: bytes) -> bool:
    text = content.decode("utf-8", "replace")
    return sum(character > "\x7f" for character in text) > 2 * text.count("\ufffd")


def _guess_codec(content: bytes) -> str:
    import charset_normalizer  # noqa: PLC0415  # deferred: only needed for pages without a declaration

    sample = b"\n".join(_NON_ASCII_TEXT.findall(content))[:_MAX_SAMPLE_BYTES]
    best_codec, lowest_chaos, highest_coherence = "cp1252", _MAX_CHAOS, 0.0
    latin_codecs = tuple(codec for names, _ in _LATIN_ALPHABETS for codec in names.split())
    min_coherence = 0.2 if _LONG_NON_ASCII_RUN.search(sample) else 0.0
    for codec in (*latin_codecs, *_DOUBLE_BYTE_CODECS, *_NON_LATIN_CODECS):
        match = charset_normalizer.from_bytes(sample, cp_isolation=[codec]).best()
        if match is None:
            continue
        coherence = max(match.coherence, min_coherence if codec in _DOUBLE_BYTE_CODECS else 0.0)
        if (match.chaos, -coherence) < (lowest_chaos, -highest_coherence):
            best_codec, lowest_chaos, highest_coherence = codec, match.chaos, coherence
    return _latin_codec(sample) if best_codec in latin_codecs else best_codec


def _latin_codec(sample: bytes) -> str:
    """Choose the encoding in which most non-ASCII letters belong to one language."""
    best_codec, best_share = "cp1252", 0.0
    for names, alphabets in _LATIN_ALPHABETS:
        for codec in names.split():
            text = sample.decode(codec, "replace").lower()
            letters = [letter for letter in text if letter > "\x7f" and (letter.isalpha() or letter in "\ufffdªº¹²³")]
            if codec.startswith("iso") and any("\x80" <= letter < "\xa0" for letter in text):
                continue
            for alphabet in alphabets:
                share = sum(letter in alphabet for letter in letters) / max(len(letters), 1)
                if share > best_share:
                    best_codec, best_share = codec, share
    return best_codec

"""Byte order marks, as written by Windows programs."""

import codecs

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, because this mark begins with the UTF-16 one
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
)
MAX_MARK_BYTES = 4
"""Maximum number of bytes in a mark or a character."""


def to_utf8(raw: bytes) -> bytes:
    """Convert text with a byte order mark to UTF-8 without it. Text without a mark is returned unchanged."""
    for bom, codec in BOMS:
        if raw.startswith(bom):
            body = raw[len(bom) :]
            return body if codec == "utf-8" else body.decode(codec, "replace").encode()
    return raw

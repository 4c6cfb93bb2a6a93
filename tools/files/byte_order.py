"""The marks with which a text says what it is encoded in, as programs on Windows write them. Pure."""

import codecs

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # it begins as the next one does
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
)
WIDEST = 4
"""Bytes that a mark has, and a character at most."""


def in_utf8(raw: bytes) -> bytes:
    """The bytes of a text as UTF-8 without a mark; those without one stay as they are."""
    for bom, codec in BOMS:
        if raw.startswith(bom):
            body = raw[len(bom) :]
            return body if codec == "utf-8" else body.decode(codec, "replace").encode()
    return raw

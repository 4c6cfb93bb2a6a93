"""Pictures that a model can be shown. It knows their first bytes; it draws nothing."""

MAX_PICTURE_BYTES = 5 * 1024 * 1024 // 4 * 3
"""Bytes. A provider takes 5 MB, and counts them in base64, by which four stand for three."""

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def picture_type(raw: bytes) -> str | None:
    """The media type of a picture, or None when the bytes are none of those that models take."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for beginning, media_type in _BEGINNINGS if raw.startswith(beginning)), None)

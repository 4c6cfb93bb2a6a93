"""Recognises images that can be shown to a model, by their first bytes."""

MAX_IMAGE_BYTES = 5 * 1024 * 1024 // 4 * 3
"""Maximum size in bytes. Providers accept 5 MB of base64, which encodes three bytes as four."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def image_type(raw: bytes) -> str | None:
    """Detect the media type of an image. None if models do not accept the format."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if raw.startswith(signature)), None)

"""Counts the tokens of images by the provider's rule. The size is read from the file header; no pixels are decoded."""

import binascii
import struct
from base64 import b64decode
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Image

ImageRule: TypeAlias = Literal["area", "tiles"]
"""`area`: one token for every 750 pixels (Anthropic). `tiles`: 85 tokens, and 170 more for every square of 512 × 512
pixels (OpenAI)."""

MAX_AREA_TOKENS = 1600
"""Maximum number of tokens of an image under the area rule. Larger images are scaled down first."""
TILES_BASE_TOKENS, TOKENS_PER_TILE = 85, 170
_HEADER_CHARS = 64 * 1024
"""Number of leading base64 characters in which nearly every image states its size; a multiple of 4."""

PixelSize: TypeAlias = tuple[int, int]


def image_tokens(image: Image, rule: ImageRule = "area") -> int:
    """Count an image's tokens. If its size cannot be read, it counts as a large image."""
    size = image_size(image.data)
    if rule == "tiles":
        return TILES_BASE_TOKENS + TOKENS_PER_TILE * (4 if size is None else _tile_count(*size))
    return MAX_AREA_TOKENS if size is None else min(max(-(-size[0] * size[1] // 750), 1), MAX_AREA_TOKENS)


def _tile_count(width: int, height: int) -> int:
    """Return the number of squares of 512 × 512 pixels. The image is first scaled down to fit 2048 × 2048, and then
    until its shorter side is at most 768 pixels."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(min(width, height) * scale, 1))
    scaled_width, scaled_height = max(round(width * scale), 1), max(round(height * scale), 1)
    return -(-scaled_width // 512) * -(-scaled_height // 512)


def image_size(data: str) -> PixelSize | None:
    """Parse the width and height of a base64-encoded PNG, GIF, WebP or JPEG. None if they cannot be read."""
    size = _pixel_size(data[:_HEADER_CHARS])
    if size is None and len(data) > _HEADER_CHARS and data.startswith("/9j/"):
        size = _pixel_size(data)  # a JPEG may contain thumbnails before its size
    return size if size and size[0] > 0 and size[1] > 0 else None


def _pixel_size(data: str) -> PixelSize | None:
    try:
        raw = b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        return None
    try:
        if raw.startswith(b"\x89PNG\r\n\x1a\n") and raw[12:16] == b"IHDR":
            return struct.unpack(">II", raw[16:24])
        if raw.startswith((b"GIF87a", b"GIF89a")):
            return struct.unpack("<HH", raw[6:10])
        if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
            return _webp_size(raw)
        if raw.startswith(b"\xff\xd8"):
            return _jpeg_size(raw)
    except (struct.error, IndexError):
        pass
    return None


def _webp_size(raw: bytes) -> PixelSize | None:
    match raw[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", raw[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", raw[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
        case _:
            return None


def _jpeg_size(raw: bytes) -> PixelSize | None:
    """Return the size in the first frame header, skipping the segments before it."""
    offset = 2
    while offset + 4 <= len(raw):
        if raw[offset] != 0xFF:
            return None
        marker = raw[offset + 1]
        if marker == 0xFF:
            offset += 1
            continue
        if marker in (0x01, *range(0xD0, 0xD9)):
            offset += 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[offset + 5 : offset + 9])
            return width, height
        (length,) = struct.unpack(">H", raw[offset + 2 : offset + 4])
        offset += 2 + max(length, 2)
    return None

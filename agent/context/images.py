"""Token counts of images by their provider's rule. Pure: reads the size from the file header, decodes no pixels."""

import binascii
import struct
from base64 import b64decode
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Image

ImageRule: TypeAlias = Literal["area", "tiles"]
"""`area`: a token for every 750 pixels (Anthropic). `tiles`: 170 for every square of 512 pixels (OpenAI)."""

AREA_MOST = 1600
"""Maximum of the area rule: larger images are scaled down first."""
TILES_BASE, TILE = 85, 170
_HEAD = 64 * 1024
"""Base64 characters that contain the size of nearly every image; a multiple of 4."""

PixelSize: TypeAlias = tuple[int, int]


def image_tokens(image: Image, rule: ImageRule = "area") -> int:
    """Tokens of an image. If its size cannot be read, it counts as a large one."""
    size = image_size(image.data)
    if rule == "tiles":
        return TILES_BASE + TILE * (4 if size is None else _tiles(*size))
    return AREA_MOST if size is None else min(max(-(-size[0] * size[1] // 750), 1), AREA_MOST)


def _tiles(width: int, height: int) -> int:
    """Squares of 512 pixels after the image is scaled into 2048 x 2048 and its shorter side to at most 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(min(width, height) * scale, 1))
    across, down = max(round(width * scale), 1), max(round(height * scale), 1)
    return -(-across // 512) * -(-down // 512)


def image_size(data: str) -> PixelSize | None:
    """Return width and height of a base64-encoded PNG, GIF, WebP or JPEG, or None."""
    size = _pixel_size(data[:_HEAD])
    if size is None and len(data) > _HEAD and data.startswith("/9j/"):
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
            return _webp(raw)
        if raw.startswith(b"\xff\xd8"):
            return _jpeg(raw)
    except (struct.error, IndexError):
        pass
    return None


def _webp(raw: bytes) -> PixelSize | None:
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


def _jpeg(raw: bytes) -> PixelSize | None:
    """Return the size from the first frame header; earlier markers are skipped by their lengths."""
    at = 2
    while at + 4 <= len(raw):
        if raw[at] != 0xFF:
            return None
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in (0x01, *range(0xD0, 0xD9)):
            at += 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", raw[at + 2 : at + 4])
        at += 2 + max(length, 2)
    return None

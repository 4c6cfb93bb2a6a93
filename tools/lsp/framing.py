"""Encodes and decodes messages with a length header. Pure."""

import json
from collections.abc import Mapping

MAX_MESSAGE_BYTES = 8 * 1024**2
"""Maximum size of a message, in bytes."""
_MAX_HEADER_BYTES = 4096
_END = b"\r\n\r\n"
_MAX_LENGTH_DIGITS = 12
"""Maximum number of digits."""


class FrameBuffer:
    """Collects bytes and returns complete messages. After the first invalid data, message boundaries are lost and
    nothing more is returned."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        self.problem = ""
        """Description of invalid or oversized data received."""
        self._most = most
        self._held = bytearray()
        self._length: int | None = None
        """Length of the message whose header was read."""

    def take(self, chunk: bytes) -> list[bytes]:
        if self.problem:
            return []
        self._held += chunk
        found: list[bytes] = []
        while not self.problem and self._is_whole():
            assert self._length is not None
            found.append(bytes(self._held[: self._length]))
            del self._held[: self._length]
            self._length = None
        return found

    def _is_whole(self) -> bool:
        """Whether a complete message has arrived. Reads its header as soon as possible."""
        if self._length is None:
            end = self._held.find(_END, 0, _MAX_HEADER_BYTES)
            if end < 0:
                if len(self._held) >= _MAX_HEADER_BYTES:
                    self.problem = "something that is not a message"
                return False
            self._length = self._read_header(bytes(self._held[:end]))
            del self._held[: end + len(_END)]
        return not self.problem and len(self._held) >= self._length

    def _read_header(self, header: bytes) -> int:
        fields = [line.partition(b":") for line in header.split(b"\r\n")]
        lengths = [value.strip() for name, _, value in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _MAX_LENGTH_DIGITS:
            self.problem = "a header without the length of its message"
            return 0
        length = int(lengths[0])
        if length > self._most:
            self.problem = f"a message of {length:,} bytes, which is too large"
        return length


def frame_message(message: Mapping[str, object]) -> bytes:
    """Return the bytes of a message with its header."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

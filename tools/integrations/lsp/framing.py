"""Encodes and decodes messages with a length header. No I/O."""

import json
from collections.abc import Mapping

MAX_MESSAGE_BYTES = 8 * 1024**2
"""Maximum size of a message, in bytes."""
_MAX_HEADER_BYTES = 4096
_HEADER_END = b"\r\n\r\n"
_MAX_LENGTH_DIGITS = 12
"""Maximum number of digits in a length."""


class FrameBuffer:
    """Collects bytes and returns complete messages. After invalid data, it returns nothing more, because message
    boundaries are lost."""

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.problem = ""
        """What was wrong with the received data; empty if nothing was."""
        self._max_message_bytes = max_message_bytes
        self._buffer = bytearray()
        self._length: int | None = None
        """Length of the next message, once its header has been read."""

    def feed(self, chunk: bytes) -> list[bytes]:
        if self.problem:
            return []
        self._buffer += chunk
        messages: list[bytes] = []
        while not self.problem and self._has_complete_message():
            assert self._length is not None
            messages.append(bytes(self._buffer[: self._length]))
            del self._buffer[: self._length]
            self._length = None
        return messages

    def _has_complete_message(self) -> bool:
        """Whether a complete message has arrived. Also reads the header once it is complete."""
        if self._length is None:
            end = self._buffer.find(_HEADER_END, 0, _MAX_HEADER_BYTES)
            if end < 0:
                if len(self._buffer) >= _MAX_HEADER_BYTES:
                    self.problem = "something that is not a message"
                return False
            self._length = self._read_header(bytes(self._buffer[:end]))
            del self._buffer[: end + len(_HEADER_END)]
        return not self.problem and len(self._buffer) >= self._length

    def _read_header(self, header: bytes) -> int:
        fields = [line.partition(b":") for line in header.split(b"\r\n")]
        lengths = [value.strip() for name, _, value in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _MAX_LENGTH_DIGITS:
            self.problem = "a header without the length of its message"
            return 0
        length = int(lengths[0])
        if length > self._max_message_bytes:
            self.problem = f"a message of {length:,} bytes, which is too large"
        return length


def frame_message(message: Mapping[str, object]) -> bytes:
    """Return the bytes of a message with its header."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

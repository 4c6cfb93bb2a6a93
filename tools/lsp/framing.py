"""Messages out of bytes and back, each behind a header with its length. Pure; what a message says is read elsewhere."""

import json
from collections.abc import Mapping

MAX_MESSAGE_BYTES = 8 * 1024**2
"""Bytes of a message that is read."""
_MAX_HEADER_BYTES = 4096
_END = b"\r\n\r\n"
_MAX_LENGTH_DIGITS = 12
"""Digits."""


class FrameBuffer:
    """Takes bytes as they come and gives the messages that are complete. After the first thing that is no message
    nothing can be told apart any more, and nothing more is given."""

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        self.problem = ""
        """What came that is no message, or a larger one than agreed."""
        self._most = most
        self._held = bytearray()
        self._length: int | None = None
        """That of the message whose header was read."""

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
        """Whether all of a message is there; its header is read as soon as that is."""
        if self._length is None:
            end = self._held.find(_END, 0, _MAX_HEADER_BYTES)
            if end < 0:
                if len(self._held) >= _MAX_HEADER_BYTES:
                    self.problem = "something that is no message"
                return False
            self._length = self._read_header(bytes(self._held[:end]))
            del self._held[: end + len(_END)]
        return not self.problem and len(self._held) >= self._length

    def _read_header(self, header: bytes) -> int:
        fields = [line.partition(b":") for line in header.split(b"\r\n")]
        lengths = [value.strip() for name, _, value in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _MAX_LENGTH_DIGITS:
            self.problem = "a header that does not say how long its message is"
            return 0
        length = int(lengths[0])
        if length > self._most:
            self.problem = f"a message of {length:,} bytes, which is too much"
        return length


def frame_message(message: Mapping[str, object]) -> bytes:
    """The bytes that carry a message."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)

"""What `read_result` shows, read as a reader would who knows its forms."""

import re

from ebbtide.tools.read_result import ESCAPED_NOTE, HEXADECIMAL_NOTE


def as_bytes(shown: str) -> bytes:
    """The bytes that an answer shows, without the note at its end."""
    match shown.partition("\n"):
        case (first, _, rest) if first == HEXADECIMAL_NOTE:
            return bytes.fromhex(rest)
        case (first, _, rest) if first == ESCAPED_NOTE:
            return re.sub(rb"\\(?:x(..)|\\)", _unescaped, rest.encode())
        case _:
            return shown.encode()


def _unescaped(escaped: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escaped[1].decode()) if escaped[1] else b"\\"

"""What `read_result` shows, read as a reader would who knows its forms."""

import re

from ebbtide.tools.read_result import ESCAPED_NOTE, HEXADECIMAL_NOTE


def as_bytes(printed: str) -> bytes:
    """The bytes that an answer shows, without the note at its end."""
    match printed.partition("\n"):
        case (first, _, rest) if first == HEXADECIMAL_NOTE:
            return bytes.fromhex(rest)
        case (first, _, rest) if first == ESCAPED_NOTE:
            return re.sub(rb"\\(?:x(..)|\\)", _unescaped, rest.encode())
        case _:
            return printed.encode()


def _unescaped(escaped: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escaped[1].decode()) if escaped[1] else b"\\"

"""What a program printed, when it is short and plain enough to stand in a text as it is."""

from tools.base import PrintedLog
from tools.truncate import is_mostly_noise, plain

LONGEST = 4096
"""Bytes."""


def printed(log: PrintedLog) -> str | None:
    """The text of a log without the line end at its end; None when that would not be all that was printed."""
    if log.end - log.start > LONGEST:
        return None
    with log.path.open("rb") as file:
        file.seek(log.start)
        return as_text(file.read(log.end - log.start))


def as_text(data: bytes) -> str | None:
    """What was printed, without the line end at its end; None when the text would not tell all of the bytes."""
    text = data.decode("utf-8", "replace")
    shown = plain(text).removesuffix("\n")
    is_all = data in (shown.encode(), f"{shown}\n".encode())
    return shown if is_all and not is_mostly_noise(text) else None

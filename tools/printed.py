"""What a program printed, as a model reads it: plain, and only both ends of it when there is much."""

from dataclasses import dataclass
from pathlib import Path

from tools.truncate import is_mostly_noise, plain

HEAD, TAIL = 10_000, 20_000
"""Bytes that are shown of the beginning and of the end."""


@dataclass(frozen=True, slots=True)
class Printed:
    text: str
    is_whole: bool


def printed(log: Path, start: int, end: int, newlines: int) -> Printed:
    """The log from `start` to `end`, in which there are `newlines` line ends."""
    size = end - start
    if size <= HEAD + TAIL:
        text = _part(log, start, size).decode("utf-8", "replace")
        if is_mostly_noise(text):
            return Printed(_binary(size, log), False)
        return Printed(plain(text), True)
    head, tail = _whole_lines(_part(log, start, HEAD), _part(log, end - TAIL, TAIL))
    first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    if is_mostly_noise(first + last):
        return Printed(_binary(size, log), False)
    lines = newlines - head.count(b"\n") - tail.count(b"\n")
    note = f"… {lines} lines ({size - len(head) - len(tail)} bytes) left out; all of it is in {log} …"
    return Printed(f"{_ended(plain(first))}{note}\n{plain(last)}", False)


def _binary(size: int, log: Path) -> str:
    return f"(binary output, {size} bytes, is in {log}: look at it with `xxd {log} | head`)"


def _part(log: Path, start: int, size: int) -> bytes:
    with log.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _whole_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    end, start = head.rfind(b"\n") + 1, tail.find(b"\n", 0, len(tail) - 1) + 1
    return head[:end] or head, tail[start:]


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"

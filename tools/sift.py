"""Lines of kept bytes that a pattern matches. The search is a program of its own, since a regular expression can take
for ever and nothing stops one inside Python; a process can be killed."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from tools.base import ToolError
from tools.kept import Content

SECONDS = 20.0
"""Of a search, after which it is ended with what it has found."""

PIECE = 1 << 20
"""Bytes of a longer line that are searched at a time. Neighbouring pieces share some, so no short match is lost."""
_SHARED = 1 << 12
_AROUND = 200
"""Characters of a long line that are shown before what was found in it, and twice as many in all."""

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tools.sift import main; main(sys.argv[2])"


@dataclass(frozen=True, slots=True)
class Hit:
    number: int
    text: str
    is_match: bool
    at: int
    """The byte of its line at which a cut text begins; -1 when it is not cut."""


@dataclass(frozen=True, slots=True)
class Sifted:
    hits: tuple[Hit, ...]
    ending: Literal["complete", "enough", "late"]


async def sift(
    content: Content, pattern: str, before: int, after: int, lines: tuple[int, int], most_bytes: int
) -> Sifted:
    """The lines from the first to the last that match, and those around them, until they take so many bytes. Raises
    `ToolError`."""
    request = {
        "pattern": pattern,
        "before": before,
        "after": after,
        "first": lines[0],
        "last": lines[1],
        "most": most_bytes,
    }
    process = _started(request)
    reading = asyncio.ensure_future(asyncio.to_thread(_exchange, process, content, lines[0]))
    try:
        return await asyncio.wait_for(asyncio.shield(reading), SECONDS)
    except TimeoutError:
        process.kill()
        return replace(await reading, ending="late")
    except BaseException:
        process.kill()
        await asyncio.wait([reading])
        raise


def _started(request: Mapping[str, object]) -> subprocess.Popen[bytes]:
    places = [str(Path(__file__).parents[1]), *(place for place in sys.path if place)]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, json.dumps(places), json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"the search could not be started: {error}") from error


def _exchange(process: subprocess.Popen[bytes], content: Content, first: int) -> Sifted:
    with process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a search was started without pipes")
        feeding = threading.Thread(target=_feed, args=(process.stdin, content, first), daemon=True)
        feeding.start()
        records = list[list[Any]]()
        for line in process.stdout:
            with suppress(ValueError):  # cut off where it was killed
                records.append(json.loads(line))
        feeding.join()
        hits = tuple(Hit(*record) for record in records if record)
        return Sifted(hits, "complete" if records and not records[-1] else "enough")


def _feed(pipe: IO[bytes], content: Content, first: int) -> None:
    with suppress(BrokenPipeError):  # it has found enough, or was killed
        for chunk in content.chunks(content.line_start(first)):
            pipe.write(chunk)
    with suppress(BrokenPipeError):
        pipe.close()


def main(request_json: str) -> None:
    """The program: bytes in; out a JSON list for each line that is shown, and an empty one if that was all."""
    request = json.loads(request_json)
    pattern = re.compile(request["pattern"])
    earlier = deque[tuple[_Piece, str]](maxlen=request["before"])
    left, follow = int(request["most"]), 0
    for piece in _pieces(sys.stdin.buffer, int(request["first"])):
        if piece.number > request["last"]:
            break
        if left <= 0:
            return
        text = piece.data.decode("utf-8", "replace")
        found = next((match for match in pattern.finditer(text) if not piece.again or match.end() > piece.again), None)
        if found is not None:
            for other, other_text in earlier:
                left -= _show(other, other_text, None)
            left -= _show(piece, text, found)
            earlier.clear()
            follow = request["after"]
        elif follow:
            left -= _show(piece, text, None)
            follow -= 1
        else:
            earlier.append((piece, text))
    print("[]", flush=True)


@dataclass(frozen=True, slots=True)
class _Piece:
    number: int
    """Of its line."""
    offset: int
    """In bytes, in its line."""
    data: bytes
    again: int = 0
    """Bytes at its beginning that were searched before."""


def _pieces(stream: IO[bytes], number: int) -> Iterator[_Piece]:
    """Lines without their ends, long ones in pieces."""
    offset, shared = 0, b""
    while data := stream.readline(PIECE):
        is_ended = data.endswith(b"\n")
        yield _Piece(number, offset - len(shared), shared + data.rstrip(b"\r\n" if is_ended else b""), len(shared))
        if is_ended:
            number, offset, shared = number + 1, 0, b""
        else:
            offset, shared = offset + len(data), (shared + data)[-_SHARED:]


def _show(piece: _Piece, text: str, found: re.Match[str] | None) -> int:
    """Characters that this printed."""
    at = -1
    if len(text) > 4 * _AROUND or piece.offset:
        start = max(found.start() - _AROUND, 0) if found else 0
        at = piece.offset + len(text[:start].encode("utf-8", "replace"))
        text = text[start : start + 2 * _AROUND]
    print(json.dumps([piece.number, text, found is not None, at]), flush=found is not None)
    return len(text) + 8

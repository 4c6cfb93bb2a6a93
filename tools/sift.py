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

_NUMBER = re.compile(r"\A\d{1,18}\t")

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
    content: Content,
    pattern: str,
    before: int,
    after: int,
    lines: tuple[int, int],
    most_bytes: int,
    *,
    numbered: bool = False,
) -> Sifted:
    """The lines from the first to the last that match, and those around them, until they take so many bytes.
    `numbered`: lines carry numbers of their own, which are not searched. Raises `ToolError`, also for bytes that are
    damaged."""
    request = {
        "pattern": pattern,
        "before": before,
        "after": after,
        "first": lines[0],
        "last": lines[1],
        "most": most_bytes,
        "numbered": numbered,
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
        failed = list[ToolError]()
        feeding = threading.Thread(target=_feed, args=(process.stdin, content, first, failed), daemon=True)
        feeding.start()
        records = list[list[Any]]()
        for line in process.stdout:
            with suppress(ValueError):  # cut off where it was killed
                records.append(json.loads(line))
        feeding.join()
        for error in failed:
            raise error
        hits = tuple(Hit(*record) for record in records if record)
        return Sifted(hits, "complete" if records and not records[-1] else "enough")


def _feed(pipe: IO[bytes], content: Content, first: int, failed: list[ToolError]) -> None:
    """Its error is handed over: a thread has nobody to raise it to. The search ends with what it was given."""
    try:
        with suppress(BrokenPipeError):  # it has found enough, or was killed
            for chunk in content.chunks(content.line_start(first)):
                pipe.write(chunk)
    except ToolError as error:
        failed.append(error)
    with suppress(BrokenPipeError):
        pipe.close()


def main(request_json: str) -> None:
    """The program: bytes in; out a JSON list for each line that is shown, and an empty one if that was all."""
    request = json.loads(request_json)
    pattern, last = re.compile(request["pattern"]), int(request["last"])
    search = pattern.search
    before, after = int(request["before"]), int(request["after"])
    earlier = deque[tuple[int, int, str]](maxlen=before)
    left, follow = int(request["most"]), 0
    numbered = bool(request["numbered"])
    for block in _blocks(sys.stdin.buffer, int(request["first"])):
        again, offset = block.again, block.offset
        for number, text in enumerate(block.lines, block.number):
            if numbered and not offset:
                text = _NUMBER.sub("", text)
            found = search(text)
            if found is not None and found.end() <= again:
                found = next((match for match in pattern.finditer(text) if match.end() > again), None)
            if number > last:
                print("[]", flush=True)
                return
            if found is not None or follow:
                for shown in earlier if found is not None else ():
                    left -= _show(*shown, None)
                left -= _show(number, offset, text, found)
                follow = follow - 1 if found is None else after
                if found is not None:
                    earlier.clear()
                if left <= 0:
                    return
            elif before:
                earlier.append((number, offset, text))
            again = offset = 0
    print("[]", flush=True)


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    """Of the first line."""
    offset: int
    """In bytes, of what there is of the first line."""
    again: int
    """Characters of the first line that were searched before."""
    lines: list[str]


def _blocks(stream: IO[bytes], number: int) -> Iterator[_Block]:
    """Whole lines without their ends, many at once, and pieces of those that are longer."""
    held, offset, again = b"", 0, 0
    while chunk := stream.read(PIECE):
        data = held + chunk
        end = data.rfind(b"\n")
        if end >= 0:
            lines = _text(data[:end]).split("\n")
            yield _Block(number, offset, again, lines)
            number, held, offset, again = number + len(lines), data[end + 1 :], 0, 0
        elif len(data) >= PIECE:
            yield _Block(number, offset, again, [_text(data)])
            held = data[-_SHARED:]
            offset, again = offset + len(data) - len(held), len(_text(held))
        else:
            held = data
    if len(held) > again or offset:
        yield _Block(number, offset, again, [_text(held)])


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return re.sub("\r+(?=\n|\\Z)", "", text) if "\r" in text else text


def _show(number: int, offset: int, text: str, found: re.Match[str] | None) -> int:
    """Characters that this printed."""
    at = -1
    if len(text) > 4 * _AROUND or offset:
        start = max(found.start() - _AROUND, 0) if found else 0
        at = offset + len(text[:start].encode("utf-8", "replace"))
        text = text[start : start + 2 * _AROUND]
    print(json.dumps([number, text, found is not None, at]), flush=found is not None)
    return len(text) + 8

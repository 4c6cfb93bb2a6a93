"""Searches stored content for lines that match a pattern, in a separate process that can be killed.
`ebbtide.tools.search.scan` is the code of that process."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.stored import Content
from ebbtide.tools.process.own_module import own_module

SEARCH_TIMEOUT_S = 20.0
"""Seconds after which a search is ended with what it has found."""


@dataclass(frozen=True, slots=True)
class FilteredLine:
    number: int
    text: str
    is_match: bool
    at: int
    """Offset in its line where cut text begins, or -1 if it is not cut."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    hits: tuple[FilteredLine, ...]
    ending: Literal["complete", "enough", "late"]
    line: int = 0
    """The first line that was not, or not completely, searched."""
    searched: int = 0
    """Number of bytes searched from the start of the search."""


async def filter_lines(
    content: Content,
    pattern: str,
    before: int,
    after: int,
    lines: tuple[int, int],
    most_bytes: int,
    *,
    start: int | None = None,
    numbered: bool = False,
) -> FilterResult:
    """Return the matching lines in a range with their context, up to a number of bytes. `start`: the byte, in the first
    line, at which the search begins. `numbered`: lines have numbers of their own, which are not searched. Raises
    `ToolError`, also for damaged bytes."""
    line_start = content.line_start(lines[0])
    start = line_start if start is None else start
    request = {
        "pattern": pattern,
        "before": before,
        "after": after,
        "first": lines[0],
        "offset": start - line_start,
        "last": lines[1],
        "most": most_bytes,
        "numbered": numbered,
    }
    process = _start_process(request)
    reading = asyncio.ensure_future(asyncio.to_thread(_exchange, process, content, lines[0], start))
    try:
        return await asyncio.wait_for(asyncio.shield(reading), SEARCH_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        return replace(await reading, ending="late")
    except BaseException:
        process.kill()
        await asyncio.wait([reading])
        raise


def _start_process(request: Mapping[str, object]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            own_module(f"{__package__}.scan", json.dumps(request)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"the search could not be started: {error}") from error


def _exchange(process: subprocess.Popen[bytes], content: Content, first: int, start: int) -> FilterResult:
    with process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a search was started without pipes")
        failed = list[ToolError]()
        feeding = threading.Thread(target=_feed, args=(process.stdin, content, start, failed), daemon=True)
        feeding.start()
        records = list[list[Any]]()
        for line in process.stdout:
            with suppress(ValueError):  # cut off when it was killed
                records.append(json.loads(line))
        feeding.join()
        for error in failed:
            raise error
        hits = tuple(FilteredLine(*record) for record in records if len(record) == 4)
        line, searched = next((tuple(record) for record in reversed(records) if len(record) == 2), (first, 0))
        return FilterResult(hits, "complete" if records and not records[-1] else "enough", line, searched)


def _feed(pipe: IO[bytes], content: Content, start: int, failed: list[ToolError]) -> None:
    """Write the content to the process. Errors are returned in `failed`, since a thread cannot raise them to the
    caller. The search then ends with what it was given."""
    try:
        with suppress(BrokenPipeError):  # it has found enough, or was killed
            for chunk in content.chunks(start):
                pipe.write(chunk)
    except ToolError as error:
        failed.append(error)
    with suppress(BrokenPipeError):
        pipe.close()

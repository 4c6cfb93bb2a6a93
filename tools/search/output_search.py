"""Searches stored content for lines that match a pattern, in a separate process that can be killed. That process runs
`ebbtide.tools.search.scan`."""

import asyncio
import json
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Literal

from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.stored_content import Content
from ebbtide.tools.process.own_module import own_module_command

SEARCH_TIMEOUT_S = 20.0
"""Seconds after which a search is stopped. The matches found by then are returned."""


@dataclass(frozen=True, slots=True)
class FilteredLine:
    line_number: int
    text: str
    is_match: bool
    cut_offset: int
    """Offset in the line at which cut text begins; -1 if the line is not cut."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    lines: tuple[FilteredLine, ...]
    ending: Literal["complete", "stopped_early", "timed_out"]
    next_line: int = 0
    """The first line that was not searched completely."""
    searched_bytes: int = 0
    """Number of bytes searched, counted from where the search started."""


async def filter_lines(
    content: Content,
    pattern: str,
    lines_before: int,
    lines_after: int,
    lines: tuple[int, int],
    max_bytes: int,
    *,
    start: int | None = None,
    has_line_numbers: bool = False,
) -> FilterResult:
    """Find the matching lines in a range, with their context, up to `max_bytes` bytes. `start`: the byte in the first
    line at which the search begins. `has_line_numbers`: lines begin with numbers, which are not searched. Raises
    `ToolError`, such as when bytes are damaged."""
    line_start = content.line_start(lines[0])
    start = line_start if start is None else start
    request = {
        "pattern": pattern,
        "before": lines_before,
        "after": lines_after,
        "first_line": lines[0],
        "offset": start - line_start,
        "last_line": lines[1],
        "max_bytes": max_bytes,
        "numbered": has_line_numbers,
    }
    process = _start_process(request)
    exchange_task = asyncio.ensure_future(asyncio.to_thread(_exchange, process, content, lines[0], start))
    try:
        return await asyncio.wait_for(asyncio.shield(exchange_task), SEARCH_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        return replace(await exchange_task, ending="timed_out")
    except BaseException:
        process.kill()
        await asyncio.wait([exchange_task])
        raise


def _start_process(request: Mapping[str, object]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            own_module_command(f"{__package__}.scan", json.dumps(request)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"the search could not be started: {error}") from error


def _exchange(process: subprocess.Popen[bytes], content: Content, first_line: int, start: int) -> FilterResult:
    with process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a search was started without pipes")
        errors = list[ToolError]()
        feed_thread = threading.Thread(target=_feed, args=(process.stdin, content, start, errors), daemon=True)
        feed_thread.start()
        records = list[list[Any]]()
        for line in process.stdout:
            with suppress(ValueError):  # the line is incomplete if the process was killed
                records.append(json.loads(line))
        feed_thread.join()
        for error in errors:
            raise error
        hits = tuple(FilteredLine(*record) for record in records if len(record) == 4)
        line, searched_bytes = next(
            (tuple(record) for record in reversed(records) if len(record) == 2), (first_line, 0)
        )
        return FilterResult(hits, "complete" if records and not records[-1] else "stopped_early", line, searched_bytes)


def _feed(pipe: IO[bytes], content: Content, start: int, errors: list[ToolError]) -> None:
    """Write the content to the process. Errors are appended to `errors`, because a thread cannot raise them in its
    caller. The search then ends with the content written so far."""
    try:
        with suppress(BrokenPipeError):  # the process has found enough or was killed
            for chunk in content.chunks(start):
                pipe.write(chunk)
    except ToolError as error:
        errors.append(error)
    with suppress(BrokenPipeError):
        pipe.close()

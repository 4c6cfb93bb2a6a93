"""The search process used if there is no ripgrep. It prints what `rg --files --null` and `rg --json` would print.

A separate process is needed because a regular expression may take forever. Python cannot interrupt it, but a process
can be killed.
"""

import base64
import codecs
import io
import json
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias

from ebbtide.tools.files.text import decode_file, without_surrogates
from ebbtide.tools.process.own_module import own_module_command
from ebbtide.tools.search.scan import (
    PIECE_BYTES,
    BlockSearch,
    LineTimeout,
    ScanBlock,
    block_searcher,
    is_utf8,
    read_blocks,
)
from ebbtide.tools.search.walk import walk_files

_COUNTED_MATCH = b'{"type": "match"}\n'
"""The record of a line that is counted but not shown."""
MAX_LEGACY_BYTES = 64 * 1024 * 1024
"""Largest file whose encoding is detected, in bytes."""
_BINARY_CHECK_BYTES = 1 << 16
"""Number of bytes at the start of a file that are checked to find out whether it is binary."""
_PROGRESS_EVERY_S = 0.5
"""Seconds between progress reports."""

SearchRecord: TypeAlias = tuple[str, int, str]
"""The record of a line: its kind, number and text."""

_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def build_searcher_argv(
    pattern: str | None,
    paths: Sequence[str] | None = None,
    ignore_case: bool = False,
    context: int = 0,
    detail: str = "lines",
    line_seconds: float = 1.0,
    encodings: Mapping[str, str] | None = None,
    includes_ignored: bool = False,
) -> list[str]:
    """Build the command that lists the files in its working folder or, with a pattern, searches them (or only `paths`).
    `line_seconds`: time limit for a line; a line may take up to twice as long before it is skipped. `encodings`: codecs
    specified for individual files."""
    request = {
        "pattern": pattern,
        "paths": paths,
        "ignore_case": ignore_case,
        "context": context,
        "detail": detail,
        "line_seconds": line_seconds,
        "encodings": dict(encodings or {}),
        "with_ignored": includes_ignored,
    }
    return own_module_command(__name__, json.dumps(request))


def main(request_json: str) -> None:
    request = json.loads(request_json)
    try:
        if request["pattern"] is None:
            for path in walk_files(os.getcwd(), includes_ignored=request["with_ignored"]):
                sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        else:
            _search(request)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # the reader has closed the output


def _search(request: Mapping[str, Any]) -> None:
    progress = _SearchProgress()
    line_timeout = LineTimeout(float(str(request["line_seconds"])), progress.report_slow_line)
    search = block_searcher(
        str(request["pattern"]),
        progress.report_progress,
        ignore_case=bool(request["ignore_case"]),
        line_timeout=line_timeout,
    )
    context = int(str(request["context"]))
    paths = request["paths"]
    for path in walk_files(os.getcwd(), includes_ignored=request["with_ignored"]) if paths is None else paths:
        codec = request["encodings"].get(path, "")
        has_begun = False
        binary_line = None
        for kind, number, line in _search_file(
            path, codec, search, context, progress, first_only=request["detail"] == "first"
        ):
            if kind == "binary":
                binary_line = number
                continue
            if not has_begun:
                _print("begin", {"path": _json_path(path)})
                has_begun = True
            if kind == "match" and request["detail"] != "lines":
                sys.stdout.buffer.write(_COUNTED_MATCH)
                continue
            _print(kind, {"line_number": number, "lines": {"text": line}})
        if has_begun:
            _print("end", {"binary_offset": binary_line})
            sys.stdout.buffer.flush()  # flushed now, because the next file may take forever


class _SearchProgress:
    """Reports the progress of a search at intervals."""

    def __init__(self) -> None:
        self.path = ""
        self._last_report = time.monotonic()

    def report_progress(self, line: int) -> None:
        if time.monotonic() - self._last_report > _PROGRESS_EVERY_S:
            self._report("at", line)

    def report_slow_line(self, line: int) -> None:
        self._report("slow", line)

    def _report(self, kind: str, line: int) -> None:
        _print(kind, {"path": _json_path(self.path), "line_number": line})
        sys.stdout.buffer.flush()
        self._last_report = time.monotonic()


def _search_file(
    path: str, codec: str, search: BlockSearch, context: int, progress: _SearchProgress, *, first_only: bool = False
) -> Iterator[SearchRecord]:
    """Yield the matching lines of a text file with their context, or only the first match. A line that is too long
    yields a `long` record. A file that is not text yields one `binary` record."""
    progress.path = path
    tracker = _ContextTracker(context)
    is_done = False
    for block in _blocks(path, codec):
        if b"\0" in block.data:
            yield "binary", block.first_line, ""
            return
        if is_done:
            continue
        offset = 0
        number = block.first_line
        for line_start, _ in search(block):
            newline_count = block.data.count(b"\n", offset, line_start)
            yield from tracker.context_lines(block, offset, line_start, number)
            number += newline_count
            line_end = block.data.find(b"\n", line_start)
            line_end = len(block.data) if line_end < 0 else line_end
            yield from tracker.match_lines(block, line_start, line_end, number)
            offset, number = line_end + 1, number + 1
            if is_done := first_only:
                break
        yield from tracker.context_lines(block, offset, len(block.data) + 1, number)
        progress.report_progress(block.first_line)


class _ContextTracker:
    """Produces the records of matching lines and their context."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._pending_before: deque[SearchRecord] = deque(maxlen=context)
        self._lines_due_after = self._last_long_line = 0

    def match_lines(self, block: ScanBlock, start: int, end: int, number: int) -> Iterator[SearchRecord]:
        if _is_piece(block, start, end):
            if number != self._last_long_line:  # several pieces of the same line may match
                yield from self._pending_before
                yield "long", number, ""
            self._last_long_line = number
        else:
            yield from self._pending_before
            yield "match", number, block.data[start:end].decode("utf-8", "replace")
        self._pending_before.clear()
        self._lines_due_after = self._context

    def context_lines(self, block: ScanBlock, start: int, end: int, number: int) -> Iterator[SearchRecord]:
        """Yield the context lines from a range of lines without a match. The next match starts where the range ends."""
        if not self._context or start >= end:
            return
        for line in block.data[start : end - 1].split(b"\n"):
            record = "context", number, line.decode("utf-8", "replace")
            if not _is_piece(block, start, start + len(line)):
                if self._lines_due_after:
                    yield record
                    self._lines_due_after -= 1
                else:
                    self._pending_before.append(record)
            start, number = start + len(line) + 1, number + 1


def _is_piece(block: ScanBlock, start: int, end: int) -> bool:
    """Whether the data is a piece of a line that is too long to print."""
    return start == 0 and (block.offset > 0 or end >= PIECE_BYTES)


def _blocks(path: str, specified_codec: str) -> Iterator[ScanBlock]:
    """Yield the blocks of a text file, in UTF-8. Yields none if it is unreadable."""
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            prefix = file.read(3)
            codec = _UTF16.get(prefix[:2])
            file.seek(2 if codec else 3 if prefix == b"\xef\xbb\xbf" else 0)
            legacy_text = None if codec else _legacy_text(file, specified_codec)
            yield from read_blocks(
                _Utf8Reader(file, codec) if codec else file if legacy_text is None else io.BytesIO(legacy_text), 1
            )
    except OSError:
        return


def _legacy_text(file: BinaryIO, specified_codec: str) -> bytes | None:
    """Decode the rest of a file that is not UTF-8, as `read` would show it. None for ASCII, UTF-8, binary and very
    large files; the position then stays unchanged."""
    start = file.tell()
    raw = file.read(_BINARY_CHECK_BYTES)
    if b"\0" not in raw:
        raw += file.read(MAX_LEGACY_BYTES)
        if not raw.isascii() and len(raw) <= MAX_LEGACY_BYTES and b"\0" not in raw and not is_utf8(raw):
            return without_surrogates(decode_file(raw, specified_codec).text).encode()
    file.seek(start)
    return None


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


class _Utf8Reader:
    """Reads a file in another encoding as UTF-8."""

    def __init__(self, file: BinaryIO, codec: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(codec)("replace")

    def read(self, size: int) -> bytes:
        raw = self._file.read(size)
        return self._decoder.decode(raw, final=not raw).encode("utf-8", "replace")


def _print(kind: str, data: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"type": kind, "data": data}).encode() + b"\n")


def _json_path(path: str) -> Mapping[str, str]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"bytes": base64.b64encode(os.fsencode(path)).decode()}
    return {"text": path}

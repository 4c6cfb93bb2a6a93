"""The search process without ripgrep: prints what `rg --files --null` and `rg --json` would print.

It is a process because a regular expression can take forever and cannot be interrupted within Python, whereas a process
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

from ebbtide.tools.files.text import decode, showable
from ebbtide.tools.process.own_module import own_module
from ebbtide.tools.search.scan import PIECE, LineTimeout, ScanBlock, Search, blocks, searcher
from ebbtide.tools.search.walk import files_below

_A_MATCH = b'{"type": "match"}\n'
"""The record of a line that is only counted."""
MAX_LEGACY_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of a file whose encoding is detected."""
_HEAD = 1 << 16
"""Number of bytes examined to detect a binary file."""
_PROGRESS_EVERY_S = 0.5
"""Seconds between progress reports."""

SearchRecord: TypeAlias = tuple[str, int, str]
"""The record of a line: its kind, number and text."""

_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def argv_for(
    pattern: str | None,
    paths: Sequence[str] | None = None,
    ignore_case: bool = False,
    context: int = 0,
    wanted: str = "lines",
    patience: float = 1.0,
    encodings: Mapping[str, str] | None = None,
    with_ignored: bool = False,
) -> list[str]:
    """Return the command that lists the files of its working folder, or searches them (or only `paths`) for the
    pattern. `patience`: minimum number of seconds per line; a line that takes twice as long is skipped. `encodings`:
    codecs specified for files."""
    request = {
        "pattern": pattern,
        "paths": paths,
        "ignore_case": ignore_case,
        "context": context,
        "wanted": wanted,
        "patience": patience,
        "encodings": dict(encodings or {}),
        "with_ignored": with_ignored,
    }
    return own_module(__name__, json.dumps(request))


def main(request_json: str) -> None:
    request = json.loads(request_json)
    try:
        if request["pattern"] is None:
            for path in files_below(os.getcwd(), with_ignored=request["with_ignored"]):
                sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        else:
            _search(request)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(0)  # the output is no longer read


def _search(request: Mapping[str, Any]) -> None:
    told = _SearchProgress()
    patience = LineTimeout(float(str(request["patience"])), told.given_up)
    search = searcher(
        str(request["pattern"]), told.report_progress, ignore_case=bool(request["ignore_case"]), patience=patience
    )
    context = int(str(request["context"]))
    paths = request["paths"]
    for path in files_below(os.getcwd(), with_ignored=request["with_ignored"]) if paths is None else paths:
        codec = request["encodings"].get(path, "")
        begun, binary = False, None
        for kind, number, line in _hits(path, codec, search, context, told, first_only=request["wanted"] == "first"):
            if kind == "binary":
                binary = number
                continue
            if not begun:
                _print("begin", {"path": _text(path)})
                begun = True
            if kind == "match" and request["wanted"] != "lines":
                sys.stdout.buffer.write(_A_MATCH)
                continue
            _print(kind, {"line_number": number, "lines": {"text": line}})
        if begun:
            _print("end", {"binary_offset": binary})
            sys.stdout.buffer.flush()  # the next file may take forever


class _SearchProgress:
    """Reports progress at intervals."""

    def __init__(self) -> None:
        self.path = ""
        self._told = time.monotonic()

    def report_progress(self, line: int) -> None:
        if time.monotonic() - self._told > _PROGRESS_EVERY_S:
            self._report("at", line)

    def given_up(self, line: int) -> None:
        self._report("slow", line)

    def _report(self, kind: str, line: int) -> None:
        _print(kind, {"path": _text(self.path), "line_number": line})
        sys.stdout.buffer.flush()
        self._told = time.monotonic()


def _hits(
    path: str, codec: str, search: Search, context: int, told: _SearchProgress, *, first_only: bool = False
) -> Iterator[SearchRecord]:
    """Yield the matching lines of a text file, or only the first, with their context; `long` in place of a line that is
    too long, and `binary` once if the file is not text."""
    told.path = path
    state, is_done = _Around(context), False
    for block in _blocks(path, codec):
        if b"\0" in block.data:
            yield "binary", block.number, ""
            return
        if is_done:
            continue
        at, number = 0, block.number
        for start, _ in search(block):
            between = block.data.count(b"\n", at, start)
            yield from state.context_lines(block, at, start, number)
            number += between
            end = block.data.find(b"\n", start)
            end = len(block.data) if end < 0 else end
            yield from state.match_lines(block, start, end, number)
            at, number = end + 1, number + 1
            if is_done := first_only:
                break
        yield from state.context_lines(block, at, len(block.data) + 1, number)
        told.report_progress(block.number)


class _Around:
    """Produces the records of matching lines and their context."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._before: deque[SearchRecord] = deque(maxlen=context)
        self._after = self._long = 0

    def match_lines(self, block: ScanBlock, start: int, end: int, number: int) -> Iterator[SearchRecord]:
        if _is_piece(block, start, end):
            if number != self._long:  # several pieces of one line may match
                yield from self._before
                yield "long", number, ""
            self._long = number
        else:
            yield from self._before
            yield "match", number, block.data[start:end].decode("utf-8", "replace")
        self._before.clear()
        self._after = self._context

    def context_lines(self, block: ScanBlock, start: int, end: int, number: int) -> Iterator[SearchRecord]:
        """Yield lines without a match, up to the start of the next match."""
        if not self._context or start >= end:
            return
        for line in block.data[start : end - 1].split(b"\n"):
            hit = "context", number, line.decode("utf-8", "replace")
            if not _is_piece(block, start, start + len(line)):
                if self._after:
                    yield hit
                    self._after -= 1
                else:
                    self._before.append(hit)
            start, number = start + len(line) + 1, number + 1


def _is_piece(block: ScanBlock, start: int, end: int) -> bool:
    """Whether it is part of a line that is too long to print."""
    return start == 0 and (block.offset > 0 or end >= PIECE)


def _blocks(path: str, named: str) -> Iterator[ScanBlock]:
    """Yield the blocks of a text file as UTF-8, or nothing if it is unreadable."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            start = file.read(3)
            codec = _UTF16.get(start[:2])
            file.seek(2 if codec else 3 if start == b"\xef\xbb\xbf" else 0)
            legacy = None if codec else _legacy_text(file, named)
            yield from blocks(_Utf8(file, codec) if codec else file if legacy is None else io.BytesIO(legacy), 1)
    except OSError:
        return


def _legacy_text(file: BinaryIO, named: str) -> bytes | None:
    """Return the rest of a file that is not UTF-8, as `read` shows it, or None for other files, with the position
    unchanged."""
    start = file.tell()
    raw = file.read(_HEAD)
    if b"\0" not in raw:
        raw += file.read(MAX_LEGACY_BYTES)
        if not raw.isascii() and len(raw) <= MAX_LEGACY_BYTES and b"\0" not in raw and not _is_utf8(raw):
            return showable(decode(raw, named).text).encode()
    file.seek(start)
    return None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


class _Utf8:
    """A file in another encoding, read as UTF-8."""

    def __init__(self, file: BinaryIO, codec: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(codec)("replace")

    def read(self, size: int) -> bytes:
        raw = self._file.read(size)
        return self._decoder.decode(raw, final=not raw).encode("utf-8", "replace")


def _print(kind: str, data: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"type": kind, "data": data}).encode() + b"\n")


def _text(path: str) -> Mapping[str, str]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"bytes": base64.b64encode(os.fsencode(path)).decode()}
    return {"text": path}

"""Searches in a process that can be killed: ripgrep if available, or else our own searcher with the same results."""

import asyncio
import base64
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Literal, TypeAlias

from ebbtide.tools.base import ToolError
from ebbtide.tools.process.lines import LineBuffer, TooLong
from ebbtide.tools.search import searcher
from ebbtide.tools.search.walk import scope_of

SEARCH_TIMEOUT_S = 30.0
"""Seconds after which a search is ended with what it has found."""

EXTRA_COUNT_S = 1.0
"""Seconds for counting matches beyond the limit."""

IGNORED_SECONDS = 3.0
"""Seconds for searching files that git ignores, if nothing else was found."""

LINE_TIMEOUT_S = 1.0
"""Minimum number of seconds for a line. A line that takes twice as long is skipped."""

_MAX_RECORD_BYTES = 1 << 22
_MATCH = re.compile(rb'\{"type": ?"match"')

_RG = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--no-messages",
    "--glob=!.git",
    "--color=never",
)

TOO_LONG = "(a line of several megabytes matches here: cut parts out of it in bash)"

SearchEnding: TypeAlias = Literal["complete", "enough", "late"]
MAX_HELD_LINES = 5_000
"""Maximum number of buffered lines of a file."""
MAX_HELD_CHARS = 1 << 23
"""Maximum number of buffered characters of a file."""

MAX_LEGACY_FILES, LEGACY_SECONDS = 20_000, 10.0
"""Maximum number of non-UTF-8 files to search, and seconds to look for them."""
MAX_LEGACY_LINES = 20_000
"""Maximum number of buffered lines found in them."""
MAX_NAMED_CHARS = 20_000
"""Maximum number of characters in the paths of one command line, where each may take six bytes."""

WalkWish: TypeAlias = Literal["more", "count", "nothing"]
"""What the receiver wants next: more matches, a count of the rest, or nothing."""


@dataclass(frozen=True, slots=True)
class FoundLine:
    path: str
    """Relative to the searched folder."""
    number: int
    """0 for a line that is too long. `text` then says so."""
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class SearchEnd:
    how: SearchEnding
    path: str = ""
    """The file in which a late search was ended, if known."""
    line: int = 0
    """The line that it had reached, or 0 if unknown."""
    given_up: tuple[tuple[str, int], ...] = ()
    """Lines on which the pattern takes too long, with their files."""


Detail: TypeAlias = Literal["lines", "count", "first"]
"""What to return of a file: matching lines; only their count, without numbers and text; or only whether there is
one."""


@dataclass(frozen=True, slots=True)
class LineQuery:
    pattern: str
    ignore_case: bool = False
    context: int = 0
    wanted: Detail = "lines"
    with_ignored: bool = False
    """Whether to search files that git ignores as well."""
    seconds: float | None = None
    """Time limit. None for `SEARCH_TIMEOUT_S`."""
    encodings: Mapping[str, str] = field(default_factory=dict)
    """Codecs specified for files, by absolute path."""


@cache
def find_rg(search_path: str, project: Path) -> str | None:
    """Return the absolute path of ripgrep. Programs inside the project or in relative folders are ignored."""
    for folder in search_path.split(os.pathsep):
        found = Path(os.path.realpath(Path(folder) / "rg"))
        if os.path.isabs(folder) and not found.is_relative_to(project) and os.access(found, os.X_OK):
            return str(found)
    return None


async def list_files(
    folder: Path,
    project: Path,
    take: Callable[[str], bool],
    *,
    with_ignored: bool = False,
    seconds: float | None = None,
) -> SearchEnding:
    """Pass the path of each file, relative to the folder, to `take` until it wants no more or the time is up."""
    rg = find_rg(os.environ.get("PATH", ""), project)
    argv = searcher.argv_for(None, with_ignored=with_ignored)
    if rg is not None:
        argv = [rg, *_RG, *await _scope(folder, with_ignored), "--files", "--null", "."]

    def taken(record: bytes) -> WalkWish:
        return "more" if take(os.fsdecode(record).removeprefix("./")) else "nothing"

    return (await _collect(argv, folder, b"\0", taken, seconds)).ending


async def search_lines(
    root: Path, project: Path, query: LineQuery, take: Callable[[Sequence[FoundLine]], WalkWish]
) -> SearchEnd:
    """Pass the lines found in each file to `take`, in the order of paths and possibly in several parts, until it wants
    nothing. The end is also `complete` if the last lines were only counted."""
    folder, only_file = _folder_and_file(root)
    rg = find_rg(os.environ.get("PATH", ""), project)
    if rg is not None:
        base = [rg, *_RG, *await _scope(folder, query.with_ignored)]
        options = ["--json", "--no-mmap", "--crlf", "--sort=path", f"--context={query.context}"]
        options += ["--ignore-case"] if query.ignore_case else ["--case-sensitive"]
        target = "." if only_file is None else f"./{only_file}"
        legacy = _LegacyFiles(await _not_in_utf8(base, folder, target, query.seconds or LEGACY_SECONDS), take)
        for paths in legacy.batches():
            await _search_ourselves(folder, paths, query, legacy.hold)
        files = _Files(legacy.take, query.wanted)
        argv = [*base, *options, "-e", query.pattern, "--", target]
        done = await _collect(argv, folder, b"\n", files.take, query.seconds)
        if not done.complaint:
            is_over = done.ending != "complete" or legacy.take_rest() == "nothing"
            return files.finish("enough" if is_over and done.ending == "complete" else done.ending)
    return await _search_ourselves(folder, None if only_file is None else [only_file], query, take)


async def _search_ourselves(
    folder: Path, paths: Sequence[str] | None, query: LineQuery, take: Callable[[Sequence[FoundLine]], WalkWish]
) -> SearchEnd:
    argv = searcher.argv_for(
        query.pattern,
        paths,
        query.ignore_case,
        query.context,
        query.wanted,
        LINE_TIMEOUT_S,
        _relative(query.encodings, folder),
        query.with_ignored,
    )
    files = _Files(take, query.wanted)
    done = await _collect(argv, folder, b"\n", files.take, query.seconds)
    return files.finish(done.ending)


def _relative(encodings: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): codec for path, codec in encodings.items()}


async def _not_in_utf8(base: Sequence[str], folder: Path, target: str, seconds: float) -> list[str]:
    """Return the files with a line that is not UTF-8, in which ripgrep would find only ASCII."""
    found: list[str] = []

    def take(record: bytes) -> WalkWish:
        found.append(os.fsdecode(record).removeprefix("./"))
        return "more" if len(found) < MAX_LEGACY_FILES else "nothing"

    argv = [*base, "--files-with-matches", "--null", "--invert-match", "--line-regexp", "-e", ".*", "--", target]
    await _collect(argv, folder, b"\0", take, seconds)
    return found


class _LegacyFiles:
    """Files that are not UTF-8. Lines that our own searcher finds in them are buffered until it is their turn."""

    def __init__(self, paths: Sequence[str], take: Callable[[Sequence[FoundLine]], WalkWish]) -> None:
        self._paths = frozenset(paths)
        self._waiting = list[Sequence[FoundLine]]()
        self._held = 0
        self._hand_over = take

    def batches(self) -> Iterator[list[str]]:
        """Yield the paths in order, as many at a time as fit in one command line."""
        batch, size = list[str](), 0
        for path in sorted(self._paths, key=_in_order):
            if size + len(path) > MAX_NAMED_CHARS and batch:
                yield batch
                batch, size = [], 0
            batch.append(path)
            size += len(path) + 4
        if batch:
            yield batch

    def hold(self, lines: Sequence[FoundLine]) -> WalkWish:
        self._waiting.append(lines)
        self._held += len(lines)
        return "more" if self._held < MAX_LEGACY_LINES else "nothing"

    def take(self, lines: Sequence[FoundLine]) -> WalkWish:
        """Take what ripgrep found in a file, after buffered lines of earlier files."""
        here = _in_order(lines[0].path)
        while self._waiting and _in_order(self._waiting[0][0].path) < here:
            if self._hand_over(self._waiting.pop(0)) == "nothing":
                return "nothing"
        return "more" if lines[0].path in self._paths else self._hand_over(lines)

    def take_rest(self) -> WalkWish:
        return next((wish for lines in self._waiting if (wish := self._hand_over(lines)) == "nothing"), "more")


def _in_order(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


def _folder_and_file(root: Path) -> tuple[Path, str | None]:
    return (root.parent, root.name) if os.path.isfile(root) else (root, None)


async def _scope(folder: Path, with_ignored: bool) -> list[str]:
    """Return options that make ripgrep apply the same rules as our own searcher."""
    if with_ignored:
        return ["--no-ignore"]
    scope = await asyncio.to_thread(scope_of, str(folder))
    return [] if scope.is_tracked else ["--no-require-git", "--no-ignore-parent"]


class _Files:
    """Assembles the printed records by file. Lines of a file that turns out to be binary are dropped."""

    def __init__(self, take: Callable[[Sequence[FoundLine]], WalkWish], wanted: Detail) -> None:
        self._take = take
        self._wanted = wanted
        self._path = ""
        self._lines: list[FoundLine] = []
        self._size = 0
        self._given_up = list[tuple[str, int]]()
        self._is_cut = False
        """Whether a matching line was too long."""
        self._reached = 0
        """The line that the search has reached, if reported."""

    def finish(self, how: SearchEnding) -> SearchEnd:
        if how == "late" and self._lines:
            self._take(self._lines)
        given_up = tuple(self._given_up)
        return SearchEnd(how, self._path, self._reached, given_up) if how == "late" else SearchEnd(how, "", 0, given_up)

    def take(self, record: bytes) -> WalkWish:
        if not record.endswith(b"}"):  # the beginning of a record that is too long
            self._is_cut = self._is_cut or _MATCH.match(record) is not None
            return "more"
        if self._wanted != "lines" and _MATCH.match(record) is not None:
            # ripgrep reads on to determine whether the file is binary, and there may be millions of matches.
            enough = self._wanted == "first" and bool(self._lines)
            return "more" if enough else self._hold(FoundLine(self._path, 0, "", True))
        event = json.loads(record)
        data = event["data"]
        match event["type"]:
            case "begin":
                self._path, self._lines = _path(data), []
                self._is_cut, self._reached = False, 0
            case "at":
                self._path, self._reached = _path(data), data["line_number"]
            case "slow":
                self._given_up.append((_path(data), data["line_number"]))
            case "long":
                self._is_cut = True
            case "match" | "context" as kind:
                text = _bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
                return self._hold(FoundLine(self._path, data["line_number"], text, kind == "match"))
            case "end" if data["binary_offset"] is None:
                cut = [FoundLine(self._path, 0, TOO_LONG, True)] if self._is_cut else []
                held, self._lines = [*self._lines, *cut], []
                return self._take(held) if held else "more"
            case "end":
                self._lines = []
        return "more"

    def _hold(self, line: FoundLine) -> WalkWish:
        self._lines.append(line)
        self._size += len(line.text)
        if len(self._lines) < MAX_HELD_LINES and self._size < MAX_HELD_CHARS:
            return "more"
        held, self._lines, self._size = self._lines, [], 0
        return self._take(held)


def _path(data: Mapping[str, Mapping[str, str]]) -> str:
    return os.fsdecode(_bytes(data["path"])).removeprefix("./")


def _bytes(value: Mapping[str, str]) -> bytes:
    return value["text"].encode("utf-8", "surrogatepass") if "text" in value else base64.b64decode(value["bytes"])


@dataclass(frozen=True, slots=True)
class _ProgramEnd:
    ending: SearchEnding
    complaint: str = ""
    """The program's complaint about its arguments."""


async def _collect(
    argv: Sequence[str],
    folder: Path,
    separator: bytes,
    take: Callable[[bytes], WalkWish],
    seconds: float | None = None,
) -> _ProgramEnd:
    """Run the program and pass on its records until it ends, `take` wants nothing, or the time is up."""
    process = _start_process(argv, folder)
    reading = asyncio.ensure_future(asyncio.to_thread(_read_all, process, separator, take))
    try:
        return await asyncio.wait_for(asyncio.shield(reading), SEARCH_TIMEOUT_S if seconds is None else seconds)
    except TimeoutError:
        process.kill()
        await reading
        return _ProgramEnd("late")
    except BaseException:
        process.kill()
        await asyncio.wait([reading])
        raise


def _start_process(argv: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"cannot search `{folder}`: {(error.strerror or str(error)).lower()}") from error


def _read_all(process: subprocess.Popen[bytes], separator: bytes, take: Callable[[bytes], WalkWish]) -> _ProgramEnd:
    counting: threading.Timer | None = None
    with process:
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("a search was started without pipes")
        try:
            for record in _records(process.stdout, separator):
                wish = take(record)
                if wish == "nothing":
                    process.kill()
                    return _ProgramEnd("enough")
                if wish == "count" and counting is None:
                    counting = threading.Timer(EXTRA_COUNT_S, process.kill)
                    counting.start()
            complaint = process.stderr.read().decode("utf-8", "replace").strip()
            code = process.wait()
        finally:
            if counting is not None:
                counting.cancel()
        if counting is not None and code < 0:
            return _ProgramEnd("enough")
        return _ProgramEnd("complete", complaint if code not in (0, 1) else "")


def _records(stream: IO[bytes], separator: bytes) -> Iterator[bytes]:
    """Yield the records of a stream. A record that is too long is cut, so that it does not parse."""
    records = LineBuffer(_MAX_RECORD_BYTES, separator)
    while chunk := stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16):
        for record in records.take(chunk):
            yield record.head.rstrip(b"}") if isinstance(record, TooLong) else bytes(record)

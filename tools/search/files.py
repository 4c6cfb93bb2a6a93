"""Searching in a process that can be killed: rg where there is one, else our own searcher with the same results."""

import asyncio
import base64
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal, TypeAlias

from tools.base import ToolError
from tools.process.lines import LineBuffer, TooLong
from tools.search import searcher
from tools.search.walk import scope_of

LONGEST_SEARCH = 30.0
"""Seconds after which a search is ended, with what it has found."""

COUNTED_ON = 1.0
"""Seconds for which what nobody takes any more is counted."""

LONGEST_LINE = 1.0
"""Seconds that one line may take at least. One that takes twice as long is given up."""

_LONGEST_RECORD = 1 << 22
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
MOST_HELD = 5_000
"""Lines of one file that are held before they are handed over."""
MOST_HELD_CHARACTERS = 1 << 23
"""The same, in what they hold."""

WalkWish: TypeAlias = Literal["more", "count", "nothing"]
"""What whoever takes what is found wants next: more of it; for a moment the rest, to count it; or nothing."""


@dataclass(frozen=True, slots=True)
class FoundLine:
    path: str
    """Relative to the folder that was searched."""
    number: int
    """0 for one that is too long to be handed over; then `text` says so."""
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class SearchEnd:
    how: SearchEnding
    path: str = ""
    """The file in which a late one was ended, as far as that is known."""
    line: int = 0
    """The line of it that it had come to; 0 where that is not known."""
    given_up: tuple[tuple[str, int], ...] = ()
    """Lines on which the pattern takes too long, each with its file."""


Detail: TypeAlias = Literal["lines", "count", "first"]
"""What of a file is wanted: its lines that match; how many these are, so that none has its number or text; or only that
there is one."""


@dataclass(frozen=True, slots=True)
class Query:
    pattern: str
    ignore_case: bool = False
    context: int = 0
    wanted: Detail = "lines"


@cache
def find_rg(search_path: str, project: Path) -> str | None:
    """The absolute path of rg; never one that the project brings along, nor one in a relative folder."""
    for folder in search_path.split(os.pathsep):
        found = Path(os.path.realpath(Path(folder) / "rg"))
        if os.path.isabs(folder) and not found.is_relative_to(project) and os.access(found, os.X_OK):
            return str(found)
    return None


async def list_files(folder: Path, project: Path, take: Callable[[str], bool]) -> SearchEnding:
    """Hands over the path of each file, relative to the folder, until `take` wants no more."""
    rg = find_rg(os.environ.get("PATH", ""), project)
    argv = searcher.argv_for(None)
    if rg is not None:
        argv = [rg, *_RG, *await _scope(folder), "--files", "--null", "."]

    def taken(record: bytes) -> WalkWish:
        return "more" if take(os.fsdecode(record).removeprefix("./")) else "nothing"

    return (await _collect(argv, folder, b"\0", taken)).ending


async def search_lines(
    root: Path, project: Path, query: Query, take: Callable[[Sequence[FoundLine]], WalkWish]
) -> SearchEnd:
    """Hands over the lines found in each file, many of one in several pieces, in the order of paths, until `take` wants
    nothing. `complete` also when the last of them were only counted."""
    folder, only_file = _folder_and_file(root)
    rg = find_rg(os.environ.get("PATH", ""), project)
    if rg is not None:
        options = ["--json", "--no-mmap", "--crlf", "--sort=path", f"--context={query.context}"]
        options += ["--ignore-case"] if query.ignore_case else ["--case-sensitive"]
        target = "." if only_file is None else f"./{only_file}"
        argv = [rg, *_RG, *await _scope(folder), *options, f"--regexp={query.pattern}", "--", target]
        files = _Files(take, query.wanted)
        done = await _collect(argv, folder, b"\n", files.take)
        if not done.complaint:
            return files.ended(done.ending)
    argv = searcher.argv_for(query.pattern, only_file, query.ignore_case, query.context, query.wanted, LONGEST_LINE)
    files = _Files(take, query.wanted)
    done = await _collect(argv, folder, b"\n", files.take)
    return files.ended(done.ending)


def _folder_and_file(root: Path) -> tuple[Path, str | None]:
    return (root.parent, root.name) if os.path.isfile(root) else (root, None)


async def _scope(folder: Path) -> list[str]:
    """What makes rg apply the same rules as our own searcher."""
    scope = await asyncio.to_thread(scope_of, str(folder))
    return [] if scope.is_tracked else ["--no-require-git", "--no-ignore-parent"]


class _Files:
    """Puts the printed records together, file by file. What is held of one that turns out to be binary is dropped."""

    def __init__(self, take: Callable[[Sequence[FoundLine]], WalkWish], wanted: Detail) -> None:
        self._take = take
        self._wanted = wanted
        self._path = ""
        self._lines: list[FoundLine] = []
        self._size = 0
        self._given_up = list[tuple[str, int]]()
        self._is_cut = False
        """Whether a line that matches was too long."""
        self._reached = 0
        """The line that the search has come to, where that was told."""

    def ended(self, how: SearchEnding) -> SearchEnd:
        if how == "late" and self._lines:
            self._take(self._lines)
        given_up = tuple(self._given_up)
        return SearchEnd(how, self._path, self._reached, given_up) if how == "late" else SearchEnd(how, "", 0, given_up)

    def take(self, record: bytes) -> WalkWish:
        if not record.endswith(b"}"):  # the beginning of one that is too long
            self._is_cut = self._is_cut or _MATCH.match(record) is not None
            return "more"
        if self._wanted != "lines" and _MATCH.match(record) is not None:
            # rg reads on to tell whether the file is binary, and there may be millions of them.
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
        if len(self._lines) < MOST_HELD and self._size < MOST_HELD_CHARACTERS:
            return "more"
        held, self._lines, self._size = self._lines, [], 0
        return self._take(held)


def _path(data: Mapping[str, Mapping[str, str]]) -> str:
    return os.fsdecode(_bytes(data["path"])).removeprefix("./")


def _bytes(value: Mapping[str, str]) -> bytes:
    return value["text"].encode("utf-8", "surrogatepass") if "text" in value else base64.b64decode(value["bytes"])


@dataclass(frozen=True, slots=True)
class _Done:
    ending: SearchEnding
    complaint: str = ""
    """What the program said was wrong with its arguments."""


async def _collect(argv: Sequence[str], folder: Path, separator: bytes, take: Callable[[bytes], WalkWish]) -> _Done:
    """Runs the program and hands over its records until it ends, `take` wants nothing, or time is up."""
    process = _started(argv, folder)
    reading = asyncio.ensure_future(asyncio.to_thread(_read_all, process, separator, take))
    try:
        return await asyncio.wait_for(asyncio.shield(reading), LONGEST_SEARCH)
    except TimeoutError:
        process.kill()
        await reading
        return _Done("late")
    except BaseException:
        process.kill()
        await asyncio.wait([reading])
        raise


def _started(argv: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
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


def _read_all(process: subprocess.Popen[bytes], separator: bytes, take: Callable[[bytes], WalkWish]) -> _Done:
    counting: threading.Timer | None = None
    with process:
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("a search was started without pipes")
        try:
            for record in _records(process.stdout, separator):
                wish = take(record)
                if wish == "nothing":
                    process.kill()
                    return _Done("enough")
                if wish == "count" and counting is None:
                    counting = threading.Timer(COUNTED_ON, process.kill)
                    counting.start()
            complaint = process.stderr.read().decode("utf-8", "replace").strip()
            code = process.wait()
        finally:
            if counting is not None:
                counting.cancel()
        if counting is not None and code < 0:
            return _Done("enough")
        return _Done("complete", complaint if code not in (0, 1) else "")


def _records(stream: IO[bytes], separator: bytes) -> Iterator[bytes]:
    """The records of a stream; of one that is longer than fits, the beginning, so that it is no whole one."""
    records = LineBuffer(_LONGEST_RECORD, separator)
    while chunk := stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16):
        for record in records.take(chunk):
            yield record.head.rstrip(b"}") if isinstance(record, TooLong) else bytes(record)

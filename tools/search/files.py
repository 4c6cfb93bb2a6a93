"""Searches in a process that can be killed. It uses ripgrep if available, or else this program's own searcher, which
gives the same results."""

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
from ebbtide.tools.process.lines import LineBuffer, TruncatedLine
from ebbtide.tools.search import searcher
from ebbtide.tools.search.walk import walk_scope

SEARCH_TIMEOUT_S = 30.0
"""Seconds after which a search is stopped. The matches found by then are returned."""

EXTRA_COUNT_S = 1.0
"""Seconds for counting the matches beyond the limit."""

IGNORED_SEARCH_TIMEOUT_S = 3.0
"""Seconds for searching files that git ignores. This is done only if nothing else was found."""

LINE_TIMEOUT_S = 1.0
"""Time limit for searching a line, in seconds. It is checked at intervals, so a line may take up to twice as long
before it is skipped."""

_MAX_RECORD_BYTES = 1 << 22
_MATCH_RECORD = re.compile(rb'\{"type": ?"match"')

_RG_OPTIONS = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--no-messages",
    "--glob=!.git",
    "--color=never",
)

TOO_LONG_LINE_NOTE = "(a line of several megabytes matches here: cut parts out of it in bash)"

SearchEnding: TypeAlias = Literal["complete", "stopped_early", "timed_out"]
MAX_BUFFERED_LINES = 5_000
"""Maximum number of buffered lines of a file."""
MAX_BUFFERED_CHARS = 1 << 23
"""Maximum number of buffered characters of a file."""

MAX_LEGACY_FILES, LEGACY_SCAN_SECONDS = 20_000, 10.0
"""Maximum number of non-UTF-8 files to search, and seconds for finding them."""
MAX_LEGACY_LINES = 20_000
"""Maximum number of buffered lines found in non-UTF-8 files."""
MAX_ARGUMENT_CHARS = 20_000
"""Maximum number of characters that the paths in one command line may have. A character may take six bytes."""

SearchContinuation: TypeAlias = Literal["more", "count", "nothing"]
"""What the receiver of matches wants next: more matches, only a count of the remaining ones, or nothing."""


@dataclass(frozen=True, slots=True)
class FoundLine:
    path: str
    """Path relative to the searched folder."""
    line_number: int
    """Line number. 0 for a line that is too long; `text` then only says so."""
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    ending: SearchEnding
    path: str = ""
    """The file in which a search ran out of time, if known."""
    line: int = 0
    """The last line that the search reached; 0 if unknown."""
    skipped_lines: tuple[tuple[str, int], ...] = ()
    """Lines that were skipped because the pattern takes too long on them. Pairs of file and line number."""


MatchDetail: TypeAlias = Literal["lines", "count", "first"]
"""What to return for a file. `lines`: its matching lines; `count`: an entry without number or text for each matching
line; `first`: one such entry if any line matches."""


@dataclass(frozen=True, slots=True)
class LineQuery:
    pattern: str
    ignore_case: bool = False
    context: int = 0
    detail: MatchDetail = "lines"
    includes_ignored: bool = False
    """Whether files that git ignores are searched as well."""
    seconds: float | None = None
    """Time limit; None for `SEARCH_TIMEOUT_S`."""
    encodings: Mapping[str, str] = field(default_factory=dict)
    """Codecs specified for individual files, by absolute path."""


@cache
def find_ripgrep(search_path: str, project: Path) -> str | None:
    """Find ripgrep and return its absolute path. Programs inside the project or in relative folders are ignored."""
    for folder in search_path.split(os.pathsep):
        rg_path = Path(os.path.realpath(Path(folder) / "rg"))
        if os.path.isabs(folder) and not rg_path.is_relative_to(project) and os.access(rg_path, os.X_OK):
            return str(rg_path)
    return None


async def list_files(
    folder: Path,
    project: Path,
    on_paths: Callable[[Sequence[str]], None],
    *,
    includes_ignored: bool = False,
    seconds: float | None = None,
) -> SearchEnding:
    """Pass the paths of all files to `on_paths` in several parts, relative to the folder, until time is up. It is
    called in another thread."""
    rg = find_ripgrep(os.environ.get("PATH", ""), project)
    argv = searcher.build_searcher_argv(None, includes_ignored=includes_ignored)
    if rg is not None:
        argv = [rg, *_RG_OPTIONS, *await _ignore_options(folder, includes_ignored), "--files", "--null", "."]

    def take_records(records: Sequence[bytes]) -> SearchContinuation:
        on_paths([path.removeprefix("./") for path in os.fsdecode(b"\0".join(records)).split("\0")])
        return "more"

    return (await _run_search(argv, folder, b"\0", take_records, seconds)).ending


async def search_lines(
    root: Path, project: Path, query: LineQuery, on_lines: Callable[[Sequence[FoundLine]], SearchContinuation]
) -> SearchOutcome:
    """Pass the lines found in each file to `on_lines`, until it returns "nothing". Lines are ordered by path, and a
    file's lines may come in several parts. The search also counts as `complete` if the last lines were only counted."""
    folder, only_file = _folder_and_file(root)
    rg = find_ripgrep(os.environ.get("PATH", ""), project)
    if rg is not None:
        base_argv = [rg, *_RG_OPTIONS, *await _ignore_options(folder, query.includes_ignored)]
        options = ["--json", "--no-mmap", "--crlf", "--sort=path", f"--context={query.context}"]
        options += ["--ignore-case"] if query.ignore_case else ["--case-sensitive"]
        target = "." if only_file is None else f"./{only_file}"
        legacy = _LegacyFiles(
            await _non_utf8_files(base_argv, folder, target, query.seconds or LEGACY_SCAN_SECONDS), on_lines
        )
        for paths in legacy.batches():
            await _search_with_own_searcher(folder, paths, query, legacy.buffer_lines)
        assembler = _RecordAssembler(legacy.pass_on_lines, query.detail)
        argv = [*base_argv, *options, "-e", query.pattern, "--", target]
        outcome = await _run_search(argv, folder, b"\n", _one_by_one(assembler.add_record), query.seconds)
        if not outcome.error_text:
            is_stopped_early = outcome.ending != "complete" or legacy.pass_on_buffered() == "nothing"
            return assembler.finish(
                "stopped_early" if is_stopped_early and outcome.ending == "complete" else outcome.ending
            )
    return await _search_with_own_searcher(folder, None if only_file is None else [only_file], query, on_lines)


async def _search_with_own_searcher(
    folder: Path,
    paths: Sequence[str] | None,
    query: LineQuery,
    on_lines: Callable[[Sequence[FoundLine]], SearchContinuation],
) -> SearchOutcome:
    argv = searcher.build_searcher_argv(
        query.pattern,
        paths,
        query.ignore_case,
        query.context,
        query.detail,
        LINE_TIMEOUT_S,
        _relative_encodings(query.encodings, folder),
        query.includes_ignored,
    )
    assembler = _RecordAssembler(on_lines, query.detail)
    outcome = await _run_search(argv, folder, b"\n", _one_by_one(assembler.add_record), query.seconds)
    return assembler.finish(outcome.ending)


def _relative_encodings(encodings: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): codec for path, codec in encodings.items()}


async def _non_utf8_files(base: Sequence[str], folder: Path, target: str, seconds: float) -> list[str]:
    """Find the files with lines that are not UTF-8. In such lines, ripgrep finds only ASCII text."""
    paths: list[str] = []

    def on_record(record: bytes) -> SearchContinuation:
        paths.append(os.fsdecode(record).removeprefix("./"))
        return "more" if len(paths) < MAX_LEGACY_FILES else "nothing"

    argv = [*base, "--files-with-matches", "--null", "--invert-match", "--line-regexp", "-e", ".*", "--", target]
    await _run_search(argv, folder, b"\0", _one_by_one(on_record), seconds)
    return paths


class _LegacyFiles:
    """Files that are not UTF-8. This program's own searcher searches them first. Their lines are buffered until ripgrep
    has searched all files that come before them."""

    def __init__(self, paths: Sequence[str], on_lines: Callable[[Sequence[FoundLine]], SearchContinuation]) -> None:
        self._paths = frozenset(paths)
        self._buffered_parts = list[Sequence[FoundLine]]()
        self._buffered_line_count = 0
        self._on_lines = on_lines

    def batches(self) -> Iterator[list[str]]:
        """Yield the paths in order, in groups that fit into one command line."""
        batch = list[str]()
        char_count = 0
        for path in sorted(self._paths, key=_path_sort_key):
            if char_count + len(path) > MAX_ARGUMENT_CHARS and batch:
                yield batch
                batch = []
                char_count = 0
            batch.append(path)
            char_count += len(path) + 4
        if batch:
            yield batch

    def buffer_lines(self, lines: Sequence[FoundLine]) -> SearchContinuation:
        self._buffered_parts.append(lines)
        self._buffered_line_count += len(lines)
        return "more" if self._buffered_line_count < MAX_LEGACY_LINES else "nothing"

    def pass_on_lines(self, lines: Sequence[FoundLine]) -> SearchContinuation:
        """Pass on what ripgrep found in a file, after the buffered lines of earlier files."""
        sort_key = _path_sort_key(lines[0].path)
        while self._buffered_parts and _path_sort_key(self._buffered_parts[0][0].path) < sort_key:
            if self._on_lines(self._buffered_parts.pop(0)) == "nothing":
                return "nothing"
        return "more" if lines[0].path in self._paths else self._on_lines(lines)

    def pass_on_buffered(self) -> SearchContinuation:
        return next(
            (continuation for lines in self._buffered_parts if (continuation := self._on_lines(lines)) == "nothing"),
            "more",
        )


def _path_sort_key(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


def _folder_and_file(root: Path) -> tuple[Path, str | None]:
    return (root.parent, root.name) if os.path.isfile(root) else (root, None)


async def _ignore_options(folder: Path, includes_ignored: bool) -> list[str]:
    """Return the options that make ripgrep apply the same rules as this program's own searcher."""
    if includes_ignored:
        return ["--no-ignore"]
    scope = await asyncio.to_thread(walk_scope, str(folder))
    return [] if scope.uses_repository_rules else ["--no-require-git", "--no-ignore-parent"]


class _RecordAssembler:
    """Assembles a search's printed records into the lines of each file. If a file turns out to be binary, its lines are
    dropped."""

    def __init__(self, on_lines: Callable[[Sequence[FoundLine]], SearchContinuation], detail: MatchDetail) -> None:
        self._on_lines = on_lines
        self._detail = detail
        self._path = ""
        self._lines: list[FoundLine] = []
        self._char_count = 0
        self._skipped_lines = list[tuple[str, int]]()
        self._has_cut_match = False
        """Whether a matching line of the file was too long."""
        self._reached_line = 0
        """The line that the search has reached, if it has reported one."""

    def finish(self, ending: SearchEnding) -> SearchOutcome:
        if ending == "timed_out" and self._lines:
            self._on_lines(self._lines)
        skipped_lines = tuple(self._skipped_lines)
        return (
            SearchOutcome(ending, self._path, self._reached_line, skipped_lines)
            if ending == "timed_out"
            else SearchOutcome(ending, "", 0, skipped_lines)
        )

    def add_record(self, record: bytes) -> SearchContinuation:
        if not record.endswith(b"}"):  # a record that was too long and was cut
            self._has_cut_match = self._has_cut_match or _MATCH_RECORD.match(record) is not None
            return "more"
        if self._detail != "lines" and _MATCH_RECORD.match(record) is not None:
            # ripgrep prints all matches, because it has to find out whether the file is binary. There may be millions
            # of them, so these records are not parsed.
            has_enough = self._detail == "first" and bool(self._lines)
            return "more" if has_enough else self._buffer_line(FoundLine(self._path, 0, "", True))
        event = json.loads(record)
        data = event["data"]
        match event["type"]:
            case "begin":
                self._path, self._lines = _decode_path(data), []
                self._has_cut_match, self._reached_line = False, 0
            case "at":
                self._path, self._reached_line = _decode_path(data), data["line_number"]
            case "slow":
                self._skipped_lines.append((_decode_path(data), data["line_number"]))
            case "long":
                self._has_cut_match = True
            case "match" | "context" as kind:
                text = _decode_bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
                return self._buffer_line(FoundLine(self._path, data["line_number"], text, kind == "match"))
            case "end" if data["binary_offset"] is None:
                note_lines = [FoundLine(self._path, 0, TOO_LONG_LINE_NOTE, True)] if self._has_cut_match else []
                lines, self._lines = [*self._lines, *note_lines], []
                return self._on_lines(lines) if lines else "more"
            case "end":
                self._lines = []
        return "more"

    def _buffer_line(self, line: FoundLine) -> SearchContinuation:
        self._lines.append(line)
        self._char_count += len(line.text)
        if len(self._lines) < MAX_BUFFERED_LINES and self._char_count < MAX_BUFFERED_CHARS:
            return "more"
        lines, self._lines, self._char_count = self._lines, [], 0
        return self._on_lines(lines)


def _decode_path(data: Mapping[str, Mapping[str, str]]) -> str:
    return os.fsdecode(_decode_bytes(data["path"])).removeprefix("./")


def _decode_bytes(value: Mapping[str, str]) -> bytes:
    return value["text"].encode("utf-8", "surrogatepass") if "text" in value else base64.b64decode(value["bytes"])


@dataclass(frozen=True, slots=True)
class _ProgramEnd:
    ending: SearchEnding
    error_text: str = ""
    """The program's error message, if it failed."""


async def _run_search(
    argv: Sequence[str],
    folder: Path,
    separator: bytes,
    on_records: Callable[[Sequence[bytes]], SearchContinuation],
    seconds: float | None = None,
) -> _ProgramEnd:
    """Run the program and pass its records to `on_records` in several parts. Stops when the program ends, `on_records`
    returns "nothing", or time is up."""
    process = _start_process(argv, folder)
    read_task = asyncio.ensure_future(asyncio.to_thread(_read_records, process, separator, on_records))
    try:
        return await asyncio.wait_for(asyncio.shield(read_task), SEARCH_TIMEOUT_S if seconds is None else seconds)
    except TimeoutError:
        process.kill()
        await read_task
        return _ProgramEnd("timed_out")
    except BaseException:
        process.kill()
        await asyncio.wait([read_task])
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


def _read_records(
    process: subprocess.Popen[bytes], separator: bytes, on_records: Callable[[Sequence[bytes]], SearchContinuation]
) -> _ProgramEnd:
    count_timer: threading.Timer | None = None
    with process:
        if process.stdout is None or process.stderr is None:
            raise RuntimeError("a search was started without pipes")
        try:
            for records in _records(process.stdout, separator):
                continuation = on_records(records)
                if continuation == "nothing":
                    process.kill()
                    return _ProgramEnd("stopped_early")
                if continuation == "count" and count_timer is None:
                    count_timer = threading.Timer(EXTRA_COUNT_S, process.kill)
                    count_timer.start()
            error_text = process.stderr.read().decode("utf-8", "replace").strip()
            code = process.wait()
        finally:
            if count_timer is not None:
                count_timer.cancel()
        if count_timer is not None and code < 0:
            return _ProgramEnd("stopped_early")
        return _ProgramEnd("complete", error_text if code not in (0, 1) else "")


def _records(stream: IO[bytes], separator: bytes) -> Iterator[Sequence[bytes]]:
    """Yield the records of a stream in the parts in which they arrive. A record that is too long is cut, so that it
    cannot be parsed."""
    record_buffer = LineBuffer(_MAX_RECORD_BYTES, separator)
    while chunk := stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16):
        records = [
            record.head.rstrip(b"}") if isinstance(record, TruncatedLine) else bytes(record)
            for record in record_buffer.feed(chunk)
        ]
        if records:
            yield records


def _one_by_one(
    on_record: Callable[[bytes], SearchContinuation],
) -> Callable[[Sequence[bytes]], SearchContinuation]:
    """Return a function that takes several records and passes them on one by one, until nothing more is wanted."""

    def take_records(records: Sequence[bytes]) -> SearchContinuation:
        continuation: SearchContinuation = "more"
        for record in records:
            wanted = on_record(record)
            if wanted == "nothing":
                return wanted
            continuation = wanted if continuation == "more" else continuation
        return continuation

    return take_records

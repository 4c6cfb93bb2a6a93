"""The `grep` tool: finds lines by regular expression, ordered by path and line."""

import asyncio
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.change import look_content
from ebbtide.tools.files.paths import display, kind_of, resolve
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import cut_line, plain
from ebbtide.tools.schema import flag, number, object_of, text
from ebbtide.tools.search import globs
from ebbtide.tools.secrets.files import holds_secrets

if TYPE_CHECKING:  # a type only: see `Grep.run`
    from ebbtide.tools.search.files import Detail, FoundLine, SearchEnd, WalkWish

GrepMode: TypeAlias = Literal["content", "files", "count"]

MAX_LINE_CHARS, MAX_ANSWER_CHARS = 300, 40_000
DEFAULT_LIMITS: dict[GrepMode, int] = {"content": 200, "files": 100, "count": 100}
_MODE_DETAIL: "Mapping[GrepMode, Detail]" = {"content": "lines", "files": "first", "count": "count"}
_TOKEN = regex(r"(?s)\\.|.")
_ESCAPE_REPLACEMENTS = {r"\<": "<", r"\>": ">"}
"""Escapes that are a literal character in some tools and a word boundary in others."""
_BASIC = {r"\|": "|", r"\<": r"\b", r"\>": r"\b"}
_BASIC_GROUPS = {r"\(": "(", r"\)": ")", r"\{": "{", r"\}": "}", r"\+": "+", r"\?": "?"}
"""Escapes of POSIX basic regular expressions, and their equivalents here."""
MAX_COUNTED = 10_000
"""Maximum number of matches counted beyond the limit."""


class Grep:
    name = "grep"
    description = read_description(__file__)
    effect: Effect = "read"
    schema = object_of(
        {
            "pattern": {"type": "string"},
            "path": {"type": "string"},
            "glob": {"type": "string"},
            "ignore_case": {"type": "boolean"},
            "context": {"type": "integer", "minimum": 0, "maximum": 20},
            "mode": {"enum": list(get_args(GrepMode))},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        },
        required=("pattern",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.search.files import (  # noqa: PLC0415  # deferred: only a search needs it
            IGNORED_SECONDS,
            SEARCH_TIMEOUT_S,
            LineQuery,
            search_lines,
        )

        root = resolve(text(arguments, "path", "."), workspace)
        if kind_of(root) == "neither":
            raise ToolError(
                f"`{display(root, workspace.root)}` is not a file or folder: give one as `path`, or leave `path` out"
            )
        mode = _mode(arguments)
        page = _Page(root, workspace.root, mode, number(arguments, "limit", DEFAULT_LIMITS[mode]), _filter(arguments))
        context = number(arguments, "context", 0) if mode == "content" else 0
        pattern, meant = _readings(text(arguments, "pattern"))
        named = {str(path): codec for path, codec in workspace.seen.encodings.items()}
        query = LineQuery(pattern, flag(arguments, "ignore_case"), context, _MODE_DETAIL[mode], encodings=named)
        held = await asyncio.to_thread(look_content, root) if mode == "content" else None  # None for a folder
        end = await search_lines(root, workspace.root, query, page.take)
        if page.is_empty(end) and meant is not None and meant != pattern:
            query = replace(query, pattern=meant)
            end = await search_lines(root, workspace.root, query, page.take)
        if query.pattern == meant and page.total:
            page.shown_lines.append(f"(no line matches the pattern as written; these match `{meant}`)")
        if page.is_empty(end) and page.is_folder:
            ignored = _IgnoredMatches(page)
            query = replace(query, context=0, wanted="count", with_ignored=True, seconds=IGNORED_SECONDS)
            await search_lines(root, workspace.root, query, ignored.take)
            page.shown_lines += ignored.notes()
        if held is not None and page.count and await asyncio.to_thread(look_content, root) == held:
            workspace.seen.look(root, held)
        extent = Extent(page.unit, page.count, page.total if end.how == "complete" else None)
        if page.is_full:
            of = f" of {page.total}" if end.how == "complete" else ""
            page.shown_lines.append(
                f"(there are more: these are the first {page.count}{of}; narrow `pattern`, `path` or `glob`)"
            )
        if page.secret:
            page.shown_lines.append(f"({page.secret_files_note()})")
        if end.given_up:
            page.shown_lines.append(f"({page.left_out(end)})")
        if end.how == "late":
            page.shown_lines.append(f"(stopped after {SEARCH_TIMEOUT_S:.0f} s{page.how_far(end)})")
        return Result("\n".join(page.shown_lines) or "no lines match", extent=extent)


def _readings(pattern: str) -> tuple[str, str | None]:
    """Return the pattern to search for, and its meaning as a basic regular expression if that differs."""
    meant = basic(pattern)
    try:
        return check_pattern(pattern), meant
    except ToolError:
        if meant is None:
            raise
        return meant, meant


def basic(pattern: str) -> str | None:
    r"""Return a pattern with `\|`, `\<` or `\>` as basic `grep` reads it, or None for any other pattern."""
    if not {r"\|", r"\<", r"\>"} & set(_TOKEN.findall(pattern)):
        return None
    readings = [_BASIC, {**_BASIC, **_BASIC_GROUPS, **{sign: f"\\{sign}" for sign in "(){}|+?"}}]
    if {r"\(", r"\)"} <= set(_TOKEN.findall(pattern)):
        readings.reverse()
    for reading in readings:
        with suppress(ToolError):
            return check_pattern("".join(reading.get(token, token) for token in _TOKEN.findall(pattern)))
    return None


def check_pattern(pattern: str) -> str:
    """Return the pattern if it means the same to every search tool. Raises `ToolError`."""
    pattern = "".join(_ESCAPE_REPLACEMENTS.get(token, token) for token in _TOKEN.findall(pattern))
    if "\n" in pattern or "\0" in pattern:
        raise ToolError("a pattern is matched within one line: remove the newline or NUL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except FutureWarning as warning:
        hint = "escape `[` inside a set; write [a-zA-Z] for [:alpha:]"
        raise ToolError(f"the pattern is ambiguous ({warning}): {hint}") from warning
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"the pattern is not a regular expression: {error}; escape what is meant literally") from error
    return pattern


def _mode(arguments: Arguments) -> GrepMode:
    match text(arguments, "mode", "content"):
        case "files":
            return "files"
        case "count":
            return "count"
        case _:
            return "content"


def _filter(arguments: Arguments) -> globs.GlobPattern | None:
    pattern = text(arguments, "glob", "")
    try:
        return globs.parse(pattern) if pattern else None
    except globs.GlobError as error:
        raise ToolError(f"`glob`: {error}") from error


@dataclass(slots=True)
class _Page:
    """The lines or files shown, filled file by file up to the limit."""

    root: Path
    base: Path
    mode: GrepMode
    limit: int
    wanted: globs.GlobPattern | None
    shown_lines: list[str] = field(default_factory=list)
    count: int = 0
    """Number of matching lines or files shown."""
    total: int = 0
    """Number of matching lines or files found."""
    size: int = 0
    path: str = ""
    """The file of the most recent lines."""
    in_file: int = 0
    """Number of matching lines in it so far."""
    secret: dict[str, None] = field(default_factory=dict)
    """Files left out: permission to search a folder does not extend to files with passwords or keys."""
    is_folder: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_folder = kind_of(self.root) == "folder"

    @property
    def unit(self) -> Literal["matches", "files"]:
        return "matches" if self.mode == "content" else "files"

    @property
    def is_full(self) -> bool:
        """Whether there are matches that are not shown."""
        return self.total > self.count

    def is_empty(self, end: "SearchEnd") -> bool:
        """Whether everything was searched and nothing found."""
        return end.how == "complete" and not self.total and not self.secret and not end.given_up

    def take(self, lines: "Sequence[FoundLine]") -> "WalkWish":
        """Take the matching lines of a file and return what else is wanted."""
        path = lines[0].path
        if self.is_folder and holds_secrets(path):
            self.secret[path] = None
            return "more"
        if self.wanted is not None and not self.wanted.covers(path):
            return "more"
        is_new, matches = path != self.path, sum(line.is_match for line in lines)
        self.path, self.in_file = path, matches if is_new else self.in_file + matches
        self.total += matches if self.mode == "content" else is_new
        if self.mode == "count" and not is_new:
            self.shown_lines[-1:] = (
                [f"{self._name(path)}: {self.in_file}"] if not self.is_full else self.shown_lines[-1:]
            )
        elif self.count < self.limit and self.size < MAX_ANSWER_CHARS:
            if self.mode == "content":
                if is_new:
                    self._show(self._name(path))
                self._take_lines(lines)
            elif is_new:
                self._show(self._name(path) if self.mode == "files" else f"{self._name(path)}: {matches}")
                self.count += 1
        if self.total > self.count + MAX_COUNTED:
            return "nothing"
        return "count" if self.is_full else "more"

    def how_far(self, end: "SearchEnd") -> str:
        """Return where the search timed out and how to continue."""
        if not end.line:
            return ", so lines may be missing: narrow `path` or `glob`"
        where = f" at line {end.line:,} of `{self._name(end.path)}`, so lines may be missing from there on"
        if kind_of(self.root) == "file":
            return f"{where}: `tail -n +{end.line} FILE | grep` in bash goes on"
        return f"{where}: narrow `path` or `glob`"

    def secret_files_note(self) -> str:
        """Return which files with matches are withheld, and how to see them."""
        first, *others = map(self._name, self.secret)
        more = f" and {pluralize(len(others), 'other file')}" if others else ""
        return (
            f"left out, since it may hold secrets: `{first}`{more}; give the file as `path`, so that the user is asked"
        )

    def left_out(self, end: "SearchEnd") -> str:
        """Return which lines the pattern takes too long on, and what to do."""
        path, line = end.given_up[0]
        others = len(end.given_up) - 1
        more = f" and {pluralize(others, 'other line')}" if others else ""
        where = f"line {line:,} of `{self._name(path)}`{more}"
        return f"not searched, since the pattern takes too long there: {where}; avoid nested repetition"

    def _name(self, path: str) -> str:
        return display(self.root if kind_of(self.root) == "file" else self.root / path, self.base)

    def _take_lines(self, lines: "Sequence[FoundLine]") -> None:
        previous = None
        for line in lines:
            if self.size >= MAX_ANSWER_CHARS or (line.is_match and self.count >= self.limit):
                return
            if self.count >= self.limit and self._is_apart(line, previous):
                continue  # context of a match beyond the limit
            if self._is_apart(line, previous) and any(not each.is_match for each in lines):
                self._show("--")
            number = f"{line.number}{':' if line.is_match else '-'}" if line.number else ""
            self._show(f"{number}{cut_line(plain(line.text), MAX_LINE_CHARS)}")
            self.count += line.is_match
            previous = line

    @staticmethod
    def _is_apart(line: "FoundLine", previous: "FoundLine | None") -> bool:
        return previous is not None and line.number != previous.number + 1

    def _show(self, text_: str) -> None:
        self.shown_lines.append(text_)
        self.size += len(text_) + 1


@dataclass(slots=True)
class _IgnoredMatches:
    """Matches in files that git ignores, if there are no others."""

    page: _Page
    lines: int = 0
    files: dict[str, None] = field(default_factory=dict)

    def take(self, lines: "Sequence[FoundLine]") -> "WalkWish":
        path = lines[0].path
        if not holds_secrets(path) and (self.page.wanted is None or self.page.wanted.covers(path)):
            self.lines += sum(line.is_match for line in lines)
            self.files[path] = None
        return "more" if self.lines <= MAX_COUNTED else "nothing"

    def notes(self) -> list[str]:
        if not self.files:
            return []
        count = f"more than {MAX_COUNTED:,} lines" if self.lines > MAX_COUNTED else pluralize(self.lines, "line")
        example = self.page._name(next(iter(self.files)))
        where = f"{pluralize(len(self.files), 'file')} that git ignores, such as `{example}`"
        return [f"no lines match, but {count} in {where}: give it or its folder as `path`"]

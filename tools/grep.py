"""The `grep` tool: finds lines by regular expression, ordered by path and line."""

import asyncio
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ebbtide.tools import search
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import (
    FILE_ARGUMENTS,
    FOLDER_ARGUMENTS,
    normalise_name,
    pop_argument,
    to_integer,
)
from ebbtide.tools.call_arguments.schema import get_flag, get_number, get_text, object_schema
from ebbtide.tools.files.change import comparable_content
from ebbtide.tools.files.paths import display_path, path_kind, resolve_path
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import terminal_text, truncate_line
from ebbtide.tools.search import globs
from ebbtide.tools.secrets.files import may_contain_secrets
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, path_argument, text_argument

if TYPE_CHECKING:  # for type checking only: imported in `Grep.run` when needed
    from ebbtide.tools.search.files import FoundLine, MatchDetail, SearchContinuation, SearchOutcome

GrepMode: TypeAlias = Literal["content", "files", "count"]

MAX_LINE_CHARS, MAX_ANSWER_CHARS = 300, 40_000
DEFAULT_LIMITS: dict[GrepMode, int] = {"content": 200, "files": 100, "count": 100}
_MODE_DETAIL: "Mapping[GrepMode, MatchDetail]" = {"content": "lines", "files": "first", "count": "count"}
_TOKEN = regex(r"(?s)\\.|.")
_ESCAPE_REPLACEMENTS = {r"\<": "<", r"\>": ">"}
"""Escapes that mean a literal character in some tools and a word boundary in others."""
_BASIC_ESCAPES = {r"\|": "|", r"\<": r"\b", r"\>": r"\b"}
_BASIC_GROUPS = {r"\(": "(", r"\)": ")", r"\{": "{", r"\}": "}", r"\+": "+", r"\?": "?"}
"""Maps escapes of POSIX basic regular expressions to the equivalents in extended ones."""
MAX_COUNTED_MATCHES = 10_000
"""Maximum number of matches that are counted but not shown."""


def _subject(arguments: Arguments) -> str:
    pattern, path = text_argument(arguments, "pattern"), path_argument(arguments)
    return f"{pattern}  in {path}" if path else pattern


_SEMANTIC_SEARCH_TOOLS = (
    "codebasesearch",
    "semanticsearch",
    "searchcodebase",
    "codebaseretrieval",
    "semanticcodesearch",
)
"""Other agents' tools that search by meaning, in the form that `normalise_name` returns."""
_STOP_WORDS = regex(
    r"(?i)(?:the|and|for|are|how|where|what|which|when|does|with|that|this|from|into|used?|code|files?)\Z"
)


def _accepts_alias_call(called_name: str, arguments: Arguments) -> bool:
    if called_name in _SEMANTIC_SEARCH_TOOLS:
        raise ToolError(
            f"no tool searches by meaning: call `grep` with {_suggested_pattern(arguments)}, a name in the code"
        )
    return False


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    context_sizes = [to_integer(pop_argument(arguments, name)) for name in ("a", "b", "c", "afterlines", "beforelines")]
    if given_sizes := [size for size in context_sizes if size is not None]:
        arguments.setdefault("context", min(max(given_sizes), 20))
    if (is_case_sensitive := pop_argument(arguments, "casesensitive")) is not None:
        arguments.setdefault("ignore_case", is_case_sensitive in (False, "false", "False"))
    if isinstance(mode := arguments.get("mode"), str) and normalise_name(mode) in (
        "fileswithmatches",
        "fileswithmatch",
    ):
        arguments["mode"] = "files"
    if to_integer(arguments.get("limit")) == 0:  # no limit
        arguments.pop("limit")
    pattern = arguments.get("pattern")
    if pop_argument(arguments, "isregexp") is False and isinstance(pattern, str):
        arguments["pattern"] = re.escape(pattern)


def _to_claude(arguments: dict[str, object]) -> None:
    arguments["output_mode"] = (
        "files_with_matches" if arguments.get("output_mode") == "files" else arguments.get("output_mode")
    )
    if arguments["output_mode"] is None:
        del arguments["output_mode"]


def _suggested_pattern(arguments: Arguments) -> str:
    """Suggest a `pattern` argument made of a question's words, without stop words."""
    texts = [value[:500] for value in arguments.values() if isinstance(value, str)]
    words = re.findall(r"[A-Za-z_]\w{2,}", max(texts, key=len, default=""))
    search_words = list(dict.fromkeys(word for word in words if not _STOP_WORDS.match(word)))
    return f'pattern="{"|".join(search_words[:4])}"' if search_words else "a `pattern`"


class Grep:
    name = "grep"
    description = read_description(__file__)
    effect: Effect = "read"
    traits = ToolTraits(
        role="search_files",
        output_limit="file",
        output_content="search",
        stub_template="Searched '{pattern}' in {folder}",
        stub_result="matches",
        acp_kind="search",
        get_subject=_subject,
        lookup_words=("searched", "pattern"),
        aliases="grep_search search_file_content search_files search_in_files grep_files ripgrep rg "
        "repo_browser.search",
        accepts_alias_call=_accepts_alias_call,
        argument_aliases={
            "pattern": "query regex regexp search_pattern search term",
            "path": f"{FILE_ARGUMENTS} {FOLDER_ARGUMENTS}",
            "glob": "include include_pattern file_pattern file_glob",
            "ignore_case": "i case_insensitive",
            "limit": "head_limit max_results max_count",
            "mode": "output_mode",
            "context": "context_lines",
        },
        adapt_arguments=_adapt_arguments,
        clamped_arguments=("context", "limit"),
        claude_names=("Grep",),
        claude_arguments={"ignore_case": "-i", "context": "-C", "limit": "head_limit", "mode": "output_mode"},
        convert_to_claude=_to_claude,
        short_form=ShortForm("Lines of files that match a regular expression.", ("pattern", "path", "glob", "limit")),
        is_for_read_only_agents=True,
    )
    schema = object_schema(
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
        return (str(resolve_path(get_text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        root = resolve_path(get_text(arguments, "path", "."), workspace)
        if path_kind(root) == "neither":
            raise ToolError(
                f"`{display_path(root, workspace.root)}` is not a file or folder: give one as `path`, or omit `path`"
            )
        mode = _parse_mode(arguments)
        page = _Page(
            root, workspace.root, mode, get_number(arguments, "limit", DEFAULT_LIMITS[mode]), _path_filter(arguments)
        )
        context = get_number(arguments, "context", 0) if mode == "content" else 0
        pattern, basic_pattern = _pattern_interpretations(get_text(arguments, "pattern"))
        codecs_by_path = {str(path): codec for path, codec in workspace.seen_files.encodings.items()}
        query = search.files.LineQuery(
            pattern, get_flag(arguments, "ignore_case"), context, _MODE_DETAIL[mode], encodings=codecs_by_path
        )
        content_state = (
            await asyncio.to_thread(comparable_content, root) if mode == "content" else None
        )  # None for a folder
        outcome = await search.files.search_lines(root, workspace.root, query, page.add_lines)
        if page.is_empty(outcome) and basic_pattern is not None and basic_pattern != pattern:
            query = replace(query, pattern=basic_pattern)
            outcome = await search.files.search_lines(root, workspace.root, query, page.add_lines)
        if query.pattern == basic_pattern and page.total:
            page.lines.append(f"(no line matches the pattern as written; these match `{basic_pattern}`)")
        if page.is_empty(outcome) and page.is_folder:
            ignored = _IgnoredMatches(page)
            query = replace(
                query, context=0, detail="count", includes_ignored=True, seconds=search.files.IGNORED_SEARCH_TIMEOUT_S
            )
            await search.files.search_lines(root, workspace.root, query, ignored.add_lines)
            page.lines += ignored.notes()
        if (
            content_state is not None
            and page.count
            and await asyncio.to_thread(comparable_content, root) == content_state
        ):
            workspace.seen_files.record_partial_view(root, content_state)
        extent = Extent(page.unit, page.count, page.total if outcome.ending == "complete" else None)
        if page.is_full:
            total_text = f" of {page.total}" if outcome.ending == "complete" else ""
            page.lines.append(
                f"(there are more: these are the first {page.count}{total_text}; narrow `pattern`, `path` or `glob`)"
            )
        if page.secret_files:
            page.lines.append(f"({page.secret_files_note()})")
        if outcome.skipped_lines:
            page.lines.append(f"({page.skipped_lines_note(outcome)})")
        if outcome.ending == "timed_out":
            page.lines.append(f"(stopped after {search.files.SEARCH_TIMEOUT_S:.0f} s{page.timeout_note(outcome)})")
        return Result("\n".join(page.lines) or "no lines match", extent=extent)


def _pattern_interpretations(pattern: str) -> tuple[str, str | None]:
    """Return the pattern to search for. If the pattern might be a basic regular expression, also return its
    equivalent."""
    basic_pattern = convert_basic_regex(pattern)
    try:
        return normalise_pattern(pattern), basic_pattern
    except ToolError:
        if basic_pattern is None:
            raise
        return basic_pattern, basic_pattern


def convert_basic_regex(pattern: str) -> str | None:
    r"""Convert a pattern with `\|`, `\<` or `\>`, read as a POSIX basic regular expression, to its equivalent. None for
    any other pattern."""
    if not {r"\|", r"\<", r"\>"} & set(_TOKEN.findall(pattern)):
        return None
    interpretations = [
        _BASIC_ESCAPES,
        {**_BASIC_ESCAPES, **_BASIC_GROUPS, **{character: f"\\{character}" for character in "(){}|+?"}},
    ]
    if {r"\(", r"\)"} <= set(_TOKEN.findall(pattern)):
        interpretations.reverse()
    for interpretation in interpretations:
        with suppress(ToolError):
            return normalise_pattern("".join(interpretation.get(token, token) for token in _TOKEN.findall(pattern)))
    return None


def normalise_pattern(pattern: str) -> str:
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
        raise ToolError(
            f"the pattern is not a regular expression: {error}; escape characters that are meant literally"
        ) from error
    return pattern


def _parse_mode(arguments: Arguments) -> GrepMode:
    match get_text(arguments, "mode", "content"):
        case "files":
            return "files"
        case "count":
            return "count"
        case _:
            return "content"


def _path_filter(arguments: Arguments) -> globs.GlobPattern | None:
    pattern = get_text(arguments, "glob", "")
    try:
        return globs.parse_glob(pattern) if pattern else None
    except globs.GlobError as error:
        raise ToolError(f"`glob`: {error}") from error


@dataclass(slots=True)
class _Page:
    """The lines or files to show. It is filled file by file until the limit is reached."""

    root: Path
    workspace_root: Path
    mode: GrepMode
    limit: int
    path_filter: globs.GlobPattern | None
    lines: list[str] = field(default_factory=list)
    count: int = 0
    """Number of matching lines or files shown."""
    total: int = 0
    """Number of matching lines or files found."""
    size: int = 0
    path: str = ""
    """The file that the last added lines came from."""
    file_matches: int = 0
    """Number of matching lines found in that file so far."""
    secret_files: dict[str, None] = field(default_factory=dict)
    """Files whose matches are withheld. Permission to search a folder does not include files with passwords or keys."""
    is_folder: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_folder = path_kind(self.root) == "folder"

    @property
    def unit(self) -> Literal["matches", "files"]:
        return "matches" if self.mode == "content" else "files"

    @property
    def is_full(self) -> bool:
        """Whether some matches are not shown."""
        return self.total > self.count

    def is_empty(self, outcome: "SearchOutcome") -> bool:
        """Whether everything was searched and nothing was found."""
        return outcome.ending == "complete" and not self.total and not self.secret_files and not outcome.skipped_lines

    def add_lines(self, lines: "Sequence[FoundLine]") -> "SearchContinuation":
        """Add a file's matching lines, and return what to search for next."""
        path = lines[0].path
        if self.is_folder and may_contain_secrets(path):
            self.secret_files[path] = None
            return "more"
        if self.path_filter is not None and not self.path_filter.matches_path_or_parent(path):
            return "more"
        is_new, match_count = path != self.path, sum(line.is_match for line in lines)
        self.path, self.file_matches = path, match_count if is_new else self.file_matches + match_count
        self.total += match_count if self.mode == "content" else is_new
        if self.mode == "count" and not is_new:
            self.lines[-1:] = (
                [f"{self._display_name(path)}: {self.file_matches}"] if not self.is_full else self.lines[-1:]
            )
        elif self.count < self.limit and self.size < MAX_ANSWER_CHARS:
            if self.mode == "content":
                if is_new:
                    self._show(self._display_name(path))
                self._show_lines(lines)
            elif is_new:
                self._show(
                    self._display_name(path) if self.mode == "files" else f"{self._display_name(path)}: {match_count}"
                )
                self.count += 1
        if self.total > self.count + MAX_COUNTED_MATCHES:
            return "nothing"
        return "count" if self.is_full else "more"

    def timeout_note(self, outcome: "SearchOutcome") -> str:
        """Build a note that says where the search timed out and how to continue."""
        if not outcome.line:
            return ", so lines may be missing: narrow `path` or `glob`"
        position = (
            f" at line {outcome.line:,} of `{self._display_name(outcome.path)}`, so lines may be missing from there on"
        )
        if path_kind(self.root) == "file":
            return f"{position}: `tail -n +{outcome.line} FILE | grep` in bash continues"
        return f"{position}: narrow `path` or `glob`"

    def secret_files_note(self) -> str:
        """Build a note about the files whose matches are withheld, and how to see them."""
        first_name, *other_names = map(self._display_name, self.secret_files)
        more = f" and {pluralize(len(other_names), 'other file')}" if other_names else ""
        return (
            f"omitted, because it may contain secrets: `{first_name}`{more}; "
            "give the file as `path`, so that the user is asked"
        )

    def skipped_lines_note(self, outcome: "SearchOutcome") -> str:
        """Build a note about lines on which matching took too long, and what to do about them."""
        path, line = outcome.skipped_lines[0]
        other_count = len(outcome.skipped_lines) - 1
        more = f" and {pluralize(other_count, 'other line')}" if other_count else ""
        position = f"line {line:,} of `{self._display_name(path)}`{more}"
        return f"not searched, because the pattern takes too long there: {position}; avoid nested repetition"

    def _display_name(self, path: str) -> str:
        return display_path(self.root if path_kind(self.root) == "file" else self.root / path, self.workspace_root)

    def _show_lines(self, lines: "Sequence[FoundLine]") -> None:
        previous = None
        for line in lines:
            if self.size >= MAX_ANSWER_CHARS or (line.is_match and self.count >= self.limit):
                return
            if self.count >= self.limit and self._is_gap_between(line, previous):
                continue  # context of a match that is not shown
            if self._is_gap_between(line, previous) and any(not other_line.is_match for other_line in lines):
                self._show("--")
            number = f"{line.line_number}{':' if line.is_match else '-'}" if line.line_number else ""
            self._show(f"{number}{truncate_line(terminal_text(line.text), MAX_LINE_CHARS)}")
            self.count += line.is_match
            previous = line

    @staticmethod
    def _is_gap_between(line: "FoundLine", previous: "FoundLine | None") -> bool:
        return previous is not None and line.line_number != previous.line_number + 1

    def _show(self, text_: str) -> None:
        self.lines.append(text_)
        self.size += len(text_) + 1


@dataclass(slots=True)
class _IgnoredMatches:
    """Matches in files that git ignores, used if there are no other matches."""

    page: _Page
    line_count: int = 0
    files: dict[str, None] = field(default_factory=dict)

    def add_lines(self, lines: "Sequence[FoundLine]") -> "SearchContinuation":
        path = lines[0].path
        if not may_contain_secrets(path) and (
            self.page.path_filter is None or self.page.path_filter.matches_path_or_parent(path)
        ):
            self.line_count += sum(line.is_match for line in lines)
            self.files[path] = None
        return "more" if self.line_count <= MAX_COUNTED_MATCHES else "nothing"

    def notes(self) -> list[str]:
        if not self.files:
            return []
        line_text = (
            f"more than {MAX_COUNTED_MATCHES:,} lines"
            if self.line_count > MAX_COUNTED_MATCHES
            else pluralize(self.line_count, "line")
        )
        example = self.page._display_name(next(iter(self.files)))
        files_text = f"{pluralize(len(self.files), 'file')} that git ignores, such as `{example}`"
        return [f"no lines match, but {line_text} in {files_text}: give it or its folder as `path`"]

"""The `glob` tool: finds files by name, newest first."""

import os
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from pathlib import Path

from ebbtide.tools import search
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import (
    FILE_ARGUMENTS,
    FOLDER_ARGUMENTS,
    LISTING_TOOLS,
    normalise_name,
    pop_argument,
)
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.paths import display_path, locate_path, path_kind, resolve_path
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.search import globs
from ebbtide.tools.tool_traits import ToolTraits, text_argument

DEFAULT_MAX_FILES = 100


def _accepts_alias_call(called_name: str, arguments: Arguments) -> bool:
    return called_name in LISTING_TOOLS and arguments.get("recursive") in (True, "true")


def _turn_listing_into_search(arguments: dict[str, object], called_name: str, root: str) -> None:
    if called_name in LISTING_TOOLS:
        arguments.setdefault("path", pop_argument(arguments, *map(normalise_name, FILE_ARGUMENTS.split())) or ".")
        arguments["pattern"] = "**"


class Glob:
    name = "glob"
    description = read_description(__file__)
    effect: Effect = "read"
    traits = ToolTraits(
        role="search_files",
        output_limit="file",
        output_content="search",
        stub_template="Searched '{pattern}' in {folder}",
        stub_result="matches",
        acp_kind="search",
        get_subject=partial(text_argument, name="pattern"),
        lookup_words=("searched", "pattern"),
        aliases="file_search find_files find_by_name",
        accepts_alias_call=_accepts_alias_call,
        argument_aliases={
            "pattern": "query glob glob_pattern file_pattern search_pattern",
            "path": f"{FOLDER_ARGUMENTS} cwd",
        },
        adapt_arguments=_turn_listing_into_search,
        claude_names=("Glob", "LS"),
        is_for_read_only_agents=True,
    )
    schema = object_schema({"pattern": {"type": "string"}, "path": {"type": "string"}}, required=("pattern",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(_search_root(arguments, workspace, _parse_pattern(arguments))),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        pattern = _parse_pattern(arguments)
        root = _search_root(arguments, workspace, pattern)
        if path_kind(root) != "folder":
            return Result(
                f"no files match: there is no folder `{display_path(root, workspace.root)}`",
                extent=Extent("files", 0, 0),
            )
        matches: list[tuple[int, bytes]] = []

        def add_files(paths: Sequence[str]) -> None:
            matches.extend((-_mtime(f"{root}/{path}"), os.fsencode(path)) for path in filter(pattern.matches, paths))

        ending = await search.files.list_files(root, workspace.root, add_files)
        if not matches and ending == "complete":
            return await self._ignored_files_result(root, workspace, pattern)
        limit = get_number(arguments, "limit", DEFAULT_MAX_FILES)
        lines = [display_path(root / os.fsdecode(path), workspace.root) for _, path in nsmallest(limit, matches)]
        extent = Extent("files", len(lines), len(matches) if ending == "complete" else None)
        if len(matches) > limit:
            lines.append(f"({limit} of {len(matches)} files, the newest: narrow the pattern to see others)")
        if ending == "timed_out":
            lines.append(
                f"(stopped after {search.files.SEARCH_TIMEOUT_S:.0f} s, so files may be missing: give a deeper `path`)"
            )
        return Result("\n".join(lines) or "no files match", extent=extent)

    @staticmethod
    async def _ignored_files_result(root: Path, workspace: Workspace, pattern: globs.GlobPattern) -> Result:
        """Build the result for a search without matches. It says how many matching files git ignores."""
        paths: list[str] = []

        def add_files(listed_paths: Sequence[str]) -> None:
            paths.extend(filter(pattern.matches, listed_paths))

        await search.files.list_files(
            root, workspace.root, add_files, includes_ignored=True, seconds=search.files.IGNORED_SEARCH_TIMEOUT_S
        )
        name = display_path(root / min(paths), workspace.root) if paths else ""
        ignored_note = (
            f", but {pluralize(len(paths), 'file')} that git ignores, such as `{name}`: give its folder as `path`"
        )
        return Result(f"no files match{ignored_note if paths else ''}", extent=Extent("files", 0, 0))


def _parse_pattern(arguments: Arguments) -> globs.GlobPattern:
    try:
        return globs.parse_glob(os.path.expanduser(get_text(arguments, "pattern")))
    except globs.GlobError as error:
        raise ToolError(str(error)) from error


def _search_root(arguments: Arguments, workspace: Workspace, pattern: globs.GlobPattern) -> Path:
    """Return the folder to search: `path`, joined with the pattern's fixed prefix."""
    base = locate_path(get_text(arguments, "path", "."), workspace)
    return resolve_path(str(base / pattern.folder), workspace)


def _mtime(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0

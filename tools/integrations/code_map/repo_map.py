"""The `repo_map` tool: the definitions in a project's code, most important first, within a token budget."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, ToolSupport, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_items, get_number, get_text, object_schema
from ebbtide.tools.files.paths import display_path, path_kind, resolve_path
from ebbtide.tools.integrations import code_map
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.tool_traits import ProjectFacts, ToolTraits, path_argument

MAPPED_SUFFIXES = (".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".java")
"""Suffixes of the files that are mapped."""
MIN_MAPPED_FILES = 20
"""In a project with fewer files, a file list is more useful than a map."""
DEFAULT_TOKENS, MIN_TOKENS, MAX_TOKENS = 1500, 200, 10_000
"""Default, minimum and maximum size of a map in tokens."""
READ_TIMEOUT_S = 8.0
"""Time for reading files that are not cached, in seconds. Files left over are read for the next map."""
MAX_SEEN_FILES = 2000
"""Maximum number of files passed to the mapper as already seen."""


def _subject(arguments: Arguments) -> str:
    focus = arguments.get("focus")
    return ", ".join(map(str, focus)) if isinstance(focus, list | tuple) else path_argument(arguments)


def _is_useful(project: ProjectFacts) -> bool:
    return sum(project.count_file_suffixes()[suffix] for suffix in MAPPED_SUFFIXES) >= MIN_MAPPED_FILES


class RepoMap:
    name = "repo_map"
    description = read_description(__file__)
    effect: Effect = "read"
    kind: Literal["rare"] = "rare"
    traits = ToolTraits(
        acp_kind="search",
        get_subject=_subject,
        clamped_arguments=("tokens",),
        small_window_policy="optional",
        is_useful=_is_useful,
    )
    schema = object_schema(
        {
            "focus": {"type": "array", "items": {"type": "string"}, "maxItems": 50},
            "path": {"type": "string"},
            "tokens": {"type": "integer", "minimum": MIN_TOKENS, "maximum": MAX_TOKENS},
        },
        required=(),
    )

    def __init__(self, cache: Path | None = None, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        """`cache`: the folder for parsed files; None for no cache. `read_timeout_s`: time for reading files. The map
        covers only files that are read within this time."""
        self._cache, self._seconds = cache, read_timeout_s

    @classmethod
    def for_session(cls, support: ToolSupport) -> Self:
        return cls(support.cache_folder / "maps" if support.cache_folder is not None else None)

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_path(get_text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        root = resolve_path(get_text(arguments, "path", "."), workspace)
        if path_kind(root) != "folder":
            raise ToolError(
                f"`{display_path(root, workspace.root)}` is not a folder: pass a folder as `path`, or omit it"
            )
        seen_paths = [*workspace.seen_files.digests, *workspace.seen_files.partial_digests][-MAX_SEEN_FILES:]
        request = {
            "cache": str(self._cache) if self._cache is not None else "",
            "focus": [str(word).removeprefix("./") for word in get_items(arguments, "focus")],
            "seconds": self._seconds,
            "seen": [str(path.relative_to(root)) for path in seen_paths if path.is_relative_to(root)],
        }
        result = await code_map.run.run_mapper(root, request, workspace.on_progress)
        chosen = [
            code_map.map_format.MapEntry(display_path(root / path, workspace.root), *fields)
            for path, *fields in result["chosen"]
        ]
        tokens = get_number(arguments, "tokens", DEFAULT_TOKENS)
        map_text, entry_count = code_map.map_format.map_within_budget(
            chosen, result["definitions"], tokens, workspace.estimate_tokens
        )
        if not result["definitions"]:
            return Result("no code that can be mapped (Python, JavaScript, TypeScript, Go, Rust, Java)")
        return Result(
            map_text + self._omission_note(result), extent=Extent("entries", entry_count, result["definitions"])
        )

    def _omission_note(self, result: Mapping[str, Any]) -> str:
        """Build a note about files missing from the map. Empty if there are none."""
        read_count, file_count = result["read"], result["files"]
        if read_count < file_count:
            advice = "call again to map more files, or pass a `path`" if self._cache else "pass a `path`"
            return f"\n(only {read_count:,} of {file_count:,} files were read in {self._seconds:g} seconds: {advice})"
        return "" if result["is_all"] else f"\n(only the first {file_count:,} files were read: pass a `path`)"

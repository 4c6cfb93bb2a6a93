"""The `repo_map` tool: the definitions in a project's code, most important first, within a token budget."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.paths import display, kind_of, resolve
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.schema import items, number, object_of, text

MAPPED_SUFFIXES = (".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".java")
"""Suffixes of the files that are mapped."""
MIN_MAPPED_FILES = 20
"""Number of files from which a map says more than a file list."""
DEFAULT_TOKENS, MIN_TOKENS, MAX_TOKENS = 1500, 200, 10_000
"""Token budgets."""
READ_TIMEOUT_S = 8.0
"""Seconds for reading new files. The next map continues."""
MAX_SEEN_FILES = 2000
"""Maximum number of read files passed to the map."""


class RepoMap:
    name = "repo_map"
    description = read_description(__file__)
    effect: Effect = "read"
    kind: Literal["rare"] = "rare"
    schema = object_of(
        {
            "focus": {"type": "array", "items": {"type": "string"}, "maxItems": 50},
            "path": {"type": "string"},
            "tokens": {"type": "integer", "minimum": MIN_TOKENS, "maximum": MAX_TOKENS},
        },
        required=(),
    )

    def __init__(self, cache: Path | None = None, seconds: float = READ_TIMEOUT_S) -> None:
        """`cache`: folder for parsed files, or None for no cache. `seconds`: time after which the map covers only the
        files read so far."""
        self._cache, self._seconds = cache, seconds

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.code_map.run import run_mapper  # noqa: PLC0415  # deferred: rarely used
        from ebbtide.tools.code_map.text import MapEntry, fit_to_budget  # noqa: PLC0415  # deferred: rarely used

        root = resolve(text(arguments, "path", "."), workspace)
        if kind_of(root) != "folder":
            raise ToolError(f"`{display(root, workspace.root)}` is not a folder: give one as `path`, or leave it out")
        seen = [*workspace.seen.digests, *workspace.seen.looks][-MAX_SEEN_FILES:]
        wanted = {
            "cache": str(self._cache) if self._cache is not None else "",
            "focus": [str(word).removeprefix("./") for word in items(arguments, "focus")],
            "seconds": self._seconds,
            "seen": [str(path.relative_to(root)) for path in seen if path.is_relative_to(root)],
        }
        found = await run_mapper(root, wanted, workspace.progress)
        chosen = [MapEntry(display(root / path, workspace.root), *rest) for path, *rest in found["chosen"]]
        tokens = number(arguments, "tokens", DEFAULT_TOKENS)
        told, count = fit_to_budget(chosen, found["definitions"], tokens, workspace.measure)
        if not found["definitions"]:
            return Result("no code that can be mapped (Python, JavaScript, TypeScript, Go, Rust, Java)")
        return Result(told + self._left_out(found), extent=Extent("entries", count, found["definitions"]))

    def _left_out(self, found: Mapping[str, Any]) -> str:
        """Return a note on files that are not on the map."""
        read, files = found["read"], found["files"]
        if read < files:
            go_on = "ask again to continue with the others, or give a `path`" if self._cache else "give a `path`"
            return f"\n(of {files:,} files {read:,} were read in {self._seconds:g} seconds: {go_on})"
        return "" if found["is_all"] else f"\n(only the first {files:,} files were read: give a `path`)"

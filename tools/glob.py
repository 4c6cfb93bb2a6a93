"""The `glob` tool: finds files by name, newest first."""

import os
from pathlib import Path

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.paths import display, kind_of, locate, resolve
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.schema import number, object_of, text
from ebbtide.tools.search import globs

DEFAULT_LIMIT = 100


class Glob:
    name = "glob"
    description = read_description(__file__)
    effect: Effect = "read"
    schema = object_of({"pattern": {"type": "string"}, "path": {"type": "string"}}, required=("pattern",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(_root(arguments, workspace, _pattern(arguments))),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.search.files import SEARCH_TIMEOUT_S, list_files  # noqa: PLC0415  # deferred: only a search needs it

        pattern = _pattern(arguments)
        root = _root(arguments, workspace, pattern)
        if kind_of(root) != "folder":
            return Result(
                f"no files match: there is no folder `{display(root, workspace.root)}`", extent=Extent("files", 0, 0)
            )
        found: list[tuple[int, bytes]] = []

        def take(path: str) -> bool:
            if pattern.matches(path):
                found.append((-_mtime(root / path), os.fsencode(path)))
            return True

        ending = await list_files(root, workspace.root, take)
        if not found and ending == "complete":
            return await self._report_ignored(root, workspace, pattern)
        limit = number(arguments, "limit", DEFAULT_LIMIT)
        lines = [display(root / os.fsdecode(path), workspace.root) for _, path in sorted(found)[:limit]]
        extent = Extent("files", len(lines), len(found) if ending == "complete" else None)
        if len(found) > limit:
            lines.append(f"({limit} of {len(found)} files, the newest: narrow the pattern for others)")
        if ending == "late":
            lines.append(f"(stopped after {SEARCH_TIMEOUT_S:.0f} s, so files may be missing: give a deeper `path`)")
        return Result("\n".join(lines) or "no files match", extent=extent)

    @staticmethod
    async def _report_ignored(root: Path, workspace: Workspace, pattern: globs.GlobPattern) -> Result:
        """Return the result if no file matches: how many files match but are ignored by git."""
        from ebbtide.tools.search.files import IGNORED_SECONDS, list_files  # noqa: PLC0415  # deferred: as above

        found: list[str] = []

        def take(path: str) -> bool:
            if pattern.matches(path):
                found.append(path)
            return True

        await list_files(root, workspace.root, take, with_ignored=True, seconds=IGNORED_SECONDS)
        name = display(root / min(found), workspace.root) if found else ""
        but = f", but {pluralize(len(found), 'file')} that git ignores, such as `{name}`: give its folder as `path`"
        return Result(f"no files match{but if found else ''}", extent=Extent("files", 0, 0))


def _pattern(arguments: Arguments) -> globs.GlobPattern:
    try:
        return globs.parse(os.path.expanduser(text(arguments, "pattern")))
    except globs.GlobError as error:
        raise ToolError(str(error)) from error


def _root(arguments: Arguments, workspace: Workspace, pattern: globs.GlobPattern) -> Path:
    """Return the folder where the search starts: the given one plus the fixed prefix of the pattern."""
    base = locate(text(arguments, "path", "."), workspace)
    return resolve(str(base / pattern.folder), workspace)


def _mtime(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0

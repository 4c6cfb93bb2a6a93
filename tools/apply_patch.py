"""The `apply_patch` tool: changes several files at once, or none if any change fails."""

from pathlib import Path

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.files.change import preview_of
from ebbtide.tools.files.paths import resolve
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.schema import object_of


class ApplyPatch:
    name = "apply_patch"
    description = read_description(__file__)
    effect: Effect = "write"
    schema = object_of({"patch": {"type": "string"}}, required=("patch",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        from ebbtide.tools.files import patch_changes  # noqa: PLC0415  # deferred: only a patch needs it

        written = patch_changes.written_paths(arguments)
        return tuple(dict.fromkeys(str(resolve(path, workspace)) for path in written))

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        from ebbtide.tools.files import patch_changes  # noqa: PLC0415  # deferred: see `subjects`

        return preview_of(patch_changes.planned_changes(arguments, workspace, _path_suggestion), workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.files import patch_changes  # noqa: PLC0415  # deferred: see `subjects`

        return await run_exclusive(lambda: patch_changes.apply_patch(arguments, workspace, _path_suggestion))


def _path_suggestion(path: Path, root: Path) -> str:
    from ebbtide.tools.search.similar_paths import path_suggestion  # noqa: PLC0415  # deferred: rarely needed

    return path_suggestion(path, root)

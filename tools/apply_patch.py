"""The `apply_patch` tool: changes several files at once, all of them or none."""

from pathlib import Path

from tools.base import Arguments, Effect, Result, Workspace, description_beside
from tools.files.change import preview_of
from tools.files.paths import resolve
from tools.files.read_write import undivided
from tools.schema import object_of


class ApplyPatch:
    name = "apply_patch"
    description = description_beside(__file__)
    effect: Effect = "write"
    schema = object_of({"patch": {"type": "string"}}, required=("patch",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        from tools.files import patch_changes  # noqa: PLC0415  # deferred: only a patch needs it

        written = patch_changes.written(arguments)
        return tuple(dict.fromkeys(str(resolve(path, workspace)) for path in written))

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        from tools.files import patch_changes  # noqa: PLC0415  # deferred: see `subjects`

        return preview_of(patch_changes.planned(arguments, workspace, _meant), workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from tools.files import patch_changes  # noqa: PLC0415  # deferred: see `subjects`

        return await undivided(lambda: patch_changes.applied(arguments, workspace, _meant))


def _meant(path: Path, root: Path) -> str:
    from tools.search.similar_paths import meant  # noqa: PLC0415  # deferred: only a wrong path needs it

    return meant(path, root)

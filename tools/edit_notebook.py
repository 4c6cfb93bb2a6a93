"""The `edit_notebook` tool: replaces, inserts or deletes a cell of a notebook that was read. All other bytes of the
file stay as they are."""

from typing import TYPE_CHECKING

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.files.change import Change, insist_on_read, made_of, make, preview_of
from tools.files.paths import display, resolve
from tools.files.read_write import content_of, undivided
from tools.lazy import dataclass, regex
from tools.outputs.extent import shortened
from tools.schema import number, object_of, text

if TYPE_CHECKING:  # types only: see `_plan`
    from tools.files.notebook import CellKind, Notebook

KINDS: "tuple[CellKind, ...]" = ("code", "markdown", "raw")


@dataclass(frozen=True, slots=True)
class CellPlan:
    change: Change
    told: str
    """What the model is told when it is made."""


_NUMBERED = regex(r"\[?(?:cell )?(\d{1,6})\]?")


class EditNotebook:
    name = "edit_notebook"
    description = description_beside(__file__)
    effect: Effect = "write"
    schema = object_of(
        {
            "path": {"type": "string"},
            "action": {"enum": ["replace", "insert", "delete"]},
            "cell": {"type": ["integer", "string"], "minimum": 0},
            "source": {"type": "string"},
            "type": {"enum": list(KINDS), "description": "default: code, or as it is"},
        },
        required=("path", "action", "cell"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path"), workspace)),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        return preview_of([_plan(arguments, workspace).change], workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await undivided(lambda: _edit(arguments, workspace))


def _edit(arguments: Arguments, workspace: Workspace) -> Result:
    plan = _plan(arguments, workspace)
    make([plan.change], workspace.seen)
    return Result(plan.told, changed=(plan.change.path,), file_changes=made_of([plan.change]))


def _plan(arguments: Arguments, workspace: Workspace) -> CellPlan:
    from tools.files.notebook import NotebookError, notebook_of  # noqa: PLC0415  # deferred: few sessions have notebooks

    path = resolve(text(arguments, "path"), workspace)
    name = display(path, workspace.root)
    raw = content_of(path)
    if raw is None:
        raise ToolError(f"`{name}` does not exist: create it with write")
    insist_on_read(path, raw, workspace)
    notebook = notebook_of(raw)
    if notebook is None:
        raise ToolError(f"`{name}` is no notebook of format 4: change its text with edit")
    try:
        changed, told = _changed(notebook, arguments)
    except NotebookError as error:
        raise ToolError(f"`{name}`: {error}") from error
    if changed.text == notebook.text:
        raise ToolError(
            f"cell {_place(notebook, arguments)} of `{name}` holds exactly this already: nothing would change"
        )
    return CellPlan(Change(path, raw, changed.encode()), f"{told} `{name}`, which has {len(changed.cells)} now")


def _changed(notebook: "Notebook", arguments: Arguments) -> "tuple[Notebook, str]":
    from tools.files.notebook import NotebookError, deleted, inserted, replaced  # noqa: PLC0415  # deferred: as above

    place, kind = _place(notebook, arguments), _kind(arguments)
    if text(arguments, "action") == "delete":
        return deleted(notebook, place), f"deleted cell {place} of"
    if "source" not in arguments:
        raise NotebookError("`source` is missing: give the whole text of the cell")
    source = text(arguments, "source").replace("\r\n", "\n")
    if text(arguments, "action") == "insert":
        return inserted(notebook, place, source, kind or "code"), f"inserted cell {place + 1} into"
    return replaced(notebook, place, source, kind), f"replaced cell {place} of"


def _place(notebook: "Notebook", arguments: Arguments) -> int:
    """The number of the cell that is meant: by its number, or by the id that the file gives it."""
    from tools.files.notebook import NotebookError  # noqa: PLC0415  # deferred: as above

    cell = arguments["cell"]
    if not isinstance(cell, str):
        return number(arguments, "cell", 0)
    places = [place for place, each in enumerate(notebook.cells, 1) if each.value.get("id") == cell]
    if len(places) == 1:
        return places[0]
    if (written := _NUMBERED.fullmatch(cell)) is not None:
        return int(written[1])
    raise NotebookError(f"no cell has the id `{shortened(cell, 40)}`: give its number as `cell`, as `read` shows it")


def _kind(arguments: Arguments) -> "CellKind | None":
    return next((kind for kind in KINDS if kind == arguments.get("type")), None)

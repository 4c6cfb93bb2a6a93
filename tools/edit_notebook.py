"""The `edit_notebook` tool: replaces, inserts or deletes a cell of a notebook that was read. All other bytes stay
unchanged."""

from typing import TYPE_CHECKING

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.change import Change, applied_changes, make, preview_of, require_read
from ebbtide.tools.files.paths import display, resolve
from ebbtide.tools.files.read_write import content_of, run_exclusive
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.schema import number, object_of, text

if TYPE_CHECKING:  # types only: see `_plan`
    from ebbtide.tools.files.notebook import CellKind, Notebook

KINDS: "tuple[CellKind, ...]" = ("code", "markdown", "raw")


@dataclass(frozen=True, slots=True)
class CellPlan:
    change: Change
    message: str
    """The message for the model once the change is made."""


_CELL_NUMBER = regex(r"\[?(?:cell )?(\d{1,6})\]?")


class EditNotebook:
    name = "edit_notebook"
    description = read_description(__file__)
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
        return await run_exclusive(lambda: _edit(arguments, workspace))


def _edit(arguments: Arguments, workspace: Workspace) -> Result:
    plan = _plan(arguments, workspace)
    make([plan.change], workspace.seen)
    return Result(plan.message, changed=(plan.change.path,), file_changes=applied_changes([plan.change]))


def _plan(arguments: Arguments, workspace: Workspace) -> CellPlan:
    from ebbtide.tools.files.notebook import NotebookError, notebook_of  # noqa: PLC0415  # deferred: rare

    path = resolve(text(arguments, "path"), workspace)
    name = display(path, workspace.root)
    raw = content_of(path)
    if raw is None:
        raise ToolError(f"`{name}` does not exist: create it with write")
    require_read(path, raw, workspace)
    notebook = notebook_of(raw)
    if notebook is None:
        raise ToolError(f"`{name}` is not a notebook of format 4: change its text with edit")
    try:
        changed, told = _apply_action(notebook, arguments)
    except NotebookError as error:
        raise ToolError(f"`{name}`: {error}") from error
    if changed.text == notebook.text:
        raise ToolError(
            f"cell {_place(notebook, arguments)} of `{name}` already has exactly this content: nothing would change"
        )
    return CellPlan(Change(path, raw, changed.encode()), f"{told} `{name}`, which has {len(changed.cells)} now")


def _apply_action(notebook: "Notebook", arguments: Arguments) -> "tuple[Notebook, str]":
    from ebbtide.tools.files.notebook import NotebookError, delete_cell, insert_cell, replace_cell  # noqa: PLC0415  # deferred: as above

    place, kind = _place(notebook, arguments), _kind(arguments)
    if text(arguments, "action") == "delete":
        return delete_cell(notebook, place), f"deleted cell {place} of"
    if "source" not in arguments:
        raise NotebookError("`source` is missing: give the whole text of the cell")
    source = text(arguments, "source").replace("\r\n", "\n")
    if text(arguments, "action") == "insert":
        return insert_cell(notebook, place, source, kind or "code"), f"inserted cell {place + 1} into"
    return replace_cell(notebook, place, source, kind), f"replaced cell {place} of"


def _place(notebook: "Notebook", arguments: Arguments) -> int:
    """Return the number of the requested cell, given by number or by its id in the file."""
    from ebbtide.tools.files.notebook import NotebookError  # noqa: PLC0415  # deferred: as above

    cell = arguments["cell"]
    if not isinstance(cell, str):
        return number(arguments, "cell", 0)
    places = [place for place, each in enumerate(notebook.cells, 1) if each.value.get("id") == cell]
    if len(places) == 1:
        return places[0]
    if (written := _CELL_NUMBER.fullmatch(cell)) is not None:
        return int(written[1])
    raise NotebookError(f"no cell has the id `{ellipsize(cell, 40)}`: give its number as `cell`, as `read` shows it")


def _kind(arguments: Arguments) -> "CellKind | None":
    return next((kind for kind in KINDS if kind == arguments.get("type")), None)

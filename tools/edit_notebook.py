"""The `edit_notebook` tool: replaces, inserts or deletes a cell in a notebook that the model has read, and leaves all
other bytes unchanged."""

from typing import TYPE_CHECKING

from ebbtide.tools import files
from ebbtide.tools.base import Arguments, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import FILE_ARGUMENTS, pop_argument
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.change import Change, ChangePlanner, PlannedChanges, require_read
from ebbtide.tools.files.paths import display_path, resolve_path
from ebbtide.tools.files.read_write import read_bytes_if_exists
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.tool_traits import ToolTraits, path_argument

if TYPE_CHECKING:  # types only: the module is imported when first used
    from ebbtide.tools.files.notebook import CellKind, Notebook

CELL_KINDS: "tuple[CellKind, ...]" = ("code", "markdown", "raw")


_CELL_NUMBER = regex(r"\[?(?:cell )?(\d{1,6})\]?")


def _subject(arguments: Arguments) -> str:
    return f"{path_argument(arguments)}  {arguments.get('action')} cell {arguments.get('cell')}"


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    arguments.setdefault("action", "replace")
    if arguments["action"] == "insert":
        arguments.setdefault("cell", 0)
    if (
        "cell" not in arguments
        and (raw_number := pop_argument(arguments, "cellnumber", "cellindex", "cellidx")) is not None
    ):
        explanation = "some tools count cells from 0: give `cell` as the number that `read` shows, counted from 1"
        raise ToolError(f"it is unclear which cell `{ellipsize(str(raw_number), 20)}` refers to, because {explanation}")


class EditNotebook(ChangePlanner):
    name = "edit_notebook"
    description = read_description(__file__)
    traits = ToolTraits(
        role="edit_cells",
        stub_template="Edited {path}",
        stub_result="nothing",
        acp_kind="edit",
        get_subject=_subject,
        rule_noun="notebook edits",
        aliases="notebook_edit edit_notebook_file",
        argument_aliases={
            "path": FILE_ARGUMENTS,
            "action": "edit_mode edit_type mode",
            "cell": "cell_id",
            "source": "new_source new_code new_content content",
            "type": "cell_type",
        },
        adapt_arguments=_adapt_arguments,
        claude_names=("NotebookEdit",),
        claude_arguments={
            "path": "notebook_path",
            "action": "edit_mode",
            "cell": "cell_id",
            "source": "new_source",
            "type": "cell_type",
        },
        small_window_policy="optional",
        is_useful=lambda project: ".ipynb" in project.count_file_suffixes(),
    )
    schema = object_schema(
        {
            "path": {"type": "string"},
            "action": {"enum": ["replace", "insert", "delete"]},
            "cell": {"type": ["integer", "string"], "minimum": 0},
            "source": {"type": "string"},
            "type": {"enum": list(CELL_KINDS), "description": "default: code, or unchanged"},
        },
        required=("path", "action", "cell"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_path(get_text(arguments, "path"), workspace)),)

    def plan_changes(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        path = resolve_path(get_text(arguments, "path"), workspace)
        name = display_path(path, workspace.root)
        old_bytes = read_bytes_if_exists(path)
        if old_bytes is None:
            raise ToolError(f"`{name}` does not exist: create it with write")
        require_read(path, old_bytes, workspace)
        notebook = files.notebook.parse_notebook(old_bytes)
        if notebook is None:
            raise ToolError(f"`{name}` is not a notebook of format 4: change its text with edit")
        try:
            new_notebook, action_text = _apply_action(notebook, arguments)
        except files.notebook.NotebookError as error:
            raise ToolError(f"`{name}`: {error}") from error
        if new_notebook.text == notebook.text:
            raise ToolError(
                f"cell {_requested_cell(notebook, arguments)} of `{name}` already has exactly this content: "
                "nothing would change"
            )
        message = f"{action_text} `{name}`, which has {len(new_notebook.cells)} now"
        return PlannedChanges((Change(path, old_bytes, new_notebook.encode()),), message)


def _apply_action(notebook: "Notebook", arguments: Arguments) -> "tuple[Notebook, str]":
    cell_number, kind = _requested_cell(notebook, arguments), _requested_kind(arguments)
    if get_text(arguments, "action") == "delete":
        return files.notebook.delete_cell(notebook, cell_number), f"deleted cell {cell_number} of"
    if "source" not in arguments:
        raise files.notebook.NotebookError("`source` is missing: give the whole text of the cell")
    source = get_text(arguments, "source").replace("\r\n", "\n")
    if get_text(arguments, "action") == "insert":
        return files.notebook.insert_cell(
            notebook, cell_number, source, kind or "code"
        ), f"inserted cell {cell_number + 1} into"
    return files.notebook.replace_cell(notebook, cell_number, source, kind), f"replaced cell {cell_number} of"


def _requested_cell(notebook: "Notebook", arguments: Arguments) -> int:
    """Find the requested cell, given by number or by its id in the file, and return its number."""
    cell = arguments["cell"]
    if not isinstance(cell, str):
        return get_number(arguments, "cell", 0)
    numbers = [
        cell_number
        for cell_number, notebook_cell in enumerate(notebook.cells, 1)
        if notebook_cell.value.get("id") == cell
    ]
    if len(numbers) == 1:
        return numbers[0]
    if (match := _CELL_NUMBER.fullmatch(cell)) is not None:
        return int(match[1])
    raise files.notebook.NotebookError(
        f"no cell has the id `{ellipsize(cell, 40)}`: give its number as `cell`, as `read` shows it"
    )


def _requested_kind(arguments: Arguments) -> "CellKind | None":
    return next((kind for kind in CELL_KINDS if kind == arguments.get("type")), None)

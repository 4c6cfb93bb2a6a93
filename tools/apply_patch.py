"""The `apply_patch` tool: changes several files at once, or none of them if any change fails."""

from ebbtide.tools import edits, search
from ebbtide.tools.base import Arguments, Workspace, read_description
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.files.change import ChangePlanner, PlannedChanges
from ebbtide.tools.files.paths import resolve_path
from ebbtide.tools.tool_traits import ToolTraits, text_argument


def _subject(arguments: Arguments) -> str:
    patch = text_argument(arguments, "patch") or text_argument(arguments, "input")
    headers = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")
    paths = [line.split(": ", 1)[1] for line in patch.split("\n") if line.lstrip().startswith(headers)]
    return ", ".join(paths or [line[4:].removeprefix("b/") for line in patch.split("\n") if line.startswith("+++ ")])


class ApplyPatch(ChangePlanner):
    name = "apply_patch"
    description = read_description(__file__)
    traits = ToolTraits(
        role="patch_files",
        output_content="change",
        stub_template="Edited {files}",
        stub_result="nothing",
        acp_kind="edit",
        get_subject=_subject,
        free_text_argument="patch",
        rule_noun="patches",
        editable_argument="patch",
        aliases="patch",
        argument_aliases={"patch": "input patch_text diff content"},
        small_window_policy="capable_models",
    )
    schema = object_schema({"patch": {"type": "string"}}, required=("patch",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        paths = edits.patch_changes.patched_paths(arguments)
        return tuple(dict.fromkeys(str(resolve_path(path, workspace)) for path in paths))

    def plan_changes(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        return edits.patch_changes.plan_patch(
            arguments, workspace, lambda path, root: search.similar_paths.path_suggestion(path, root)
        )

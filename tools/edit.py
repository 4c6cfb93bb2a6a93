"""The `edit` tool: replaces text in a file and leaves all other bytes unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from ebbtide.tools import search
from ebbtide.tools.base import Arguments, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import (
    FILE_ARGUMENTS,
    index_by_alias,
    is_editor_call,
    normalise_name,
    parse_json_list,
    pop_argument,
)
from ebbtide.tools.call_arguments.schema import get_flag, get_items, get_text, object_schema
from ebbtide.tools.edits.matching import line_number
from ebbtide.tools.edits.text_edit import EditTarget, TextEdit, numbered_snippet, plan_edit
from ebbtide.tools.files.change import (
    Change,
    ChangePlanner,
    PlannedChanges,
    decode_seen_file,
    require_current_view,
    translate_encoding_errors,
)
from ebbtide.tools.files.line_diff import find_differing_regions
from ebbtide.tools.files.paths import display_path, resolve_existing
from ebbtide.tools.files.read_write import read_bytes_if_exists
from ebbtide.tools.files.text import Replacement, TextFile
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, path_argument


@dataclass(frozen=True, slots=True)
class RequestedEdit:
    """One requested change."""

    old: str
    new: str
    replace_all: bool


_ALIASES = {
    "path": FILE_ARGUMENTS,
    "old": "old_string old_str old_text old_content search find original target_content",
    "new": "new_string new_str new_text new_content replace replacement updated replacement_content",
    "replace_all": "allow_multiple",
}
_SEARCH_BLOCK = regex(
    r"^(?:<{5,9}|-{5,9}) ?SEARCH>?[ \t]*\r?\n(?P<about>(?::(?:start|end)_line:.*\n)*(?:-{5,9}[ \t]*\r?\n)?)"
    r"(?P<old>(?:.*\n)*?)={5,9}[ \t]*\r?\n(?P<new>(?:.*\n)*?)(?:>{5,9}|\+{5,9}) ?REPLACE>?[ \t]*\r?$"
)
"""A search-and-replace block: `<<<<<<< SEARCH …`."""
_BLOCK_DIVIDER = regex(r"(?m)^={5,9}[ \t\r]*$")
_BLOCK_START = regex(r"(?m)^(?:<{5,9}|-{5,9}) ?SEARCH")


def _accepts_alias_call(called_name: str, arguments: Arguments) -> bool:
    if is_editor_call(called_name, arguments, "insert"):
        raise ToolError("to insert text, call `edit` with the line before it as `old`, and with both as `new`")
    if is_editor_call(called_name, arguments, "undo_edit"):
        raise ToolError("edits cannot be undone: call `edit` with `old` and `new` swapped")
    return is_editor_call(called_name, arguments, "str_replace")


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    if "code_edit" in arguments and "old" not in arguments:
        raise ToolError("`edit` does not fill in omitted code: call it with `old`, as the file has it, and `new`")
    blocks = next((name for name in ("diff", "content", "patch") if isinstance(arguments.get(name), str)), "")
    if blocks and "old" not in arguments and (replacements := _parse_search_blocks(str(arguments[blocks]))):
        del arguments[blocks]
        arguments["edits"] = [{"old": old, "new": new} for old, new in replacements]
    if pop_argument(arguments, "useregex") in (True, "true"):
        raise ToolError("`edit` does not accept patterns: give the text itself as `old`, or use sed in bash")
    key = next((name for name in ("edit", "ReplacementChunks") if name in arguments), "edits")
    edits = arguments.get(key)
    edits = parse_json_list(edits) if isinstance(edits, str) else [edits] if isinstance(edits, dict) else edits
    if not isinstance(edits, list) or not edits:
        return
    del arguments[key]
    renamed = [_canonical_edit(edit) if isinstance(edit, dict) else edit for edit in edits]
    if len(renamed) > 1 or not isinstance(renamed[0], dict):
        arguments["edits"] = renamed
    else:
        for name, value in renamed[0].items():
            arguments.setdefault(name, value)


def _canonical_edit(edit: dict[str, object]) -> dict[str, object]:
    """Convert an edit to this tool's argument names, and drop unknown fields."""
    names = {**index_by_alias(_ALIASES), **{normalise_name(name): name for name in ("old", "new", "replace_all")}}
    return {names[normalise_name(name)]: value for name, value in edit.items() if normalise_name(name) in names}


def _parse_search_blocks(text: str) -> list[tuple[str, str]]:
    """Parse search-and-replace blocks into pairs of old and new text. Empty if the text contains anything else."""
    starts = [match.start() for match in _BLOCK_START.finditer(text)]
    if not starts or text[: starts[0]].strip():
        return []
    replacements = list[tuple[str, str]]()
    for start, end in pairwise([*starts, len(text)]):
        block = text[start:end].strip("\r\n")
        match = _SEARCH_BLOCK.fullmatch(block)
        if match is None or not match["old"] or len(_BLOCK_DIVIDER.findall(block)) > 1:
            return []
        replacements.append(
            (match["old"].removesuffix("\n").removesuffix("\r"), match["new"].removesuffix("\n").removesuffix("\r"))
        )
    return replacements


class Edit(ChangePlanner):
    name = "edit"
    description = read_description(__file__)
    traits = ToolTraits(
        role="edit_file",
        output_content="change",
        stub_template="Edited {path}",
        stub_result="nothing",
        acp_kind="edit",
        get_subject=path_argument,
        rule_noun="edits",
        editable_argument="new",
        aliases="edit_file replace search_replace str_replace str_replace_file replace_in_file "
        "replace_string_in_file multi_edit apply_diff search_and_replace replace_file_content "
        "multi_replace_file_content",
        accepts_alias_call=_accepts_alias_call,
        argument_aliases=_ALIASES,
        adapt_arguments=_adapt_arguments,
        claude_names=("Edit", "MultiEdit"),
        claude_arguments={"path": "file_path", "old": "old_string", "new": "new_string"},
        small_window_policy="always",
        short_form=ShortForm("Replaces `old`, which stands once in a file, by `new`.", ("path", "old", "new")),
        small_model_form=ShortForm(
            "Replaces the text `old`, which stands in a file, by `new`.", ("path", "old", "new", "replace_all")
        ),
    )
    schema = object_schema(
        {
            "path": {"type": "string"},
            "old": {"type": "string"},
            "new": {"type": "string"},
            "replace_all": {"type": "boolean"},
            "edits": {"type": "array", "items": {"type": "object"}},
            "encoding": {"type": "string"},
        },
        required=("path",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        _requested_edits(arguments)
        return (str(resolve_existing(get_text(arguments, "path"), workspace)[0]),)

    def plan_changes(self, arguments: Arguments, workspace: Workspace) -> PlannedChanges:
        path, note = resolve_existing(get_text(arguments, "path"), workspace)
        name = display_path(path, workspace.root)
        substitutions = _requested_edits(arguments)
        for number, substitution in enumerate(substitutions, 1):
            _require_difference(substitution, number, len(substitutions))
        old_bytes = read_bytes_if_exists(path)
        old_file, target = TextFile(""), EditTarget(name, "", was_read=True)
        if old_bytes or substitutions[0].old:
            old_bytes = _get_content(path, old_bytes, workspace)
            target = replace(target, was_read=require_current_view(path, old_bytes, workspace) == "current")
            old_file = decode_seen_file(path, old_bytes, workspace, get_text(arguments, "encoding", ""))
        new_file, edits = _apply_edits(old_file, substitutions, target)
        if new_file.encode() == old_bytes:
            raise ToolError("the file already has this content: nothing would change")
        report = _edit_report(name, old_file.normalised_text, new_file.normalised_text, edits)
        change = Change(path, old_bytes, new_file.encode(), encoding=new_file.codec)
        return PlannedChanges((change,), "\n".join(filter(None, (report, note))))


def _get_content(path: Path, raw: bytes | None, workspace: Workspace) -> bytes:
    """Return the content of the file. Raises `ToolError` if the file does not exist."""
    if raw is not None:
        return raw
    advice = (
        search.similar_paths.path_suggestion(path, workspace.root) or ": find it with glob, or create it with write"
    )
    raise ToolError(f"`{display_path(path, workspace.root)}` does not exist{advice}")


def _requested_edits(arguments: Arguments) -> list[RequestedEdit]:
    """Return the requested changes in order: those in `edits`, or the single change of the call. Raises `ToolError`."""
    edits = get_items(arguments, "edits")
    if edits and ("old" in arguments or "new" in arguments):
        raise ToolError("give either `edits` or `old` and `new`, not both")
    if not all(isinstance(edit, Mapping) for edit in edits):
        raise ToolError("each of `edits` must be an object with `old` and `new`")
    requested = [edit for edit in edits if isinstance(edit, Mapping)] or [arguments]
    return [
        RequestedEdit(
            _unix_newlines(get_text(edit, "old")), _unix_newlines(get_text(edit, "new")), get_flag(edit, "replace_all")
        )
        for edit in requested
    ]


def _require_difference(substitution: RequestedEdit, number: int, count: int) -> None:
    if substitution.old != substitution.new:
        return
    problem, advice = "empty", "name the text in `old`; `rm` in bash deletes a file"
    if substitution.old:
        problem, advice = "identical", "write the new text into `new`"
    raise _edit_error(ToolError(f"`old` and `new` are {problem}: nothing would change; {advice}"), number, count)


def _edit_error(error: ToolError, number: int, count: int) -> ToolError:
    """Build the error for a failed change. If there are several changes, it says which one failed and that none was
    made."""
    return ToolError(f"no change was made: change {number} of {count}: {error}") if count > 1 else error


def _unix_newlines(text_: str) -> str:
    return text_.replace("\r\n", "\n")


def _apply_edits(
    file: TextFile, requested_edits: Sequence[RequestedEdit], target: EditTarget
) -> tuple[TextFile, Sequence[TextEdit]]:
    """Apply the changes in order, each to the result of the previous one. Raises `ToolError` if one fails."""
    edits = list[TextEdit]()
    for number, substitution in enumerate(requested_edits, 1):
        try:
            edit = _plan_requested_edit(replace(target, text=file.normalised_text), substitution)
            with translate_encoding_errors(target.name, file):
                file = file.with_changes(edit.changes)
        except ToolError as error:
            raise _edit_error(error, number, len(requested_edits)) from error
        edits.append(edit)
    return file, edits


def _plan_requested_edit(target: EditTarget, substitution: RequestedEdit) -> TextEdit:
    if substitution.old:
        return plan_edit(target, substitution.old, substitution.new, substitution.replace_all)
    if target.text:
        raise ToolError("`old` is empty: say which text to replace, or use write for the whole file")
    return TextEdit((Replacement(0, 0, substitution.new),), "")


def _edit_report(name: str, old_text: str, new_text: str, edits: Sequence[TextEdit]) -> str:
    """Report the changes: the changed lines, and how each `old` differed from the file."""
    place_count = sum(len(edit.changes) for edit in edits)
    remarks = [
        f"change {number}: {edit.remark}" if len(edits) > 1 else edit.remark
        for number, edit in enumerate(edits, 1)
        if edit.remark
    ]
    remark = "".join(f"; {edit_remark}" for edit_remark in remarks)
    if place_count > 1 and (len(edits) == 1 or not remark):
        return f"edited `{name}` in {pluralize(place_count, 'place')}{remark}"
    first_line, last_line = _changed_lines(old_text, new_text, edits)
    line_text = f"line {last_line}" if last_line == first_line else f"lines {first_line}-{last_line}"
    if not remark:
        return f"edited `{name}`, {line_text}"
    return f"edited `{name}`, {line_text}{remark}. It now reads:\n{numbered_snippet(new_text, first_line, last_line)}"


def _changed_lines(old_text: str, new_text: str, edits: Sequence[TextEdit]) -> tuple[int, int]:
    """Return the first and the last changed line of the new text."""
    if len(edits) == 1:
        change = edits[0].changes[0]
        first_line = line_number(new_text, change.start)
        return first_line, first_line + change.text.removesuffix("\n").count("\n")
    regions = find_differing_regions(old_text.split("\n"), new_text.split("\n"))
    start = min(region.new_start for region in regions)
    return start + 1, max(max(region.new_end for region in regions), start + 1)

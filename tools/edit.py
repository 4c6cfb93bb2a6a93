"""The `edit` tool: replaces text in a file. All other bytes stay unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.change import Change, applied_changes, encoding_refusal, look_at, make, preview_of, text_of
from ebbtide.tools.files.line_diff import differing
from ebbtide.tools.files.matching import line_number
from ebbtide.tools.files.paths import display, resolve_existing
from ebbtide.tools.files.read_write import content_of, run_exclusive
from ebbtide.tools.files.text import EncodingError, Replacement, TextFile, showable
from ebbtide.tools.files.text_edit import MAX_SHOWN_LINES, EditTarget, plan_edit
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import number_lines
from ebbtide.tools.schema import flag, items, object_of, text


@dataclass(frozen=True, slots=True)
class EditPlan:
    change: Change
    first_line: int
    """Position of the first change in the new text, and its number of lines."""
    line_count: int
    places: int
    remark: str
    """How `old` differed from the file, if it did."""
    text: str
    r"""The new text with `\n` line endings."""
    is_several: bool = False
    """Several changes were requested. `first_line` and `line_count` then cover all of them."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """One requested change."""

    old: str
    new: str
    is_everywhere: bool


class Edit:
    name = "edit"
    description = read_description(__file__)
    effect: Effect = "write"
    schema = object_of(
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
        return (str(resolve_existing(text(arguments, "path"), workspace)[0]),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        return preview_of([_plan(arguments, workspace).change], workspace.root)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await run_exclusive(lambda: _edit(arguments, workspace))


def _edit(arguments: Arguments, workspace: Workspace) -> Result:
    plan = _plan(arguments, workspace)
    make([plan.change], workspace.seen)
    note = resolve_existing(text(arguments, "path"), workspace)[1]
    told = "\n".join(filter(None, (_result_text(plan, display(plan.change.path, workspace.root)), note)))
    return Result(told, changed=(plan.change.path,), file_changes=applied_changes([plan.change]))


def _plan(arguments: Arguments, workspace: Workspace) -> EditPlan:
    path = resolve_existing(text(arguments, "path"), workspace)[0]
    name = display(path, workspace.root)
    asked = _requested_edits(arguments)
    for number, each in enumerate(asked, 1):
        if each.old == each.new:
            what = (
                "write the new text into `new`" if each.old else "name the text in `old`; `rm` in bash deletes a file"
            )
            how = "identical" if each.old else "empty"
            raise _edit_error(ToolError(f"`old` and `new` are {how}: nothing would change; {what}"), number, len(asked))
    raw = content_of(path)
    if not asked[0].old and not raw:
        return _plan_empty_file(path, raw, asked, name)
    if raw is None:
        from ebbtide.tools.search.similar_paths import path_suggestion  # noqa: PLC0415  # deferred: rarely needed

        advice = path_suggestion(path, workspace.root) or ": find it with glob, or create it with write"
        raise ToolError(f"`{name}` does not exist{advice}")
    look = look_at(path, raw, workspace)
    file = text_of(path, raw, workspace, text(arguments, "encoding", ""))
    return _plan_edits(path, raw, file, asked, EditTarget(name, file.normalised_text, is_known=look == "current"))


def _requested_edits(arguments: Arguments) -> list[Substitution]:
    """Return the requested changes in order: `edits`, or the single change of the call. Raises `ToolError`."""
    edits = items(arguments, "edits")
    if edits and ("old" in arguments or "new" in arguments):
        raise ToolError("give either `edits` or `old` and `new`, not both")
    if not all(isinstance(each, Mapping) for each in edits):
        raise ToolError("each of `edits` must be an object with `old` and `new`")
    written = [each for each in edits if isinstance(each, Mapping)] or [arguments]
    return [
        Substitution(_unix_newlines(text(each, "old")), _unix_newlines(text(each, "new")), flag(each, "replace_all"))
        for each in written
    ]


def _edit_error(error: ToolError, number: int, count: int) -> ToolError:
    """Return the error for a failed change: with several changes, which one failed and that none was made."""
    return ToolError(f"no change was made: change {number} of {count}: {error}") if count > 1 else error


def _unix_newlines(text_: str) -> str:
    return text_.replace("\r\n", "\n")


def _plan_empty_file(path: Path, raw: bytes | None, asked: Sequence[Substitution], name: str) -> EditPlan:
    """Plan the content of an empty or new file: the first new text, then the other changes applied to it."""
    try:
        file = TextFile("").with_text(asked[0].new)
    except EncodingError as error:
        raise ToolError("`new` contains half a surrogate pair: write the whole character") from error
    if len(asked) == 1:
        new = asked[0].new
        return EditPlan(Change(path, raw, file.encode()), 1, new.removesuffix("\n").count("\n") + 1, 1, "", new)
    return _plan_edits(path, raw, file, asked, EditTarget(name, file.normalised_text, is_known=True), done=1)


def _plan_edits(
    path: Path, raw: bytes | None, file: TextFile, asked: Sequence[Substitution], target: EditTarget, *, done: int = 0
) -> EditPlan:
    """Plan all changes, each applied to the result of those before it. Raises `ToolError` if one fails."""
    before, remarks, changes = file.normalised_text, list[str](), list[Replacement]()
    for number, each in enumerate(asked[done:], done + 1):
        try:
            if not each.old:
                raise ToolError("`old` is empty: say which text is to be replaced, or use write for the whole file")
            edit = plan_edit(replace(target, text=file.normalised_text), each.old, each.new, each.is_everywhere)
            try:
                file = file.with_changes(edit.changes)
            except EncodingError as error:
                raise encoding_refusal(error, target.name, file) from error
        except ToolError as error:
            raise _edit_error(error, number, len(asked)) from error
        changes += edit.changes
        remarks += [f"change {number}: {edit.remark}" if len(asked) > 1 else edit.remark] if edit.remark else []
    after = file.encode()
    if after == raw:
        raise ToolError("the file already has this content: nothing would change")
    change, remark, now = Change(path, raw, after, encoding=file.codec), "; ".join(remarks), file.normalised_text
    if len(asked) == 1:
        first = changes[0]
        count = first.text.removesuffix("\n").count("\n") + 1
        return EditPlan(change, line_number(now, first.start), count, len(changes), remark, now)
    regions = differing(before.split("\n"), now.split("\n"))
    start = min(region.new_start for region in regions)
    end = max(max(region.new_end for region in regions), start + 1)
    return EditPlan(change, start + 1, end - start, len(changes), remark, now, is_several=True)


def _result_text(plan: EditPlan, name: str) -> str:
    remark = f"; {plan.remark}" if plan.remark else ""
    if plan.places > 1 and not (plan.is_several and plan.remark):
        return f"edited `{name}` in {pluralize(plan.places, 'place')}{remark}"
    last = plan.first_line + plan.line_count - 1
    where = f"line {last}" if last == plan.first_line else f"lines {plan.first_line}-{last}"
    if not remark:
        return f"edited `{name}`, {where}"
    lines = showable(plan.text).split("\n")[plan.first_line - 1 : min(last, plan.first_line + MAX_SHOWN_LINES)]
    return f"edited `{name}`, {where}{remark}. It now reads:\n{number_lines(lines, plan.first_line)}"

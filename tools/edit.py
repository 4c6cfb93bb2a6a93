"""The `edit` tool: replaces a piece of text in a file. All other bytes of the file stay as they are."""

from pathlib import Path

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.files.change import Change, encoding_refusal, look_at, made_of, make, preview_of, text_of
from tools.files.matching import apply, line_number
from tools.files.paths import display, resolve
from tools.files.read_write import content_of, undivided
from tools.files.text import EncodingError, TextFile, showable
from tools.files.text_edit import MOST_SHOWN, Target, TextEdit, edited
from tools.lazy import dataclass
from tools.outputs.extent import counted
from tools.outputs.plain_text import numbered
from tools.schema import flag, object_of, text


@dataclass(frozen=True, slots=True)
class EditPlan:
    change: Change
    first_line: int
    """Where the first change begins in the new text, and how many lines it takes there."""
    line_count: int
    places: int
    remark: str
    """How `old` differed from the file, when it did."""
    text: str
    r"""The new text, line ends as `\n`."""


class Edit:
    name = "edit"
    description = description_beside(__file__)
    effect: Effect = "write"
    schema = object_of(
        {
            "path": {"type": "string"},
            "old": {"type": "string"},
            "new": {"type": "string"},
            "replace_all": {"type": "boolean"},
            "encoding": {"type": "string"},
        },
        required=("path", "old", "new"),
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
    told = _told(plan, display(plan.change.path, workspace.root))
    return Result(told, changed=(plan.change.path,), file_changes=made_of([plan.change]))


def _plan(arguments: Arguments, workspace: Workspace) -> EditPlan:
    path = resolve(text(arguments, "path"), workspace)
    name = display(path, workspace.root)
    old, new = _unified(text(arguments, "old")), _unified(text(arguments, "new"))
    if old == new:
        what = "write the new text into `new`" if old else "name the text in `old`; `rm` in bash deletes a file"
        raise ToolError(f"`old` and `new` are {'identical' if old else 'empty'}: nothing would change; {what}")
    raw = content_of(path)
    if not old and not raw:
        return _filled(path, raw, new)
    if raw is None:
        from tools.search.similar_paths import meant  # noqa: PLC0415  # deferred: only a wrong path needs it

        raise ToolError(
            f"`{name}` does not exist{meant(path, workspace.root) or ': find it with glob, or create it with write'}"
        )
    if not old:
        raise ToolError("`old` is empty: say which text is to be replaced, or use write for the whole file")
    look = look_at(path, raw, workspace)
    file = text_of(path, raw, workspace, text(arguments, "encoding", ""))
    target = Target(name, file.unified, is_known=look == "current")
    try:
        return _planned(path, raw, file, edited(target, old, new, flag(arguments, "replace_all")))
    except EncodingError as error:
        raise encoding_refusal(error, name, file) from error


def _unified(text_: str) -> str:
    return text_.replace("\r\n", "\n")


def _filled(path: Path, raw: bytes | None, new: str) -> EditPlan:
    """An empty file, or one that is not there yet, with `new` in it."""
    try:
        change = Change(path, raw, new.encode())
    except UnicodeEncodeError as error:
        raise ToolError("`new` holds half a surrogate pair: write the whole character") from error
    return EditPlan(change, 1, new.removesuffix("\n").count("\n") + 1, 1, "", new)


def _planned(path: Path, raw: bytes, file: TextFile, edit: TextEdit) -> EditPlan:
    after = file.replaced(edit.changes).encode()
    if after == raw:
        raise ToolError("the file is so already: nothing would change")
    first = edit.changes[0]
    new_text = apply(file.unified, edit.changes)
    return EditPlan(
        Change(path, raw, after, encoding=file.codec),
        first_line=line_number(new_text, first.start),
        line_count=first.text.removesuffix("\n").count("\n") + 1,
        places=len(edit.changes),
        remark=edit.remark,
        text=new_text,
    )


def _told(plan: EditPlan, name: str) -> str:
    remark = f"; {plan.remark}" if plan.remark else ""
    if plan.places > 1:
        return f"edited `{name}` in {counted(plan.places, 'place')}{remark}"
    last = plan.first_line + plan.line_count - 1
    where = f"line {last}" if last == plan.first_line else f"lines {plan.first_line}-{last}"
    if not remark:
        return f"edited `{name}`, {where}"
    lines = showable(plan.text).split("\n")[plan.first_line - 1 : min(last, plan.first_line + MOST_SHOWN)]
    return f"edited `{name}`, {where}{remark}. It now reads:\n{numbered(lines, plan.first_line)}"

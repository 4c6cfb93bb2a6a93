"""The `edit` tool: replaces a piece of text in a file that was read. All other bytes of the file stay as they are."""

from pathlib import Path

from tools.base import Arguments, Effect, Result, ToolError, Workspace, description_beside
from tools.extent import counted
from tools.files.change import Change, insist_on_read, made_of, make, preview_of
from tools.files.matching import Closeness, Matches, NearMiss, apply, find_match, line_number, nearest
from tools.files.paths import display, resolve
from tools.files.read_write import content_of, undivided
from tools.files.text import TextFile, decode, showable
from tools.lazy import dataclass
from tools.plain_text import numbered
from tools.schema import flag, object_of, text

_MOST_SHOWN = 40
"""Lines of a loosely matched edit that are shown afterwards, or of a near miss."""


@dataclass(frozen=True, slots=True)
class EditPlan:
    change: Change
    first_line: int
    """Where the first change begins in the new text, and how many lines it takes there."""
    line_count: int
    places: int
    closeness: Closeness
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
        raise ToolError("`old` and `new` are identical: nothing would change")
    raw = content_of(path)
    if raw is None:
        raise ToolError(f"`{name}` does not exist: create it with write")
    if not old:
        raise ToolError("`old` is empty: use write" if not raw else "`old` is empty: say which text is to be replaced")
    insist_on_read(path, raw, workspace)
    file = decode(raw)
    matches = find_match(file.unified, old, new)
    _insist_on_one(matches, file.unified, old, flag(arguments, "replace_all"), name)
    return _planned(path, raw, file, matches)


def _unified(text_: str) -> str:
    return text_.replace("\r\n", "\n")


def _insist_on_one(matches: Matches, content: str, old: str, all_of_them: bool, name: str) -> None:
    if not matches.changes:
        raise ToolError(f"`old` is not in `{name}`{near(nearest(content, old))}")
    if len(matches.changes) > 1 and not all_of_them:
        lines = ", ".join(str(line_number(content, change.start)) for change in matches.changes[:20])
        raise ToolError(
            f"`old` is in `{name}` {len(matches.changes)} times, at lines {lines}: "
            "add lines around it until it is unique, or set `replace_all`"
        )


def near(miss: NearMiss | None) -> str:
    """The end of a sentence that says which lines come closest."""
    if miss is None:
        return ", and no lines are like it: read the file again"
    last = miss.first_line + len(miss.lines) - 1
    shown = numbered([showable(line) for line in miss.lines[:_MOST_SHOWN]], miss.first_line)
    return f"; the closest lines are {miss.first_line}-{last}:\n{shown}"


def _planned(path: Path, raw: bytes, file: TextFile, matches: Matches) -> EditPlan:
    changed = file.replaced(matches.changes)
    try:
        after = changed.encode()
    except UnicodeEncodeError as error:
        problem = f"the file is in {file.codec}, which lacks {error.object[error.start : error.end]!r}"
        raise ToolError(f"{problem}: use others, or convert the file to UTF-8 with iconv first") from error
    first = matches.changes[0]
    new_text = apply(file.unified, matches.changes)
    return EditPlan(
        Change(path, raw, after),
        first_line=line_number(new_text, first.start),
        line_count=first.text.removesuffix("\n").count("\n") + 1,
        places=len(matches.changes),
        closeness=matches.closeness,
        text=new_text,
    )


def _told(plan: EditPlan, name: str) -> str:
    if plan.places > 1:
        return f"edited `{name}` in {counted(plan.places, 'place')}"
    last = plan.first_line + plan.line_count - 1
    where = f"line {last}" if last == plan.first_line else f"lines {plan.first_line}-{last}"
    if plan.closeness == "exact":
        return f"edited `{name}`, {where}"
    differed = "typographic signs" if plan.closeness == "signs" else "blanks"
    lines = showable(plan.text).split("\n")[plan.first_line - 1 : min(last, plan.first_line + _MOST_SHOWN)]
    shown = numbered(lines, plan.first_line)
    return f"edited `{name}`, {where}; `old` differed from the file in {differed}. It now reads:\n{shown}"

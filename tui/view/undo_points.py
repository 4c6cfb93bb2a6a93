"""What taking changes of files back would do, and the points to which that is possible, as rows of lists."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from ebbtide.agent.checkpoints.file_state import FileState, PathChange, PlannedPath, RestorePlan, path_label
from ebbtide.agent.checkpoints.undo_points import RestoreResult, UndoPoint
from ebbtide.agent.records.file_change import FileChange
from ebbtide.tools.files.change import diff_lines
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tui.text.numbers import age
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.file_changes import FileChangeRow, change_line, change_text, row_of
from ebbtide.tui.view.panel import DiffText, LoadedText, Panel, PanelAction, PanelRow

KEYS = "Enter does it  a also over what is not the agent's  PgUp, PgDn read  Esc leaves everything as it is"
PLAIN_KEYS = "Enter does it  PgUp, PgDn read  Esc leaves everything as it is"
LIST_KEYS = "Enter shows what taking it back would do  PgUp, PgDn read  Esc closes"
LIMITS = "Ignored files, other folders, commits and branches, databases and the network are not covered."
MAX_NAMED_FILES = 5
MAX_DIFF_LINES = 1000

Contents = Mapping[str, tuple[bytes | None, bytes | None]]
"""What each path holds now, and would hold."""
_INKS: Mapping[str, TextStyle] = {"+": "good", "-": "bad", " ": "text"}


def plan_panel(name: str, title: str, plan: RestorePlan, contents: Contents) -> Panel:
    """The diffs of what would change, to be agreed to. `name`: that of the command."""
    asked = plan.of("ask")
    shown = [one for one in plan.paths if one.outcome != "as_before" and "folder" not in (one.now.kind, one.back.kind)]
    shown = shown or [one for one in plan.paths if one.outcome != "as_before"]
    doing = [one for one in shown if one.outcome == "restore"]
    staged = sum(1 for one in doing if one.back.kind == "staged")
    told = f"{pluralize(len(doing) - staged, 'file')} would change"
    told += f", and what is staged at {pluralize(staged, 'path')}" if staged else ""
    head: list[Line] = [((f"{name.capitalize()}  ", "strong"), (told, "text"))]
    if title:
        head.append(((sanitised_line(title), "dim"),))
    if asked:
        them = f"{pluralize(len(asked), 'path')} changed by somebody else"
        head.append(
            parse_inline_code(
                f"~ {them}: left as {'it is' if len(asked) == 1 else 'they are'}, unless you say `a`", "warn"
            )
        )
    head.append(((LIMITS, "dim"),))
    rows = tuple(_path_row(one, contents) for one in shown)
    actions = (
        PanelAction(("enter",), name, needs_row=False),
        *((PanelAction(("a",), "all", needs_row=False),) if asked else ()),
    )
    return Panel(
        name, tuple(head), rows, KEYS if asked else PLAIN_KEYS, empty="Only folders would change.", actions=actions,
        search="", reads=True, looks=True, min_width_beside=100, most=8, is_guarded=True,
    )  # fmt: skip


def _path_row(one: PlannedPath, contents: Contents) -> PanelRow:
    row = _change_row(one, contents)
    return PanelRow(
        one.path,
        partial(change_line, row),
        change_text(row),
        about=(((sanitised_line(row.note), "warn"),),) if row.note else (),
        content=DiffText(row.diff, "nothing differs in what it holds"),
    )


def _change_row(one: PlannedPath, contents: Contents) -> FileChangeRow:
    now, back = contents.get(one.path, (None, None))
    if one.outcome == "cannot":
        return row_of(FileChange(path_label(one.path), unknown=f"it is left as it is: {one.why}", by_tool=False))
    note = "; ".join(part for part in (one.why, _kinds(one.now, one.back)) if part)
    return row_of(FileChange(path_label(one.path), now, back, note=note, by_tool=one.outcome == "restore"), other="")


def _kinds(now: FileState, back: FileState) -> str:
    if now.kind == back.kind == "file" and now.mode != back.mode:
        return f"its mode becomes {back.mode:o} again"
    if "link" in (now.kind, back.kind) and back.kind != "absent":
        return "it becomes a link again" if back.kind == "link" else "it is a link no longer"
    return ""


def points_panel(
    points: Sequence[UndoPoint],
    files: Callable[[int], Sequence[str]],
    diff: Callable[[int], Awaitable[Sequence[Line]]],
    now: float,
) -> Panel:
    """The points of a session, the newest first. `files`: what each changed, and `diff` how. `now` is in Unix
    seconds."""
    rows = tuple(_point_row(point, files(point.id), diff, now) for point in reversed(points))
    return Panel(
        "undo",
        ((("Undo  ", "strong"), (pluralize(len(rows), "point"), "dim")), ((LIMITS, "dim"),)),
        rows,
        LIST_KEYS,
        empty="No turn of this session has changed a file.",
        actions=(PanelAction(("enter",), "show", can=lambda row: not row.at_end),),
        reads=True,
        looks=True,
        min_width_beside=100,
        most=8,
    )


def _point_row(
    point: UndoPoint, files: Sequence[str], diff: Callable[[int], Awaitable[Sequence[Line]]], now: float
) -> PanelRow:
    kind = "" if point.kind == "turn" else f"{point.kind} of "
    line = f"{kind}{sanitised_line(point.title) or 'a turn'}  {pluralize(len(files), 'path')}  {age(now - point.at)}"
    return PanelRow(
        str(point.id), ((line, "dim" if point.is_undone else "text"),), content=LoadedText(diff, (point.id,)),
        at_end=("taken back", "dim") if point.is_undone else None,
    )  # fmt: skip


def change_lines(changes: Sequence[tuple[PathChange, bytes | None, bytes | None]]) -> tuple[Line, ...]:
    """What a point changed, file by file, each with its diff."""
    lines: list[Line] = []
    for change, before, after in changes:
        note = "; ".join(part for part in (change.doubt, _kinds(change.before, change.after)) if part)
        kinds = (change.before.kind, change.after.kind)
        what = "made" if kinds[0] == "absent" else "removed" if kinds[1] == "absent" else "changed"
        what += " (a folder)" if "folder" in kinds else ""
        lines.append(((sanitised_line(path_label(change.path)), "strong"), (f"  {what}", "dim")))
        lines += [((note, "warn"),)] if note else []
        if not {"large", "unreadable", "special", "unknown"}.isdisjoint(kinds):
            lines.append((("what it held is not kept", "dim"),))
        elif before != after:
            diff = [sanitised_line(line) for line in diff_lines(change.path, before, after)]
            lines += [((line, _INKS.get(line[:1], "dim")),) for line in diff if not line.startswith(("---", "+++"))]
        if len(lines) > MAX_DIFF_LINES:
            return (*lines[:MAX_DIFF_LINES], (("and more: Enter shows it file by file", "dim"),))
    return tuple(lines)


def restored_message(done: RestoreResult, *, is_redone: bool) -> str:
    """What the user is told afterwards, and what takes that back."""
    count, them = pluralize(len(done.files), "file"), "it" if len(done.files) == 1 else "them"
    told = (
        f"{count} changed again; `/undo` takes {them} back"
        if is_redone
        else f"{count} as before; `/redo` brings {them} back"
    )
    if done.staged:
        told += f". What is staged is as before, too, at {pluralize(done.staged, 'path')}"
    if done.left:
        paths = [sanitised_line(path_label(one.path)) for one in done.left]
        told += f". Left as they are: {join_limited(paths, MAX_NAMED_FILES)}"
    return told

"""The side panel beside the conversation: context, to-do list, changed files, servers and queue. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ebbtide.tools.outputs.extent import pluralize as so_many
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, Span, TextStyle
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.blocks import Block, Call, SessionView
from ebbtide.tui.view.file_changes import row_of
from ebbtide.tui.view.outcomes import diff_of
from ebbtide.tui.view.status import bar
from ebbtide.tui.view.todos import done_of, short_list, todos_in

if TYPE_CHECKING:  # types only
    from ebbtide.agent.context.control_calls import TodoItem
    from ebbtide.agent.records.file_change import FileChange

_MAX_TODO_ITEMS, _MAX_FILES, _MAX_SERVERS = 12, 14, 8
"""Maximum items shown of each kind."""
_FILES_HEAD: Span = ("Files  ", "strong")
_PHASES: dict[str, tuple[str, TextStyle]] = {
    "ready": ("●", "good"),
    "starting": ("○", "accent"),
    "failed": ("✗", "bad"),
}


@dataclass(frozen=True, slots=True)
class FileWork:
    """Lines added and removed in a file, call by call."""

    name: str
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    name: str
    phase: str
    tools: int


@dataclass(frozen=True, slots=True)
class SidePanelState:
    parts: tuple[tuple[str, int], ...] = ()
    used: int = 0
    room: int = 0
    is_guess: bool = False
    todos: "tuple[TodoItem, ...]" = ()
    files: tuple[FileWork, ...] = ()
    servers: tuple[ServerFacts, ...] = ()
    waiting: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.room or self.todos or self.files or self.servers or self.waiting)


@dataclass(frozen=True, slots=True)
class CallEffects:
    """The to-do list and changed files after some blocks."""

    todos: "tuple[TodoItem, ...] | None" = None
    files: tuple[FileWork, ...] = ()


def effects_of_calls(blocks: Sequence[Block]) -> CallEffects:
    files: dict[str, FileWork] = {}
    for block in blocks:
        if isinstance(block, Call) and block.changed:
            _add(files, block)
    return CallEffects(todos_in(blocks), tuple(files.values()))


def _add(files: dict[str, FileWork], call: Call) -> None:
    added, removed = count_changes(diff_of(call)) if len(call.changed) == 1 else (0, 0)
    for name in call.changed:
        before = files.get(name) or FileWork(name)
        files[name] = FileWork(name, before.added + added, before.removed + removed)


def works_of(changes: "Sequence[FileChange]") -> tuple[FileWork, ...]:
    """The current changes of the files; unchanged ones are left out."""
    rows = (row_of(change) for change in changes if change.unknown or change.before != change.now)
    return tuple(FileWork(row.name, row.added, row.removed) for row in rows)


def merge_effects(before: CallEffects, after: CallEffects) -> CallEffects:
    """Combine the effects of earlier and later blocks."""
    files = {file.name: file for file in before.files}
    for file in after.files:
        was = files.get(file.name) or FileWork(file.name)
        files[file.name] = FileWork(file.name, was.added + file.added, was.removed + file.removed)
    return CallEffects(before.todos if after.todos is None else after.todos, tuple(files.values()))


def side_of(view: SessionView, done: CallEffects, servers: tuple[ServerFacts, ...], waiting: int) -> SidePanelState:
    return SidePanelState(
        view.parts, view.used, view.room, view.is_guess, done.todos or (), done.files, servers, waiting
    )


def side_lines(side: SidePanelState, width: int) -> tuple[Line, ...]:
    """A heading and lines for each section with content."""
    sections = (_context(side), _todos(side), _files(side, width), _servers(side, width), _waiting(side))
    lines: tuple[Line, ...] = ()
    for section in sections:
        if section:
            lines = (*lines, ((" ", "text"),), *section) if lines else section
    return lines


def file_at(side: SidePanelState, lines: Sequence[Line], y: int) -> str | None:
    """The file at that line, empty for the section of all files, or None."""
    head = next((at for at, line in enumerate(lines) if line[0] == _FILES_HEAD), None)
    if head is None or not head <= y < head + len(_files(side, 1)):
        return None
    names = ["", *(file.name for file in side.files[-_MAX_FILES:][::-1])]
    return names[y - head] if y - head < len(names) else ""


def _context(side: SidePanelState) -> tuple[Line, ...]:
    head: Line = (("Context", "strong"),)
    if not side.room:
        return (head, (("nothing counted yet", "dim"),))
    used = f"{'~' if side.is_guess else ''}{tokens(side.used)}"
    share = f" {100 * side.used / side.room:.0f}%"
    cells = bar(side.parts or (("history", side.used),), side.room, side.used)
    return (head, (*cells, (share, "text"), (f"  {used} of {tokens(side.room)}", "dim")))


def _todos(side: SidePanelState) -> tuple[Line, ...]:
    if not side.todos:
        return ()
    return ((("To do  ", "strong"), (done_of(side.todos), "dim")), *short_list(side.todos, _MAX_TODO_ITEMS))


def _files(side: SidePanelState, width: int) -> tuple[Line, ...]:
    if not side.files:
        return ()
    added, removed = sum(file.added for file in side.files), sum(file.removed for file in side.files)
    shown = side.files[-_MAX_FILES:][::-1]
    rest = len(side.files) - len(shown)
    more: tuple[Line, ...] = (((f"… {so_many(rest, 'more file')}", "dim"),),) if rest else ()
    return ((_FILES_HEAD, (f"+{added} −{removed}", "dim")), *(_file(file, width) for file in shown), *more)


def _file(file: FileWork, width: int) -> Line:
    numbers: Line = ((f"+{file.added}", "good"), (f" −{file.removed}", "bad")) if file.added or file.removed else ()
    room = max(4, width - sum(cell_len(text) for text, _ in numbers) - 1)
    name = sanitised_line(file.name)
    while cell_len(name) > room and "/" in name.removeprefix("…/"):
        name = "…/" + name.removeprefix("…/").partition("/")[2]
    return ((f"{fit_width(name, room)} ", "text"), *numbers)


def _servers(side: SidePanelState, width: int) -> tuple[Line, ...]:
    if not side.servers:
        return ()
    lines: list[Line] = [(("Servers", "strong"),)]
    for server in side.servers[:_MAX_SERVERS]:
        mark, ink = _PHASES.get(server.phase, ("·", "dim"))
        said = so_many(server.tools, "tool") if server.phase == "ready" else server.phase
        room = max(4, width - cell_len(said) - 4)
        lines.append(((f"{mark} ", ink), (f"{fit_width(sanitised_line(server.name), room)}  ", "text"), (said, "dim")))
    rest = len(side.servers) - _MAX_SERVERS
    return (*lines, *((((f"… {rest} more", "dim"),),) if rest > 0 else ()))


def _waiting(side: SidePanelState) -> tuple[Line, ...]:
    return ((("Waiting  ", "strong"), (so_many(side.waiting, "message"), "dim")),) if side.waiting else ()

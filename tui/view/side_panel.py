"""The side panel next to the conversation: context, to-do list, changed files, servers and queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span, TextStyle
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.blocks import Block, Call, SessionView
from ebbtide.tui.view.file_changes import change_row
from ebbtide.tui.view.outcomes import call_diff
from ebbtide.tui.view.status import context_bar
from ebbtide.tui.view.todos import format_progress, todo_lines_around_current, todos_from_blocks

if TYPE_CHECKING:
    from ebbtide.agent.control_calls import TodoItem
    from ebbtide.agent.records.file_change import FileChange

_MAX_TODO_ITEMS, _MAX_FILES, _MAX_SERVERS = 12, 14, 8
"""Maximum number of items of each kind."""
_FILES_HEADING: Span = ("Files  ", "strong")
_PHASE_MARKS: dict[str, tuple[str, TextStyle]] = {
    "ready": ("●", "good"),
    "starting": ("○", "accent"),
    "failed": ("✗", "bad"),
}


@dataclass(frozen=True, slots=True)
class FileLineCounts:
    """How many lines calls have added to a file and removed from it."""

    name: str
    added_count: int = 0
    removed_count: int = 0


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """An MCP server as shown in the side panel."""

    name: str
    phase: str
    tool_count: int


@dataclass(frozen=True, slots=True)
class SidePanelState:
    component_tokens: tuple[tuple[str, int], ...] = ()
    used_tokens: int = 0
    available_tokens: int = 0
    is_estimate: bool = False
    todos: "tuple[TodoItem, ...]" = ()
    files: tuple[FileLineCounts, ...] = ()
    servers: tuple[ServerEntry, ...] = ()
    queued_count: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.available_tokens or self.todos or self.files or self.servers or self.queued_count)


@dataclass(frozen=True, slots=True)
class CallEffects:
    """The to-do list and changed files that result from some blocks."""

    todos: "tuple[TodoItem, ...] | None" = None
    files: tuple[FileLineCounts, ...] = ()


def collect_call_effects(blocks: Sequence[Block]) -> CallEffects:
    files: dict[str, FileLineCounts] = {}
    for block in blocks:
        if isinstance(block, Call) and block.changed_files:
            _add_changed_files(files, block)
    return CallEffects(todos_from_blocks(blocks), tuple(files.values()))


def _add_changed_files(files: dict[str, FileLineCounts], call: Call) -> None:
    added, removed = count_changes(call_diff(call)) if len(call.changed_files) == 1 else (0, 0)
    for name in call.changed_files:
        counts = files.get(name) or FileLineCounts(name)
        files[name] = FileLineCounts(name, counts.added_count + added, counts.removed_count + removed)


def file_line_counts(changes: "Sequence[FileChange]") -> tuple[FileLineCounts, ...]:
    """Count the added and removed lines of each file. Unchanged files are left out."""
    rows = (
        change_row(change)
        for change in changes
        if change.incomparable_reason or change.previous_content != change.current_content
    )
    return tuple(FileLineCounts(row.name, row.added_count, row.removed_count) for row in rows)


def merge_effects(earlier_effects: CallEffects, later_effects: CallEffects) -> CallEffects:
    """Combine the effects of earlier and later blocks."""
    files = {file.name: file for file in earlier_effects.files}
    for file in later_effects.files:
        earlier_counts = files.get(file.name) or FileLineCounts(file.name)
        files[file.name] = FileLineCounts(
            file.name, earlier_counts.added_count + file.added_count, earlier_counts.removed_count + file.removed_count
        )
    return CallEffects(
        earlier_effects.todos if later_effects.todos is None else later_effects.todos, tuple(files.values())
    )


def build_side_panel_state(
    view: SessionView, effects: CallEffects, servers: tuple[ServerEntry, ...], queued_count: int
) -> SidePanelState:
    return SidePanelState(
        view.component_tokens,
        view.used_tokens,
        view.available_tokens,
        view.is_estimate,
        effects.todos or (),
        effects.files,
        servers,
        queued_count,
    )


def side_panel_lines(state: SidePanelState, width: int) -> tuple[Line, ...]:
    """Format each section that has content, with a heading."""
    sections = (
        _context_lines(state),
        _todo_lines(state),
        _file_lines(state, width),
        _server_lines(state, width),
        _queue_lines(state),
    )
    lines: tuple[Line, ...] = ()
    for section in sections:
        if section:
            lines = (*lines, ((" ", "text"),), *section) if lines else section
    return lines


def file_at_line(state: SidePanelState, lines: Sequence[Line], y: int) -> str | None:
    """Get the name of the file on that line. Returns an empty string for other lines of the files section, and None
    outside it."""
    heading_index = next((index for index, line in enumerate(lines) if line[0] == _FILES_HEADING), None)
    if heading_index is None or not heading_index <= y < heading_index + len(_file_lines(state, 1)):
        return None
    names = ["", *(file.name for file in state.files[-_MAX_FILES:][::-1])]
    return names[y - heading_index] if y - heading_index < len(names) else ""


def _context_lines(state: SidePanelState) -> tuple[Line, ...]:
    heading: Line = (("Context", "strong"),)
    if not state.available_tokens:
        return (heading, (("not measured yet", "dim"),))
    used_text = f"{'~' if state.is_estimate else ''}{format_tokens(state.used_tokens)}"
    share = f" {100 * state.used_tokens / state.available_tokens:.0f}%"
    context_cells = context_bar(
        state.component_tokens or (("history", state.used_tokens),), state.available_tokens, state.used_tokens
    )
    return (
        heading,
        (*context_cells, (share, "text"), (f"  {used_text} of {format_tokens(state.available_tokens)}", "dim")),
    )


def _todo_lines(state: SidePanelState) -> tuple[Line, ...]:
    if not state.todos:
        return ()
    return (
        (("To do  ", "strong"), (format_progress(state.todos), "dim")),
        *todo_lines_around_current(state.todos, _MAX_TODO_ITEMS),
    )


def _file_lines(state: SidePanelState, width: int) -> tuple[Line, ...]:
    if not state.files:
        return ()
    added_count = sum(file.added_count for file in state.files)
    removed_count = sum(file.removed_count for file in state.files)
    visible_files = state.files[-_MAX_FILES:][::-1]
    hidden_count = len(state.files) - len(visible_files)
    more_line: tuple[Line, ...] = (((f"… {pluralize(hidden_count, 'more file')}", "dim"),),) if hidden_count else ()
    return (
        (_FILES_HEADING, (f"+{added_count} −{removed_count}", "dim")),
        *(_file_line(file, width) for file in visible_files),
        *more_line,
    )


def _file_line(file: FileLineCounts, width: int) -> Line:
    counts: Line = (
        ((f"+{file.added_count}", "good"), (f" −{file.removed_count}", "bad"))
        if file.added_count or file.removed_count
        else ()
    )
    name_width = max(4, width - sum(cell_len(text) for text, _ in counts) - 1)
    name = sanitise_line(file.name)
    while cell_len(name) > name_width and "/" in name.removeprefix("…/"):
        name = "…/" + name.removeprefix("…/").partition("/")[2]
    return ((f"{fit_width(name, name_width)} ", "text"), *counts)


def _server_lines(state: SidePanelState, width: int) -> tuple[Line, ...]:
    if not state.servers:
        return ()
    lines: list[Line] = [(("MCP servers", "strong"),)]
    for server in state.servers[:_MAX_SERVERS]:
        mark, style = _PHASE_MARKS.get(server.phase, ("·", "dim"))
        status = pluralize(server.tool_count, "tool") if server.phase == "ready" else server.phase.replace("_", " ")
        name_width = max(4, width - cell_len(status) - 4)
        lines.append(
            ((f"{mark} ", style), (f"{fit_width(sanitise_line(server.name), name_width)}  ", "text"), (status, "dim"))
        )
    hidden_count = len(state.servers) - _MAX_SERVERS
    return (*lines, *((((f"… {hidden_count} more", "dim"),),) if hidden_count > 0 else ()))


def _queue_lines(state: SidePanelState) -> tuple[Line, ...]:
    return ((("Queued  ", "strong"), (pluralize(state.queued_count, "message"), "dim")),) if state.queued_count else ()

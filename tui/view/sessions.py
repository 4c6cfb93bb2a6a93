"""The list of sessions: one line per session, and the last messages of the marked one."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_age, format_dollars
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.call_titles import call_title
from ebbtide.tui.view.panel import PanelRow

MIN_SIDE_BY_SIDE_WIDTH = 110
"""Minimum screen width, in columns, for showing the marked session beside the list."""
MAX_MESSAGE_LINES = 12
"""Maximum number of lines shown per message."""
_MIN_WIDTH_WITH_MODEL, _MIN_WIDTH_WITH_COST, _MIN_WIDTH_WITH_MESSAGES = 90, 76, 48
"""Minimum line widths at which the model, the cost and the number of messages are shown."""
MORE_AGENTS_SUFFIX = "+"
"""Suffix of a row's value if the row is for sub-agents that are not listed. Choosing the row lists them."""
MIN_TITLE_WIDTH = 24
"""Minimum width of the title, in columns, for tags to be shown next to it."""
NO_TITLE = "(no messages yet)"


def session_line(
    info: SessionInfo, width: int, now: float, current_id: str, ids_to_delete: Collection[str], *, shows_projects: bool
) -> Line:
    """Format a session as one line. `now` is in Unix seconds. `ids_to_delete`: sessions marked for deletion.
    `shows_projects`: whether the list contains sessions of several projects."""
    is_to_delete = info.id in ids_to_delete
    status_mark: tuple[str, TextStyle] = ("● ", "good") if info.id == current_id else ("  ", "dim")
    status_mark = (
        ("✗ ", "warn") if is_to_delete else ("↳ ", "accent") if info.parent and info.id != current_id else status_mark
    )
    indent = "  └ " if info.agent else ""
    right_columns = f"{format_age(now - info.updated_at).removesuffix(' ago'):>7}"
    if width >= _MIN_WIDTH_WITH_COST:
        right_columns = f"{format_dollars(info.cost):>8}{right_columns}"
    if width >= _MIN_WIDTH_WITH_MESSAGES:
        right_columns = f"{info.messages:>5} {'msg ' if info.messages == 1 else 'msgs'}{right_columns}"
    if width >= _MIN_WIDTH_WITH_MODEL:
        right_columns = f"{fit_width(sanitise_line(_model_or_origin(info)), 18)}{right_columns}"
    project_prefix = f"{sanitise_line(Path(info.project).name)}  " if shows_projects and not indent else ""
    left_width = max(4, width - 2 - cell_len(right_columns) - 2)
    full_title = f"{indent}{project_prefix}{_session_title(info)}"
    tags_column = f"  {tags_text(info.tags)}" if info.tags else ""
    if tags_column:
        tags_column = fit_width(
            tags_column, min(cell_len(tags_column), max(0, left_width - min(cell_len(full_title), MIN_TITLE_WIDTH)))
        )
    title = fit_width(full_title, min(cell_len(full_title), left_width - cell_len(tags_column)))
    gap = " " * (left_width - cell_len(title) - cell_len(tags_column))
    style: TextStyle = "dim" if is_to_delete else "strong" if info.id == current_id else "text"
    title_spans: Line = (
        ((title, style), (f"{tags_column}{gap}", "dim" if is_to_delete else "accent"))
        if tags_column
        else ((title + gap, style),)
    )
    return (status_mark, *title_spans, (f"  {right_columns}", "dim"))


def tags_text(tags: Sequence[str]) -> str:
    """Format tags as users see and type them."""
    return " ".join(f"#{sanitise_line(tag)}" for tag in tags)


def _session_title(info: SessionInfo) -> str:
    """Get the session's title. For a sub-agent, its name comes first."""
    return sanitise_line(f"{info.agent}  {info.title}" if info.agent else info.title) or NO_TITLE


def more_agents_row(info: SessionInfo, listed_count: int) -> PanelRow:
    """Build the row for the sub-agent sessions that are not listed."""
    return PanelRow(
        f"{info.id}{MORE_AGENTS_SUFFIX}",
        ((f"    └ … {pluralize(len(info.agents) - listed_count, 'more agent')}", "dim"),),
    )


def _model_or_origin(info: SessionInfo) -> str:
    """Get the model or, for an imported session that has not been continued, where it was imported from."""
    model = info.model.partition("/")[2] or info.model
    return model or (f"from {info.origin.partition(':')[0]}" if info.origin else "")


def deleted_message(info: SessionInfo) -> str:
    """Build the message to show after a deletion."""
    agents_text = f" and {pluralize(len(info.agents), 'agent session')}" if info.agents else ""
    return f"deleted {info.id}  {sanitise_line(info.title)}{agents_text}"


def session_details(info: SessionInfo, excerpt: str, messages: Sequence[Message]) -> tuple[Line, ...]:
    """Format the details of the marked session: names, the excerpt that matches the search, and the last messages."""
    return tuple(_detail_lines(info, excerpt, messages))


def _detail_lines(info: SessionInfo, excerpt: str, messages: Sequence[Message]) -> Iterator[Line]:
    yield ((sanitise_line(info.title) or NO_TITLE, "strong"),)
    yield ((f"{pluralize(info.messages, 'message')}  {format_dollars(info.cost)}  {info.id}", "dim"),)
    yield ((sanitise_line(info.model), "dim"),)
    yield ((sanitise_line(info.project), "dim"),)
    if info.tags:
        yield ((tags_text(info.tags), "accent"),)
    if info.parent:
        yield ((f"forked from {info.parent}", "accent"),)
    if info.agent:
        yield ((f"agent {sanitise_line(info.agent)} of {info.owner}, deleted together with it", "accent"),)
    if info.agents:
        yield ((f"{pluralize(len(info.agents), 'agent session')}", "accent"),)
    if info.origin:
        agent, _, original_id = info.origin.partition(":")
        yield ((f"imported from {agent} ({sanitise_line(original_id)})", "accent"),)
    if excerpt:
        yield ()
        yield (("found in", "accent"),)
        for line in sanitise(excerpt).splitlines():
            yield ((line, "text"),)
    for message in messages:
        yield from _format_message_lines(message)


def _format_message_lines(message: Message) -> Iterator[Line]:
    match message:
        case User() if message.text:
            yield ()
            yield from _message_text_lines(message.text, "› ", "strong")
        case Assistant():
            if message.text.strip():
                yield ()
                yield from _message_text_lines(message.text.strip(), "  ", "text")
            for call in message.calls:
                yield ((f"  ● {call_title(call.name, call.arguments)}", "dim"),)
        case _:
            return


def _message_text_lines(text: str, prefix: str, style: TextStyle) -> Iterator[Line]:
    lines = sanitise(text).splitlines()
    for index, line in enumerate(lines[:MAX_MESSAGE_LINES]):
        yield ((f"{prefix if index == 0 else '  '}{line}", style),)
    if len(lines) > MAX_MESSAGE_LINES:
        yield ((f"  … {pluralize(len(lines) - MAX_MESSAGE_LINES, 'more line')}", "dim"),)


def sessions_headline(
    listed_count: int,
    has_more: bool,
    *,
    includes_all_projects: bool,
    search_text: str,
    search_status: str,
    deletion_count: int,
) -> Line:
    """Build the heading: the number of sessions and where they are from, the progress of a search, and how many
    sessions will be deleted."""
    count_text = f"{listed_count:,}{'+' if has_more else ''}"
    found_note = " found" if search_text else ""
    scope_text = "all projects" if includes_all_projects else "this project"
    parts = [
        f"{count_text}{found_note} in {scope_text}",
        search_status,
        f"{deletion_count} to be deleted when you close this list" if deletion_count else "",
    ]
    return (("Sessions  ", "strong"), (" · ".join(filter(None, parts)), "dim"))

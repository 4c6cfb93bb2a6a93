"""The list of sessions: one line each, and the last messages of the marked one."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import age, dollars
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle
from ebbtide.tui.view.call_titles import title_of
from ebbtide.tui.view.panel import PanelRow

WIDE = 110
"""Minimum columns to show the marked session beside the list."""
MAX_MESSAGE_LINES = 12
"""Maximum lines of one message."""
_ROOM_FOR_MODEL, _ROOM_FOR_COST, _ROOM_FOR_MESSAGES = 90, 76, 48
"""Minimum widths for these columns."""
MORE = "+"
"""Suffix of the row value that expands a session's sub-agents."""
MIN_TITLE_WIDTH = 24
"""Minimum columns of the title beside the tags."""
NO_TITLE = "(nothing said yet)"


def session_line(
    info: SessionInfo, width: int, now: float, current: str, doomed: Collection[str], *, projects: bool
) -> Line:
    """`now` is in Unix seconds; `doomed`: ids of sessions to be deleted; `projects`: whether several projects are
    listed."""
    is_doomed = info.id in doomed
    mark: tuple[str, TextStyle] = ("● ", "good") if info.id == current else ("  ", "dim")
    mark = ("✗ ", "warn") if is_doomed else ("↳ ", "accent") if info.parent and info.id != current else mark
    inset = "  └ " if info.agent else ""
    after = f"{age(now - info.updated_at).removesuffix(' ago'):>7}"
    if width >= _ROOM_FOR_COST:
        after = f"{dollars(info.cost):>8}{after}"
    if width >= _ROOM_FOR_MESSAGES:
        after = f"{info.messages:>5} {'msg ' if info.messages == 1 else 'msgs'}{after}"
    if width >= _ROOM_FOR_MODEL:
        after = f"{fit_width(sanitised_line(_model_or_origin(info)), 18)}{after}"
    before = f"{sanitised_line(Path(info.project).name)}  " if projects and not inset else ""
    room = max(4, width - 2 - cell_len(after) - 2)
    whole = f"{inset}{before}{_title(info)}"
    tags = f"  {tags_text(info.tags)}" if info.tags else ""
    if tags:
        tags = fit_width(tags, min(cell_len(tags), max(0, room - min(cell_len(whole), MIN_TITLE_WIDTH))))
    title = fit_width(whole, min(cell_len(whole), room - cell_len(tags)))
    gap = " " * (room - cell_len(title) - cell_len(tags))
    ink: TextStyle = "dim" if is_doomed else "strong" if info.id == current else "text"
    shown: Line = ((title, ink), (f"{tags}{gap}", "dim" if is_doomed else "accent")) if tags else ((title + gap, ink),)
    return (mark, *shown, (f"  {after}", "dim"))


def tags_text(tags: Sequence[str]) -> str:
    """Tags as shown and typed."""
    return " ".join(f"#{sanitised_line(tag)}" for tag in tags)


def _title(info: SessionInfo) -> str:
    """The title, with the name of a sub-agent."""
    return sanitised_line(f"{info.agent}  {info.title}" if info.agent else info.title) or NO_TITLE


def more_agents(info: SessionInfo, shown: int) -> PanelRow:
    """A row for the remaining sub-agent sessions."""
    return PanelRow(f"{info.id}{MORE}", ((f"    └ … {pluralize(len(info.agents) - shown, 'more agent')}", "dim"),))


def _model_or_origin(info: SessionInfo) -> str:
    """An imported session has no model until it is continued."""
    model = info.model.partition("/")[2] or info.model
    return model or (f"from {info.origin.partition(':')[0]}" if info.origin else "")


def session_words(info: SessionInfo, now: float) -> str:
    """The session in one line, for line mode."""
    said, since = pluralize(info.messages, "message"), age(now - info.updated_at)
    who = f"agent {info.agent}: " if info.agent else ""
    tags = f", {tags_text(info.tags)}" if info.tags else ""
    return sanitised_line(f"{who}{info.title or NO_TITLE}{tags}, {since}, {said}, {_model_or_origin(info)}, {info.id}")


def deleted_message(info: SessionInfo) -> str:
    """The message after a deletion."""
    agents = f", with {pluralize(len(info.agents), 'session')} of its agents" if info.agents else ""
    return f"deleted {info.id}  {sanitised_line(info.title)}{agents}"


def about_lines(info: SessionInfo, excerpt: str, messages: Sequence[Message]) -> tuple[Line, ...]:
    """The details of the marked session: names, why it was found, and the last messages."""
    return tuple(_about(info, excerpt, messages))


def _about(info: SessionInfo, excerpt: str, messages: Sequence[Message]) -> Iterator[Line]:
    yield ((sanitised_line(info.title) or NO_TITLE, "strong"),)
    yield ((f"{pluralize(info.messages, 'message')}  {dollars(info.cost)}  {info.id}", "dim"),)
    yield ((sanitised_line(info.model), "dim"),)
    yield ((sanitised_line(info.project), "dim"),)
    if info.tags:
        yield ((tags_text(info.tags), "accent"),)
    if info.parent:
        yield ((f"forked from {info.parent}", "accent"),)
    if info.agent:
        yield ((f"the agent {sanitised_line(info.agent)} of {info.owner}, with which it is deleted", "accent"),)
    if info.agents:
        yield ((f"{pluralize(len(info.agents), 'session')} of its agents", "accent"),)
    if info.origin:
        agent, _, theirs = info.origin.partition(":")
        yield ((f"imported from {agent}, where it is {sanitised_line(theirs)}", "accent"),)
    if excerpt:
        yield ()
        yield (("found in", "accent"),)
        for line in sanitised(excerpt).splitlines():
            yield ((line, "text"),)
    for message in messages:
        yield from _message_lines(message)


def _message_lines(message: Message) -> Iterator[Line]:
    match message:
        case User() if message.text:
            yield ()
            yield from _text(message.text, "› ", "strong")
        case Assistant():
            if message.text.strip():
                yield ()
                yield from _text(message.text.strip(), "  ", "text")
            for call in message.calls:
                yield ((f"  ● {title_of(call.name, call.arguments)}", "dim"),)
        case _:
            return


def _text(text: str, mark: str, ink: TextStyle) -> Iterator[Line]:
    lines = sanitised(text).splitlines()
    for number, line in enumerate(lines[:MAX_MESSAGE_LINES]):
        yield ((f"{mark if number == 0 else '  '}{line}", ink),)
    if len(lines) > MAX_MESSAGE_LINES:
        yield ((f"  … {pluralize(len(lines) - MAX_MESSAGE_LINES, 'more line')}", "dim"),)


def headline(listed: int, more: bool, *, everywhere: bool, words: str, searching: str, doomed: int) -> Line:
    """The number of sessions, where, and what is pending."""
    number = f"{listed:,}{'+' if more else ''}"
    what = "found" if words else "listed"
    where = "of all projects" if everywhere else "of this project"
    parts = [
        f"{number} {what}, {where}",
        searching,
        f"{doomed} to be deleted when you close this list" if doomed else "",
    ]
    return (("Sessions  ", "strong"), (" · ".join(filter(None, parts)), "dim"))

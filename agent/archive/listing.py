"""Lists what a session has stored: its outputs, and messages that left the view. Listing does not count as access."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.reference_parts import encode_text
from ebbtide.agent.context.mask import message_key, one_line
from ebbtide.agent.context.message_text import message_text
from ebbtide.agent.context.references import message_ref
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.context.view_items import ViewState, view_parts
from ebbtide.agent.messages import Assistant, Conversation, Message, ToolCall, User
from ebbtide.agent.records.damage import try_decode_message, unreadable
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.session_rows import MessageRow, OutputRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.stored import Content

ArchiveState: TypeAlias = ViewState | Literal["removed"]
"""Whether the model sees it; `summarised` also if it left the view; `removed` if its bytes are gone."""

MAX_LISTED_OUTPUTS = 5_000
"""Newest outputs that are listed."""
LONGEST_LINE = 1_000
"""Longest line on a page, in bytes."""
MOST_LOOKED_AT = 1 << 18
"""Bytes in which a text is searched: as many as are indexed."""
_MAX_PREVIEW_CHARS = 400


@dataclass(frozen=True, slots=True)
class ArchiveItem:
    """One stored item."""

    ref: str
    state: ArchiveState
    size: int
    lines: int
    created: float
    """Unix seconds."""
    call: ToolCall | None = None
    """The call that an output answers."""
    preview: str = ""
    """The beginning of a message."""
    role: str = ""
    """The author of a message."""
    accesses: int = 0
    """How often its reference was looked up."""
    accessed: float | None = None
    """When it was last looked up, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class ContentPage:
    """Some lines of a content."""

    lines: tuple[str, ...]
    first: int
    """The number of the first line, from 1."""
    total: int
    """The total number of lines."""


class ArchiveListing:
    """The listing of one session. Methods raise `AgentError`."""

    def __init__(self, thread: StoreThread, store: SessionStore, archive: Archive, session: str) -> None:
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session

    async def entries(self, view: Conversation) -> tuple[ArchiveItem, ...]:
        """All stored items, newest first. `view`: what the model is shown, with all messages so far."""
        return await self._thread.run(self._entries, view)

    def _entries(self, view: Conversation) -> tuple[ArchiveItem, ...]:
        everything = ArchiveStore(self._store).all(self._session)
        rows = [row for row in everything if row.part == 0]
        listed = {(row.position, row.call): [row] for row in rows[-MAX_LISTED_OUTPUTS:]}
        for row in everything:
            if row.part and (parts := listed.get((row.position, row.call))) is not None:
                parts.append(row)
        first = rows[-MAX_LISTED_OUTPUTS].position - 1 if len(rows) > MAX_LISTED_OUTPUTS else 0
        messages = self._store.messages(self._session, first)
        start = (messages[-1].position + 1 if messages else 0) - len(view.messages)
        from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs search nothing

        looked_up = SearchIndex(self._store).accesses(self._session)
        return tuple(reversed([*_archived_items(messages, start, listed, view, looked_up)]))

    async def page(self, ref: str, first: int, count: int) -> ContentPage:
        """Lines of a reference's content. A first line beyond the end is moved back to fill a page."""
        located = await self._archive.resolve(ref)
        if not located.media_type.startswith("text/"):
            told = f"{located.media_type}, {pluralize(located.size, 'byte')}"
            return ContentPage((f"({told}; `ebb sessions show {self._session} {ref} > FILE` saves it)",), 1, 1)
        with closing(await self._archive.peek(located)) as content:
            first = max(1, min(first, content.lines - count + 1))
            return ContentPage(await self._thread.run(_lines, content, first, count), first, content.lines)

    async def line_of(self, ref: str, text: str) -> int:
        """The number of the first line that contains a text, ignoring case; 1 if the beginning of the content does
        not contain it."""
        located = await self._archive.resolve(ref)
        if not located.media_type.startswith("text/"):
            return 1
        with closing(await self._archive.peek(located)) as content:
            data = await self._thread.run(content.read, 0, MOST_LOOKED_AT)
        before, found, _ = data.decode("utf-8", "replace").lower().partition(text.lower())
        return before.count("\n") + 1 if found else 1


def _archived_items(
    rows: Sequence[MessageRow],
    start: int,
    listed: dict[tuple[int, str], list[OutputRow]],
    view: Conversation,
    looked_up: Mapping[str, tuple[int, float]],
) -> Iterator[ArchiveItem]:
    calls: dict[str, ToolCall] = {}
    states = {part.key: part.state for part in view_parts(replace(view, messages_before=start))}
    for row in rows:
        message = try_decode_message(row)
        if message is None:
            yield from _damaged_items(row, start, listed)
            calls = {}
            continue
        if row.position < start:
            yield from _departed_items(message, row, "summarised", looked_up)
        elif states[message_key(row.position)] != "visible":
            yield from _departed_items(message, row, states[message_key(row.position)], looked_up)
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            for kept in reversed(listed.get((row.position, output.call_id), ())):
                if 0 < kept.part <= len(output.images):
                    continue  # it is shown with its output, or left the view with it
                state = _state(kept, states.get(f"r{kept.number}", "summarised"))
                call = executed_call(calls.get(output.call_id) or ToolCall(output.call_id, kept.tool, {}), output)
                ref = f"r{kept.number}:tool-{kept.part}" if kept.part else f"r{kept.number}"
                # How a program ended is read together with its output, so it counts as part of that.
                frame = output.frame if kept.digest is not None and not kept.part else ""
                size, lines = kept.size + len(encode_text(frame)), kept.lines + len(frame.splitlines())
                yield ArchiveItem(ref, state, size, lines, kept.created, call, "", "", kept.accesses, kept.accessed)


def _damaged_items(
    row: MessageRow, start: int, listed: dict[tuple[int, str], list[OutputRow]]
) -> Iterator[ArchiveItem]:
    """An unreadable message, and its separately stored outputs."""
    state: ArchiveState = "summarised" if row.position < start else "visible"
    size = len(row.body.encode("utf-8", "surrogatepass"))
    yield ArchiveItem(f"message-{row.position}", state, size, 1, row.created, None, unreadable(row.position), "damaged")
    for kept in (one for (position, _), parts in listed.items() if position == row.position for one in parts):
        if kept.digest is not None:
            ref = f"r{kept.number}:tool-{kept.part}" if kept.part else f"r{kept.number}"
            yield ArchiveItem(ref, state, kept.size, kept.lines, kept.created, ToolCall(kept.call, kept.tool, {}))


def _departed_items(
    message: Message, row: MessageRow, state: ArchiveState, looked_up: Mapping[str, tuple[int, float]]
) -> Iterator[ArchiveItem]:
    """A message with text that left the view, in whole or in part."""
    if message.text:
        text = message_text(message)
        size, lines = len(text.encode("utf-8", "surrogatepass")), text.count("\n") + 1
        said = one_line(message.text[: 4 * _MAX_PREVIEW_CHARS], _MAX_PREVIEW_CHARS)
        role = "you" if isinstance(message, User) else "model"
        yield ArchiveItem(
            message_ref(message),
            state,
            size,
            lines,
            row.created,
            None,
            said,
            role,
            *looked_up.get(f"m{row.position}", ()),
        )


def _state(kept: OutputRow, state: ViewState) -> ArchiveState:
    """The state of a stored part. `state`: that of its output."""
    if kept.removed is not None:
        return "removed"
    return "preview" if kept.part and state == "visible" else state


def _lines(content: Content, first: int, count: int) -> tuple[str, ...]:
    shown, at = list[str](), content.line_start(first)
    for _ in range(min(count, content.lines - first + 1)):
        end = content.line_end(at)
        shown.append(content.read(at, min(end - at, LONGEST_LINE)).decode("utf-8", "replace"))
        at = end + 1
    return tuple(shown)

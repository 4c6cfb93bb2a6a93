"""Lists what a session has stored: its outputs, and messages that left the view. Listing an item does not count as an
access."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.reference_parts import encode_text
from ebbtide.agent.messages import Assistant, Conversation, Message, ToolCall, User
from ebbtide.agent.records.damage import decode_message_or_none, unreadable_message_error
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.items import ViewState, view_parts
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.references import message_ref
from ebbtide.agent.view.stubs import one_line
from ebbtide.agent.view.visible import message_key
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.session_rows import MessageRow, OutputRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.stored_content import Content

ArchiveState: TypeAlias = ViewState | Literal["removed"]
"""How the model sees the item. `summarised` also covers items that left the view; `removed` means that the item's
content was deleted."""

MAX_LISTED_OUTPUTS = 5_000
"""Maximum number of outputs that are listed, newest first."""
MAX_LINE_BYTES = 1_000
"""Longest line on a page, in bytes."""
MAX_SEARCHED_BYTES = 1 << 18
"""Maximum number of bytes that `find_line` searches. It is as large as the indexed part of an output."""
_MAX_PREVIEW_CHARS = 400


@dataclass(frozen=True, slots=True)
class ArchiveItem:
    """One stored item."""

    ref: str
    state: ArchiveState
    size: int
    line_count: int
    created_at: float
    """Unix seconds."""
    call: ToolCall | None = None
    """The call that produced the output."""
    preview: str = ""
    """The beginning of a message."""
    role: str = ""
    """The author of a message."""
    access_count: int = 0
    """How often the item was looked up."""
    accessed_at: float | None = None
    """When the item was last looked up, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class ContentPage:
    """A range of lines from an item's content."""

    lines: tuple[str, ...]
    first_line: int
    """The first line's number, counted from 1."""
    line_count: int
    """The total number of lines."""


class ArchiveListing:
    """The listing of one session. Methods raise `AgentError`."""

    def __init__(self, thread: StoreThread, store: SessionStore, archive: Archive, session: str) -> None:
        self._thread = thread
        self._store = store
        self._archive = archive
        self._session = session

    async def items(self, view: Conversation) -> tuple[ArchiveItem, ...]:
        """Return all stored items, newest first. `view`: the conversation as the model sees it, with all messages so
        far."""
        return await self._thread.run(self._entries, view)

    def _entries(self, view: Conversation) -> tuple[ArchiveItem, ...]:
        all_parts = ArchiveStore(self._store).all_output_parts(self._session)
        outputs = [row for row in all_parts if row.part == 0]
        parts_by_output = {(row.position, row.call): [row] for row in outputs[-MAX_LISTED_OUTPUTS:]}
        for row in all_parts:
            if row.part and (parts := parts_by_output.get((row.position, row.call))) is not None:
                parts.append(row)
        first_position = outputs[-MAX_LISTED_OUTPUTS].position - 1 if len(outputs) > MAX_LISTED_OUTPUTS else 0
        messages = self._store.messages(self._session, first_position)
        start = (messages[-1].position + 1 if messages else 0) - len(view.messages)
        from ebbtide.store.search import SearchIndex  # noqa: PLC0415  # deferred: most runs search nothing

        access_counts = SearchIndex(self._store).accesses(self._session)
        return tuple(reversed([*_build_archived_items(messages, start, parts_by_output, view, access_counts)]))

    async def page(self, ref: str, first_line: int, count: int) -> ContentPage:
        """Return `count` lines of a reference's content, beginning at line `first_line`. If too few lines follow, begin
        earlier to fill the page."""
        resolved = await self._archive.resolve(ref)
        if not resolved.media_type.startswith("text/"):
            description = f"{resolved.media_type}, {pluralize(resolved.size, 'byte')}"
            return ContentPage((f"({description}; `ebb sessions show {self._session} {ref} > FILE` saves it)",), 1, 1)
        with closing(await self._archive.peek(resolved)) as content:
            first_line = max(1, min(first_line, content.lines - count + 1))
            return ContentPage(
                await self._thread.run(_read_lines, content, first_line, count), first_line, content.lines
            )

    async def find_line(self, ref: str, text: str) -> int:
        """Return the number of the first line that contains `text`, ignoring case. Only the beginning of the content is
        searched; return 1 if it does not contain the text."""
        resolved = await self._archive.resolve(ref)
        if not resolved.media_type.startswith("text/"):
            return 1
        with closing(await self._archive.peek(resolved)) as content:
            data = await self._thread.run(content.read, 0, MAX_SEARCHED_BYTES)
        text_before, match, _ = data.decode("utf-8", "replace").lower().partition(text.lower())
        return text_before.count("\n") + 1 if match else 1


def _build_archived_items(
    rows: Sequence[MessageRow],
    start: int,
    parts_by_output: dict[tuple[int, str], list[OutputRow]],
    view: Conversation,
    access_counts: Mapping[str, tuple[int, float]],
) -> Iterator[ArchiveItem]:
    calls: dict[str, ToolCall] = {}
    states = {part.key: part.state for part in view_parts(replace(view, messages_before=start))}
    for row in rows:
        message = decode_message_or_none(row)
        if message is None:
            yield from _damaged_items(row, start, parts_by_output)
            calls = {}
            continue
        if row.position < start:
            yield from _build_message_items(message, row, "summarised", access_counts)
        elif states[message_key(row.position)] != "visible":
            yield from _build_message_items(message, row, states[message_key(row.position)], access_counts)
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            for output_row in reversed(parts_by_output.get((row.position, output.call_id), ())):
                if 0 < output_row.part <= len(output.images):
                    continue  # the image is listed as part of its output
                state = _part_state(output_row, states.get(f"r{output_row.number}", "summarised"))
                call = executed_call(calls.get(output.call_id) or ToolCall(output.call_id, output_row.tool, {}), output)
                ref = f"r{output_row.number}:tool-{output_row.part}" if output_row.part else f"r{output_row.number}"
                # The frame, such as a program's exit status, is read together with the output, so it counts as part of
                # it.
                frame = output.frame if output_row.digest is not None and not output_row.part else ""
                size, line_count = output_row.size + len(encode_text(frame)), output_row.lines + len(frame.splitlines())
                yield ArchiveItem(
                    ref,
                    state,
                    size,
                    line_count,
                    output_row.created,
                    call,
                    "",
                    "",
                    output_row.accesses,
                    output_row.accessed,
                )


def _damaged_items(
    row: MessageRow, start: int, parts_by_output: dict[tuple[int, str], list[OutputRow]]
) -> Iterator[ArchiveItem]:
    """Yield an item for an unreadable message, and for each of its separately stored outputs."""
    state: ArchiveState = "summarised" if row.position < start else "visible"
    size = len(row.body.encode("utf-8", "surrogatepass"))
    yield ArchiveItem(
        f"message-{row.position}", state, size, 1, row.created, None, unreadable_message_error(row.position), "damaged"
    )
    for output_row in (
        part for (position, _), parts in parts_by_output.items() if position == row.position for part in parts
    ):
        if output_row.digest is not None:
            ref = f"r{output_row.number}:tool-{output_row.part}" if output_row.part else f"r{output_row.number}"
            yield ArchiveItem(
                ref,
                state,
                output_row.size,
                output_row.lines,
                output_row.created,
                ToolCall(output_row.call, output_row.tool, {}),
            )


def _build_message_items(
    message: Message, row: MessageRow, state: ArchiveState, access_counts: Mapping[str, tuple[int, float]]
) -> Iterator[ArchiveItem]:
    """Yield an item for a message that has left the view, in whole or in part, if it has text."""
    if message.text:
        text = message_text(message)
        size, line_count = len(text.encode("utf-8", "surrogatepass")), text.count("\n") + 1
        preview = one_line(message.text[: 4 * _MAX_PREVIEW_CHARS], _MAX_PREVIEW_CHARS)
        role = "you" if isinstance(message, User) else "model"
        yield ArchiveItem(
            message_ref(message),
            state,
            size,
            line_count,
            row.created,
            None,
            preview,
            role,
            *access_counts.get(f"m{row.position}", ()),
        )


def _part_state(part: OutputRow, state: ViewState) -> ArchiveState:
    """Return the state of a stored part. `state`: the state of its output."""
    if part.removed is not None:
        return "removed"
    return "preview" if part.part and state == "visible" else state


def _read_lines(content: Content, first_line: int, count: int) -> tuple[str, ...]:
    lines, offset = list[str](), content.line_start(first_line)
    for _ in range(min(count, content.lines - first_line + 1)):
        end = content.line_end(offset)
        lines.append(content.read(offset, min(end - offset, MAX_LINE_BYTES)).decode("utf-8", "replace"))
        offset = end + 1
    return tuple(lines)

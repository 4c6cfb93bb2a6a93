"""Loads a stored session: the view with the messages added since, the session state, and the progress of calls."""

from collections.abc import Mapping
from dataclasses import replace

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Conversation
from ebbtide.agent.records.rows import CALL_FACT_KIND, decode_request_mark, decode_session_state, decode_snapshot
from ebbtide.agent.records.session_log import SessionLog
from ebbtide.agent.records.session_state import SessionState
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.archive import ArchiveStore
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass

UNREADABLE_SNAPSHOT = "the session's snapshot could not be read; the model sees all messages again"


@dataclass(frozen=True, slots=True)
class StoredView:
    """A conversation as it was stored."""

    conversation: Conversation
    message_count: int
    """Number of messages in the session, including those that are not in the view."""
    last_request: RequestRecord | None
    """The last request recorded in the snapshot; None if there is none."""
    problems: tuple[str, ...]
    """A sentence for the user about each piece of data that could not be read."""


async def load_view(thread: StoreThread, store: SessionStore, session_id: str, log: SessionLog) -> StoredView:
    """Load the view in the last snapshot, and the messages since then. If there is no usable snapshot, load all
    messages. Raises `StoreFailed`."""
    problems = list[str]()
    start, conversation, last_request = await _load_snapshot(thread, store, session_id, problems)
    messages, message_count = await log.load_messages(start)
    if start and not await log.can_view_start(start, messages):
        problems.append(UNREADABLE_SNAPSHOT)
        start, conversation = 0, Conversation()
        messages, message_count = await log.load_messages(start)
    if log.damage_text:
        problems.append(log.damage_text)
    if conversation.anchored > len(messages):
        conversation = replace(conversation, anchor=None, anchored=0)  # the anchor includes messages that are lost
    outputs_before = conversation.outputs_before
    if start and not outputs_before:  # earlier versions did not store this count
        outputs_before = await thread.run(ArchiveStore(store).count_outputs_before, session_id, start)
    conversation = replace(conversation, messages=messages, outputs_before=outputs_before, messages_before=start)
    return StoredView(conversation, message_count, last_request, tuple(problems))


async def _load_snapshot(
    thread: StoreThread, store: SessionStore, session_id: str, problems: list[str]
) -> tuple[int, Conversation, RequestRecord | None]:
    """Return the position of the first message in the view, the view without its messages, and the last request."""
    try:
        snapshot = await thread.run(store.snapshot, session_id)
    except StoreFailed as error:
        problems.append(f"{UNREADABLE_SNAPSHOT}: {error}")
        return 0, Conversation(), None
    if snapshot is None:
        return 0, Conversation(), None
    decoded = decode_snapshot(snapshot.body)
    if decoded is None:
        problems.append(UNREADABLE_SNAPSHOT)
    return *(decoded or (0, Conversation())), decode_request_mark(snapshot.body)


async def load_session_state(
    thread: StoreThread, store: SessionStore, session_id: str, problems: list[str]
) -> SessionState:
    """Return the stored session state. If it cannot be read, add a sentence to `problems`."""
    try:
        return decode_session_state(await thread.run(store.all_facts, session_id))
    except StoreFailed as error:
        problems.append(f"seen files, todos and background jobs of the session could not be restored: {error}")
        return SessionState()


async def load_call_states(thread: StoreThread, store: SessionStore, session_id: str) -> Mapping[str, str]:
    """Return the stored progress of the last step's calls, encoded, by call id. Calls without stored progress count as
    interrupted."""
    try:
        return {row.key: row.body for row in await thread.run(store.facts, session_id, CALL_FACT_KIND)}
    except StoreFailed:
        return {}

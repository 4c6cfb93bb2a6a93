"""Forks a session at a message, with its view and session state at that point, so that the fork's requests keep the
cached prefix. Call these functions in the store's thread."""

import re
from collections.abc import Mapping
from dataclasses import replace

from ebbtide.agent.control_calls import todo_state
from ebbtide.agent.messages import Conversation, Message, Recalls, User
from ebbtide.agent.records.damage import restore_messages
from ebbtide.agent.records.rows import (
    decode_request_mark,
    decode_snapshot,
    decode_summary_row,
    encode_snapshot,
    state_changes,
)
from ebbtide.agent.records.session_state import SessionState, with_todos
from ebbtide.agent.records.turn_endings import endings_before
from ebbtide.agent.view.visible import count_outputs
from ebbtide.store.archive import REMOVED_OUTPUT_FACT, ArchiveStore
from ebbtide.store.catalogue import TAG_FACT
from ebbtide.store.file_versions import change_facts_before
from ebbtide.store.forks import ForkStore
from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore

_TODO_CALL_MARKER = '"name":"todo"'
"""A string that occurs in the stored body of every message that calls `todo`."""
_ITEM_KEY = re.compile(r"([rm])(\d+)")


def fork_session(store: SessionStore, parent: SessionRow, new: SessionRow) -> SessionRow:
    """Create a session with the first `new.forked` messages of its parent, which stays unchanged. `new` provides the
    id, title and times."""
    message_count = min(parent.messages if new.forked is None else new.forked, parent.messages)
    row = replace(
        parent,
        id=new.id,
        title=new.title,
        created=new.created,
        updated=new.updated,
        messages=message_count,
        parent=parent.id,
        forked=message_count,
        family=parent.family or parent.id,
        draft=new.draft,
        owner=None,
        agent=None,
    )
    ForkStore(store).fork(row, _restore_view_at(store, parent, message_count), _facts_at(store, parent, message_count))
    return row


def _restore_view_at(store: SessionStore, parent: SessionRow, message_count: int) -> SnapshotRow | None:
    """Return the last view that was sent while the session had `message_count` messages; None if all messages were
    visible."""
    snapshot = store.snapshot(parent.id)
    bodies = [snapshot.body] if snapshot is not None else []
    bodies += [row.body for row in store.views(parent.id)]
    for body in bodies:
        decoded = decode_snapshot(body)
        if decoded is not None and decoded[0] <= message_count:
            start, view = decoded
            request_mark = decode_request_mark(body)
            if request_mark is not None and message_count < parent.messages:
                request_mark = replace(request_mark, messages="", count=0)
            return SnapshotRow(
                message_count,
                encode_snapshot(
                    _truncate_view(view, _messages(store, parent.id, start, message_count), start),
                    message_count,
                    request_mark,
                ),
            )
    archive = ArchiveStore(store)
    earlier_summaries = [row for row in archive.summaries(parent.id) if row.position <= message_count]
    if not earlier_summaries:
        return None
    last_summary = earlier_summaries[-1]
    view = Conversation(
        _messages(store, parent.id, last_summary.position, message_count),
        decode_summary_row(last_summary),
        outputs_before=archive.count_outputs_before(parent.id, last_summary.position),
    )
    return SnapshotRow(message_count, encode_snapshot(view, message_count))


def _messages(store: SessionStore, session: str, start: int, end: int) -> tuple[Message, ...]:
    return restore_messages(store.messages_before(session, end, end - start)).messages if end > start else ()


def _truncate_view(view: Conversation, messages: tuple[Message, ...], start: int) -> Conversation:
    """Limit the view to these messages, without anything that later messages added."""
    visible_calls = {output.call_id for message in messages if isinstance(message, User) for output in message.outputs}
    truncated = replace(view, messages=messages, masked=view.masked & visible_calls, min_rewrite_size=0)
    if view.anchored > len(messages):
        truncated = replace(truncated, anchor=None, anchored=0)
    bounds = {"m": start + len(messages), "r": count_outputs(truncated) + 1}
    return replace(
        truncated,
        pinned=frozenset(key for key in view.pinned if _is_before(key, bounds)),
        retold=tuple(item for item in view.retold if _is_before(item.key, bounds)),
        recalls=Recalls(
            view.recalls.left, {key: content for key, content in view.recalls.back.items() if _is_before(key, bounds)}
        ),
    )


def _is_before(key: str, bounds: Mapping[str, int]) -> bool:
    match = _ITEM_KEY.fullmatch(key)
    return match is None or int(match[2]) < bounds[match[1]]


def _facts_at(store: SessionStore, parent: SessionRow, message_count: int) -> tuple[FactRow, ...]:
    """Return the session state as it was when the parent had `message_count` messages, and the file changes recorded by
    then. The files themselves stay unchanged. Background jobs stay with the parent. The set of seen files is the
    current one, because its history is not stored."""
    facts = tuple(fact for fact in store.all_facts(parent.id) if fact.kind != "job")
    if message_count >= parent.messages:
        return facts
    step_messages: list[Message] = []
    for position, _, _ in ForkStore(store).messages_containing(parent.id, "assistant", _TODO_CALL_MARKER):
        if position + 1 < message_count:
            step_messages += _messages(store, parent.id, position, position + 2)
    state_facts, _ = state_changes(SessionState(), with_todos(SessionState(), todo_state(step_messages)))
    lasting_facts = (fact for fact in facts if fact.kind in ("former", TAG_FACT, REMOVED_OUTPUT_FACT))
    return (
        *lasting_facts,
        *state_facts,
        *change_facts_before(store, parent.id, message_count),
        *endings_before(facts, message_count),
    )

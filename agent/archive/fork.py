"""Forks a session, keeping the prefix of its requests: with the view and session state at some message. Call it in
the store's thread."""

import re
from collections.abc import Mapping
from dataclasses import replace

from ebbtide.agent.context.control_calls import todo_state
from ebbtide.agent.context.mask import outputs_so_far
from ebbtide.agent.messages import Conversation, Message, Recalls, User
from ebbtide.agent.records.damage import readable
from ebbtide.agent.records.rows import changes_of, decode_mark, decode_snapshot, encode_snapshot, read_summary
from ebbtide.agent.records.session_state import SessionState, with_todos
from ebbtide.agent.records.turn_endings import endings_before
from ebbtide.store.archive import REMOVED_OUTPUT, ArchiveStore
from ebbtide.store.catalogue import TAG
from ebbtide.store.file_versions import facts_before
from ebbtide.store.forks import Forks
from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore

_TODO = '"name":"todo"'
"""In the body of every message that calls `todo`."""
_KEY = re.compile(r"([rm])(\d+)")


def fork_session(store: SessionStore, parent: SessionRow, new: SessionRow) -> SessionRow:
    """Create a session with the first `new.forked` messages of its parent, which is unchanged. Id, title and times
    are those of `new`."""
    at = min(parent.messages if new.forked is None else new.forked, parent.messages)
    row = replace(
        parent,
        id=new.id,
        title=new.title,
        created=new.created,
        updated=new.updated,
        messages=at,
        parent=parent.id,
        forked=at,
        family=parent.family or parent.id,
        draft=new.draft,
        owner=None,
        agent=None,
    )
    Forks(store).fork(row, _view_at(store, parent, at), _facts_at(store, parent, at))
    return row


def _view_at(store: SessionStore, parent: SessionRow, at: int) -> SnapshotRow | None:
    """The view that the model had at `at` messages, in the form that was sent last."""
    now = store.snapshot(parent.id)
    bodies = [now.body] if now is not None else []
    bodies += [row.body for row in store.views(parent.id)]
    for body in bodies:
        decoded = decode_snapshot(body)
        if decoded is not None and decoded[0] <= at:
            start, view = decoded
            mark = decode_mark(body)
            if mark is not None and at < parent.messages:
                mark = replace(mark, messages="", count=0)
            return SnapshotRow(
                at, encode_snapshot(_truncate_view(view, _messages(store, parent.id, start, at), start), at, mark)
            )
    archive = ArchiveStore(store)
    earlier = [row for row in archive.summaries(parent.id) if row.position <= at]
    if not earlier:
        return None
    last = earlier[-1]
    view = Conversation(
        _messages(store, parent.id, last.position, at),
        read_summary(last),
        outputs_before=archive.count_before(parent.id, last.position),
    )
    return SnapshotRow(at, encode_snapshot(view, at))


def _messages(store: SessionStore, session: str, start: int, end: int) -> tuple[Message, ...]:
    return readable(store.messages_before(session, end, end - start)).messages if end > start else ()


def _truncate_view(view: Conversation, messages: tuple[Message, ...], start: int) -> Conversation:
    """The view limited to these messages, without anything that only later messages have added."""
    shown = {output.call_id for message in messages if isinstance(message, User) for output in message.outputs}
    cut = replace(view, messages=messages, masked=view.masked & shown, held=0)
    if view.anchored > len(messages):
        cut = replace(cut, anchor=None, anchored=0)
    bounds = {"m": start + len(messages), "r": outputs_so_far(cut) + 1}
    return replace(
        cut,
        pinned=frozenset(key for key in view.pinned if _is_before(key, bounds)),
        retold=tuple(one for one in view.retold if _is_before(one.key, bounds)),
        recalls=Recalls(
            view.recalls.left, {key: content for key, content in view.recalls.back.items() if _is_before(key, bounds)}
        ),
    )


def _is_before(key: str, bounds: Mapping[str, int]) -> bool:
    found = _KEY.fullmatch(key)
    return found is None or int(found[2]) < bounds[found[1]]


def _facts_at(store: SessionStore, parent: SessionRow, at: int) -> tuple[FactRow, ...]:
    """The session state at that point, and the file changes recorded by then; files themselves are unchanged.
    Background jobs stay with the parent, and the seen files are only known for now."""
    facts = tuple(fact for fact in store.situation(parent.id) if fact.kind != "job")
    if at >= parent.messages:
        return facts
    steps: list[Message] = []
    for position, _, _ in Forks(store).holding(parent.id, "assistant", _TODO):
        if position + 1 < at:
            steps += _messages(store, parent.id, position, position + 2)
    now, _ = changes_of(SessionState(), with_todos(SessionState(), todo_state(steps)))
    told = (fact for fact in facts if fact.kind in ("former", TAG, REMOVED_OUTPUT))
    return (*told, *now, *facts_before(store, parent.id, at), *endings_before(facts, at))

"""A tree of the user's messages in a session and its forks, and the files that were changed after each message.
Read-only; call these functions in the store's thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.damage import decode_message_or_none, unreadable_message_error
from ebbtide.agent.view.ledger import changed_path, updated_ledger
from ebbtide.store.file_versions import file_changes
from ebbtide.store.forks import ForkStore
from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.files.paths import display_path

_TEXT_PART_MARKER = '{"type":"text"'
"""A string that occurs in the stored body of every message with text."""
_CHANGE_CALL_MARKERS = ('"name":"write"', '"name":"edit"', '"name":"apply_patch"', '"name":"edit_notebook"')
"""Every stored message that changes files contains at least one of these strings in its body."""


@dataclass(frozen=True, slots=True)
class MessagePreview:
    """A message from the user."""

    session: str
    """The session that owns the message. For messages that a fork shares with its parent, this is the parent."""
    position: int
    text: str
    sent_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A session of the tree, with the messages that it does not share with its parent."""

    session: str
    title: str
    parent: str
    """Empty for the root."""
    fork_position: int
    own_messages: tuple[MessagePreview, ...]
    file_changes: tuple[tuple[float, str], ...]
    """File changes made by the session's tools: the time in Unix seconds, and the file."""
    message_count: int


@dataclass(frozen=True, slots=True)
class SessionTree:
    branches: tuple[Branch, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A line of the tree."""

    message: MessagePreview
    depth: int
    """The number of forks above the row."""
    is_on_path: bool
    """Whether the current session contains the message."""
    is_first: bool
    """Whether a fork begins with the message."""


def build_session_tree(store: SessionStore, session: str) -> SessionTree:
    """Build the tree of a session. Raises `StoreError` and `StoreFailed`."""
    forks = ForkStore(store)
    rows = [row for session_id in forks.family(session) if (row := store.session(session_id)) is not None]
    return SessionTree(tuple(_read_branch(store, forks, row) for row in rows if row.id == session or not row.is_unused))


def _read_branch(store: SessionStore, forks: ForkStore, row: SessionRow) -> Branch:
    start = (row.forked or 0) if row.parent else 0
    own_messages = tuple(
        MessagePreview(row.id, position, text, sent_at)
        for position, body, sent_at in forks.messages_containing(row.id, "user", _TEXT_PART_MARKER, start)
        if (text := _user_text(MessageRow(position, "user", body)))
    )
    changed = _changed_files(store, forks, row, start)
    return Branch(row.id, row.title, row.parent or "", start, own_messages, changed, row.messages)


def _changed_files(store: SessionStore, forks: ForkStore, row: SessionRow, start: int) -> tuple[tuple[float, str], ...]:
    """Return the file changes of a session. For older turns without recorded changes, use the files named in their
    calls."""
    recorded = [change for change in file_changes(store, row.id) if change.turn >= start]
    first_recorded = min((change.turn for change in recorded), default=1 << 62)
    call_times = {
        position: called_at
        for marker in _CHANGE_CALL_MARKERS
        for position, _, called_at in forks.messages_containing(row.id, "assistant", marker, start)
        if position < first_recorded
    }
    from_calls = [
        (call_times[position], path)
        for position in sorted(call_times)
        for path in _files_changed_by(
            [decode_message_or_none(message_row) for message_row in store.messages_before(row.id, position + 2, 2)]
        )
    ]
    return (
        *from_calls,
        *((change.changed_at, display_path(Path(change.path), Path(row.project))) for change in recorded),
    )


def _user_text(row: MessageRow) -> str:
    message = decode_message_or_none(row)
    if message is None:
        return f"({unreadable_message_error(row.position)})"
    return message.text if isinstance(message, User) and not message.outputs else ""


def _files_changed_by(step: Sequence[Message | None]) -> tuple[str, ...]:
    """Return the files that a step's calls changed; empty if the step cannot be read completely."""
    messages = [message for message in step if message is not None]
    if len(messages) < len(step) or not messages or not isinstance(messages[0], Assistant):
        return ()
    return tuple(changed_path(fact) for fact in updated_ledger("", messages).changed)


def tree_rows(tree: SessionTree, current: str) -> tuple[TreeRow, ...]:
    """Return the rows of the tree: messages in order, and each fork after the message at which it branches off."""
    by_id = {branch.session: branch for branch in tree.branches}
    children: dict[str, list[Branch]] = {}
    for branch in tree.branches:
        children.setdefault(branch.parent if branch.parent in by_id else "", []).append(branch)
    shared_until = _shared_positions(by_id, current)
    rows: list[TreeRow] = []
    for root in children.get("", []):
        _add_rows(rows, root, 0, children, shared_until)
    return tuple(rows)


def _shared_positions(by_id: Mapping[str, Branch], current: str) -> dict[str, int]:
    """Map each session that shares messages with the current one to the position up to which they are shared."""
    shared_until: dict[str, int] = {}
    until = 1 << 62
    while current in by_id and current not in shared_until:
        shared_until[current] = until
        until = min(until, by_id[current].fork_position)
        current = by_id[current].parent
    return shared_until


def _add_rows(
    rows: list[TreeRow], branch: Branch, depth: int, children: "dict[str, list[Branch]]", shared_until: dict[str, int]
) -> None:
    forks = sorted(children.get(branch.session, []), key=lambda fork: fork.fork_position)
    for index, message in enumerate(branch.own_messages):
        is_on_path = message.position < shared_until.get(branch.session, 0)
        rows.append(TreeRow(message, depth, is_on_path, is_first=depth > 0 and index == 0))
        while forks and forks[0].fork_position <= message.position:
            _add_rows(rows, forks.pop(0), depth + 1, children, shared_until)
    for fork in forks:
        _add_rows(rows, fork, depth + 1, children, shared_until)


def files_changed_since(tree: SessionTree, message: MessagePreview) -> tuple[str, ...]:
    """Return the files changed after a message, each once, in order. Changes in all branches count, because all
    branches work on the same files."""
    changes = sorted(
        change for branch in tree.branches for change in branch.file_changes if change[0] > message.sent_at
    )
    return tuple(dict.fromkeys(path for _, path in changes))

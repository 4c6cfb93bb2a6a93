"""The user's messages of a session and its forks as a tree, and which files were changed after each. Read-only; call
it in the store's thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.context.ledger import keep_ledger, path_of
from ebbtide.agent.messages import Assistant, Message, User
from ebbtide.agent.records.damage import try_decode_message, unreadable
from ebbtide.store.file_versions import changes
from ebbtide.store.forks import Forks
from ebbtide.store.session_rows import MessageRow, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.files.paths import display

_TEXT_PART_MARKER = '{"type":"text"'
"""In the body of every message with text."""
_CHANGES = ('"name":"write"', '"name":"edit"', '"name":"apply_patch"', '"name":"edit_notebook"')
"""In the body of messages that change files."""


@dataclass(frozen=True, slots=True)
class MessagePreview:
    """A message of the user."""

    session: str
    """The session of the message; a fork does not own its parent's messages."""
    position: int
    text: str
    at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A session of the tree, with the messages that are not its parent's."""

    session: str
    title: str
    parent: str
    """Empty for the root."""
    forked: int
    own_messages: tuple[MessagePreview, ...]
    changed: tuple[tuple[float, str], ...]
    """File changes by its tools: the time in Unix seconds, and the file."""
    messages: int


@dataclass(frozen=True, slots=True)
class Tree:
    branches: tuple[Branch, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A line of the tree."""

    message: MessagePreview
    depth: int
    """The number of forks above it."""
    is_on_path: bool
    """Whether the current session contains it."""
    is_first: bool
    """Whether a fork begins with it."""


def tree_of(store: SessionStore, session: str) -> Tree:
    """Build the tree of a session. Raises `StoreError` and `StoreFailed`."""
    branches = Forks(store)
    rows = [row for id in branches.family(session) if (row := store.session(id)) is not None]
    return Tree(tuple(_branch(store, branches, row) for row in rows if row.id == session or not row.is_unused))


def _branch(store: SessionStore, branches: Forks, row: SessionRow) -> Branch:
    start = (row.forked or 0) if row.parent else 0
    said = tuple(
        MessagePreview(row.id, position, text, at)
        for position, body, at in branches.holding(row.id, "user", _TEXT_PART_MARKER, start)
        if (text := _text_of(MessageRow(position, "user", body)))
    )
    changed = _changed_files(store, branches, row, start)
    return Branch(row.id, row.title, row.parent or "", start, said, changed, row.messages)


def _changed_files(store: SessionStore, branches: Forks, row: SessionRow, start: int) -> tuple[tuple[float, str], ...]:
    """The file changes recorded; for earlier turns without records, those in their calls."""
    noted = [one for one in changes(store, row.id) if one.turn >= start]
    end = min((one.turn for one in noted), default=1 << 62)
    calls = {
        position: at
        for name in _CHANGES
        for position, _, at in branches.holding(row.id, "assistant", name, start)
        if position < end
    }
    told = [
        (calls[position], path)
        for position in sorted(calls)
        for path in _changed_by([try_decode_message(found) for found in store.messages_before(row.id, position + 2, 2)])
    ]
    return (*told, *((one.at, display(Path(one.path), Path(row.project))) for one in noted))


def _text_of(row: MessageRow) -> str:
    message = try_decode_message(row)
    if message is None:
        return f"({unreadable(row.position)})"
    return message.text if isinstance(message, User) and not message.outputs else ""


def _changed_by(step: Sequence[Message | None]) -> tuple[str, ...]:
    """The files that a step's calls changed, as far as they can be read."""
    messages = [message for message in step if message is not None]
    if len(messages) < len(step) or not messages or not isinstance(messages[0], Assistant):
        return ()
    return tuple(path_of(fact) for fact in keep_ledger("", messages).changed)


def rows_of(tree: Tree, current: str) -> tuple[TreeRow, ...]:
    """The tree as lines: messages in order, and each fork after the message that it replaces."""
    by_id = {branch.session: branch for branch in tree.branches}
    children: dict[str, list[Branch]] = {}
    for branch in tree.branches:
        children.setdefault(branch.parent if branch.parent in by_id else "", []).append(branch)
    path = _path(by_id, current)
    rows: list[TreeRow] = []
    for root in children.get("", []):
        _add(rows, root, 0, children, path)
    return tuple(rows)


def _path(by_id: Mapping[str, Branch], current: str) -> dict[str, int]:
    """The sessions that contain messages of the current one, each with the position up to which it does."""
    path: dict[str, int] = {}
    until = 1 << 62
    while current in by_id and current not in path:
        path[current] = until
        until = min(until, by_id[current].forked)
        current = by_id[current].parent
    return path


def _add(
    rows: list[TreeRow], branch: Branch, depth: int, children: "dict[str, list[Branch]]", path: dict[str, int]
) -> None:
    forks = sorted(children.get(branch.session, []), key=lambda fork: fork.forked)
    for number, said in enumerate(branch.own_messages):
        is_on_path = said.position < path.get(branch.session, 0)
        rows.append(TreeRow(said, depth, is_on_path, is_first=depth > 0 and number == 0))
        while forks and forks[0].forked <= said.position:
            _add(rows, forks.pop(0), depth + 1, children, path)
    for fork in forks:
        _add(rows, fork, depth + 1, children, path)


def changed_since(tree: Tree, said: MessagePreview) -> tuple[str, ...]:
    """The files changed after a message, each once, in order. All branches share the same files."""
    found = sorted(change for branch in tree.branches for change in branch.changed if change[0] > said.at)
    return tuple(dict.fromkeys(path for _, path in found))

"""Detects other sessions that work in the same folder: simultaneous changes cannot be told apart."""

from pathlib import Path

from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.locks import is_open


class OtherSessions:
    def __init__(self, data: Path, store: CheckpointStore) -> None:
        self._locks, self._store = data / "locks", store
        self._newest, self._were_there = 0, False
        """The newest point when a command began, and whether another session was active then."""

    def is_at_work(self, session: str) -> bool:
        """Whether a session is open, in any process."""
        return is_open(self._locks, session)

    def at_work(self) -> tuple[str, ...]:
        """The sessions in the middle of a turn that changes files. Raises `StoreError`."""
        running = self._store.sessions_since(self._store.newest_point(), "")
        return tuple(sorted(filter(self.is_at_work, running)))

    def note_begin(self, session: str) -> None:
        """Record that a command of this session begins, after its point was stored. Raises `StoreError`."""
        self._newest = self._store.newest_point()
        self._were_there = self._are_there(session)

    def were_at_work(self, session: str) -> bool:
        """Whether another session has been active since then. Raises `StoreError`."""
        return self._were_there or self._are_there(session)

    def _are_there(self, session: str) -> bool:
        return any(map(self.is_at_work, self._store.sessions_since(self._newest, session)))

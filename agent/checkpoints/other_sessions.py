"""Other sessions that are at work in the folder: what they and this one change at the same time is not told apart."""

from pathlib import Path

from ebbtide.store.checkpoints import CheckpointStore
from ebbtide.store.locks import is_open


class OtherSessions:
    def __init__(self, data: Path, store: CheckpointStore) -> None:
        self._locks, self._store = data / "locks", store
        self._newest, self._were_there = 0, False
        """The newest point when a command began, and whether one of them was at work then."""

    def is_at_work(self, session: str) -> bool:
        """Whether a session is open, in this process or another one."""
        return is_open(self._locks, session)

    def at_work(self) -> tuple[str, ...]:
        """The sessions that are in the middle of a turn which changes files. Raises `StoreError`."""
        running = self._store.sessions_since(self._store.newest_point(), "")
        return tuple(sorted(filter(self.is_at_work, running)))

    def note_begin(self, session: str) -> None:
        """A command of this session begins, whose point is written down already. Raises `StoreError`."""
        self._newest = self._store.newest_point()
        self._were_there = self._are_there(session)

    def were_at_work(self, session: str) -> bool:
        """Whether one of them has been at work since then. Raises `StoreError`."""
        return self._were_there or self._are_there(session)

    def _are_there(self, session: str) -> bool:
        return any(map(self.is_at_work, self._store.sessions_since(self._newest, session)))

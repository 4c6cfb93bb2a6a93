"""Retrieves outputs and summaries that left the context, and removes stored bytes that are no longer needed. Works on
rows and digests, not on their texts."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ebbtide.store.blobs import Blobs
from ebbtide.store.file_versions import version_digests
from ebbtide.store.session_rows import MessageRow, OutputRow, SummaryRow
from ebbtide.store.sessions import SessionStore

ORPHAN_SECONDS = 86_400.0
"""Minimum age of unsettled blobs before removal, in seconds; a younger one may belong to a running step."""

REMOVED_OUTPUT = "removed"
"""Kind of the facts that record why an output's bytes were removed, by output number."""
REMOVED_BY_AGE, REMOVED_BY_SIZE = "age", "size"

_COLUMNS = "number, part, position, call, tool, size, lines, media_type, digest, created, accesses, accessed, removed"


@dataclass(frozen=True, slots=True)
class FreedSpace:
    blobs: int = 0
    size: int = 0
    """Bytes on disk."""

    def __add__(self, other: "FreedSpace") -> "FreedSpace":
        return FreedSpace(self.blobs + other.blobs, self.size + other.size)


class OutputPosition(NamedTuple):
    """An output whose bytes are stored."""

    session: str
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class ExpiryResult:
    collected: FreedSpace = FreedSpace()
    spared: int = 0
    """Bytes on disk that are over the limits but in use."""
    stored_size: int = 0
    """Bytes on disk of all outputs now."""


class ArchiveStore:
    """Finds outputs and removes stored bytes that are not needed. Raises `StoreError`; call it in the thread of the
    session store.

    Bytes are settled and removed only inside a database write transaction, of which there is one at a time, so nothing
    is removed while another process records it."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    @property
    def blobs(self) -> Blobs | None:
        return self._store.blobs

    def find(self, session: str, number: int) -> tuple[OutputRow, ...]:
        """Return the parts of an output, the text first; empty if the session has no such output."""
        return self._rows("where session = ? and number = ? order by part", session, number)

    def all(self, session: str) -> tuple[OutputRow, ...]:
        return self._rows("where session = ? order by number, part", session)

    def larger_than(self, session: str, size: int) -> tuple[int, ...]:
        """Return the numbers of outputs with more than `size` bytes that were not removed, newest first."""
        rows = self._rows(
            "where session = ? and part = 0 and size > ? and removed is null order by number desc", session, size
        )
        return tuple(row.number for row in rows)

    def count_before(self, session: str, position: int) -> int:
        """Return the number of outputs in the messages before a position."""
        found = self._store.query(
            "select coalesce(max(number), 0) from outputs where session = ? and position < ?", session, position
        )
        return int(found[0][0])

    def last_position(self, session: str) -> int:
        """Return the position of the message with the latest output; -1 if there is none."""
        rows = self._store.query("select position from outputs where session = ? order by number desc limit 1", session)
        return int(rows[0][0]) if rows else -1

    def calls(self, session: str, positions: range) -> Mapping[int, Sequence[str]]:
        """Return the ids of the calls whose outputs are in the messages at these positions, by position."""
        found = dict[int, list[str]]()
        for row in self._rows("where session = ? and part = 0 order by number", session):
            if row.position in positions:
                found.setdefault(row.position, []).append(row.call)
        return found

    def touch(self, session: str, number: int) -> None:
        """Count an access, unless the store is read-only."""
        if self._store.is_read_only:
            return
        with self._store.transaction() as db:
            db.execute(
                "update outputs set accesses = accesses + 1, accessed = ? where session = ? and number = ?",
                (time.time(), session, number),
            )

    def summaries(self, session: str) -> tuple[SummaryRow, ...]:
        """Return the summaries, oldest first."""
        rows = self._store.query(
            "select number, position, body, created from summaries where session = ? order by number", session
        )
        return tuple(SummaryRow(*row) for row in rows)

    def messages_without_ref(self, session: str) -> tuple[MessageRow, ...]:
        """Return the messages that have no reference yet."""
        rows = self._store.query(
            "select position, role, body, created from messages where session = ? and ref is null", session
        )
        return tuple(MessageRow(*row) for row in rows)

    def name(self, session: str, refs: Sequence[tuple[int, str]]) -> None:
        """Store the references of messages, by position."""
        with self._store.transaction() as db:
            db.executemany(
                "update messages set ref = ? where session = ? and position = ?",
                [(ref, session, position) for position, ref in refs],
            )

    def messages_called(self, session: str, prefix: str) -> tuple[tuple[int, str], ...]:
        """Return position and reference of the messages whose reference starts with `prefix`, oldest first."""
        rows = self._store.query(
            "select position, ref from messages where session = ? and ref >= ? and ref < ? order by position",
            session,
            prefix,
            prefix + "\x7f",
        )
        return tuple((int(position), str(ref)) for position, ref in rows)

    def name_of(self, session: str, position: int) -> str:
        """Return the reference of the message at a position; empty if it has none."""
        rows = self._store.query("select ref from messages where session = ? and position = ?", session, position)
        return str(rows[0][0] or "") if rows else ""

    def expire(
        self,
        *,
        older_than: float | None = None,
        most_bytes: int | None = None,
        spares: Callable[[Sequence[OutputPosition]], bool] | None = None,
        is_open: Callable[[str], bool] = lambda session: False,
    ) -> ExpiryResult:
        """Remove stored bytes last needed before `older_than` (Unix seconds), then the oldest until the rest takes at
        most `most_bytes` on disk, except those that `spares` reports as in use. Their rows stay and are marked, with a
        fact that records the reason. `is_open` is passed to `collect`."""
        if self.blobs is None:
            return ExpiryResult()
        sizes = self.blobs.sizes()
        stored = self._by_need()
        held, spared = sum(sizes.get(digest, 0) for digest in stored), 0
        gone = dict[str, str]()
        for digest, (last, needs) in stored.items():
            is_old, are_many = (
                older_than is not None and last < older_than,
                most_bytes is not None and held > most_bytes,
            )
            if not is_old and not are_many:
                continue
            if spares is not None and spares(needs):
                spared += sizes.get(digest, 0)
                continue
            gone[digest] = REMOVED_BY_AGE if is_old else REMOVED_BY_SIZE
            held -= sizes.get(digest, 0)
        now = time.time()
        with self._store.transaction() as db:
            for digest, why in gone.items():
                db.execute(
                    "insert or replace into situation (session, kind, key, body) "
                    "select session, ?, cast(number as text), ? from outputs where digest = ?",
                    (REMOVED_OUTPUT, why, digest),
                )
                db.execute("update outputs set digest = null, removed = ? where digest = ?", (now, digest))
        return ExpiryResult(self.collect(is_open), spared, held)

    def _by_need(self) -> dict[str, tuple[float, list[OutputPosition]]]:
        """Return digests in order of their last use, oldest first, with the time and the outputs that use them."""
        found = dict[str, tuple[float, list[OutputPosition]]]()
        for digest, last, *need in self._store.query(
            "select digest, coalesce(accessed, created), session, number, position from outputs "
            "where digest is not null"
        ):
            before, needs = found.get(digest, (last, []))
            needs.append(OutputPosition(*need))
            found[digest] = max(before, last), needs
        return dict(sorted(found.items(), key=lambda one: one[1][0]))

    def collect(self, is_open: Callable[[str], bool] = lambda session: False) -> FreedSpace:
        """Remove stored bytes that no output needs, including those left by killed processes. `is_open` returns whether
        a session is running, since its unsettled bytes are still needed."""
        blobs = self.blobs
        if blobs is None:
            return FreedSpace()
        freed, sizes = FreedSpace(), blobs.sizes()  # listed before the transaction blocks others; newer blobs stay
        with self._store.transaction() as db:
            needed = {row[0] for row in db.execute("select distinct digest from outputs where digest is not null")}
            needed |= version_digests(db)
            for digest in sizes.keys() - needed:
                freed += FreedSpace(1, blobs.remove(digest))
        blobs.forget_unsettled(time.time() - ORPHAN_SECONDS, is_open)
        return freed

    def _rows(self, clause: str, *values: object) -> tuple[OutputRow, ...]:
        return tuple(OutputRow(*row) for row in self._store.query(f"select {_COLUMNS} from outputs {clause}", *values))

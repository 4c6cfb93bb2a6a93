"""Retrieves outputs and summaries that are no longer in context, and removes stored bytes that are no longer needed. It
does not interpret their text."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ebbtide.store.blobs import BlobStore
from ebbtide.store.file_versions import version_digests
from ebbtide.store.session_rows import MessageRow, OutputRow, SummaryRow
from ebbtide.store.sessions import SessionStore

MIN_ORPHAN_AGE_SECONDS = 86_400.0
"""Minimum age, in seconds, of temporary blobs to be removed. Younger blobs may belong to a step that is still
running."""

REMOVED_OUTPUT_FACT = "removed"
"""Kind of the facts that record, by output number, why an output's bytes were removed."""
REMOVED_BY_AGE, REMOVED_BY_SIZE = "age", "size"

_COLUMNS = "number, part, position, call, tool, size, lines, media_type, digest, created, accesses, accessed, removed"


@dataclass(frozen=True, slots=True)
class FreedSpace:
    blob_count: int = 0
    size: int = 0
    """Disk space in bytes."""

    def __add__(self, other: "FreedSpace") -> "FreedSpace":
        return FreedSpace(self.blob_count + other.blob_count, self.size + other.size)


class OutputPosition(NamedTuple):
    """The position of an output whose bytes are stored."""

    session: str
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class ExpiryResult:
    freed: FreedSpace = FreedSpace()
    stored_size: int = 0
    """Size on disk, in bytes, of all remaining outputs."""


class ArchiveStore:
    """Finds outputs and removes stored bytes that are not needed. Raises `StoreError`; call it in the thread of the
    session store.

    Blobs are made permanent or removed only inside a write transaction of the database. Only one such transaction can
    run at a time, so no process can remove bytes while another records that it uses them.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    @property
    def blobs(self) -> BlobStore | None:
        return self._store.blobs

    def output_parts(self, session: str, number: int) -> tuple[OutputRow, ...]:
        """Get the parts of an output, the text first; empty if the session has no such output."""
        return self._rows("where session = ? and number = ? order by part", session, number)

    def all_output_parts(self, session: str) -> tuple[OutputRow, ...]:
        return self._rows("where session = ? order by number, part", session)

    def outputs_larger_than(self, session: str, size: int) -> tuple[int, ...]:
        """Find outputs larger than `size` bytes, newest first. Removed outputs are skipped."""
        rows = self._rows(
            "where session = ? and part = 0 and size > ? and removed is null order by number desc", session, size
        )
        return tuple(row.number for row in rows)

    def count_outputs_before(self, session: str, position: int) -> int:
        """Count the outputs in the messages before a position."""
        rows = self._store.query(
            "select coalesce(max(number), 0) from outputs where session = ? and position < ?", session, position
        )
        return int(rows[0][0])

    def last_position(self, session: str) -> int:
        """Find the position of the last message with an output; -1 if there is none."""
        rows = self._store.query("select position from outputs where session = ? order by number desc limit 1", session)
        return int(rows[0][0]) if rows else -1

    def answered_calls(self, session: str, positions: range) -> Mapping[int, Sequence[str]]:
        """Get the ids of the calls whose outputs are in the messages at these positions, by position."""
        calls_by_position = dict[int, list[str]]()
        for row in self._rows("where session = ? and part = 0 order by number", session):
            if row.position in positions:
                calls_by_position.setdefault(row.position, []).append(row.call)
        return calls_by_position

    def record_access(self, session: str, number: int) -> None:
        """Record that an output was accessed, unless the store is read-only."""
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
        """Get the messages that have no reference yet."""
        rows = self._store.query(
            "select position, role, body, created from messages where session = ? and ref is null", session
        )
        return tuple(MessageRow(*row) for row in rows)

    def save_message_refs(self, session: str, refs: Sequence[tuple[int, str]]) -> None:
        """Store references for messages, by position."""
        with self._store.transaction() as db:
            db.executemany(
                "update messages set ref = ? where session = ? and position = ?",
                [(ref, session, position) for position, ref in refs],
            )

    def messages_with_ref_prefix(self, session: str, prefix: str) -> tuple[tuple[int, str], ...]:
        """Find messages whose reference starts with `prefix`, oldest first. Returns their positions and references."""
        rows = self._store.query(
            "select position, ref from messages where session = ? and ref >= ? and ref < ? order by position",
            session,
            prefix,
            prefix + "\x7f",
        )
        return tuple((int(position), str(ref)) for position, ref in rows)

    def message_ref(self, session: str, position: int) -> str:
        """Get the reference of the message at a position; empty if it has none."""
        rows = self._store.query("select ref from messages where session = ? and position = ?", session, position)
        return str(rows[0][0] or "") if rows else ""

    def expire(
        self,
        *,
        older_than: float | None = None,
        max_bytes: int | None = None,
        is_needed: Callable[[Sequence[OutputPosition]], bool] | None = None,
        is_open: Callable[[str], bool] = lambda session: False,
    ) -> ExpiryResult:
        """Remove stored bytes last used before `older_than` (Unix seconds), then the least recently used ones until at
        most `max_bytes` remain on disk. Bytes that `is_needed` reports as in use are kept. The rows of removed outputs
        stay, marked as removed, and a fact records the reason. `is_open` is passed to `collect_garbage`."""
        if self.blobs is None:
            return ExpiryResult()
        # Only what the limits require is read, because they are applied at the end of each run.
        sizes = self.blobs.sizes() if max_bytes is not None else {}
        with self._store.reading() as db:
            stored_bytes = sum(sizes.get(digest, 0) for digest in _output_digests(db)) if sizes else 0
        used_before = older_than if max_bytes is None or stored_bytes <= max_bytes else inf
        removal_reasons = dict[str, str]()
        for digest, (last_use, outputs) in self._outputs_by_digest(used_before).items():
            is_old = older_than is not None and last_use < older_than
            exceeds_limit = max_bytes is not None and stored_bytes > max_bytes
            if not is_old and not exceeds_limit:
                continue
            if is_needed is not None and is_needed(outputs):
                continue
            removal_reasons[digest] = REMOVED_BY_AGE if is_old else REMOVED_BY_SIZE
            stored_bytes -= sizes.get(digest, 0)
        if removal_reasons:
            self._mark_removed(removal_reasons)
        return ExpiryResult(self.collect_garbage(is_open), stored_bytes)

    def _mark_removed(self, removal_reasons: Mapping[str, str]) -> None:
        """Record that the outputs with these digests no longer have bytes, and why."""
        now = time.time()
        with self._store.transaction() as db:
            for digest, reason in removal_reasons.items():
                db.execute(
                    "insert or replace into situation (session, kind, key, body) "
                    "select session, ?, cast(number as text), ? from outputs where digest = ?",
                    (REMOVED_OUTPUT_FACT, reason, digest),
                )
                db.execute("update outputs set digest = null, removed = ? where digest = ?", (now, digest))

    def _outputs_by_digest(self, used_before: float | None) -> dict[str, tuple[float, list[OutputPosition]]]:
        """Group the outputs that were last used before a time (Unix seconds) by digest, least recently used first. Each
        digest comes with the time of its last use. `used_before`: None for no outputs."""
        outputs_by_digest = dict[str, tuple[float, list[OutputPosition]]]()
        if used_before is None:
            return outputs_by_digest
        for digest, last_use, *position_fields in self._store.query(
            "select digest, coalesce(accessed, created), session, number, position from outputs "
            "where digest in (select digest from outputs where digest is not null group by digest "
            "having max(coalesce(accessed, created)) < ?)",
            used_before,
        ):
            previous_use, outputs = outputs_by_digest.get(digest, (last_use, []))
            outputs.append(OutputPosition(*position_fields))
            outputs_by_digest[digest] = max(previous_use, last_use), outputs
        return dict(sorted(outputs_by_digest.items(), key=lambda entry: entry[1][0]))

    def collect_garbage(self, is_open: Callable[[str], bool] = lambda session: False) -> FreedSpace:
        """Remove stored bytes that no output needs, including leftovers of killed processes. `is_open`: whether a
        session is running; if so, its temporary blobs are still needed."""
        blobs = self.blobs
        if blobs is None:
            return FreedSpace()
        freed, digests = FreedSpace(), blobs.digests()  # listed outside the transaction, which blocks other writers
        with self._store.reading() as db:
            unneeded = digests - _needed_digests(db)
        if unneeded:
            with self._store.transaction() as db:
                for digest in unneeded - _needed_digests(db):  # another process may have needed some since
                    freed += FreedSpace(1, blobs.remove(digest))
        blobs.remove_uncommitted(time.time() - MIN_ORPHAN_AGE_SECONDS, is_open)
        return freed

    def _rows(self, clause: str, *values: object) -> tuple[OutputRow, ...]:
        return tuple(OutputRow(*row) for row in self._store.query(f"select {_COLUMNS} from outputs {clause}", *values))


def _needed_digests(db: sqlite3.Connection) -> set[str]:
    """Get the digests of all blobs that outputs or earlier versions of files need."""
    return _output_digests(db) | version_digests(db)


def _output_digests(db: sqlite3.Connection) -> set[str]:
    return {str(row[0]) for row in db.execute("select distinct digest from outputs where digest is not null")}

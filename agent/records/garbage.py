"""Finds and removes unreferenced blobs of the archive. Anything that a running session, or a view, fork or summary
of any session refers to is kept, whatever the age and size limits say. Call these functions in the store's
thread."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ebbtide.agent.records.rows import decode_snapshot
from ebbtide.store.archive import ArchiveStore, ExpiryResult, OutputPosition
from ebbtide.store.locks import is_open
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass, regex

OVER = "over"
"""Prefix of a marker file next to the blobs; it says that more is in use than the limit allows."""

_OUTPUT_REF = regex(r"(?<![^\W_])[rR]([1-9]\d{0,17})(?![^\W_])")
_ELSEWHERE = regex(r"(?:ebb|nexora)://[^/\s\"]+/([0-9a-f]{8}-[0-9a-f-]{0,27}|[0-9a-f]{1,12})[0-9a-f]*/r([1-9]\d{0,17})")


@dataclass(frozen=True, slots=True)
class _InUse:
    """What one session refers to among its own outputs."""

    start: int
    """The first message that any of its views still shows."""
    numbers: frozenset[int]
    """Numbers of the outputs named in its views and summaries."""


class References:
    """Decides which outputs are referenced. Each session is examined once, on demand."""

    def __init__(self, store: SessionStore, runs: Callable[[str], bool]) -> None:
        """`runs` reports whether a session is running."""
        self._store = store
        self._runs = runs
        self._known: dict[str, _InUse] = {}
        self._elsewhere: frozenset[tuple[str, int]] | None = None

    def is_needed(self, outputs: Sequence[OutputPosition]) -> bool:
        """Whether any of the outputs is shown or named in a session, or belongs to a running one."""
        return any(map(self._is_output_needed, outputs))

    def _is_output_needed(self, one: OutputPosition) -> bool:
        if one.session not in self._known:
            self._known[one.session] = self._in_use(one.session)
        known = self._known[one.session]
        return one.position >= known.start or one.number in known.numbers or self._is_named_elsewhere(one)

    def _in_use(self, session: str) -> _InUse:
        snapshot = self._store.snapshot(session)
        if self._runs(session) or snapshot is None:
            return _InUse(0, frozenset())
        bodies = [snapshot.body, *(row.body for row in self._store.views(session))]
        views = [decode_snapshot(body) for body in bodies]
        start = min(view[0] if view is not None else 0 for view in views)
        if start == 0:
            return _InUse(0, frozenset())
        bodies += [row.body for row in ArchiveStore(self._store).summaries(session)]
        bodies += [row.body for row in self._store.messages(session, start)]
        return _InUse(start, frozenset(number for text in _texts(bodies) for number in _numbers_in(text)))

    def _is_named_elsewhere(self, one: OutputPosition) -> bool:
        if self._elsewhere is None:
            self._elsewhere = frozenset(self._named_elsewhere())
        return any(number == one.number and one.session.startswith(session) for session, number in self._elsewhere)

    def _named_elsewhere(self) -> Iterator[tuple[str, int]]:
        for table in ("messages", "snapshots", "summaries", "views"):
            for (body,) in self._store.query(
                f"select body from {table} where instr(body, 'ebb://') or instr(body, 'nexora://')"
            ):
                for session, number in _ELSEWHERE.findall(body):
                    yield session, int(number)


def _texts(bodies: Sequence[str]) -> Iterator[str]:
    """Yield every string in these JSON bodies; a body that is not JSON is yielded unchanged."""
    for body in bodies:
        try:
            waiting = [json.loads(body)]
        except (ValueError, RecursionError):
            waiting = [body]
        while waiting:
            match waiting.pop():
                case str() as text:
                    yield text
                case list() as values:
                    waiting += values
                case dict() as fields:
                    waiting += fields.values()
                case _:
                    pass


def _numbers_in(text: str) -> Iterator[int]:
    return (int(number) for number in _OUTPUT_REF.findall(text))


def remove_garbage(
    store: SessionStore, locks: Path, *, older_than: float | None = None, most_bytes: int | None = None
) -> ExpiryResult:
    """Remove garbage older than `older_than` (Unix seconds), then the oldest until the total is within `most_bytes`.
    If that is not enough, a marker file next to the blobs stores a note for the user. Raises `StoreError`."""

    def runs(session: str) -> bool:
        return is_open(locks, session)

    archive = ArchiveStore(store)
    expired = archive.expire(
        older_than=older_than, most_bytes=most_bytes, spares=References(store, runs).is_needed, is_open=runs
    )
    if most_bytes is not None and store.blobs is not None:
        _note_excess(store.blobs.folder, expired.stored_size, most_bytes)
    return expired


def excess(held: int, most_bytes: int) -> str:
    """The note for the user when more is in use than the limit allows."""
    return (
        f"stored outputs take {held / 1e6:,.1f} MB, more than `archive.max_bytes` allows ({most_bytes / 1e6:,.1f} MB): "
        "sessions still use all of them; delete some with `ebb sessions delete`, or raise the limit"
    )


def _note_excess(folder: Path, held: int, most_bytes: int) -> None:
    note = folder / f"{OVER}-{most_bytes}"
    for other in folder.glob(f"{OVER}-*"):
        if other != note or held <= most_bytes:
            other.unlink(missing_ok=True)
    if held > most_bytes and not note.exists():
        note.write_text(excess(held, most_bytes), "utf-8")


def pending_excess_note(folder: Path, most_bytes: int) -> str:
    """Return the stored note, once. It is shown again if the limit changes, or after the limit was met in between."""
    note = folder / f"{OVER}-{most_bytes}"
    try:
        text = note.read_text("utf-8")
        if text:
            note.write_text("", "utf-8")
        return text
    except (OSError, ValueError):  # there is no note, or it cannot be read now; `ebb doctor` also reports it
        return ""

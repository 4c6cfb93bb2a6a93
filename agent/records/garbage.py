"""Finds and removes blobs that the archive no longer needs. Blobs used by a running session, or referred to in a view,
fork or summary of any session, are kept regardless of the age and size limits. These functions must be called in the
store's thread."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ebbtide.agent.records.rows import decode_snapshot
from ebbtide.store.archive import ArchiveStore, ExpiryResult, OutputPosition
from ebbtide.store.locks import is_open
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.lazy import dataclass, regex

OVER_LIMIT_MARKER_PREFIX = "over"
"""File name prefix of the marker file that exists next to the blobs while sessions use more space than the limit
allows."""

_OUTPUT_REF = regex(r"(?<![^\W_])[rR]([1-9]\d{0,17})(?![^\W_])")
_OUTPUT_URI = regex(
    r"(?:ebb|nexora)://[^/\s\"]+/([0-9a-f]{8}-[0-9a-f-]{0,27}|[0-9a-f]{1,12})[0-9a-f]*/r([1-9]\d{0,17})"
)


@dataclass(frozen=True, slots=True)
class _SessionReferences:
    """The outputs to which a session itself still refers."""

    first_visible_position: int
    """Position of the first message that any of the session's views still shows."""
    output_numbers: frozenset[int]
    """Numbers of the outputs named in the session's views, summaries and messages."""


class OutputReferences:
    """Decides which outputs are still referred to. Each session is examined only once, on first use."""

    def __init__(self, store: SessionStore, is_running: Callable[[str], bool]) -> None:
        """`is_running`: returns whether a session is running."""
        self._store = store
        self._is_running = is_running
        self._references_by_session: dict[str, _SessionReferences] = {}
        self._outputs_in_uris: frozenset[tuple[str, int]] | None = None

    def is_needed(self, outputs: Sequence[OutputPosition]) -> bool:
        """Whether any of these outputs is shown or named in a session, or belongs to a running session."""
        return any(map(self._is_output_needed, outputs))

    def _is_output_needed(self, output: OutputPosition) -> bool:
        if output.session not in self._references_by_session:
            self._references_by_session[output.session] = self._find_references(output.session)
        references = self._references_by_session[output.session]
        return (
            output.position >= references.first_visible_position
            or output.number in references.output_numbers
            or self._is_named_by_others(output)
        )

    def _find_references(self, session_id: str) -> _SessionReferences:
        snapshot = self._store.snapshot(session_id)
        if self._is_running(session_id) or snapshot is None:
            return _SessionReferences(0, frozenset())
        bodies = [snapshot.body, *(row.body for row in self._store.views(session_id))]
        views = [decode_snapshot(body) for body in bodies]
        start = min(view[0] if view is not None else 0 for view in views)
        if start == 0:
            return _SessionReferences(0, frozenset())
        bodies += [row.body for row in ArchiveStore(self._store).summaries(session_id)]
        bodies += [row.body for row in self._store.messages(session_id, start)]
        return _SessionReferences(
            start, frozenset(number for text in _json_strings(bodies) for number in _output_numbers_in(text))
        )

    def _is_named_by_others(self, output: OutputPosition) -> bool:
        if self._outputs_in_uris is None:
            self._outputs_in_uris = frozenset(self._outputs_named_in_uris())
        return any(
            number == output.number and output.session.startswith(session) for session, number in self._outputs_in_uris
        )

    def _outputs_named_in_uris(self) -> Iterator[tuple[str, int]]:
        for table in ("messages", "snapshots", "summaries", "views"):
            for (body,) in self._store.query(
                f"select body from {table} where instr(body, 'ebb://') or instr(body, 'nexora://')"
            ):
                for session, number in _OUTPUT_URI.findall(body):
                    yield session, int(number)


def _json_strings(bodies: Sequence[str]) -> Iterator[str]:
    """Yield all strings in these JSON bodies. A body that is not valid JSON is yielded as one string."""
    for body in bodies:
        try:
            pending = [json.loads(body)]
        except (ValueError, RecursionError):
            pending = [body]
        while pending:
            match pending.pop():
                case str() as text:
                    yield text
                case list() as values:
                    pending += values
                case dict() as fields:
                    pending += fields.values()
                case _:
                    pass


def _output_numbers_in(text: str) -> Iterator[int]:
    return (int(number) for number in _OUTPUT_REF.findall(text))


def remove_garbage(
    store: SessionStore, lock_folder: Path, *, older_than: float | None = None, max_bytes: int | None = None
) -> ExpiryResult:
    """Remove garbage older than `older_than` (Unix seconds), then the oldest garbage until the total size is at most
    `max_bytes`. If the total is still larger, write a marker file with a note for the user next to the blobs. Raises
    `StoreError`."""

    def is_running(session: str) -> bool:
        return is_open(lock_folder, session)

    archive = ArchiveStore(store)
    expiry_result = archive.expire(
        older_than=older_than,
        max_bytes=max_bytes,
        is_needed=OutputReferences(store, is_running).is_needed,
        is_open=is_running,
    )
    if max_bytes is not None and store.blobs is not None:
        _update_excess_marker(store.blobs.folder, expiry_result.stored_size, max_bytes)
    return expiry_result


def excess_note(used_bytes: int, max_bytes: int) -> str:
    """Format the note that tells the user that sessions use more space than the limit allows."""
    return (
        f"stored outputs take {used_bytes / 1e6:,.1f} MB, more than `archive.max_bytes` allows "
        f"({max_bytes / 1e6:,.1f} MB): "
        "sessions still use all of them; delete some with `ebb sessions delete`, or raise the limit"
    )


def _update_excess_marker(folder: Path, used_bytes: int, max_bytes: int) -> None:
    marker_path = folder / f"{OVER_LIMIT_MARKER_PREFIX}-{max_bytes}"
    for marker in folder.glob(f"{OVER_LIMIT_MARKER_PREFIX}-*"):
        if marker != marker_path or used_bytes <= max_bytes:
            marker.unlink(missing_ok=True)
    if used_bytes > max_bytes and not marker_path.exists():
        marker_path.write_text(excess_note(used_bytes, max_bytes), "utf-8")


def pop_over_limit_note(folder: Path, max_bytes: int) -> str:
    """Return the note in the marker file, but only the first time. It is returned again only after the limit has
    changed, or after the size has been below the limit."""
    marker_path = folder / f"{OVER_LIMIT_MARKER_PREFIX}-{max_bytes}"
    try:
        text = marker_path.read_text("utf-8")
        if text:
            marker_path.write_text("", "utf-8")
        return text
    except (OSError, ValueError):  # there is no note, or it cannot be read now; `ebb doctor` also reports it
        return ""

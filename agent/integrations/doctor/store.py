"""Checks the integrity of the database, all references in it, and the stored blobs. Changes nothing, except that an old
database is migrated."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ebbtide.agent.config.values import Folders
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.integrations.doctor.check_result import CheckResult, ReportProgress
from ebbtide.agent.messages import Conversation
from ebbtide.agent.records.damage import format_positions
from ebbtide.agent.records.garbage import excess_note
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import decode_snapshot, decode_summary_row
from ebbtide.agent.records.store_access import open_store_briefly
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.store.archive import MIN_ORPHAN_AGE_SECONDS, ArchiveStore
from ebbtide.store.blobs import BlobStore
from ebbtide.store.checks import ReferenceChecks, check_database, damaged_blobs, unreadable_blobs
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import OutputRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.extent import join_limited, pluralize

MAX_NAMED_REFERENCES = 5
"""Maximum number of references listed per session."""

UNREADABLE_ADVICE = "resuming the session shows a placeholder for what cannot be read"

_RECALL_REFERENCE = re.compile(r"\[recall:r([1-9]\d{0,17})\]")


def check_store(
    folders: Folders,
    report_progress: ReportProgress,
    *,
    should_read_blobs: bool = False,
    max_stored_bytes: int | None = None,
) -> Iterator[CheckResult]:
    """Check the database, all references and the blobs. `should_read_blobs`: read all blobs. `max_stored_bytes`: the
    user's limit on stored outputs; None if there is none."""
    path = folders.data / "sessions.db"
    if not path.exists() and not path.with_name(f"{path.name}-wal").exists():
        yield CheckResult("store", "well", "no sessions yet")
        return
    advice = "run `ebb doctor --repair`: it saves what can be read and moves the damaged database aside"
    try:
        database_check = check_database(path, lambda: report_progress("the database", 0, 0))
    except StoreError as error:
        yield CheckResult("store", "broken", str(error))
        return
    if database_check.version > database_check.newest_schema_version:
        newest_version = database_check.newest_schema_version
        text = f"`{path}` has schema {database_check.version}; this version supports up to {newest_version}"
        yield CheckResult("store", "broken", text, "update this program")
        return
    for problem in database_check.problems:
        yield CheckResult("store", "broken", f"`{path}` is damaged: {problem}", advice)
    for problem in database_check.index_problems:
        yield CheckResult("store", "note", f"the search index is damaged: {problem}", "the next search rebuilds it")
    if not database_check.problems:
        text = f"`{path}` is intact: {database_check.size / 1e6:,.1f} MB, schema {database_check.version}"
        yield CheckResult("store", "well", text)
    try:
        with open_store_briefly(folders) as store:
            yield from _check_references(store, report_progress, should_read_blobs=should_read_blobs)
            yield from _check_unused_data(store, folders)
            yield from _check_stored_size(store, max_stored_bytes)
    except StoreFailed as error:
        yield CheckResult("store", "broken", str(error))


def _check_references(
    store: SessionStore, report_progress: ReportProgress, *, should_read_blobs: bool
) -> Iterator[CheckResult]:
    checks = ReferenceChecks(store)
    stored_digests = frozenset(store.blobs.sizes()) if store.blobs is not None else frozenset[str]()
    damaged_digests = frozenset[str]()
    if store.blobs is not None:
        existing_sizes = {
            digest: size for digest, size in checks.referenced_blobs().items() if digest in stored_digests
        }
        damaged_digests = frozenset(unreadable_blobs(store.blobs, existing_sizes))
        if should_read_blobs:
            undamaged_digests = frozenset(existing_sizes) - damaged_digests
            damaged_digests |= frozenset(
                damaged_blobs(
                    store.blobs,
                    undamaged_digests,
                    lambda done: report_progress("stored outputs", done, len(undamaged_digests)),
                )
            )
    session_ids = checks.sessions()
    reference_count, removed_count, broken_count = 0, 0, 0
    for index, session_id in enumerate(session_ids):
        report_progress("sessions", index, len(session_ids))
        session_report = _SessionChecker(store, checks, session_id, stored_digests, damaged_digests).check_session()
        for result in session_report.results:
            broken_count += result.state == "broken"
            yield result
        reference_count += session_report.reference_count
        removed_count += session_report.removed_count
    if not broken_count:
        depth_note = "every byte was read" if should_read_blobs else "`--deep` reads every byte"
        counts = (
            f"{reference_count - removed_count:,} of {reference_count:,}"
            if removed_count
            else f"all {reference_count:,}"
        )
        removal_note = f"; {removed_count:,} removed because of age or size" if removed_count else ""
        yield CheckResult(
            "references",
            "well",
            f"{counts} in {pluralize(len(session_ids), 'session')} resolve{removal_note}; {depth_note}",
        )


@dataclass(frozen=True, slots=True)
class _SessionReport:
    reference_count: int
    removed_count: int
    """Number of references whose bytes were removed."""
    results: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class _SessionChecker:
    """Checks one session."""

    store: SessionStore
    checks: ReferenceChecks
    session_id: str
    stored_digests: frozenset[str]
    """Digests of the existing blobs."""
    damaged_digests: frozenset[str]
    """Digests of blobs known to be damaged."""

    def check_session(self) -> _SessionReport:
        archive = ArchiveStore(self.store)
        rows = archive.all_output_parts(self.session_id)
        results = [*self._check_context(rows)]
        missing_rows = [row for row in rows if row.digest is not None and row.digest not in self.stored_digests]
        damaged_rows = [row for row in rows if row.digest in self.damaged_digests]
        orphaned = self.checks.orphaned_outputs(self.session_id)
        rerun_advice = "run the calls again if they are needed"
        if missing_rows:
            results.append(
                self._broken_result(
                    f"the bytes of {_format_references(row.number for row in missing_rows)} are gone", rerun_advice
                )
            )
        if damaged_rows:
            results.append(
                self._broken_result(
                    f"the bytes of {_format_references(row.number for row in damaged_rows)} are damaged", rerun_advice
                )
            )
        if orphaned:
            results.append(
                self._broken_result(f"the messages with {_format_references(iter(orphaned))} are gone", rerun_advice)
            )
        altered_messages = self.checks.altered_messages(self.session_id)
        if altered_messages and not results:  # unreadable rows were already reported
            results.append(
                self._broken_result(
                    f"{format_positions(altered_messages)} changed on disk since being written", UNREADABLE_ADVICE
                )
            )
        if self.checks.has_gaps(self.session_id):
            results.append(
                self._broken_result("some of its messages are missing", "restore the database from a backup")
            )
        summaries = archive.summaries(self.session_id)
        for row in summaries:
            try:
                decode_summary_row(row)
            except StoreFailed as error:
                results.append(self._broken_result(str(error), "the messages that it replaced are still there"))
        removed_numbers = {row.number for row in rows if row.removed is not None}
        return _SessionReport(len({row.number for row in rows}) + len(summaries), len(removed_numbers), tuple(results))

    def _check_context(self, rows: tuple[OutputRow, ...]) -> Iterator[CheckResult]:
        """Check that the session's context can be read, and that the references in it resolve."""
        snapshot = self.store.snapshot(self.session_id)
        decoded = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
        if decoded is None:
            yield CheckResult(
                "session", "note", f"{self.session_id}: its snapshot cannot be read", "it can be resumed without it"
            )
        start, conversation = decoded or (0, Conversation())
        try:
            messages = tuple(decode_message(row) for row in self.store.messages(self.session_id, start))
        except StoreFailed as error:
            yield self._broken_result(str(error), UNREADABLE_ADVICE)
            return
        if start and not conversation.outputs_before:  # earlier versions did not store this count
            conversation = replace(
                conversation, outputs_before=ArchiveStore(self.store).count_outputs_before(self.session_id, start)
            )
        rows_by_number = {row.number: row for row in rows if row.part == 0}
        unresolved_numbers = [
            output.number
            for output in numbered_outputs(replace(conversation, messages=messages))
            if not _row_matches_output(rows_by_number.get(output.number), output.output.call_id, output.output.stored)
        ]
        if unresolved_numbers:
            yield self._broken_result(
                f"{_format_references(iter(unresolved_numbers))} in its context refer to nothing",
                "compact the session to continue",
            )
        mentioned_numbers = [int(number) for number in _RECALL_REFERENCE.findall(conversation.summary.text)]
        unknown_numbers = [number for number in dict.fromkeys(mentioned_numbers) if number not in rows_by_number]
        if unknown_numbers:
            references = _format_references(iter(unknown_numbers))
            text = f"{self.session_id}: its summary mentions {references}, which never existed"
            yield CheckResult("session", "note", text, "a model invented it; `/compact` writes a new summary")

    def _broken_result(self, text: str, advice: str) -> CheckResult:
        return CheckResult("session", "broken", f"{self.session_id}: {text}", advice)


def _row_matches_output(row: OutputRow | None, call_id: str, stored: object) -> bool:
    """Whether a row matches an output in the context. Both must belong to the same call. If the context contains only
    part of the output, the output's bytes must be in the store or have been removed."""
    if row is None or row.call != call_id:
        return False
    return stored is None or row.digest is not None or row.removed is not None


def _format_references(numbers: Iterator[int]) -> str:
    """Format a list of references, such as "`r1`, `r2` and 3 more"."""
    return join_limited([f"`r{number}`" for number in dict.fromkeys(numbers)], MAX_NAMED_REFERENCES)


def _check_unused_data(store: SessionStore, folders: Folders) -> Iterator[CheckResult]:
    """Report data that is no longer needed. This is not a fault; most of it is removed automatically."""
    if store.blobs is None:
        return
    checks, sizes = ReferenceChecks(store), store.blobs.sizes()
    unneeded_digests = sizes.keys() - checks.referenced_blobs().keys() - checks.file_version_digests()
    if unneeded_digests:
        megabytes = sum(sizes[digest] for digest in unneeded_digests) / 1e6
        text = f"{len(unneeded_digests):,} not needed by any session ({megabytes:,.1f} MB)"
        yield CheckResult(
            "stored outputs", "note", text, "they are removed within a day of use, or when a session is deleted"
        )
    else:
        megabytes = sum(sizes.values()) / 1e6
        yield CheckResult("stored outputs", "well", f"{len(sizes):,}, {megabytes:,.1f} MB, all needed by sessions")
    unfinished_count = _count_unfinished(store.blobs)
    if unfinished_count:
        text = f"{unfinished_count:,} left unfinished by killed programs"
        yield CheckResult("stored outputs", "note", text, "they are removed within a day of use")
    session_ids = set(checks.sessions())
    outputs_folder = folders.data / "outputs"
    leftover_folders = (
        [path.name for path in outputs_folder.glob("*") if path.name not in session_ids]
        if outputs_folder.is_dir()
        else []
    )
    if leftover_folders:
        text = f"{len(leftover_folders):,} folders in `{outputs_folder}` belong to no session"
        yield CheckResult("stored outputs", "note", text, "remove them if no program is running")


def _check_stored_size(store: SessionStore, max_stored_bytes: int | None) -> Iterator[CheckResult]:
    """Report whether the stored outputs in use exceed the user's limit. This is only a note: Ebbtide removes no outputs
    that are in use, so the limit can be exceeded."""
    sizes = store.blobs.sizes() if store.blobs is not None else {}
    stored_bytes = sum(sizes.get(digest, 0) for digest in ReferenceChecks(store).referenced_blobs())
    if max_stored_bytes is not None and stored_bytes > max_stored_bytes:
        yield CheckResult("stored outputs", "note", excess_note(stored_bytes, max_stored_bytes))


def _count_unfinished(blobs: BlobStore) -> int:
    max_modified_at = time.time() - MIN_ORPHAN_AGE_SECONDS
    count = 0
    for path in (blobs.folder / "incoming").glob("*"):
        try:
            count += path.stat().st_mtime < max_modified_at
        except FileNotFoundError:  # another process finished it
            continue
    return count

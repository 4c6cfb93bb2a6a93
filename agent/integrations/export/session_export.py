"""Exports a session and everything stored for it to one file, and imports such files."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from ebbtide.agent.archive.archive import FORMER_ID_FACT
from ebbtide.agent.config.options import PERMISSION_MODES, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.integrations.export.atomic_file import atomic_file
from ebbtide.agent.integrations.export.bundle import Bundle, BundleWriter, encode_row, is_digest, sha256_of
from ebbtide.agent.integrations.export.export_mask import SecretMask
from ebbtide.agent.integrations.export.output_writer import OutputWriter
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import blob_digests, body_without_files, decode_summary_row, legacy_output_files
from ebbtide.agent.records.session_lookup import find_session, project_name
from ebbtide.agent.records.store_access import open_store_briefly
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import SESSION_ID, MessageRow, SessionRow, SummaryRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import (
    COLUMNS,
    KEY_COLUMNS,
    MESSAGES_TABLE,
    SessionRows,
    TransferRow,
    TransferStore,
    is_valid_row,
    is_valid_time,
)

OPTIONAL_TABLES = frozenset({"views"})
"""Tables that are missing in files from earlier versions."""

_SESSION_ID_PATTERN = re.compile(SESSION_ID)

FORCE_HINT = ", or replace it with --force"


@dataclass(frozen=True, slots=True)
class ExportedSession:
    session: str
    title: str
    messages: int
    outputs: int
    """Number of outputs and images in the file that are stored separately from messages."""
    left_out: tuple[str, ...]
    """References to outputs whose bytes were missing or damaged."""
    masked: int | None = None
    """Number of secrets that were masked; None if masking was off."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    session: str
    title: str
    messages: int
    exported_id: str
    """The id of the session before its export."""
    is_new: bool = True
    """False if the same session already existed, so that nothing was changed."""


def export_session(
    config: Config,
    id_prefix: str,
    file: IO[bytes] | Path | None,
    *,
    force: bool = False,
    environment: Mapping[str, str] | None = None,
) -> ExportedSession:
    """Export a session to a file, by default to a new file in the current folder that is named after the session. The
    file appears only once it is complete. An existing file is replaced only with `force`. If an environment is given,
    its secrets and anything that looks like a secret are masked. Raises `AgentError`."""
    mask = SecretMask(environment)
    with open_store_briefly(config.folders) as store:
        row = find_session(store, id_prefix, project_name(config))
        if file is not None and not isinstance(file, Path):
            return _write_bundle(store, row.id, file, mask)
        with atomic_file(file or default_export_path(row.id), should_replace=force, alternative=FORCE_HINT) as new_file:
            return _write_bundle(store, row.id, new_file, mask)


def default_export_path(session_id: str) -> Path:
    return Path(f"ebb-session-{session_id}.zip")


def import_session(config: Config, path: Path) -> ImportedSession:
    """Import an exported session, either completely or not at all. It keeps its id unless the id is taken. Raises
    `AgentError`."""
    with closing(Bundle(path)) as bundle, open_store_briefly(config.folders) as store:
        return _import_bundle(store, bundle, config)


def _write_bundle(store: SessionStore, session_id: str, file: IO[bytes], mask: SecretMask) -> ExportedSession:
    rows = TransferStore(store).read_session(session_id)
    if rows is None:
        raise StoreFailed(f"session `{session_id}` was deleted in the meantime", "missing")
    with closing(BundleWriter(file)) as writer:
        return _fill_bundle(store, rows, writer, mask)


def _fill_bundle(store: SessionStore, rows: SessionRows, writer: BundleWriter, mask: SecretMask) -> ExportedSession:
    path_by_call: dict[tuple[int, str], str] = {}
    """Plain files in which earlier versions stored outputs, by message and call."""
    outputs = OutputWriter(store.blobs, writer, path_by_call, mask)
    outputs.prepare_digests(rows.tables["outputs"])

    def mask_messages() -> Iterator[TransferRow]:
        for row in TransferStore(store).messages(rows.session.id, rows.session.messages):
            path_by_call.update(legacy_output_files(_message_row(row)))
            yield mask.mask_row(_without_paths(row))

    writer.add_rows(MESSAGES_TABLE, mask_messages())
    output_rows = tuple(map(outputs.export_row, rows.tables["outputs"]))
    for table in rows.tables:
        writer.add_rows(table, output_rows if table == "outputs" else map(mask.mask_row, rows.tables[table]))
    row = rows.session
    fields = ("id", "project", "title", "model", "mode", "created", "updated", "parent", "forked", "family")
    manifest = writer.finish(mask.mask_row({field: getattr(row, field) for field in fields}), time.time())
    masked_count = mask.masked_count if mask.is_on else None
    return ExportedSession(
        row.id, row.title, row.messages, len(manifest.blobs), tuple(outputs.unreadable), masked_count
    )


def _import_bundle(store: SessionStore, bundle: Bundle, config: Config) -> ImportedSession:
    exported, message_count = _session_row(bundle), bundle.count(MESSAGES_TABLE)
    existing = _identical_session(store, exported.id, bundle)
    if existing is not None:
        return ImportedSession(existing.id, existing.title, existing.messages, exported.id, is_new=False)
    if store.blobs is None:
        raise StoreFailed("this store has no outputs", "missing")
    exported = _with_known_parent(store, exported, message_count)
    row = replace(
        exported,
        id=exported.id if store.session(exported.id) is None else TransferStore(store).unused_id(),
        project=exported.project if _is_folder(exported.project) else project_name(config),
        mode=stricter_mode(config.permission_mode, exported.mode)
        if exported.mode in PERMISSION_MODES
        else config.permission_mode,
    )
    skipped_tables = {MESSAGES_TABLE} | (OPTIONAL_TABLES - bundle.manifest.rows.keys())
    tables = {table: _checked_rows(bundle, table) for table in COLUMNS if table not in skipped_tables}
    if (row.id, row.project) != (exported.id, exported.project):
        tables["situation"] = _with_former_id(tables["situation"], exported)
    with _store_blobs(store.blobs, row.id, bundle):
        TransferStore(store).write_session(row, _checked_messages(bundle), tables)
    return ImportedSession(row.id, row.title, message_count, exported.id)


def _session_row(bundle: Bundle) -> SessionRow:
    """Return the session described in the manifest. Its id becomes part of file names, so it must be valid."""
    fields = bundle.manifest.session
    texts = [fields.get(name) for name in ("id", "project", "title", "model", "mode")]
    times = [fields.get(name) for name in ("created", "updated")]
    if not all(isinstance(text, str) for text in texts) or not _SESSION_ID_PATTERN.fullmatch(str(texts[0])):
        raise bundle.damage_error("its manifest has no valid session")
    if not all(map(is_valid_time, times)):
        raise bundle.damage_error("its manifest has no valid times")
    created, updated = (float(timestamp) for timestamp in times if isinstance(timestamp, int | float))
    session_id, project, title, model, mode = (str(text).encode("utf-8", "replace").decode("utf-8") for text in texts)
    parent, family, forked = (fields.get(name) for name in ("parent", "family", "forked"))
    branch = (parent, forked, family) if _is_branch(parent, family, forked) else (None, None, None)
    return SessionRow(session_id, project, title, model, mode, created, updated, 0, *branch)


def _is_branch(parent: object, family: object, forked: object) -> bool:
    are_ids_valid = all(
        isinstance(session_id, str) and _SESSION_ID_PATTERN.fullmatch(session_id) for session_id in (parent, family)
    )
    return are_ids_valid and type(forked) is int and forked >= 0


def _with_known_parent(store: SessionStore, exported: SessionRow, message_count: int) -> SessionRow:
    """Return the session as a fork of its parent if this store contains the parent; otherwise, as an independent
    session."""
    parent_exists = exported.parent is not None and exported.parent != exported.id and store.session(exported.parent)
    if parent_exists and (exported.forked or 0) <= message_count:
        return exported
    return replace(exported, parent=None, forked=None, family=None)


def _checked_messages(bundle: Bundle) -> Iterator[TransferRow]:
    """Yield the messages after checking that each can be read. File paths are removed, because they belong to another
    machine."""
    for position, row in enumerate(bundle.rows(MESSAGES_TABLE)):
        if not is_valid_row(row, MESSAGES_TABLE) or row["position"] != position:
            raise bundle.damage_error(f"message {position} is not a message")
        message = _message_row(row)
        try:
            digests = blob_digests(decode_message(message))
        except StoreFailed as error:
            raise bundle.damage_error(str(error)) from error
        if not all(map(is_digest, digests)):
            raise bundle.damage_error(f"message {position} names an output without a valid digest")
        yield _without_paths(row)


def _without_paths(row: TransferRow) -> TransferRow:
    """Return the message without the file paths of its outputs, which are meaningless on another machine."""
    return {**row, "body": body_without_files(_message_row(row))}


def _message_row(row: TransferRow) -> MessageRow:
    return MessageRow(int(row["position"] or 0), str(row["role"]), str(row["body"]))


def _checked_rows(bundle: Bundle, table: str) -> Iterator[TransferRow]:
    """Yield the rows of a table after checking them. They are exported in key order, so each key must be greater than
    the one before."""
    previous_key: tuple[Any, ...] | None = None
    for row_number, row in enumerate(bundle.rows(table), 1):
        if not is_valid_row(row, table):
            raise bundle.damage_error(f"row {row_number} of `{table}` is not a row")
        key = tuple(row[name] for name in KEY_COLUMNS[table]) if table in KEY_COLUMNS else None
        is_in_order = key is None or previous_key is None or key > previous_key
        if not is_in_order or int(row.get("position") or 0) > bundle.count(MESSAGES_TABLE):
            raise bundle.damage_error(f"row {row_number} of `{table}` does not fit the others")
        if table == "summaries":
            _check_summary(bundle, row)
        if row.get("digest") is not None and row["digest"] not in bundle.manifest.blobs:
            raise bundle.damage_error(f"the bytes of `r{row['number']}` are missing")
        previous_key = key
        yield row


def _check_summary(bundle: Bundle, row: TransferRow) -> None:
    try:
        decode_summary_row(SummaryRow(int(row["number"] or 0), int(row["position"] or 0), str(row["body"])))
    except StoreFailed as error:
        raise bundle.damage_error(str(error)) from error


def _identical_session(store: SessionStore, exported_id: str, bundle: Bundle) -> SessionRow | None:
    """Find a stored session with the same messages as the file, under its original id or the id from an earlier
    import."""
    transfer, bundle_digest = TransferStore(store), ""
    for session_id in (exported_id, *transfer.sessions_with_fact(FORMER_ID_FACT, exported_id)):
        row = store.session(session_id)
        if row is not None:
            bundle_digest = bundle_digest or sha256_of(map(encode_row, _checked_messages(bundle)))
            stored_messages = map(_without_paths, transfer.messages(session_id, row.messages))
            if sha256_of(map(encode_row, stored_messages)) == bundle_digest:
                return row
    return None


def _is_folder(project: str) -> bool:
    try:
        return Path(project).is_dir()
    except (OSError, ValueError):
        return False


def _with_former_id(facts: Iterable[TransferRow], exported: SessionRow) -> Iterator[TransferRow]:
    """Yield the facts, then a fact that records the session's former id and project, because references in its messages
    still use them."""
    for row in facts:
        if (row["kind"], row["key"]) != (FORMER_ID_FACT, exported.id):
            yield row
    yield {"kind": FORMER_ID_FACT, "key": exported.id, "body": exported.project}


@contextmanager
def _store_blobs(blobs: BlobStore, session_id: str, bundle: Bundle) -> Iterator[None]:
    """Store the blobs of a bundle while the session is written. On exit, remove those that no output of the session
    uses."""
    stored_digests: list[str] = []
    try:
        for digest, size in bundle.manifest.blobs.items():
            blob = blobs.put(bundle.blob_chunks(digest), session_id)
            stored_digests.append(blob.digest)
            if (blob.digest, blob.size) != (digest, size):
                raise bundle.damage_error(f"the output `{digest[:12]}` was changed")
        yield
    finally:
        for digest in stored_digests:
            with suppress(StoreError):  # garbage collection removes it within a day
                blobs.discard(digest, session_id)

"""Exports a session with everything it stored to one file, and imports it."""

import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from ebbtide.agent.archive.archive import FORMER
from ebbtide.agent.archive.bundle import Bundle, BundleWriter, bundle_line
from ebbtide.agent.archive.export_file import written_file
from ebbtide.agent.archive.export_mask import ExportMask
from ebbtide.agent.archive.exported_outputs import ExportedOutputs
from ebbtide.agent.config.options import MODES, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import digests_of, plain_body, read_summary, whole_files
from ebbtide.agent.records.session_lookup import find_session, project_of
from ebbtide.agent.records.store_access import opened_store
from ebbtide.store.blobs import Blobs
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import SESSION_ID, MessageRow, SessionRow, SummaryRow
from ebbtide.store.sessions import SessionStore
from ebbtide.store.transfer import COLUMNS, KEYS, MESSAGES, Rows, TransferRow, TransferStore, is_row_of, is_time

LATER = frozenset({"views"})
"""Tables that files of earlier versions lack."""

_ID = re.compile(SESSION_ID)
_DIGEST = re.compile(r"[0-9a-f]{64}")

_BUFFERED_TABLES = frozenset({"outputs", "situation"})
"""Tables that are held in memory as a whole."""
MAX_BUFFERED_ROWS = 100_000
"""Most rows of such a table."""

OR_FORCE = ", or replace it with --force"

Tables = Mapping[str, Iterable[TransferRow]]


@dataclass(frozen=True, slots=True)
class ExportedSession:
    session: str
    title: str
    messages: int
    outputs: int
    """Number of outputs and images in the file, besides those in messages."""
    left_out: tuple[str, ...]
    """References of outputs whose bytes are missing or damaged."""
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
    """False if the same session already existed and nothing was changed."""


def export_session(
    config: Config,
    prefix: str,
    file: IO[bytes] | Path | None,
    *,
    force: bool = False,
    environment: Mapping[str, str] | None = None,
) -> ExportedSession:
    """Export a session to a file, by default to a new one in the current folder named after it. The file appears
    only once it is complete; an existing one is replaced only with `force`. With an environment, its secrets and
    anything that looks like one are masked. Raises `AgentError`."""
    mask = None if environment is None else ExportMask(environment)
    with opened_store(config.folders) as store:
        row = find_session(store, prefix, project_of(config))
        if file is not None and not isinstance(file, Path):
            return _write(store, row.id, file, mask)
        with written_file(file or default_name(row.id), force=force, otherwise=OR_FORCE) as opened:
            return _write(store, row.id, opened, mask)


def default_name(session: str) -> Path:
    return Path(f"ebb-session-{session}.zip")


def import_session(config: Config, path: Path) -> ImportedSession:
    """Import an exported session, completely or not at all: with its id, or a new one if that is taken. Raises
    `AgentError`."""
    with closing(Bundle(path)) as bundle, opened_store(config.folders) as store:
        return _import_bundle(store, bundle, config)


def _write(store: SessionStore, session: str, file: IO[bytes], mask: ExportMask | None) -> ExportedSession:
    rows = TransferStore(store).read(session)
    if rows is None:
        raise StoreFailed(f"session `{session}` was deleted in the meantime", "missing")
    with closing(BundleWriter(file)) as writer:
        return _fill_bundle(store, rows, writer, mask)


def _fill_bundle(store: SessionStore, rows: Rows, writer: BundleWriter, mask: ExportMask | None) -> ExportedSession:
    transfer = TransferStore(store)
    files: dict[tuple[int, str], str] = {}
    """Plain files with outputs of earlier versions, by message and call."""
    keeper = ExportedOutputs(store.blobs, writer, files, mask)
    keeper.look_ahead(rows.tables["outputs"])
    shown = mask.row if mask is not None else lambda row: row

    def noticed() -> Iterator[TransferRow]:
        for row in transfer.messages(rows.session.id, rows.session.messages):
            files.update(whole_files(_message_row(row)))
            yield shown(_plain(row))

    writer.rows(MESSAGES, noticed())
    outputs = tuple(map(keeper.exported_row, rows.tables["outputs"]))
    for table in COLUMNS:
        if table != MESSAGES:
            writer.rows(table, outputs if table == "outputs" else map(shown, rows.tables[table]))
    row = rows.session
    fields = ("id", "project", "title", "model", "mode", "created", "updated", "parent", "forked", "family")
    manifest = writer.finish(shown({field: getattr(row, field) for field in fields}), time.time())
    masked = mask.count if mask is not None else None
    return ExportedSession(row.id, row.title, row.messages, len(manifest.blobs), tuple(keeper.left_out), masked)


def _import_bundle(store: SessionStore, bundle: Bundle, config: Config) -> ImportedSession:
    exported = _session_of(bundle)
    messages = sum(1 for _ in _messages(bundle))
    tables = _tables(bundle, messages)
    same = _identical_session(store, exported.id, bundle)
    if same is not None:
        return ImportedSession(same.id, same.title, same.messages, exported.id, is_new=False)
    exported = _with_parent(store, exported, messages)
    row = replace(
        exported,
        id=exported.id if store.session(exported.id) is None else _free_id(store),
        project=exported.project if _is_folder(exported.project) else project_of(config),
        mode=stricter_mode(config.permission_mode, exported.mode) if exported.mode in MODES else config.permission_mode,
    )
    if (row.id, row.project) != (exported.id, exported.project):
        tables = _with_former(tables, exported)
    if store.blobs is None:
        raise StoreFailed("this store has no outputs", "missing")
    with _stored_blobs(store.blobs, row.id, bundle, tables):
        TransferStore(store).write(row, _messages(bundle), tables)
    return ImportedSession(row.id, row.title, messages, exported.id)


def _session_of(bundle: Bundle) -> SessionRow:
    """The session in the manifest. Its id becomes part of file names, so it must be a valid id."""
    fields = bundle.manifest.session
    texts = [fields.get(name) for name in ("id", "project", "title", "model", "mode")]
    times = [fields.get(name) for name in ("created", "updated")]
    if not all(isinstance(text, str) for text in texts) or not _ID.fullmatch(str(texts[0])):
        raise bundle.damage_error("its manifest has no valid session")
    if not all(map(is_time, times)):
        raise bundle.damage_error("its manifest has no valid times")
    created, updated = (float(at) for at in times if isinstance(at, int | float))
    id, project, title, model, mode = (str(text).encode("utf-8", "replace").decode("utf-8") for text in texts)
    parent, family, forked = (fields.get(name) for name in ("parent", "family", "forked"))
    branch = (parent, forked, family) if _is_branch(parent, family, forked) else (None, None, None)
    return SessionRow(id, project, title, model, mode, created, updated, 0, *branch)


def _is_branch(parent: object, family: object, forked: object) -> bool:
    ids = all(isinstance(id, str) and _ID.fullmatch(id) for id in (parent, family))
    return ids and type(forked) is int and forked >= 0


def _with_parent(store: SessionStore, exported: SessionRow, messages: int) -> SessionRow:
    """The session as a fork of its parent if that exists here, else as an independent one."""
    is_here = exported.parent is not None and exported.parent != exported.id and store.session(exported.parent)
    if is_here and (exported.forked or 0) <= messages:
        return exported
    return replace(exported, parent=None, forked=None, family=None)


def _messages(bundle: Bundle) -> Iterator[TransferRow]:
    """Yield the messages after checking that each can be read. Paths in them are removed: they belong to another
    machine."""
    for position, row in enumerate(bundle.rows(MESSAGES)):
        if not isinstance(row, dict) or not is_row_of(MESSAGES, row) or row["position"] != position:
            raise bundle.damage_error(f"message {position} is not a message")
        message = _message_row(row)
        try:
            digests = digests_of(decode_message(message))
        except StoreFailed as error:
            raise bundle.damage_error(str(error)) from error
        if not all(_DIGEST.fullmatch(digest) for digest in digests):
            raise bundle.damage_error(f"message {position} names an output without a valid digest")
        yield _plain(row)


def _plain(row: TransferRow) -> TransferRow:
    """The message without the paths of its outputs, which mean nothing elsewhere."""
    return {**row, "body": plain_body(_message_row(row))}


def _message_row(row: TransferRow) -> MessageRow:
    return MessageRow(int(row["position"] or 0), str(row["role"]), str(row["body"]))


class _BundleRows:
    """The rows of a table, read from the file again at each iteration."""

    def __init__(self, bundle: Bundle, table: str) -> None:
        self._bundle = bundle
        self._table = table

    def __iter__(self) -> Iterator[TransferRow]:
        return cast(Iterator[TransferRow], self._bundle.rows(self._table))


def _tables(bundle: Bundle, messages: int) -> Tables:
    """All rows except messages, checked. Few are held in memory: a small file may contain many."""
    tables: dict[str, Iterable[TransferRow]] = {}
    for table in COLUMNS:
        if table == MESSAGES or (table in LATER and table not in bundle.manifest.rows):
            continue
        rows = _sound_rows(bundle, table, messages)
        if table in _BUFFERED_TABLES:
            tables[table] = tuple(rows)
        else:
            tables[table] = _BundleRows(bundle, table)
            for row in rows:
                if table == "summaries":
                    _readable_summary(bundle, row)
    for row in tables["outputs"]:
        if row["digest"] is not None and row["digest"] not in bundle.manifest.blobs:
            raise bundle.damage_error(f"the bytes of `r{row['number']}` are missing")
    return tables


def _sound_rows(bundle: Bundle, table: str, messages: int) -> Iterator[TransferRow]:
    """The rows of a table, checked. They are exported in key order, so each key must be greater than the one before."""
    before: tuple[Any, ...] | None = None
    for number, row in enumerate(bundle.rows(table), 1):
        if not isinstance(row, dict) or not is_row_of(table, row):
            raise bundle.damage_error(f"row {number} of `{table}` is not a row")
        key = tuple(row[name] for name in KEYS[table]) if table in KEYS else None
        is_new = key is None or before is None or key > before
        if not is_new or not 0 <= int(row.get("position", 0)) <= messages:
            raise bundle.damage_error(f"row {number} of `{table}` does not fit the others")
        if table in _BUFFERED_TABLES and number > MAX_BUFFERED_ROWS:
            raise bundle.damage_error(f"`{table}` has more than {MAX_BUFFERED_ROWS:,} rows")
        before = key
        yield row


def _readable_summary(bundle: Bundle, row: TransferRow) -> None:
    try:
        read_summary(SummaryRow(int(row["number"] or 0), int(row["position"] or 0), str(row["body"])))
    except StoreFailed as error:
        raise bundle.damage_error(str(error)) from error


def _identical_session(store: SessionStore, exported_id: str, bundle: Bundle) -> SessionRow | None:
    """The local session with the same messages as the file: under its original id, or the id from an earlier import."""
    transfer, said = TransferStore(store), ""
    for id in (exported_id, *transfer.sessions_with(FORMER, exported_id)):
        row = store.session(id)
        if row is not None:
            said = said or _digest_of(_messages(bundle))
            if _digest_of(map(_plain, transfer.messages(id, row.messages))) == said:
                return row
    return None


def _digest_of(rows: Iterable[TransferRow]) -> str:
    digest = hashlib.sha256()
    for line in map(bundle_line, rows):
        digest.update(line)
    return digest.hexdigest()


def _free_id(store: SessionStore) -> str:
    while store.session(id := secrets.token_hex(6)) is not None:
        pass
    return id


def _is_folder(project: str) -> bool:
    try:
        return Path(project).is_dir()
    except (OSError, ValueError):
        return False


def _with_former(tables: Tables, exported: SessionRow) -> Tables:
    """The rows with the session's former name, which references in its messages use."""
    known = [row for row in tables["situation"] if (row["kind"], row["key"]) != (FORMER, exported.id)]
    return {**tables, "situation": (*known, {"kind": FORMER, "key": exported.id, "body": exported.project})}


@contextmanager
def _stored_blobs(blobs: Blobs, session: str, bundle: Bundle, tables: Tables) -> Iterator[None]:
    """The blobs of all outputs are stored inside the context, and kept if their session is written there."""
    put: list[str] = []
    try:
        for digest in dict.fromkeys(str(row["digest"]) for row in tables["outputs"] if row["digest"] is not None):
            blob = blobs.put(bundle.blob(digest), session)
            put.append(blob.digest)
            if (blob.digest, blob.size) != (digest, bundle.manifest.blobs[digest]):
                raise bundle.damage_error(f"the output `{digest[:12]}` was changed")
        yield
    except BaseException:
        for digest in put:
            with suppress(StoreError):  # garbage collection removes it within a day
                blobs.discard(digest, session)
        raise

"""Whether all is well: settings, keys, folders, the store and every reference into it. It looks and changes nothing
but the version of an old database; no server is asked."""

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from agent.archive.embeddings import Embedder, EmbeddingFailed, folder_of
from agent.config.options import PROVIDERS
from agent.config.values import Config, Folders
from agent.context.mask import numbered_outputs
from agent.errors import AgentError, ConfigError, StoreFailed
from agent.lsp.find import found_servers
from agent.mcp.manage import rows
from agent.messages import Conversation
from agent.providers.keys import KeyStore, kept_key
from agent.providers.setup import find_endpoint, first_choice, key_variable
from agent.records.damage import named
from agent.records.garbage import excess
from agent.records.message_rows import decode_message
from agent.records.rows import decode_snapshot, read_summary
from agent.records.store_access import opened_store
from store.archive import ORPHAN_SECONDS, ArchiveStore
from store.blobs import Blobs
from store.checks import ReferenceChecks, damaged_blobs, examine_database, unsound_blobs
from store.errors import StoreError
from store.session_rows import OutputRow
from store.sessions import SessionStore
from tools.files.endings import endings_in
from tools.outputs.extent import counted, listed
from tools.sandbox.network_namespace import why_no_namespace
from tools.sandbox.system import Missing, SandboxProgram, found_sandbox

CheckState: TypeAlias = Literal["well", "note", "broken"]

MOST_NAMED = 5
"""References of a session that are named."""

SHOWN = "when the session goes on, a line stands for what cannot be read, and all else is shown"

_RECALLED = re.compile(r"\[recall:r([1-9]\d{0,17})\]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    state: CheckState
    text: str
    advice: str = ""
    """What to do."""


Tell: TypeAlias = Callable[[str, int, int], None]
"""Is told what is being looked at, how much of it is done, and of how much."""


def examine_settings(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """The settings that were read, the model and the names of the keys."""
    files = [config.folders.config / "config.toml", config.project / ".ebb" / "config.toml"]
    read = [str(path) for path in files if path.exists()]
    yield Finding("configuration", "well", f"read from {' and '.join(read)}" if read else "no file: all is as it comes")
    for notice in config.notices:
        yield Finding("configuration", "note", notice)
    yield from _keys(config, environment)
    yield from _model(config, environment)
    yield _sandbox(config)
    if config.may_have_servers:
        yield from _servers(config, environment)
    if config.lsp_enabled:
        yield from _language_servers(config, environment)
    if config.recall_embedding_model is not None:
        yield _embedding_model(config.recall_embedding_model)


def _sandbox(config: Config) -> Finding:
    if config.sandbox == "off":
        return Finding("sandbox", "well", "commands run without one, as `agent.sandbox` says")
    match found_sandbox():
        case SandboxProgram(kind=kind, note=note):
            closed = why_no_namespace()
            told = f"commands run in one: {kind}"
            network = (
                f"they have no network, but with the rule `network` all of it: {closed}"
                if closed
                else "rules such as `network(example.org)` open the network to them"
            )
            return Finding(
                "sandbox", "note" if note or closed else "well", "; ".join(filter(None, (told, note, network)))
            )
        case Missing(why=why):
            if config.sandbox == "require":
                return Finding("sandbox", "broken", f"commands are refused, since there is none: {why}")
            return Finding("sandbox", "note", f"there is none, so commands are asked about in every mode: {why}")


def _embedding_model(setting: str) -> Finding:
    try:
        embedder = Embedder(setting)
    except EmbeddingFailed as error:
        return Finding("meanings", "broken", str(error))
    return Finding("meanings", "well", f"`{folder_of(setting)}` gives vectors of {embedder.size:,} numbers")


def _keys(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    variables = dict.fromkeys(filter(None, (key_variable(name, config.provider(name)) for name in PROVIDERS)))
    found = [variable for variable in variables if environment.get(variable)]
    store = KeyStore(config.folders.config)
    try:
        kept = store.kept()
    except ConfigError as error:
        kept = {}
        yield Finding("keys", "broken", str(error))
    for name, key in kept.items():
        place = "the keyring of this system" if key.place == "keyring" else f"`{store.path}`"
        if kept_key(environment, name) is None:
            yield Finding("keys", "broken", f"that for {name} is not given by {place}; run `ebb key set {name}` again")
        else:
            yield Finding("keys", "well", f"that for {name} comes from {place}, for {key.origin} alone")
    if found or kept:
        if not found:
            return
        yield Finding("keys", "well", f"found in {', '.join(found)}")
    else:
        yield Finding("keys", "note", f"none is set in {', '.join(variables)}; servers on this machine need none")


def _model(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    for model in (config.model, *config.fallback_models):
        try:
            chosen = model or first_choice(environment)
            name = chosen.partition("/")[0]
            if name in PROVIDERS and name != "scripted":
                find_endpoint(name, config.provider(name), environment)
        except AgentError as error:
            yield Finding("model", "broken", str(error))
            continue
        if name in PROVIDERS:
            yield Finding("model", "well", f"`{chosen}`; whether its server answers was not tried")
        else:
            advice = f"write PROVIDER/NAME; providers are {', '.join(PROVIDERS)}"
            yield Finding("model", "broken", f"there is no provider for `{chosen}`", advice)


def _servers(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    found = rows(config, environment)
    for row in found:
        subject = f"`{row.name}` of `{row.source}`" if row.name else f"`{row.source}`"
        match row.standing:
            case "unusable":
                yield Finding("servers", "broken", f"{subject} cannot be used: {row.detail}")
            case "not approved" | "changed":
                yield Finding("servers", "note", f"{subject}: {row.detail}", f"`ebb mcp test {row.name}` shows it")
            case "on" | "off" | "refused":
                pass
    on = [row.name for row in found if row.standing == "on"]
    if on:
        yield Finding("servers", "well", f"{', '.join(on)}; whether they start was not tried")


def _language_servers(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Those that would be started for files of their language. Where there are none, there is nothing to say."""
    subject = "language servers"
    found, endings = found_servers(config, config.project, environment), endings_in(config.project)
    missing = [one for one in found if not os.access(one.spec.command[0], os.X_OK)]
    on = [one for one in found if one.standing == "on" and one not in missing]
    if on:
        names = ", ".join(f"{one.spec.name} ({one.spec.command[0]})" for one in on)
        yield Finding(subject, "well", f"{names}; whether they start was not tried")
    for one in found:
        if one.standing == "not approved" and any(ending in endings for ending in one.spec.extensions):
            yield Finding(subject, "note", f"{one.spec.name} ({one.source}) is not started: this folder is not trusted")
        elif one in missing:
            yield Finding(subject, "broken", f"{one.spec.name}: there is no program `{one.spec.command[0]}`")


def examine_folders(folders: Folders) -> Iterator[Finding]:
    """Whether what is kept can be written, and read by nobody else."""
    data = folders.data
    if not data.exists():
        yield Finding("folders", "well", f"`{data}` will be made with the first session")
        return
    broken = 0
    for path in (data, data / "sessions.db", data / "blobs", data / "outputs", data / "history", folders.logs):
        finding = _of_path(path, is_open=path in (data, folders.logs))
        if finding is not None:
            broken += 1
            yield finding
    if not broken:
        yield Finding("folders", "well", f"`{data}` is yours alone")


def _of_path(path: Path, *, is_open: bool) -> Finding | None:
    """What is wrong with a path, when it is there. `is_open`: no folder around it keeps others out."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Finding("folders", "broken", f"cannot look at `{path}`: {error.strerror or error}")
    if status.st_uid != os.geteuid():
        return Finding("folders", "broken", f"`{path}` belongs to another user", f"run `chown $USER {path}`")
    if not os.access(path, os.W_OK):
        return Finding("folders", "broken", f"`{path}` cannot be written", f"run `chmod u+w {path}`")
    if is_open and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        return Finding("folders", "broken", f"others may read `{path}` (mode {mode:o})", f"run `chmod 700 {path}`")
    return None


def examine_store(
    folders: Folders, tell: Tell, *, deep: bool = False, most_bytes: int | None = None
) -> Iterator[Finding]:
    """The database, every reference in it, and the bytes beside it; `deep` reads all of those. `most_bytes`: what kept
    outputs may take on disk."""
    path = folders.data / "sessions.db"
    if not path.exists() and not path.with_name(f"{path.name}-wal").exists():
        yield Finding("store", "well", "there is no session yet")
        return
    aside = "run `ebb doctor --repair`: it saves what can be read, and sets the damaged one aside"
    try:
        examined = examine_database(path, lambda: tell("the database", 0, 0))
    except StoreError as error:
        yield Finding("store", "broken", str(error))
        return
    if examined.version > examined.newest:
        text = f"`{path}` has schema {examined.version}, and this version knows {examined.newest}"
        yield Finding("store", "broken", text, "update this program")
        return
    for problem in examined.problems:
        yield Finding("store", "broken", f"`{path}` is damaged: {problem}", aside)
    for problem in examined.index_problems:
        yield Finding(
            "store", "note", f"the index of the search is damaged: {problem}", "the next search makes it anew"
        )
    if not examined.problems:
        text = f"`{path}` is whole: {examined.size / 1e6:,.1f} MB, schema {examined.version}"
        yield Finding("store", "well", text)
    try:
        with opened_store(folders) as store:
            yield from _references(store, tell, deep=deep)
            yield from _orphans(store, folders)
            yield from _excess(store, most_bytes)
    except StoreFailed as error:
        yield Finding("store", "broken", str(error))


def _references(store: SessionStore, tell: Tell, *, deep: bool) -> Iterator[Finding]:
    checks = ReferenceChecks(store)
    kept = frozenset(store.blobs.sizes()) if store.blobs is not None else frozenset[str]()
    damaged = frozenset[str]()
    if store.blobs is not None:
        wanted = {digest: size for digest, size in checks.needed().items() if digest in kept}
        damaged = frozenset(unsound_blobs(store.blobs, wanted))
        if deep:
            sound = frozenset(wanted) - damaged
            damaged |= frozenset(
                damaged_blobs(store.blobs, sound, lambda done: tell("stored outputs", done, len(sound)))
            )
    sessions = checks.sessions()
    references, removed, broken = 0, 0, 0
    for number, session in enumerate(sessions):
        tell("sessions", number, len(sessions))
        looked = _Look(store, checks, session, kept, damaged).findings()
        for finding in looked.findings:
            broken += finding.state == "broken"
            yield finding
        references += looked.references
        removed += looked.removed
    if not broken:
        how = "every byte of them was read" if deep else "`--deep` reads every byte of them"
        which = f"{references - removed:,} of {references:,}" if removed else f"all {references:,}"
        gone = f"; the bytes of {removed:,} were removed for their age or size" if removed else ""
        yield Finding("references", "well", f"{which} in {counted(len(sessions), 'session')} resolve{gone}; {how}")


@dataclass(frozen=True, slots=True)
class _Looked:
    references: int
    removed: int
    """How many of them stand for bytes that were removed."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """At one session."""

    store: SessionStore
    checks: ReferenceChecks
    session: str
    kept: frozenset[str]
    """The digests of the bytes that are there."""
    damaged: frozenset[str]
    """Those of them that are known to be damaged."""

    def findings(self) -> _Looked:
        archive = ArchiveStore(self.store)
        rows = archive.all(self.session)
        found = [*self._view(rows)]
        gone = [row for row in rows if row.digest is not None and row.digest not in self.kept]
        damaged = [row for row in rows if row.digest in self.damaged]
        lost = self.checks.without_message(self.session)
        rerun = "run the calls again if they are needed"
        if gone:
            found.append(self._broken(f"the bytes of {_named(row.number for row in gone)} are gone", rerun))
        if damaged:
            found.append(self._broken(f"the bytes of {_named(row.number for row in damaged)} are damaged", rerun))
        if lost:
            found.append(self._broken(f"the messages with {_named(iter(lost))} are gone", rerun))
        changed = self.checks.changed(self.session)
        if changed and not found:  # what cannot be read has been named
            found.append(self._broken(f"{named(changed)} changed on the disk since it was written", SHOWN))
        if self.checks.gaps(self.session):
            found.append(self._broken("some of its messages are missing", "restore the database from a backup"))
        summaries = archive.summaries(self.session)
        for row in summaries:
            try:
                read_summary(row)
            except StoreFailed as error:
                found.append(self._broken(str(error), "the messages that it stood for are still there"))
        removed = {row.number for row in rows if row.removed is not None}
        return _Looked(len({row.number for row in rows}) + len(summaries), len(removed), tuple(found))

    def _view(self, rows: tuple[OutputRow, ...]) -> Iterator[Finding]:
        """Whether what the model is shown can be read, and what is named there can be had."""
        snapshot = self.store.snapshot(self.session)
        decoded = decode_snapshot(snapshot.body) if snapshot else (0, Conversation())
        if decoded is None:
            yield Finding("session", "note", f"{self.session}: its snapshot cannot be read", "it resumes without it")
        start, shown = decoded or (0, Conversation())
        try:
            messages = tuple(decode_message(row) for row in self.store.messages(self.session, start))
        except StoreFailed as error:
            yield self._broken(str(error), SHOWN)
            return
        if start and not shown.outputs_before:  # earlier versions did not count
            shown = replace(shown, outputs_before=ArchiveStore(self.store).count_before(self.session, start))
        known = {row.number: row for row in rows if row.part == 0}
        astray = [
            output.number
            for output in numbered_outputs(replace(shown, messages=messages))
            if not _is_row_of(known.get(output.number), output.output.call_id, output.output.stored)
        ]
        if astray:
            yield self._broken(f"{_named(iter(astray))} in its view stand for nothing", "compact the session to go on")
        written = [int(number) for number in _RECALLED.findall(shown.summary.text)]
        unknown = [number for number in dict.fromkeys(written) if number not in known]
        if unknown:
            text = f"{self.session}: its summary names {_named(iter(unknown))}, which never was"
            yield Finding("session", "note", text, "a model wrote that; `/compact` writes another")

    def _broken(self, text: str, advice: str) -> Finding:
        return Finding("session", "broken", f"{self.session}: {text}", advice)


def _is_row_of(row: OutputRow | None, call: str, stored: object) -> bool:
    """Whether a row is that of an output in view: of the same call, and with bytes of its own where it is not whole."""
    if row is None or row.call != call:
        return False
    return stored is None or row.digest is not None or row.removed is not None


def _named(numbers: Iterator[int]) -> str:
    """`r1`, `r2` and 3 more."""
    return listed([f"`r{number}`" for number in dict.fromkeys(numbers)], MOST_NAMED)


def _orphans(store: SessionStore, folders: Folders) -> Iterator[Finding]:
    """What nobody needs any more. None of it is a fault: it goes by itself."""
    if store.blobs is None:
        return
    checks, sizes = ReferenceChecks(store), store.blobs.sizes()
    extra = sizes.keys() - checks.needed().keys() - checks.kept_befores()
    if extra:
        size = sum(sizes[digest] for digest in extra) / 1e6
        text = f"{len(extra):,} that no session needs ({size:,.1f} MB)"
        yield Finding(
            "stored outputs", "note", text, "they are removed within a day of use, or when a session is deleted"
        )
    else:
        size = sum(sizes.values()) / 1e6
        yield Finding("stored outputs", "well", f"{len(sizes):,}, {size:,.1f} MB, each needed by a session")
    unfinished = _unfinished(store.blobs)
    if unfinished:
        text = f"{unfinished:,} that killed programs left unfinished"
        yield Finding("stored outputs", "note", text, "they are removed within a day of use")
    known = set(checks.sessions())
    outputs = folders.data / "outputs"
    folders_left = [path.name for path in outputs.glob("*") if path.name not in known] if outputs.is_dir() else []
    if folders_left:
        text = f"{len(folders_left):,} folders in `{outputs}` belong to no session"
        yield Finding("stored outputs", "note", text, "remove them if no program is running")


def _excess(store: SessionStore, most_bytes: int | None) -> Iterator[Finding]:
    """Whether more is in use than the user wants to be kept. Nothing is broken then: none of it may go."""
    sizes = store.blobs.sizes() if store.blobs is not None else {}
    held = sum(sizes.get(digest, 0) for digest in ReferenceChecks(store).needed())
    if most_bytes is not None and held > most_bytes:
        yield Finding("stored outputs", "note", excess(held, most_bytes))


def _unfinished(blobs: Blobs) -> int:
    oldest = time.time() - ORPHAN_SECONDS
    count = 0
    for path in (blobs.folder / "incoming").glob("*"):
        try:
            count += path.stat().st_mtime < oldest
        except FileNotFoundError:  # it was settled meanwhile
            continue
    return count

"""Trust in a project's extensions: the user's decisions, stored in a file that only the user can read. Each decision is
bound to a digest of everything that would be read or run. Unreadable entries count as not approved."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.private_table import ProjectTable
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, ExtensionKind, ExtensionOwner
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.git_metadata import main_work_tree_folder

TrustVerdict: TypeAlias = Literal["approved", "refused"]
TrustState: TypeAlias = Literal["on", "not approved", "changed", "refused"]

MAX_STORED_DETAIL_LINES = 200
"""Maximum number of lines stored per item. They are used to show what has changed since the approval."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """An extension that can be approved."""

    kind: ExtensionKind
    name: str
    owner: ExtensionOwner
    source: str
    """The file or folder that contains the item, for display."""
    digest: str
    """Digest of everything that would be read or run."""
    details: tuple[str, ...]
    """A description of everything that would be approved, one line each."""
    effect: str = ""
    """What the item can do once approved, as a sentence; empty for the default text of its kind."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


def create_trust_item(
    extension_folder: ExtensionFolder, name: str, path: Path, digest: str, details: Sequence[str]
) -> TrustItem:
    """Create the trust item for an extension found in a folder. If the extension applies to a subfolder of the project,
    its name starts with that folder, so that items with the same name are approved separately."""
    name_prefix = f"{extension_folder.project_subfolder}:" if extension_folder.project_subfolder else ""
    return TrustItem(
        extension_folder.kind,
        f"{name_prefix}{name}",
        extension_folder.owner,
        extension_folder.display_path(path),
        digest,
        tuple(details),
    )


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """The user's decision about one item."""

    digest: str
    verdict: TrustVerdict
    details: tuple[str, ...] = ()
    """The lines of `TrustItem.details` that the user saw."""
    source: str = ""


def hash_texts(*texts: str) -> str:
    """Return a digest of several strings. Splitting the same text differently changes the digest."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


class ProjectTrust:
    """The user's decisions about one project. A decision that cannot be saved still applies to this object."""

    def __init__(self, config: Config) -> None:
        self._table = ProjectTable(config.folders.data / "trust.json", config.project_folder)
        self._is_project_trusted = config.is_project_trusted
        self.problem = ""
        """Why the approvals could not be read; empty if they could."""
        try:
            self._records = _records_from_json({**_main_worktree_entries(config), **self._table.read()})
        except ConfigError as error:
            self._records, self.problem = {}, str(error)

    @property
    def records(self) -> Mapping[str, TrustRecord]:
        """All decisions about this project, by `TrustItem.key`."""
        return dict(self._records)

    def trust_state(self, item: TrustItem) -> TrustState:
        """Return the state of an item. Only items in the state "on" may be used. The user's own items are always on.
        Plugin items are too, because they are approved when the plugin is added. With `--trust`, every item is on
        unless it was refused, even if its content has changed since. The state "changed" means that different content
        was approved."""
        if item.owner != "project":
            return "on"
        record = self._records.get(item.key)
        if record is not None and record.verdict == "refused":
            return "refused" if record.digest == item.digest else "not approved"
        if self._is_project_trusted:
            return "on"
        if record is None:
            return "not approved"
        return "on" if record.digest == item.digest else "changed"

    def previous_approval(self, item: TrustItem) -> TrustRecord | None:
        """Return the approval of an earlier version of an item; None if the item has not changed since, or was never
        approved."""
        return self._records.get(item.key) if self.trust_state(item) == "changed" else None

    def decide(self, items: Iterable[TrustItem], verdict: TrustVerdict) -> None:
        """Store a decision about the current content of items. Raises `ConfigError` if it could not be written."""
        new_records = {
            item.key: TrustRecord(item.digest, verdict, item.details[:MAX_STORED_DETAIL_LINES], item.source)
            for item in items
            if item.owner == "project"
        }
        self._records = {**self._records, **new_records}
        self._table.update(
            lambda entry: {**entry, **{key: _record_to_json(record) for key, record in new_records.items()}}
        )

    def forget(self, keys: Iterable[str]) -> None:
        """Remove decisions, so that the user is asked again. Raises `ConfigError` if it could not be written."""
        removed_keys = set(keys)
        self._records = {key: record for key, record in self._records.items() if key not in removed_keys}
        self._table.update(lambda entry: {key: record for key, record in entry.items() if key not in removed_keys})


def _main_worktree_entries(config: Config) -> Mapping[str, object]:
    """If the project is a linked worktree, return the main worktree's entries, because both belong to the same
    repository. Raises `ConfigError`."""
    main_folder = main_work_tree_folder(config.project_folder)
    return {} if main_folder is None else ProjectTable(config.folders.data / "trust.json", main_folder).read()


def _record_to_json(record: TrustRecord) -> dict[str, object]:
    return {
        "digest": record.digest,
        "verdict": record.verdict,
        "shown": list(record.details),
        "source": record.source,
    }


def _records_from_json(entry: Mapping[str, object]) -> dict[str, TrustRecord]:
    return {key: record for key, value in entry.items() if (record := _record_from_json(value)) is not None}


def _record_from_json(entry: object) -> TrustRecord | None:
    match entry:
        case {"digest": str(digest), "verdict": "approved" | "refused" as verdict, **other_fields}:
            stored_lines, source = other_fields.get("shown"), other_fields.get("source")
            lines = stored_lines if isinstance(stored_lines, list) else ()
            return TrustRecord(digest, verdict, tuple(map(str, lines)), source if isinstance(source, str) else "")
        case _:
            return None

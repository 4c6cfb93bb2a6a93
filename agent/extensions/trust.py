"""Trust in extensions of a project: the user's decisions, each pinned to a digest of everything that would be read or
run, in a file that only the user can read. Unreadable entries count as not approved."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.private_table import ProjectTable
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, Kind, Owner
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.git_metadata import in_main_work_tree

Verdict: TypeAlias = Literal["approved", "refused"]
Standing: TypeAlias = Literal["on", "not approved", "changed", "refused"]

MAX_STORED_LINES = 200
"""Maximum number of lines stored per item, to show later what has changed."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """An extension that can be approved."""

    kind: Kind
    name: str
    owner: Owner
    source: str
    """The file or folder that it comes from, for people."""
    digest: str
    """Digest of everything that would be read or run."""
    details: tuple[str, ...]
    """What is approved, one line each."""
    effect: str = ""
    """What it can do once approved, as a sentence; empty for the default text of its kind."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


def item_in(place: ExtensionFolder, name: str, path: Path, digest: str, shown: Sequence[str]) -> TrustItem:
    """Make the item for an extension found in a folder. Below the top of the project the name starts with the
    subfolder, so that items with the same name are approved separately."""
    where = f"{place.below}:" if place.below else ""
    return TrustItem(place.kind, f"{where}{name}", place.owner, place.display_path(path), digest, tuple(shown))


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """The user's decision about one item."""

    digest: str
    verdict: Verdict
    details: tuple[str, ...] = ()
    """The lines that the user saw."""
    source: str = ""


def digest_of_text(*texts: str) -> str:
    """Digest of several texts, including their boundaries."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


class FolderTrust:
    """The user's decisions about one project. They apply to this object even if they could not be saved."""

    def __init__(self, config: Config) -> None:
        self._file = ProjectTable(config.folders.data / "trust.json", config.project)
        self._trusts_all = config.trusts_project
        self.problem = ""
        """Why the approvals could not be read; empty if they were."""
        try:
            self._known = _records_from_json({**_of_main_work_tree(config), **self._file.read()})
        except ConfigError as error:
            self._known, self.problem = {}, str(error)

    @property
    def decisions(self) -> Mapping[str, TrustRecord]:
        """All decisions about this project, by `TrustItem.key`."""
        return dict(self._known)

    def standing(self, item: TrustItem) -> Standing:
        """Whether an item may be used. Items of the user and of plugins (approved when added) always may. With
        `--trust`, so may every item that was not refused; a refused item does not become acceptable by changing its
        content. "changed" means that other content was approved."""
        if item.owner != "project":
            return "on"
        known = self._known.get(item.key)
        if known is not None and known.verdict == "refused":
            return "refused" if known.digest == item.digest else "not approved"
        if self._trusts_all:
            return "on"
        if known is None:
            return "not approved"
        return "on" if known.digest == item.digest else "changed"

    def before(self, item: TrustItem) -> TrustRecord | None:
        """The approval of an earlier version of an item that has changed."""
        return self._known.get(item.key) if self.standing(item) == "changed" else None

    def decide(self, items: Iterable[TrustItem], verdict: Verdict) -> None:
        """Store a decision about items in their current state. Raises `ConfigError` if it could not be written."""
        new = {
            item.key: TrustRecord(item.digest, verdict, item.details[:MAX_STORED_LINES], item.source)
            for item in items
            if item.owner == "project"
        }
        self._known = {**self._known, **new}
        self._file.change(lambda entry: {**entry, **{key: _record_to_json(one) for key, one in new.items()}})

    def forget(self, keys: Iterable[str]) -> None:
        """Remove decisions, so that the user is asked again. Raises `ConfigError` if it could not be written."""
        gone = set(keys)
        self._known = {key: one for key, one in self._known.items() if key not in gone}
        self._file.change(lambda entry: {key: one for key, one in entry.items() if key not in gone})


def _of_main_work_tree(config: Config) -> Mapping[str, object]:
    """Decisions about the main worktree, if the project is a linked worktree: the same content was approved there.
    Raises `ConfigError`."""
    main = in_main_work_tree(config.project)
    return {} if main is None else ProjectTable(config.folders.data / "trust.json", main).read()


def _record_to_json(approval: TrustRecord) -> dict[str, object]:
    return {
        "digest": approval.digest,
        "verdict": approval.verdict,
        "shown": list(approval.details),
        "source": approval.source,
    }


def _records_from_json(entry: Mapping[str, object]) -> dict[str, TrustRecord]:
    return {key: found for key, one in entry.items() if (found := _approval(one)) is not None}


def _approval(entry: object) -> TrustRecord | None:
    match entry:
        case {"digest": str(digest), "verdict": "approved" | "refused" as verdict, **rest}:
            shown, source = rest.get("shown"), rest.get("source")
            lines = shown if isinstance(shown, list) else ()
            return TrustRecord(digest, verdict, tuple(map(str, lines)), source if isinstance(source, str) else "")
        case _:
            return None

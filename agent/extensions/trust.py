"""Trust in what a project brings: of each thing whether the user has approved it, pinned to a digest of all of it that
would run or be read; in a file of the user's that only its owner can read. What cannot be read was not approved."""

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
"""Lines of what was shown that are kept, to say later what has changed."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing that a project brings, or that the user has."""

    kind: Kind
    name: str
    owner: Owner
    source: str
    """Where it comes from, for people: a file, or a folder."""
    digest: str
    """Of everything of it that would run or be read."""
    details: tuple[str, ...]
    """What is approved, a line each."""
    effect: str = ""
    """What it can do once it is approved, as a sentence; empty: as its kind does."""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


def item_in(place: ExtensionFolder, name: str, path: Path, digest: str, shown: Sequence[str]) -> TrustItem:
    """What is to be approved of a thing that was found in a place. The name of one below the top of the project begins
    with its folder, so that each of several of one name is approved for itself."""
    where = f"{place.below}:" if place.below else ""
    return TrustItem(place.kind, f"{where}{name}", place.owner, place.display_path(path), digest, tuple(shown))


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """What the user said of one thing."""

    digest: str
    verdict: Verdict
    details: tuple[str, ...] = ()
    """What they saw of it, a line each."""
    source: str = ""


def digest_of_text(*texts: str) -> str:
    """A digest of texts that tells where one ends and the next begins."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


class FolderTrust:
    """What the user has decided about one project. What is decided holds for this object even if it cannot be kept."""

    def __init__(self, config: Config) -> None:
        self._file = ProjectTable(config.folders.data / "trust.json", config.project)
        self._trusts_all = config.trusts_project
        self.problem = ""
        """Why what was approved cannot be read, if so."""
        try:
            self._known = _records_from_json({**_of_main_work_tree(config), **self._file.read()})
        except ConfigError as error:
            self._known, self.problem = {}, str(error)

    @property
    def decisions(self) -> Mapping[str, TrustRecord]:
        """All that the user has decided about this project, by `Item.key`."""
        return dict(self._known)

    def standing(self, item: TrustItem) -> Standing:
        """Whether a thing may be used. The user's own may, and so may what is in a plugin, which was approved when it
        was added; in a run with `--trust` all may that is not refused, and what was refused does not become another
        thing by another content. Changed: another content of it was approved."""
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
        """What was approved under the name of a thing that has changed since."""
        return self._known.get(item.key) if self.standing(item) == "changed" else None

    def decide(self, items: Iterable[TrustItem], verdict: Verdict) -> None:
        """Keeps what the user says of things as they are now. Raises `ConfigError` when that cannot be written."""
        new = {
            item.key: TrustRecord(item.digest, verdict, item.details[:MAX_STORED_LINES], item.source)
            for item in items
            if item.owner == "project"
        }
        self._known = {**self._known, **new}
        self._file.change(lambda entry: {**entry, **{key: _record_to_json(one) for key, one in new.items()}})

    def forget(self, keys: Iterable[str]) -> None:
        """Takes decisions back: it is asked again. Raises `ConfigError` when that cannot be written."""
        gone = set(keys)
        self._known = {key: one for key, one in self._known.items() if key not in gone}
        self._file.change(lambda entry: {key: one for key, one in entry.items() if key not in gone})


def _of_main_work_tree(config: Config) -> Mapping[str, object]:
    """What was decided about the same in the repository that the project is a linked work tree of: there it was
    approved with this content. Raises `ConfigError`."""
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

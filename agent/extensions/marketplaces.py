"""Repositories of several plugins (`.claude-plugin/marketplace.json`): which there are, where each lies, and what is
said of it there. It reads one file and fetches nothing."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.extension_files import UnusableFile, table_of
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

MARKET = ".claude-plugin/marketplace.json"
_MAX_LISTED_NAMES = 60
_PARTS = ("skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles")
_GITHUB = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class RemotePlugin:
    """A plugin in another repository."""

    address: str
    folder: str
    """Where in it, from its top on."""
    ref: str
    """The commit, tag or branch; empty: the newest."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A plugin as a repository of several names it."""

    name: str
    place: str | RemotePlugin
    """A folder of the same repository, or another one."""
    entry: Mapping[str, object]
    """All that is said of it."""

    def folder_in(self, top: Path) -> Path:
        """Where it lies in the repository of this folder. Raises `UsageError`."""
        assert isinstance(self.place, str)
        return inside(top, self.place, self.name)

    def manifest(self, own: Mapping[str, object]) -> dict[str, object]:
        """What its manifest says with what is said of it besides; `strict = false` says that its own counts for
        nothing."""
        is_all = self.entry.get("strict") is False
        about = {key: value for key, value in self.entry.items() if key in ("version", "description")}
        sources = [self.entry] if is_all else [own, self.entry]
        parts = {key: _merge_values([source[key] for source in sources if key in source]) for key in _PARTS}
        kept = {key: value for key, value in parts.items() if value is not None}
        others = {key: value for key, value in own.items() if key not in _PARTS}
        told = {**others, **about, "strict": False} if is_all else {**about, **others}
        return {**told, **kept, "name": self.name}


def offers_in(folder: Path) -> tuple[Offer, ...] | None:
    """Those of a repository; None where it is none of several. Raises `UsageError`."""
    if not (folder / MARKET).is_file():
        return None
    try:
        content = table_of(folder / MARKET, folder)
    except UnusableFile as error:
        raise UsageError(f"`{MARKET}` cannot be used: {error}") from error
    entries, metadata = content.get("plugins"), content.get("metadata")
    base = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
    found = (
        Offer(name, place, one)
        for one in (entries if isinstance(entries, list) else ())
        if isinstance(one, dict)
        and isinstance(name := one.get("name"), str)
        and (place := _place(one.get("source"), base if isinstance(base, str) else "")) is not None
    )
    return tuple({offer.name: offer for offer in found}.values())


def choose_offer(offers: tuple[Offer, ...], name: str) -> Offer:
    """The one of a name, or the only one. Raises `UsageError`."""
    names = [offer.name for offer in offers]
    if not name and len(offers) != 1:
        there = join_limited(names, _MAX_LISTED_NAMES) if names else "none is in it"
        raise UsageError(f"it holds several plugins; name one with `--plugin`: {there}")
    found = next((offer for offer in offers if offer.name == (name or names[0])), None)
    if found is None:
        raise UsageError(
            f"it holds no plugin `{name}` that can be fetched; there are {join_limited(names, _MAX_LISTED_NAMES)}"
        )
    return found


def inside(top: Path, name: str, plugin: str) -> Path:
    """The folder of a plugin in a repository. Raises `UsageError`."""
    try:
        path = Path(os.path.realpath(top / name))
        is_there = path.is_relative_to(os.path.realpath(top)) and path.is_dir()
    except ValueError as error:  # a name that no file can have
        raise UsageError(f"the plugin `{plugin}` is not in this repository") from error
    if not is_there:
        raise UsageError(f"the plugin `{plugin}` is not in this repository")
    return path


def _place(source: object, base: str) -> str | RemotePlugin | None:
    """Where a plugin lies; None where it is said in a way that is not known here, as of packages of a registry."""
    if isinstance(source, str):
        return source if not base or source.startswith(".") else f"{base}/{source}"
    if not isinstance(source, dict):
        return None
    match source:
        case {"source": "github", "repo": str(repo)} if _GITHUB.fullmatch(repo):
            return RemotePlugin(f"https://github.com/{repo}.git", "", _ref(source))
        case {"source": "url" | "git", "url": str(url)}:
            return RemotePlugin(url, "", _ref(source))
        case {"source": "git-subdir", "url": str(url), "path": str(path)}:
            address = f"https://github.com/{url}.git" if _GITHUB.fullmatch(url) else url
            return RemotePlugin(address, path, _ref(source))
        case _:
            return None


def _ref(source: Mapping[str, object]) -> str:
    said = (source.get(key) for key in ("sha", "commit", "ref", "tag", "branch"))
    return next((one for one in said if isinstance(one, str) and one), "")


def _merge_values(said: list[object]) -> object:
    """Paths of several lists, or tables, as one; None where nothing is said."""
    tables = [one for one in said if isinstance(one, dict)]
    if tables and len(tables) == len(said):
        return {key: value for table in reversed(tables) for key, value in table.items()}
    lists = [one if isinstance(one, list) else [one] for one in said]
    return [each for one in lists for each in one] or None

"""Plugin marketplaces, repositories with several plugins (`.claude-plugin/marketplace.json`): their plugins, locations
and metadata. Reads one file and fetches nothing."""

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
    """Folder relative to the top of that repository."""
    ref: str
    """The commit, tag or branch; empty for the default branch."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A plugin listed in a marketplace."""

    name: str
    place: str | RemotePlugin
    """A folder of the same repository, or another repository."""
    entry: Mapping[str, object]
    """The marketplace's entry for the plugin."""

    def folder_in(self, top: Path) -> Path:
        """The plugin's folder in a copy of the repository. Raises `UsageError`."""
        assert isinstance(self.place, str)
        return inside(top, self.place, self.name)

    def manifest(self, own: Mapping[str, object]) -> dict[str, object]:
        """Merge the plugin's own manifest with the marketplace entry; `strict = false` ignores the plugin's own."""
        is_all = self.entry.get("strict") is False
        about = {key: value for key, value in self.entry.items() if key in ("version", "description")}
        sources = [self.entry] if is_all else [own, self.entry]
        parts = {key: _merge_values([source[key] for source in sources if key in source]) for key in _PARTS}
        kept = {key: value for key, value in parts.items() if value is not None}
        others = {key: value for key, value in own.items() if key not in _PARTS}
        told = {**others, **about, "strict": False} if is_all else {**about, **others}
        return {**told, **kept, "name": self.name}


def offers_in(folder: Path) -> tuple[Offer, ...] | None:
    """Return the plugins of a marketplace; None if the folder is not one. Raises `UsageError`."""
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
    """Return the plugin with this name, or the only plugin. Raises `UsageError`."""
    names = [offer.name for offer in offers]
    if not name and len(offers) != 1:
        there = join_limited(names, _MAX_LISTED_NAMES) if names else "it is empty"
        raise UsageError(f"it contains several plugins; choose one with `--plugin`: {there}")
    found = next((offer for offer in offers if offer.name == (name or names[0])), None)
    if found is None:
        raise UsageError(
            f"it contains no plugin `{name}` that can be fetched; available: {join_limited(names, _MAX_LISTED_NAMES)}"
        )
    return found


def inside(top: Path, name: str, plugin: str) -> Path:
    """Return a plugin's folder in a repository. Raises `UsageError`."""
    try:
        path = Path(os.path.realpath(top / name))
        is_there = path.is_relative_to(os.path.realpath(top)) and path.is_dir()
    except ValueError as error:  # not a valid file name
        raise UsageError(f"the plugin `{plugin}` is not in this repository") from error
    if not is_there:
        raise UsageError(f"the plugin `{plugin}` is not in this repository")
    return path


def _place(source: object, base: str) -> str | RemotePlugin | None:
    """Return where a plugin is; None if the source type is not supported, such as packages in a registry."""
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
    """Merge lists of paths, or tables; None if all are empty."""
    tables = [one for one in said if isinstance(one, dict)]
    if tables and len(tables) == len(said):
        return {key: value for table in reversed(tables) for key, value in table.items()}
    lists = [one if isinstance(one, list) else [one] for one in said]
    return [each for one in lists for each in one] or None

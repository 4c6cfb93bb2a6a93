"""Plugin marketplaces: repositories that list several plugins in `.claude-plugin/marketplace.json`. Reads the plugins,
their locations and metadata from that file, and fetches nothing."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.extension_files import UnusableFileError, read_json_table
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

MARKETPLACE_FILE = ".claude-plugin/marketplace.json"
_MAX_LISTED_NAMES = 60
_COMPONENT_KEYS = ("skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles")
_GITHUB_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class RemotePlugin:
    """A plugin in another repository."""

    url: str
    folder: str
    """Folder relative to the top of that repository."""
    ref: str
    """The commit, tag or branch; empty for the default branch."""


@dataclass(frozen=True, slots=True)
class ListedPlugin:
    """A plugin listed in a marketplace."""

    name: str
    location: str | RemotePlugin
    """The plugin's folder in the same repository, or the other repository that contains it."""
    entry: Mapping[str, object]
    """The marketplace's entry for the plugin."""

    def resolve_folder(self, top: Path) -> Path:
        """Return the plugin's folder in a copy of the marketplace's repository. Raises `UsageError`."""
        assert isinstance(self.location, str)
        return plugin_folder(top, self.location, self.name)

    def merged_manifest(self, own_manifest: Mapping[str, object]) -> dict[str, object]:
        """Merge the marketplace entry into the plugin's own manifest. If the entry has `strict = false`, the components
        of the plugin's own manifest are ignored."""
        is_entry_exclusive = self.entry.get("strict") is False
        description_fields = {key: value for key, value in self.entry.items() if key in ("version", "description")}
        sources = [self.entry] if is_entry_exclusive else [own_manifest, self.entry]
        merged_components = {
            key: _merge_values([source[key] for source in sources if key in source]) for key in _COMPONENT_KEYS
        }
        components = {key: value for key, value in merged_components.items() if value is not None}
        other_fields = {key: value for key, value in own_manifest.items() if key not in _COMPONENT_KEYS}
        merged = (
            {**other_fields, **description_fields, "strict": False}
            if is_entry_exclusive
            else {**description_fields, **other_fields}
        )
        return {**merged, **components, "name": self.name}


def listed_plugins(folder: Path) -> tuple[ListedPlugin, ...] | None:
    """Return the plugins of a marketplace; None if the folder is not one. Raises `UsageError`."""
    if not (folder / MARKETPLACE_FILE).is_file():
        return None
    try:
        content = read_json_table(folder / MARKETPLACE_FILE, folder)
    except UnusableFileError as error:
        raise UsageError(f"`{MARKETPLACE_FILE}` cannot be used: {error}") from error
    entries, metadata = content.get("plugins"), content.get("metadata")
    base = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
    plugins = (
        ListedPlugin(name, location, entry)
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
        and isinstance(name := entry.get("name"), str)
        and (location := _plugin_location(entry.get("source"), base if isinstance(base, str) else "")) is not None
    )
    return tuple({plugin.name: plugin for plugin in plugins}.values())


def choose_plugin(listed_plugins: tuple[ListedPlugin, ...], name: str) -> ListedPlugin:
    """Return the plugin with this name, or the only plugin. Raises `UsageError`."""
    names = [listed_plugin.name for listed_plugin in listed_plugins]
    if not name and len(listed_plugins) != 1:
        available = join_limited(names, _MAX_LISTED_NAMES) if names else "it is empty"
        raise UsageError(f"it contains several plugins; choose one with `--plugin`: {available}")
    plugin = next((listed_plugin for listed_plugin in listed_plugins if listed_plugin.name == (name or names[0])), None)
    if plugin is None:
        raise UsageError(
            f"it contains no plugin `{name}` that can be fetched; available: {join_limited(names, _MAX_LISTED_NAMES)}"
        )
    return plugin


def plugin_folder(top: Path, location: str, plugin_name: str) -> Path:
    """Return the path of a plugin's folder, which must be inside the repository. Raises `UsageError`."""
    try:
        path = Path(os.path.realpath(top / location))
        is_inside = path.is_relative_to(os.path.realpath(top)) and path.is_dir()
    except ValueError as error:  # not a valid file name
        raise UsageError(f"the plugin `{plugin_name}` is not in this repository") from error
    if not is_inside:
        raise UsageError(f"the plugin `{plugin_name}` is not in this repository")
    return path


def _plugin_location(source: object, base: str) -> str | RemotePlugin | None:
    """Return the location of a plugin; None if its type of source, such as a package registry, is not supported."""
    if isinstance(source, str):
        return source if not base or source.startswith(".") else f"{base}/{source}"
    if not isinstance(source, dict):
        return None
    match source:
        case {"source": "github", "repo": str(repo)} if _GITHUB_REPOSITORY.fullmatch(repo):
            return RemotePlugin(f"https://github.com/{repo}.git", "", _git_ref(source))
        case {"source": "url" | "git", "url": str(url)}:
            return RemotePlugin(url, "", _git_ref(source))
        case {"source": "git-subdir", "url": str(url), "path": str(path)}:
            address = f"https://github.com/{url}.git" if _GITHUB_REPOSITORY.fullmatch(url) else url
            return RemotePlugin(address, path, _git_ref(source))
        case _:
            return None


def _git_ref(source: Mapping[str, object]) -> str:
    refs = (source.get(key) for key in ("sha", "commit", "ref", "tag", "branch"))
    return next((ref for ref in refs if isinstance(ref, str) and ref), "")


def _merge_values(values: list[object]) -> object:
    """Merge tables, or lists of paths; None if there are no paths."""
    tables = [value for value in values if isinstance(value, dict)]
    if tables and len(tables) == len(values):
        return {key: value for table in reversed(tables) for key, value in table.items()}
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [item for value in lists for item in value] or None

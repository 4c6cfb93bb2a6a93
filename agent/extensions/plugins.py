"""Installed plugins: folders with skills, commands, agents, hooks and servers in Claude Code's layout. A plugin whose
files have changed since it was added is not used."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.extension_files import FILE_KINDS, UnusableFile, digest_of, table_of
from ebbtide.tools.lazy import dataclass

MANIFEST = ".claude-plugin/plugin.json"
_UNSUPPORTED_PARTS = {"lspServers": ".lsp.json", "outputStyles": "output-styles", "monitors": "monitors/monitors.json"}
"""Plugin components that are not supported, with their default paths."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin in a folder."""

    name: str
    folder: Path
    manifest: Mapping[str, object]
    source: str = ""
    """The folder or address that it was added from."""
    commit: str = ""
    """The commit of the repository; empty for a folder."""
    digest: str = ""

    @property
    def version(self) -> str:
        return _text(self.manifest, "version")

    @property
    def description(self) -> str:
        return _text(self.manifest, "description")

    def parts(self, kind: str) -> tuple[tuple[Path, str], ...]:
        """Return the folders with components of a kind, each with the name of the only file that counts, or an empty
        name. With `strict = false` in the manifest, only components it names are included."""
        if kind not in FILE_KINDS:
            return ()
        said = self.manifest.get(f"{kind}s")
        is_all = self.manifest.get("strict") is False and said is not None
        named = [*(() if is_all else (f"{kind}s",)), *_paths(said)]
        paths = [self._inside(each) for each in named]
        found = ((path, "") if path.is_dir() else (path.parent, path.name) for path in paths if path.exists())
        return tuple(dict.fromkeys(found))

    @property
    def unsupported_parts(self) -> tuple[str, ...]:
        """A line that lists the components that are not supported."""
        found = [
            f"`{key}`"
            for key in _UNSUPPORTED_PARTS
            if self.manifest.get(key) or self._inside(_UNSUPPORTED_PARTS[key]).exists()
        ]
        return (f"{', '.join(found)} are not supported and are left out",) if found else ()

    def files(self, key: str, usual: str) -> tuple[Path, ...]:
        """Return the files that contain a component such as hooks; the manifest itself is one if it contains the
        component inline."""
        said = self.manifest.get(key)
        inline = [MANIFEST] if isinstance(said, dict) else []
        return tuple(
            dict.fromkeys(path for each in (usual, *_paths(said), *inline) if (path := self._inside(each)).is_file())
        )

    def servers(self) -> Iterator[tuple[str, object]]:
        """Yield the MCP servers that it declares, by name. Raises `UnusableFile`."""
        for path in self.files("mcpServers", ".mcp.json"):
            content = table_of(path, self.folder)
            tables = content.get("mcpServers", content)
            yield from tables.items() if isinstance(tables, dict) else ()

    def _inside(self, name: str) -> Path:
        path = Path(os.path.normpath(self.folder / name))
        return path if path.is_relative_to(self.folder) else self.folder / ".none"


def plugin_in(folder: Path, name: str = "") -> Plugin:
    """Load the plugin in a folder. Raises `UsageError`."""
    try:
        manifest = table_of(folder / MANIFEST, folder) if (folder / MANIFEST).exists() else {}
    except UnusableFile as error:
        raise UsageError(f"`{MANIFEST}` cannot be used: {error}") from error
    named = _text(manifest, "name") or name or folder.name
    if not _NAME.fullmatch(named):
        raise UsageError(f"{named[:80]!r} is not a valid plugin name: use letters, digits, `_` and `-`, at most 64")
    plugin = Plugin(named, folder, manifest)
    has_parts = any(plugin.parts(kind) for kind in FILE_KINDS) or plugin.files("hooks", "hooks/hooks.json")
    if not has_parts and not plugin.files("mcpServers", ".mcp.json"):
        besides = f"; {plugin.unsupported_parts[0]}" if plugin.unsupported_parts else ""
        raise UsageError(f"`{named}` contains no skills, commands, agents, hooks or servers{besides}")
    return plugin


class PluginStore:
    """The plugins that the user has added."""

    def __init__(self, config: Config) -> None:
        self.folder = Path(os.path.realpath(config.folders.data / "plugins"))
        self._table = PrivateTable(self.folder / "plugins.json", "plugins", mend=None)
        """An unreadable table counts as empty."""

    def all(self) -> tuple[tuple[Plugin, str], ...]:
        """Return each plugin with the reason why it is not used; empty if it is."""
        found = []
        for name, entry in sorted(self._table.read().items()):
            source, commit, digest = (str(entry.get(key, "")) for key in ("source", "commit", "digest"))
            folder = self.folder / name
            problem, manifest = "", dict[str, object]()
            if not _NAME.fullmatch(name) or not _is_as_added(str(folder), digest):
                problem = "its files have changed; add it again"
            else:
                manifest = dict(plugin_in(folder, name).manifest)
            found.append((Plugin(name, folder, manifest, source, commit, digest), problem))
        return tuple(found)

    def usable_plugins(self) -> tuple[Plugin, ...]:
        return tuple(plugin for plugin, problem in self.all() if not problem)

    def add(self, plugin: Plugin) -> None:
        """Move a plugin from a temporary folder into the store, replacing one with the same name. Raises
        `ConfigError`."""
        target, old = self.folder / plugin.name, self.folder / f".old-{plugin.name}"
        entry: dict[str, object] = {"source": plugin.source, "commit": plugin.commit, "digest": plugin.digest}

        def replaced(entries: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            _remove_all(old)
            if target.exists():
                target.rename(old)
            plugin.folder.rename(target)
            _remove_all(old)
            return {**entries, plugin.name: entry}

        self._table.change(replaced)

    def remove(self, name: str) -> bool:
        """Remove a plugin; return whether it existed. Raises `ConfigError`."""
        if name not in self._table.read():
            return False

        def without(entries: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            _remove_all(self.folder / name)
            return {other: entry for other, entry in entries.items() if other != name}

        self._table.change(without)
        return True


def used_plugins(config: Config) -> tuple[Plugin, ...]:
    """The added plugins that are unchanged."""
    return PluginStore(config).usable_plugins()


@lru_cache(maxsize=256)  # cached for the process: reading all files of a large plugin takes a while
def _is_as_added(folder: str, digest: str) -> bool:
    try:
        return digest_of(Path(folder), Path(folder))[0] == digest
    except (UnusableFile, OSError):
        return False


def _remove_all(folder: Path) -> None:
    import shutil  # noqa: PLC0415  # deferred: plugins are seldom removed

    if folder.exists():
        shutil.rmtree(folder)


def _text(table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _paths(said: object) -> list[str]:
    values = said if isinstance(said, list) else [said]
    return [each for each in values if isinstance(each, str) and "\0" not in each]

"""Installed plugins: folders with skills, commands, agents, hooks and servers in Claude Code's layout. A plugin is not
used if its files have changed since it was added."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.extension_files import FILE_KINDS, UnusableFileError, hash_folder, read_json_table
from ebbtide.tools.lazy import dataclass

MANIFEST_PATH = ".claude-plugin/plugin.json"
_UNSUPPORTED_COMPONENTS = {
    "lspServers": ".lsp.json",
    "outputStyles": "output-styles",
    "monitors": "monitors/monitors.json",
}
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
        return _one_line_text(self.manifest, "version")

    @property
    def description(self) -> str:
        return _one_line_text(self.manifest, "description")

    def component_locations(self, kind: str) -> tuple[tuple[Path, str], ...]:
        """Return each folder with components of a kind, and the name of the only file to use in it; the name is empty
        if all files are used. If the manifest has `strict = false`, components that it does not name are ignored."""
        if kind not in FILE_KINDS:
            return ()
        declared_value = self.manifest.get(f"{kind}s")
        is_manifest_exclusive = self.manifest.get("strict") is False and declared_value is not None
        relative_paths = [*(() if is_manifest_exclusive else (f"{kind}s",)), *_declared_paths(declared_value)]
        paths = [self._path_inside(relative_path) for relative_path in relative_paths]
        locations = ((path, "") if path.is_dir() else (path.parent, path.name) for path in paths if path.exists())
        return tuple(dict.fromkeys(locations))

    @property
    def unsupported_notices(self) -> tuple[str, ...]:
        """A notice that lists the plugin's unsupported components, if it has any."""
        unsupported_keys = [
            f"`{key}`"
            for key in _UNSUPPORTED_COMPONENTS
            if self.manifest.get(key) or self._path_inside(_UNSUPPORTED_COMPONENTS[key]).exists()
        ]
        return (f"{', '.join(unsupported_keys)} are not supported and are skipped",) if unsupported_keys else ()

    def files_declaring(self, key: str, default_path: str) -> tuple[Path, ...]:
        """Return the files that declare components such as hooks. This includes the manifest if it declares them
        inline. `default_path`: the default path of such a file."""
        declared_value = self.manifest.get(key)
        inline = [MANIFEST_PATH] if isinstance(declared_value, dict) else []
        return tuple(
            dict.fromkeys(
                path
                for relative_path in (default_path, *_declared_paths(declared_value), *inline)
                if (path := self._path_inside(relative_path)).is_file()
            )
        )

    def read_servers(self) -> Iterator[tuple[str, object]]:
        """Yield the name and entry of each MCP server that the plugin declares. Raises `UnusableFileError`."""
        for path in self.files_declaring("mcpServers", ".mcp.json"):
            content = read_json_table(path, self.folder)
            tables = content.get("mcpServers", content)
            yield from tables.items() if isinstance(tables, dict) else ()

    def _path_inside(self, name: str) -> Path:
        path = Path(os.path.normpath(self.folder / name))
        return path if path.is_relative_to(self.folder) else self.folder / ".none"


def load_plugin(folder: Path, name: str = "") -> Plugin:
    """Load the plugin in a folder. Raises `UsageError`."""
    try:
        manifest = read_json_table(folder / MANIFEST_PATH, folder) if (folder / MANIFEST_PATH).exists() else {}
    except UnusableFileError as error:
        raise UsageError(f"`{MANIFEST_PATH}` cannot be used: {error}") from error
    plugin_name = _one_line_text(manifest, "name") or name or folder.name
    if not _NAME.fullmatch(plugin_name):
        raise UsageError(
            f"{plugin_name[:80]!r} is not a valid plugin name: use letters, digits, `_` and `-`, at most 64"
        )
    plugin = Plugin(plugin_name, folder, manifest)
    has_components = any(plugin.component_locations(kind) for kind in FILE_KINDS) or plugin.files_declaring(
        "hooks", "hooks/hooks.json"
    )
    if not has_components and not plugin.files_declaring("mcpServers", ".mcp.json"):
        unsupported = f"; {plugin.unsupported_notices[0]}" if plugin.unsupported_notices else ""
        raise UsageError(f"`{plugin_name}` contains no skills, commands, agents, hooks or servers{unsupported}")
    return plugin


class PluginStore:
    """The plugins that the user has added."""

    def __init__(self, config: Config) -> None:
        self.folder = Path(os.path.realpath(config.folders.data / "plugins"))
        self._table = PrivateTable(self.folder / "plugins.json", "plugins", advice=None)
        """The table of added plugins. An unreadable table counts as empty."""

    def list_with_problems(self) -> tuple[tuple[Plugin, str], ...]:
        """Return each plugin, with the reason if it cannot be used."""
        plugins_with_problems = []
        for name, entry in sorted(self._table.read().items()):
            source, commit, digest = (str(entry.get(key, "")) for key in ("source", "commit", "digest"))
            folder = self.folder / name
            problem, manifest = "", dict[str, object]()
            if not _NAME.fullmatch(name) or not _is_unchanged(str(folder), digest):
                problem = "its files have changed; add it again"
            else:
                manifest = dict(load_plugin(folder, name).manifest)
            plugins_with_problems.append((Plugin(name, folder, manifest, source, commit, digest), problem))
        return tuple(plugins_with_problems)

    def usable_plugins(self) -> tuple[Plugin, ...]:
        return tuple(plugin for plugin, problem in self.list_with_problems() if not problem)

    def add(self, plugin: Plugin) -> None:
        """Move a plugin from a temporary folder into the store, replacing any plugin of the same name. Raises
        `ConfigError`."""
        target, old_folder = self.folder / plugin.name, self.folder / f".old-{plugin.name}"
        entry: dict[str, object] = {"source": plugin.source, "commit": plugin.commit, "digest": plugin.digest}

        def replace_plugin(entries: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            _remove_folder(old_folder)
            if target.exists():
                target.rename(old_folder)
            plugin.folder.rename(target)
            _remove_folder(old_folder)
            return {**entries, plugin.name: entry}

        self._table.update(replace_plugin)

    def remove(self, name: str) -> bool:
        """Remove a plugin; return whether it existed. Raises `ConfigError`."""
        if name not in self._table.read():
            return False

        def remove_plugin(entries: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
            _remove_folder(self.folder / name)
            return {entry_name: entry for entry_name, entry in entries.items() if entry_name != name}

        self._table.update(remove_plugin)
        return True


def load_usable_plugins(config: Config) -> tuple[Plugin, ...]:
    """Return the plugins whose files are unchanged since the user added them."""
    return PluginStore(config).usable_plugins()


@lru_cache(maxsize=256)  # cached, because reading all files of a large plugin takes a while
def _is_unchanged(folder: str, digest: str) -> bool:
    try:
        return hash_folder(Path(folder), Path(folder))[0] == digest
    except (UnusableFileError, OSError):
        return False


def _remove_folder(folder: Path) -> None:
    import shutil  # noqa: PLC0415  # deferred: plugins are seldom removed

    if folder.exists():
        shutil.rmtree(folder)


def _one_line_text(table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _declared_paths(declared_value: object) -> list[str]:
    values = declared_value if isinstance(declared_value, list) else [declared_value]
    return [path for path in values if isinstance(path, str) and "\0" not in path]

"""The folders in which users and projects keep extensions: our own, and those of other programs."""

import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent import extensions
from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import FILE_KINDS
from ebbtide.tools.lazy import dataclass

ExtensionKind: TypeAlias = Literal["skill", "command", "agent", "hook", "server", "plugin"]
ExtensionOwner: TypeAlias = Literal["user", "project", "plugin"]
ExtensionSource: TypeAlias = Literal["ebb", "agents", "claude", "opencode", "gemini", "codex"]

_FOLDERS: tuple[tuple[ExtensionKind, ExtensionSource, str], ...] = (
    ("skill", "ebb", "skills"),
    ("skill", "agents", ".agents/skills"),
    ("skill", "claude", ".claude/skills"),
    ("skill", "opencode", "{opencode}/skill"),
    ("skill", "opencode", "{opencode}/skills"),
    ("skill", "gemini", ".gemini/skills"),
    ("skill", "codex", ".codex/skills"),
    ("command", "ebb", "commands"),
    ("command", "claude", ".claude/commands"),
    ("command", "opencode", "{opencode}/command"),
    ("command", "opencode", "{opencode}/commands"),
    ("command", "gemini", ".gemini/commands"),
    ("command", "codex", ".codex/prompts"),
    ("agent", "ebb", "agents"),
    ("agent", "claude", ".claude/agents"),
    ("agent", "opencode", "{opencode}/agent"),
    ("agent", "opencode", "{opencode}/agents"),
    ("agent", "gemini", ".gemini/agents"),
    ("hook", "ebb", "hooks"),
    ("hook", "claude", ".claude"),
)
"""Folders in order of precedence. `ebb` folders are in this program's own folders; the others are in the project and in
the user's home folder."""


@dataclass(frozen=True, slots=True)
class ExtensionFolder:
    """A folder with extensions of one kind."""

    kind: ExtensionKind
    owner: ExtensionOwner
    source: ExtensionSource
    path: Path
    boundary: Path | None = None
    """Links must not lead out of this project or plugin. None for the user's own folders, whose links may lead
    anywhere."""
    project_subfolder: str = ""
    """The subfolder of the project in which the extensions apply, relative to the top; empty if that is the whole
    project."""
    only_file: str = ""
    """If only one file in the folder is used, its name; otherwise empty."""

    @property
    def plugin_name(self) -> str:
        """The name of the plugin that contains the folder; empty if none does."""
        return self.boundary.name if self.owner == "plugin" and self.boundary is not None else ""

    def expand_plugin_root(self, text: str) -> str:
        """Replace `${CLAUDE_PLUGIN_ROOT}` in text with the plugin's folder."""
        return text.replace("${CLAUDE_PLUGIN_ROOT}", str(self.boundary)) if self.owner == "plugin" else text

    def display_path(self, path: Path) -> str:
        """Return a path for display; in a project's folder, it is relative to the top of the project."""
        return str(path.relative_to(self.boundary) if self.owner == "project" and self.boundary else path)


def find_extension_folders(kind: ExtensionKind, config: Config) -> tuple[ExtensionFolder, ...]:
    """Return the existing folders in order of precedence. The user's folders precede the project's, so that an
    extension from a clone never replaces one of the user's own. A folder reachable by several paths is listed once. A
    link that leads outside its project or plugin is skipped."""
    folders: dict[str, ExtensionFolder] = {}
    for candidate in _candidates(kind, config):
        if os.path.isdir(candidate.path):
            real_path = os.path.realpath(candidate.path)
            if candidate.boundary is None or Path(real_path).is_relative_to(os.path.realpath(candidate.boundary)):
                folders.setdefault(os.path.join(real_path, candidate.only_file), candidate)
    return tuple(folders.values())


def _candidates(kind: ExtensionKind, config: Config) -> Iterator[ExtensionFolder]:
    home = config.folders.home
    locations = [(source, name) for folder_kind, source, name in _FOLDERS if folder_kind == kind]
    for source, name in locations:
        base = config.folders.config if source == "ebb" else home
        if base is not None:
            yield ExtensionFolder(kind, "user", source, base / name.format(opencode=".config/opencode"))
    yield from _plugin_folders(kind, config)
    for folder in config.project_folders if kind in FILE_KINDS else (config.project_folder,):
        subfolder = folder.relative_to(config.project_folder).as_posix() if folder != config.project_folder else ""
        for source, name in locations if folder != home else ():  # extensions in the home folder are the user's
            base = folder / ".ebb" if source == "ebb" else folder
            path = base / name.format(opencode=".opencode")
            yield ExtensionFolder(kind, "project", source, path, config.project_folder, subfolder)


def _plugin_folders(kind: ExtensionKind, config: Config) -> tuple[ExtensionFolder, ...]:
    if not os.path.isdir(config.folders.data / "plugins"):
        return ()
    locations = (
        (plugin.folder, *location)
        for plugin in extensions.plugins.load_usable_plugins(config)
        for location in plugin.component_locations(kind)
    )
    return tuple(
        ExtensionFolder(kind, "plugin", "claude", folder, plugin_folder, only_file=only_file)
        for plugin_folder, folder, only_file in locations
    )

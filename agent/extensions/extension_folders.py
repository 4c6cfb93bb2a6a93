"""The folders in which users and projects keep extensions: our own, and those of other programs."""

import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import FILE_KINDS
from ebbtide.tools.lazy import dataclass

Kind: TypeAlias = Literal["skill", "command", "agent", "hook", "server", "plugin"]
Owner: TypeAlias = Literal["user", "project", "plugin"]
Source: TypeAlias = Literal["ebb", "agents", "claude", "opencode", "gemini", "codex"]

_FOLDERS: tuple[tuple[Kind, Source, str], ...] = (
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
"""In order of precedence. Folders of `ebb` are below our own folder, others below the project and the user's home."""


@dataclass(frozen=True, slots=True)
class ExtensionFolder:
    """A folder with extensions of one kind."""

    kind: Kind
    owner: Owner
    source: Source
    folder: Path
    boundary: Path | None = None
    """Links must not lead outside this folder: the project or plugin. None for the user's own folders, which may link
    anywhere."""
    below: str = ""
    """The subfolder of the project that it applies to, relative to the top; empty at the top."""
    only: str = ""
    """The only file in the folder that counts; empty if all do."""

    @property
    def plugin(self) -> str:
        """The name of the plugin that contains it; empty if none."""
        return self.boundary.name if self.owner == "plugin" and self.boundary is not None else ""

    def with_folder(self, text: str) -> str:
        """Replace the variable for the plugin's folder in a text."""
        return text.replace("${CLAUDE_PLUGIN_ROOT}", str(self.boundary)) if self.owner == "plugin" else text

    def display_path(self, path: Path) -> str:
        """A path for people; inside a project, relative to its top."""
        return str(path.relative_to(self.boundary) if self.owner == "project" and self.boundary else path)


def extension_folders(kind: Kind, config: Config) -> tuple[ExtensionFolder, ...]:
    """Return the existing folders in order of precedence. The user's come before the project's, so that files from a
    clone never replace the user's. A folder reachable by several paths is listed once; one that leads outside its
    project or plugin is left out."""
    found: dict[str, ExtensionFolder] = {}
    for place in _candidates(kind, config):
        if os.path.isdir(place.folder):
            real = os.path.realpath(place.folder)
            if place.boundary is None or Path(real).is_relative_to(os.path.realpath(place.boundary)):
                found.setdefault(os.path.join(real, place.only), place)
    return tuple(found.values())


def _candidates(kind: Kind, config: Config) -> Iterator[ExtensionFolder]:
    home = config.folders.home
    of_kind = [(source, name) for each, source, name in _FOLDERS if each == kind]
    for source, name in of_kind:
        base = config.folders.config if source == "ebb" else home
        if base is not None:
            yield ExtensionFolder(kind, "user", source, base / name.format(opencode=".config/opencode"))
    yield from _of_plugins(kind, config)
    for folder in config.project_folders if kind in FILE_KINDS else (config.project,):
        below = folder.relative_to(config.project).as_posix() if folder != config.project else ""
        for source, name in of_kind if folder != home else ():  # files in the home folder belong to the user
            base = folder / ".ebb" if source == "ebb" else folder
            path = base / name.format(opencode=".opencode")
            yield ExtensionFolder(kind, "project", source, path, config.project, below)


def _of_plugins(kind: Kind, config: Config) -> tuple[ExtensionFolder, ...]:
    if not os.path.isdir(config.folders.data / "plugins"):
        return ()
    from ebbtide.agent.extensions.plugins import used_plugins  # noqa: PLC0415  # deferred: few users have plugins

    found = ((plugin.folder, *part) for plugin in used_plugins(config) for part in plugin.parts(kind))
    return tuple(ExtensionFolder(kind, "plugin", "claude", folder, top, only=only) for top, folder, only in found)

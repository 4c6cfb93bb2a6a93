"""Where users and projects keep what they bring: our own folders, and those that they have for other programs."""

import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from agent.config.values import Config
from tools.lazy import dataclass

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
"""Precedence first. Of `ebb` below our own folder, of others below the project and below the user's home."""
_OPENCODE = {"user": ".config/opencode", "project": ".opencode"}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which things of a kind are."""

    kind: Kind
    owner: Owner
    source: Source
    folder: Path
    boundary: Path | None = None
    """What no link in it may lead out of: the project or plugin; None for the user's own, who may link to anything."""


def places(kind: Kind, config: Config) -> tuple[Place, ...]:
    """The folders that are there, precedence first: the user's before the project's, so that what comes with a clone
    takes the place of nothing. One that several names lead to is there once; one that leads out of its project, or out
    of its plugin, is left out."""
    found: dict[str, Place] = {}
    for place in _candidates(kind, config):
        if os.path.isdir(place.folder):
            real = os.path.realpath(place.folder)
            if place.boundary is None or Path(real).is_relative_to(os.path.realpath(place.boundary)):
                found.setdefault(real, place)
    return tuple(found.values())


def _candidates(kind: Kind, config: Config) -> Iterator[Place]:
    home = config.folders.home
    plugins = _of_plugins(kind, config)
    bases: tuple[tuple[Owner, Path, Path | None], ...] = (
        ("user", config.folders.config, home),
        ("project", config.project / ".ebb", config.project),
    )
    for owner, own, others in bases:
        if owner == "project":
            yield from plugins
        if owner == "project" and config.project == home:
            continue  # what is there is the user's own
        for of_kind, source, name in _FOLDERS:
            base = own if source == "ebb" else others
            if of_kind == kind and base is not None:
                boundary = config.project if owner == "project" else None
                yield Place(kind, owner, source, base / name.format(opencode=_OPENCODE[owner]), boundary)


def _of_plugins(kind: Kind, config: Config) -> tuple[Place, ...]:
    if not os.path.isdir(config.folders.data / "plugins"):
        return ()
    from agent.extensions.plugins import used_plugins  # noqa: PLC0415  # deferred: few users have some

    found = ((plugin.folder, folder) for plugin in used_plugins(config) for folder in plugin.folders(kind))
    return tuple(Place(kind, "plugin", "claude", folder, top) for top, folder in found)

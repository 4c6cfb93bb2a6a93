"""Finds extensions of one kind in all folders of users, plugins and projects."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

from ebbtide.agent.config.values import Config
from ebbtide.agent.extensions.extension_files import UnusableFile, files_below
from ebbtide.agent.extensions.extension_folders import ExtensionFolder, Kind, extension_folders
from ebbtide.agent.extensions.front_matter import BrokenFrontMatter

MAX_PER_KIND = 200
"""Maximum number of extensions of one kind."""
SKILL_FILE = "SKILL.md"
_MAX_SKILL_DEPTH = 3
"""How deep skills are searched for in nested folders."""


class NamedExtension(Protocol):
    @property
    def name(self) -> str: ...

    def with_name(self, name: str) -> Self:
        """Return a copy with another name."""
        ...


N = TypeVar("N", bound=NamedExtension)


def discover(
    kind: Kind, config: Config, read: Callable[[Path, ExtensionFolder], N | None]
) -> tuple[tuple[N, ...], tuple[str, ...]]:
    """Return all extensions of a kind in order of precedence, the first of each name, and one line for each that was
    left out. `read` parses a file; it returns None if the file is not of this kind, and raises `UnusableFile` or
    `BrokenFrontMatter`."""
    found: dict[str, N] = {}
    problems: list[str] = []
    for place in extension_folders(kind, config):
        try:
            for path in files_in(place):
                if len(found) == MAX_PER_KIND:
                    return tuple(found.values()), (
                        *problems,
                        f"more than {MAX_PER_KIND} {kind}s: the others are left out",
                    )
                try:
                    one = read(path, place)
                except (UnusableFile, BrokenFrontMatter) as error:
                    problems.append(f"the {kind} `{place.display_path(path)}` is left out: {error}")
                else:
                    if one is not None:
                        if place.plugin and one.name in found:  # other programs always put the plugin's name in front
                            one = one.with_name(f"{place.plugin}:{one.name}")
                        found.setdefault(one.name, one)
        except UnusableFile as error:
            problems.append(f"{kind}s of `{place.display_path(place.folder)}` are left out: {error}")
    return tuple(found.values()), tuple(problems)


class HasHooks(NamedExtension, Protocol):
    @property
    def has_hooks(self) -> bool: ...


def ignored_hook_notices(kind: Kind, found: Iterable[HasHooks]) -> tuple[str, ...]:
    """Return a line for each extension whose own hooks are ignored, since whatever they were meant to prevent is not
    prevented."""
    told = "the {} `{}` declares its own hooks, which do not run here; hooks in `.claude/settings.json` do"
    return tuple(told.format(kind, one.name) for one in found if one.has_hooks)


def _skills_in(folder: Path, follows_links: bool, left: int) -> Iterator[Path]:
    """Yield the skill in this folder, or else those in subfolders: some users group skills by subject."""
    found = next((name for name in (SKILL_FILE, SKILL_FILE.lower()) if os.path.lexists(folder / name)), "")
    if found:
        yield folder / found
    is_place = left == _MAX_SKILL_DEPTH  # the top folder may be a skill and contain others
    for path in _entries(folder) if left and (not found or is_place) else ():
        is_link = path.is_symlink() and not (follows_links or is_place)
        if path.name[0] != "." and path.is_dir() and not is_link:
            yield from _skills_in(path, follows_links, left - 1)


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # no permission to read it
        return ()


def files_in(place: ExtensionFolder) -> Iterator[Path]:
    """Yield the files of a folder that may be of its kind, sorted. Raises `UnusableFile`."""
    if place.only:
        yield place.folder / place.only
    elif place.kind == "skill":
        yield from _skills_in(place.folder, place.boundary is None, _MAX_SKILL_DEPTH)
    else:
        ending = ".toml" if (place.kind, place.source) == ("command", "gemini") else ".md"
        found = files_below(place.folder, place.boundary)
        yield from (path for path in found if path.suffix.lower() == ending and path.name.lower() != SKILL_FILE.lower())

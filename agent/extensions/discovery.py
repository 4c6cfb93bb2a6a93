"""What is found of a kind in all the places where users, plugins and projects keep it."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self, TypeVar

from agent.config.values import Config
from agent.extensions.extension_files import UnusableFile, files_below
from agent.extensions.front_matter import BrokenFrontMatter
from agent.extensions.places import Kind, Place, places

MOST = 200
"""Of a kind."""
SKILL_FILE = "SKILL.md"


class Named(Protocol):
    @property
    def name(self) -> str: ...

    def called(self, name: str) -> Self:
        """The same under another name."""
        ...


N = TypeVar("N", bound=Named)


def discover(
    kind: Kind, config: Config, read: Callable[[Path, Place], N | None]
) -> tuple[tuple[N, ...], tuple[str, ...]]:
    """All that are there, the first of each name, in order of precedence; and why others are left out, a line each.
    `read` makes one of a file, or None where the file is none; it raises `UnusableFile` and `BrokenFrontMatter`."""
    found: dict[str, N] = {}
    problems: list[str] = []
    for place in places(kind, config):
        try:
            for path in files_in(place):
                if len(found) == MOST:
                    return tuple(found.values()), (*problems, f"more than {MOST} {kind}s: the others are left out")
                try:
                    one = read(path, place)
                except (UnusableFile, BrokenFrontMatter) as error:
                    problems.append(f"the {kind} `{place.shown(path)}` is left out: {error}")
                else:
                    if one is not None:
                        if place.plugin and one.name in found:  # its own name is in front of it there anyway
                            one = one.called(f"{place.plugin}:{one.name}")
                        found.setdefault(one.name, one)
        except UnusableFile as error:
            problems.append(f"{kind}s of `{place.shown(place.folder)}` are left out: {error}")
    return tuple(found.values()), tuple(problems)


class HasHooks(Named, Protocol):
    @property
    def has_hooks(self) -> bool: ...


def unheard(kind: Kind, found: Iterable[HasHooks]) -> tuple[str, ...]:
    """A line for each whose own hooks do not run: what they were to keep from happening is not kept."""
    told = "the {} `{}` says hooks of its own, which do not run here; those in `.claude/settings.json` do"
    return tuple(told.format(kind, one.name) for one in found if one.has_hooks)


def files_in(place: Place) -> Iterator[Path]:
    """The files of a place that may each be one of its kind, sorted. Raises `UnusableFile`."""
    if place.only:
        yield place.folder / place.only
    elif place.kind == "skill":
        paths = (place.folder, *sorted(place.folder.iterdir()))
        yield from (path / SKILL_FILE for path in paths if os.path.lexists(path / SKILL_FILE) and path.name[0] != ".")
    else:
        ending = ".toml" if (place.kind, place.source) == ("command", "gemini") else ".md"
        found = files_below(place.folder, place.boundary)
        yield from (path for path in found if path.suffix.lower() == ending and path.name != SKILL_FILE)

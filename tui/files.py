"""The files and folders of a project, found by a few letters of their paths. It knows no widget.

The list is made by the search of the tools, in a process of its own, so that it leaves out what git ignores and costs
the screen nothing. Paths are compared on the event loop, a little at a time: a key never waits for it.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from pathlib import Path
from time import monotonic

MOST = 50
"""Paths that are offered at once."""
OLD = 15.0
"""Seconds after which the list is made anew when it is needed again."""
_SLICE = 200
"""Paths that are compared between two looks at the clock."""
_AT_ONCE = 0.002
"""Seconds that are spent on comparing before others have their turn."""
_SOON = 0.03
"""Seconds after which what was found so far is offered."""
_BOUNDARY = "/_-. "

Score = tuple[int, int, int, str]


class ProjectFiles:
    """Of one folder. Folders end in a slash."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: list[str] = []
        """As far as they are known; only added to while the list is made for the first time."""
        self._made_at: float | None = None
        self._making: asyncio.Task[None] | None = None

    async def matching(self, written: str) -> AsyncIterator[tuple[str, ...]]:
        """What the letters may mean, the likeliest first: soon what is known, and again when more is."""
        if not written:
            yield self._top()
            self.refresh()
            return
        self.refresh()
        shown: tuple[str, ...] | None = None
        while True:
            making = self._making
            async for found in self._matching(written):
                if found != shown:
                    shown = found
                    yield found
            if making is None or making.done():
                break
            await asyncio.wait([making], timeout=_SOON)
        if not shown:
            yield typed_exactly(self._root, written)

    def refresh(self) -> None:
        """Makes the list in the background when it is old or was never made."""
        is_old = self._made_at is None or monotonic() - self._made_at > OLD
        if is_old and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make())

    async def close(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> None:
        from tools.base import ToolError  # noqa: PLC0415  # deferred: needed with the first `@`
        from tools.search import list_files  # noqa: PLC0415  # as above

        paths = self._paths if self._made_at is None else []
        folders = {""}

        def take(path: str) -> bool:
            paths.append(path)
            folder = path.rpartition("/")[0]
            while folder not in folders:
                folders.add(folder)
                paths.append(f"{folder}/")
                folder = folder.rpartition("/")[0]
            return True

        with contextlib.suppress(ToolError):  # a folder that is gone has no files to offer
            await list_files(self._root, self._root, take)
        self._paths, self._made_at = paths, monotonic()

    def _top(self) -> tuple[str, ...]:
        """What stands in the folder itself, folders first."""
        from tools.walk import entries_of  # noqa: PLC0415  # as above

        entries = [(name, is_folder) for name, is_folder in entries_of(str(self._root)) if not name.startswith(".")]
        named = [f"{name}/" for name, is_folder in entries if is_folder]
        return tuple([*named, *(name for name, is_folder in entries if not is_folder)][:MOST])

    async def _matching(self, written: str) -> AsyncIterator[tuple[str, ...]]:
        wanted = written.lower()
        letters = re.compile(".*?".join(map(re.escape, wanted)))
        found: list[Score] = []
        for is_near in (True, False):
            begun = rested = monotonic()
            at = 0
            while at < len(self._paths):
                part = self._paths[at : at + _SLICE]
                at += len(part)
                found += scores(wanted, part, letters, is_near=is_near)
                if monotonic() - rested > _AT_ONCE:
                    if len(found) > 20 * MOST:
                        found = nsmallest(MOST, found)
                    if monotonic() - begun > _SOON:
                        yield _paths_of(found)
                        begun = monotonic()
                    await asyncio.sleep(0)
                    rested = monotonic()
            if len(found) >= MOST:
                break
        yield _paths_of(found)


def _paths_of(found: Sequence[Score]) -> tuple[str, ...]:
    return tuple(score[-1] for score in nsmallest(MOST, found))


def scores(wanted: str, paths: Sequence[str], letters: re.Pattern[str], *, is_near: bool) -> list[Score]:
    """How well each path fits, those that do not left out; smaller is better. `is_near`: the letters stand together;
    otherwise only those are meant in which they stand apart. Hidden paths are meant when a dot is written."""
    is_hidden_meant = wanted.startswith(".") or "/." in wanted
    found = []
    for path in paths:
        lowered = path.lower()
        if is_near:
            if wanted not in lowered:
                continue
        elif wanted in lowered or letters.search(lowered) is None:
            continue
        if not is_hidden_meant and (path[0] == "." or "/." in path):
            continue
        found.append((_rank(wanted, lowered, letters, is_near), path.count("/", 0, -1), len(path), path))
    return found


def _rank(wanted: str, path: str, letters: re.Pattern[str], is_near: bool) -> int:
    name = path.rstrip("/").rpartition("/")[2]
    if not is_near:
        return 7 if letters.search(name) else 8
    if wanted in (name, path, name.rpartition(".")[0]):
        return 0
    if name.startswith(wanted):
        return 1
    if path.startswith(wanted):
        return 2
    at = name.find(wanted)
    if at > 0:
        return 3 if name[at - 1] in _BOUNDARY else 4
    return 5 if path[path.find(wanted) - 1] in _BOUNDARY else 6


def typed_exactly(root: Path, written: str) -> tuple[str, ...]:
    """What is in a folder that is typed out, also one that is ignored, hidden or elsewhere."""
    folder, slash, beginning = written.rpartition("/")
    place = os.path.join(root, os.path.expanduser(folder + slash))
    try:
        with os.scandir(place) as entries:
            named = [
                f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.lower().startswith(beginning.lower())
                and (beginning.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(named)[:MOST])

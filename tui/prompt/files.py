"""Finds files and folders of a project by a few letters of their paths.

The list comes from the search tools, in a separate process, so it excludes what git ignores and does not slow the
screen. Paths are scored on the event loop in small batches, so that keys never wait.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from threading import Event
from time import monotonic

MAX_PATHS = 50
"""Maximum paths offered."""
MAX_LIST_AGE_S = 15.0
"""Seconds after which the list is refreshed when needed."""
_MAX_EARLY_PATHS = 2_000
"""Maximum paths known before the list is complete: those with the fewest parent folders."""
_BATCH_PATHS = 200
"""Paths scored between two checks of the clock."""
_YIELD_INTERVAL_S = 0.002
"""Seconds of scoring before yielding to the event loop."""
_FIRST_RESULTS_S = 0.03
"""Seconds after which partial results are offered."""
_BOUNDARY = "/_-. "

Score = tuple[int, int, int, str]


class PathSearch:
    """A search among a growing list of paths. Each path is scored once."""

    def __init__(self, written: str) -> None:
        self._wanted = written.lower()
        self._letters = re.compile(".*?".join(map(re.escape, self._wanted)))
        self._near: list[Score] = []
        """Paths with the letters together. Paths with the letters apart are searched only if these are too few."""
        self._apart: list[Score] = []
        self._near_at = self._apart_at = 0

    def advance(self, paths: Sequence[str]) -> bool:
        """Score more of the paths, which start with those of last time; return whether there were any."""
        if self._near_at < len(paths):
            part = paths[self._near_at : self._near_at + _BATCH_PATHS]
            self._near_at += len(part)
            self._near = _likeliest(self._near, scores(self._wanted, part, self._letters, is_near=True))
            return True
        if len(self._near) < MAX_PATHS and self._apart_at < len(paths):
            part = paths[self._apart_at : self._apart_at + _BATCH_PATHS]
            self._apart_at += len(part)
            self._apart = _likeliest(self._apart, scores(self._wanted, part, self._letters, is_near=False))
            return True
        return False

    @property
    def matches(self) -> tuple[str, ...]:
        """The best matches first."""
        found = self._near if len(self._near) >= MAX_PATHS else [*self._near, *self._apart]
        return tuple(score[-1] for score in nsmallest(MAX_PATHS, found))


def _likeliest(before: list[Score], more: Sequence[Score]) -> list[Score]:
    """The best of both, up to the maximum."""
    both = [*before, *more] if more else before
    return both if len(both) <= 20 * MAX_PATHS else nsmallest(MAX_PATHS, both)


class ProjectFiles:
    """The files of one folder. Folders end in a slash."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: list[str] = []
        """The known paths; only appended to while the list is first built."""
        self._made_at: float | None = None
        self._making: asyncio.Task[None] | None = None

    async def matching(self, written: str) -> AsyncIterator[tuple[str, ...]]:
        """The best matches first: soon those among known paths, and again when there are more."""
        self.refresh()
        if not written:
            yield await asyncio.to_thread(_top, self._root)
            return
        paths, hunt = self._paths, PathSearch(written)
        shown: tuple[str, ...] | None = None
        while True:
            making = self._making
            is_made = making is None or making.done()
            if paths is not self._paths:
                paths, hunt = self._paths, PathSearch(written)
            async for found in _search_paths(hunt, paths):
                if found != shown:
                    shown = found
                    yield found
            if making is None or is_made:
                break
            await asyncio.wait([making], timeout=_FIRST_RESULTS_S if shown else _FIRST_RESULTS_S / 3)
        if not shown and (exactly := await asyncio.to_thread(typed_exactly, self._root, written)):
            yield exactly

    def refresh(self) -> None:
        """Build the list in the background if it is old or missing."""
        is_old = self._made_at is None or monotonic() - self._made_at > MAX_LIST_AGE_S
        if is_old and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make())

    async def close(self) -> None:
        """Stop building the list."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> None:
        from ebbtide.tools.base import ToolError  # noqa: PLC0415  # deferred: needed with the first `@`
        from ebbtide.tools.search.files import list_files  # noqa: PLC0415  # as above
        from ebbtide.tools.search.walk import is_generated, nearest_below  # noqa: PLC0415  # as above

        paths = self._paths if self._made_at is None else []
        folders, first, has_first = {""}, set[str](), Event()

        def take_first() -> None:
            """Make nearby paths known before the listing process starts."""
            try:
                near = (path for path in nearest_below(str(self._root)) if not is_generated(path))
                for path in islice(near, _MAX_EARLY_PATHS):
                    paths.append(path)
                    (folders if path.endswith("/") else first).add(path.removesuffix("/"))
            finally:
                has_first.set()

        def take(path: str) -> bool:
            if not has_first.is_set():
                has_first.wait()
            if is_generated(path):
                return True
            if path not in first:
                paths.append(path)
            folder = path.rpartition("/")[0]
            while folder not in folders:
                folders.add(folder)
                paths.append(f"{folder}/")
                folder = folder.rpartition("/")[0]
            return True

        with contextlib.suppress(ToolError):  # a folder that is gone has no files to offer
            await asyncio.gather(asyncio.to_thread(take_first), list_files(self._root, self._root, take))
        self._paths, self._made_at = paths, monotonic()


async def _search_paths(hunt: PathSearch, paths: Sequence[str]) -> AsyncIterator[tuple[str, ...]]:
    """Yield matches now and then while scoring, and at the end."""
    begun = rested = monotonic()
    while hunt.advance(paths):
        if monotonic() - rested > _YIELD_INTERVAL_S:
            if monotonic() - begun > _FIRST_RESULTS_S:
                yield hunt.matches
                begun = monotonic()
            await asyncio.sleep(0)
            rested = monotonic()
    yield hunt.matches


def _top(root: Path) -> tuple[str, ...]:
    """The entries of the folder itself, folders first."""
    from ebbtide.tools.search.walk import entries_of, is_generated  # noqa: PLC0415  # deferred: needed with the first `@`

    found = entries_of(str(root))
    entries = [(name, is_folder) for name, is_folder in found if not name.startswith(".") and not is_generated(name)]
    named = [f"{name}/" for name, is_folder in entries if is_folder]
    return tuple([*named, *(name for name, is_folder in entries if not is_folder)][:MAX_PATHS])


def scores(wanted: str, paths: Sequence[str], letters: re.Pattern[str], *, is_near: bool) -> list[Score]:
    """The scores of matching paths; lower is better. `is_near`: the letters must be together, otherwise apart.
    Hidden paths match only if a dot is typed."""
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
    """The contents of a folder typed in full, even if ignored, hidden or elsewhere."""
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
    return tuple(sorted(named)[:MAX_PATHS])

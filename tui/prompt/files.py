"""Finds project files and folders from a few letters of their paths.

The search tools list the paths in a separate process, so listing does not block the screen. Files ignored by Git are
left out. Paths are scored on the event loop in small batches, so that typing stays responsive.
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

from ebbtide import tools
from ebbtide.tools import search

MAX_SUGGESTED_PATHS = 50
"""Maximum number of paths suggested."""
MAX_LIST_AGE_S = 15.0
"""Maximum age of the path list in seconds. An older list is refreshed when it is next used."""
_MAX_EARLY_PATHS = 2_000
"""Maximum number of paths listed early, before the full list is complete. Paths with the fewest parent folders come
first."""
_PATHS_PER_BATCH = 200
"""Number of paths scored between checks of the elapsed time."""
_YIELD_INTERVAL_S = 0.002
"""How long to score, in seconds, before yielding to the event loop."""
_FIRST_RESULTS_DELAY_S = 0.03
"""Seconds after which partial results are shown."""
_WORD_BOUNDARIES = "/_-. "

Score = tuple[int, int, int, str]


class PathSearch:
    """Searches a growing list of paths, scoring each path once."""

    def __init__(self, query: str) -> None:
        self._query = query.lower()
        self._letters_pattern = re.compile(".*?".join(map(re.escape, self._query)))
        self._adjacent_scores: list[Score] = []
        """Scores of paths in which the typed letters are adjacent. If there are too few of them, paths with other
        characters between the letters are searched too."""
        self._scattered_scores: list[Score] = []
        self._adjacent_index = self._scattered_index = 0

    def advance(self, paths: Sequence[str]) -> bool:
        """Score the next batch of paths. Returns whether there was one. `paths` may only grow between calls."""
        if self._adjacent_index < len(paths):
            batch = paths[self._adjacent_index : self._adjacent_index + _PATHS_PER_BATCH]
            self._adjacent_index += len(batch)
            self._adjacent_scores = _best_scores(
                self._adjacent_scores, path_scores(self._query, batch, self._letters_pattern, is_adjacent=True)
            )
            return True
        if len(self._adjacent_scores) < MAX_SUGGESTED_PATHS and self._scattered_index < len(paths):
            batch = paths[self._scattered_index : self._scattered_index + _PATHS_PER_BATCH]
            self._scattered_index += len(batch)
            self._scattered_scores = _best_scores(
                self._scattered_scores, path_scores(self._query, batch, self._letters_pattern, is_adjacent=False)
            )
            return True
        return False

    @property
    def matches(self) -> tuple[str, ...]:
        """The matches, best first."""
        scores = (
            self._adjacent_scores
            if len(self._adjacent_scores) >= MAX_SUGGESTED_PATHS
            else [*self._adjacent_scores, *self._scattered_scores]
        )
        return tuple(score[-1] for score in nsmallest(MAX_SUGGESTED_PATHS, scores))


def _best_scores(scores: list[Score], new_scores: Sequence[Score]) -> list[Score]:
    """Merge two lists of scores, keeping only the best if there are too many."""
    merged = [*scores, *new_scores] if new_scores else scores
    return merged if len(merged) <= 20 * MAX_SUGGESTED_PATHS else nsmallest(MAX_SUGGESTED_PATHS, merged)


class ProjectFiles:
    """A project's files and folders. Folder paths end in a slash."""

    def __init__(self, project_folder: Path) -> None:
        self._root = project_folder
        self._paths: list[str] = []
        """The paths known so far. The first list can be searched while it grows; a later list replaces it once it is
        complete."""
        self._listed_at: float | None = None
        self._listing_task: asyncio.Task[None] | None = None

    async def find_matches(self, query: str) -> AsyncIterator[tuple[str, ...]]:
        """Yield lists of matches, best first: early ones from the paths known so far, then better ones as more paths
        are listed."""
        self.refresh()
        if not query:
            yield await asyncio.to_thread(_top_entries, self._root)
            return
        paths, path_search = self._paths, PathSearch(query)
        previous_matches: tuple[str, ...] | None = None
        while True:
            listing_task = self._listing_task
            is_complete = listing_task is None or listing_task.done()
            if paths is not self._paths:
                paths, path_search = self._paths, PathSearch(query)
            async for matches in _search_paths(path_search, paths):
                if matches != previous_matches:
                    previous_matches = matches
                    yield matches
            if listing_task is None or is_complete:
                break
            await asyncio.wait(
                [listing_task], timeout=_FIRST_RESULTS_DELAY_S if previous_matches else _FIRST_RESULTS_DELAY_S / 3
            )
        if not previous_matches and (
            folder_entries := await asyncio.to_thread(typed_folder_entries, self._root, query)
        ):
            yield folder_entries

    def refresh(self) -> None:
        """Build the path list in the background if it is missing or too old."""
        is_old = self._listed_at is None or monotonic() - self._listed_at > MAX_LIST_AGE_S
        if is_old and (self._listing_task is None or self._listing_task.done()):
            self._listing_task = asyncio.create_task(self._list_paths())

    async def close(self) -> None:
        """Stop building the path list."""
        if self._listing_task is not None:
            self._listing_task.cancel()
            await asyncio.gather(self._listing_task, return_exceptions=True)

    async def _list_paths(self) -> None:
        paths = self._paths if self._listed_at is None else []
        folders, skipped_folders, nearby_paths, nearby_listed = {""}, set[str](), set[str](), Event()

        def list_nearby() -> None:
            """Add nearby paths before the listing process starts."""
            try:
                candidates = (
                    path
                    for path in search.walk.walk_nearest_first(str(self._root))
                    if not search.walk.is_generated(path)
                )
                for path in islice(candidates, _MAX_EARLY_PATHS):
                    paths.append(path)
                    (folders if path.endswith("/") else nearby_paths).add(path.removesuffix("/"))
            finally:
                nearby_listed.set()

        def add_paths(listed_paths: Sequence[str]) -> None:
            nearby_listed.wait()
            for path in listed_paths:
                folder, _, name = path.rpartition("/")
                if folder not in folders and (folder in skipped_folders or not add_folder(folder)):
                    continue
                if path not in nearby_paths and not search.walk.is_generated_name(name):
                    paths.append(path)

        def add_folder(folder: str) -> bool:
            """Add a folder and those above it, unless it is generated."""
            if search.walk.is_generated(folder):
                skipped_folders.add(folder)
                return False
            while folder not in folders:
                folders.add(folder)
                paths.append(f"{folder}/")
                folder = folder.rpartition("/")[0]
            return True

        with contextlib.suppress(tools.base.ToolError):  # a folder that no longer exists offers no files
            await asyncio.gather(
                asyncio.to_thread(list_nearby), search.files.list_files(self._root, self._root, add_paths)
            )
        self._paths, self._listed_at = paths, monotonic()


async def _search_paths(path_search: PathSearch, paths: Sequence[str]) -> AsyncIterator[tuple[str, ...]]:
    """Score paths, yielding the matches so far at intervals and all matches at the end."""
    last_yield = last_sleep = monotonic()
    while path_search.advance(paths):
        if monotonic() - last_sleep > _YIELD_INTERVAL_S:
            if monotonic() - last_yield > _FIRST_RESULTS_DELAY_S:
                yield path_search.matches
                last_yield = monotonic()
            await asyncio.sleep(0)
            last_sleep = monotonic()
    yield path_search.matches


def _top_entries(root: Path) -> tuple[str, ...]:
    """List the entries directly in the folder, folders first."""
    visible_entries = search.walk.visible_entries(str(root))
    entries = [
        (name, is_folder)
        for name, is_folder in visible_entries
        if not name.startswith(".") and not search.walk.is_generated(name)
    ]
    folder_names = [f"{name}/" for name, is_folder in entries if is_folder]
    return tuple([*folder_names, *(name for name, is_folder in entries if not is_folder)][:MAX_SUGGESTED_PATHS])


def path_scores(
    query: str, paths: Sequence[str], letters_pattern: re.Pattern[str], *, is_adjacent: bool
) -> list[Score]:
    """Score the matching paths; lower is better. With `is_adjacent`, the typed letters must be adjacent in the path.
    Without it, they must be in order but not adjacent. Hidden paths match only if a dot was typed."""
    includes_hidden = query.startswith(".") or "/." in query
    scores = []
    for path in paths:
        lowered = path.lower()
        if is_adjacent:
            if query not in lowered:
                continue
        elif query in lowered or letters_pattern.search(lowered) is None:
            continue
        if not includes_hidden and (path[0] == "." or "/." in path):
            continue
        scores.append((_rank(query, lowered, letters_pattern, is_adjacent), path.count("/", 0, -1), len(path), path))
    return scores


def _rank(query: str, path: str, letters_pattern: re.Pattern[str], is_adjacent: bool) -> int:
    name = path.rstrip("/").rpartition("/")[2]
    if not is_adjacent:
        return 7 if letters_pattern.search(name) else 8
    if query in (name, path, name.rpartition(".")[0]):
        return 0
    if name.startswith(query):
        return 1
    if path.startswith(query):
        return 2
    offset = name.find(query)
    if offset > 0:
        return 3 if name[offset - 1] in _WORD_BOUNDARIES else 4
    return 5 if path[path.find(query) - 1] in _WORD_BOUNDARIES else 6


def typed_folder_entries(root: Path, typed_path: str) -> tuple[str, ...]:
    """List the matching entries of a folder whose path was typed in full, even if they are ignored, hidden or outside
    the project."""
    folder, slash, name_prefix = typed_path.rpartition("/")
    folder_path = os.path.join(root, os.path.expanduser(folder + slash))
    try:
        with os.scandir(folder_path) as entries:
            matches = [
                f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.lower().startswith(name_prefix.lower())
                and (name_prefix.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return ()
    return tuple(sorted(matches)[:MAX_SUGGESTED_PATHS])

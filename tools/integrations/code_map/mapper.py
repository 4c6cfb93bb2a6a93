"""Builds the map in a separate process. The process reads a request from standard input, and prints progress and the
most important definitions as lines of JSON. It may be killed at any time, and a crash in a grammar ends only this
process."""

import json
import os
import resource
import stat
import sys
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

from ebbtide.tools.integrations.code_map.cache import CachedTags, cache_path, load_cache, save_cache
from ebbtide.tools.integrations.code_map.grammars import GRAMMARS
from ebbtide.tools.integrations.code_map.rank import MapFocus, rank_definitions
from ebbtide.tools.integrations.code_map.tags import MAX_FILE_BYTES, NO_TAGS, Tags, file_tags
from ebbtide.tools.process.own_module import own_module_command
from ebbtide.tools.search.walk import walk_files
from ebbtide.tools.secrets.files import may_contain_secrets

MAX_MAPPED_FILES = 20_000
MAX_RETURNED_DEFINITIONS = 2000
"""Maximum number of definitions returned."""
_MAX_SERIAL_FILES = 100
"""Up to this many files are read without worker processes."""
_MAX_PROCESSES = 4
_MAX_CPU_S = 300
"""Limit on processor time, in seconds."""
_PROGRESS_EVERY_FILES = 250
"""Number of files between two progress messages."""


def mapper_argv(root: str) -> list[str]:
    """Return the command line of the process that maps a folder."""
    return own_module_command(__name__, root)


def main(root: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_S, _MAX_CPU_S))
    request = json.loads(sys.stdin.readline())
    file_states, is_complete = _mappable_files(root)
    cache = cache_path(Path(request["cache"]), Path(root)) if request["cache"] else None
    cached_files = load_cache(cache) if cache is not None else {}
    focus_words = [word.strip("/") for word in request["focus"] if word.strip("/")]
    requested = {
        path for path in file_states if any(path == word or path.startswith(f"{word}/") for word in focus_words)
    }
    seen_files = set(request["seen"]) & file_states.keys()
    seen_folders = {os.path.dirname(path) for path in seen_files}
    reading_order = sorted(
        file_states, key=lambda path: (path not in requested, *_reading_order_key(path, seen_folders))
    )
    files = dict(
        _tag_files(root, {path: file_states[path] for path in reading_order}, cached_files, request["seconds"])
    )
    if cache is not None and files != cached_files:
        save_cache(cache, files)
    tags = {path: cached_tags.tags for path, cached_tags in files.items()}
    ranked = rank_definitions(tags, MapFocus(seen_files & tags.keys(), requested & tags.keys(), set(focus_words)))
    chosen = [
        (path, definition.line, definition.depth, definition.signature)
        for path, definition, _ in ranked[:MAX_RETURNED_DEFINITIONS]
    ]
    _emit(
        {
            "read": len(tags),
            "files": len(file_states),
            "is_all": is_complete,
            "definitions": len(ranked),
            "chosen": chosen,
        }
    )


def _reading_order_key(path: str, seen_folders: AbstractSet[str]) -> tuple[bool, bool, int, str]:
    """Return a key that sorts files into reading order. Files in folders with files already seen come first, then files
    other than tests, then those with the fewest parent folders."""
    return os.path.dirname(path) not in seen_folders, "test" in path, path.count("/"), path


def _mappable_files(root: str) -> tuple[dict[str, tuple[int, int]], bool]:
    """Find the files that can be mapped, with their modification times and sizes. Also tell whether the list is
    complete."""
    file_states: dict[str, tuple[int, int]] = {}
    for path in walk_files(root):
        if os.path.splitext(path)[1] in GRAMMARS and not may_contain_secrets(path):
            if len(file_states) == MAX_MAPPED_FILES:
                return file_states, False
            try:
                status = os.lstat(os.path.join(root, path))
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
                file_states[path] = (status.st_mtime_ns, status.st_size)
    return file_states, True


def _tag_files(
    root: str, file_states: Mapping[str, tuple[int, int]], cached_tags_by_path: Mapping[str, CachedTags], seconds: float
) -> Iterator[tuple[str, CachedTags]]:
    """Yield each file with its tags. Unchanged files come first, with their cached tags. The others are then read in
    order until time is up."""
    deadline = monotonic() + seconds
    unchanged = {
        path: cached_tags_by_path[path]
        for path, state in file_states.items()
        if path in cached_tags_by_path and cached_tags_by_path[path][:2] == state
    }
    pending = [path for path in file_states if path not in unchanged]
    yield from unchanged.items()
    with closing(_read_tags([os.path.join(root, path) for path in pending])) as tags:
        for done_count, (path, path_tags) in enumerate(zip(pending, tags, strict=False), start=1):
            yield path, CachedTags(*file_states[path], path_tags)
            if done_count % _PROGRESS_EVERY_FILES == 0:
                _emit({"done": done_count, "of": len(pending)})
            if monotonic() > deadline:
                break


def _read_tags(paths: list[str]) -> Generator[Tags, None, None]:
    """Yield the tags of files, in order. If there are many files, several processes read them. If one of these crashes,
    the remaining files are read one at a time, to find the file at which it does."""
    process_count = min(_MAX_PROCESSES, os.cpu_count() or 1)
    if len(paths) <= _MAX_SERIAL_FILES or process_count == 1:
        yield from map(file_tags, paths)
        return
    read_count = yield from _read_in_processes(paths, process_count)
    while read_count < len(paths):
        read_count += yield from _read_in_processes(paths[read_count:], 1)
        if read_count < len(paths):
            yield NO_TAGS  # the process crashed at this file, and would again
            read_count += 1


def _read_in_processes(paths: list[str], process_count: int) -> Generator[Tags, None, int]:
    """Yield the tags of files, in order, until a process crashes. Return the number of files."""
    read_count = 0
    with ProcessPoolExecutor(process_count, mp_context=get_context("fork")) as pool:
        results = pool.map(file_tags, paths, chunksize=25 if process_count > 1 else 1)
        try:
            for tags in results:
                read_count += 1
                yield tags
        except BrokenProcessPool:
            return read_count
        finally:
            pool.shutdown(cancel_futures=True)
    return read_count


def _emit(message: Mapping[str, object]) -> None:
    print(json.dumps(message, ensure_ascii=True, separators=(",", ":")), flush=True)

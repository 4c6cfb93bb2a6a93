"""The map as a separate process: reads a request from standard input, then prints progress and the most important
definitions as lines of JSON. It may be killed at any time, and a crash in a grammar stays in this process."""

import json
import os
import resource
import stat
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

from ebbtide.tools.code_map.cache import CachedTags, file_for, load, save
from ebbtide.tools.code_map.grammars import GRAMMARS
from ebbtide.tools.code_map.rank import MapFocus, rank_definitions
from ebbtide.tools.code_map.tags import MAX_FILE_BYTES, NOTHING, Tags, tags_of
from ebbtide.tools.process.own_module import own_module
from ebbtide.tools.search.walk import files_below
from ebbtide.tools.secrets.files import holds_secrets

MAX_FILES = 20_000
MAX_DEFINITIONS = 2000
"""Maximum number of definitions returned."""
_MAX_SERIAL_FILES = 100
"""Number of files up to which a single process reads them."""
_PROCESSES = 4
_MAX_CPU_S = 300
"""Limit on processor time, in seconds."""
_PROGRESS_EVERY_FILES = 250
"""Number of files between progress messages."""


def argv_for(root: str) -> list[str]:
    """Return the command that maps a folder."""
    return own_module(__name__, root)


def main(root: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_S, _MAX_CPU_S))
    wanted = json.loads(sys.stdin.readline())
    found, is_all = _files_in(root)
    cache = file_for(Path(wanted["cache"]), Path(root)) if wanted["cache"] else None
    kept = load(cache) if cache is not None else {}
    words = [word.strip("/") for word in wanted["focus"] if word.strip("/")]
    asked = {path for path in found if any(path == word or path.startswith(f"{word}/") for word in words)}
    seen = set(wanted["seen"]) & found.keys()
    near = {os.path.dirname(path) for path in seen}
    first = sorted(found, key=lambda path: (path not in asked, *_distance(path, near)))
    files = dict(_tag_files(root, {path: found[path] for path in first}, kept, wanted["seconds"]))
    if cache is not None and files != kept:
        save(cache, files)
    tags = {path: one.tags for path, one in files.items()}
    every = rank_definitions(tags, MapFocus(seen & tags.keys(), asked & tags.keys(), set(words)))
    chosen = [(path, one.line, one.depth, one.signature) for path, one, _ in every[:MAX_DEFINITIONS]]
    _emit({"read": len(tags), "files": len(found), "is_all": is_all, "definitions": len(every), "chosen": chosen})


def _distance(path: str, near: AbstractSet[str]) -> tuple[bool, bool, int, str]:
    """Return a sort key for reading order: files in folders near the focus first, then by depth, with tests last."""
    return os.path.dirname(path) not in near, "test" in path, path.count("/"), path


def _files_in(root: str) -> tuple[dict[str, tuple[int, int]], bool]:
    """Return the files that can be mapped, with modification times and sizes, and whether the list is complete."""
    found: dict[str, tuple[int, int]] = {}
    for path in files_below(root):
        if os.path.splitext(path)[1] in GRAMMARS and not holds_secrets(path):
            if len(found) == MAX_FILES:
                return found, False
            try:
                status = os.lstat(os.path.join(root, path))
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
                found[path] = (status.st_mtime_ns, status.st_size)
    return found, True


def _tag_files(
    root: str, found: Mapping[str, tuple[int, int]], kept: Mapping[str, CachedTags], seconds: float
) -> Iterator[tuple[str, CachedTags]]:
    """Yield each file with its tags: cached ones if unchanged, then others in order until the time is up."""
    end = monotonic() + seconds
    same = {path: kept[path] for path, state in found.items() if path in kept and kept[path][:2] == state}
    left = [path for path in found if path not in same]
    yield from same.items()
    with closing(_read([os.path.join(root, path) for path in left])) as tags:
        for done, (path, found_there) in enumerate(zip(left, tags, strict=False), start=1):
            yield path, CachedTags(*found[path], found_there)
            if done % _PROGRESS_EVERY_FILES == 0:
                _emit({"done": done, "of": len(left)})
            if monotonic() > end:
                break


def _read(paths: list[str]) -> Generator[Tags, None, None]:
    """Yield the tags of files in order, using several processes if there are many files. If a worker crashes on a file,
    the files after it yield nothing."""
    count = min(_PROCESSES, os.cpu_count() or 1)
    if len(paths) <= _MAX_SERIAL_FILES or count == 1:
        yield from map(tags_of, paths)
        return
    with ProcessPoolExecutor(count, mp_context=get_context("fork")) as pool:
        results: Iterable[Tags] = pool.map(tags_of, paths, chunksize=25)
        done = 0
        try:
            for tags in results:
                done += 1
                yield tags
        except BrokenProcessPool:
            yield from (NOTHING for _ in paths[done:])
        finally:
            pool.shutdown(cancel_futures=True)


def _emit(message: Mapping[str, object]) -> None:
    print(json.dumps(message, ensure_ascii=True, separators=(",", ":")), flush=True)

"""A cache of the tags in a project's files. Only its owner can read it. An unreadable cache counts as empty, and write
errors are ignored."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.integrations.code_map.tags import Definition, Tags

CACHE_VERSION = 1
MAX_CACHE_BYTES = 64 * 1024**2
"""Maximum size of the cache file, in bytes. A larger one is not stored."""
MAX_CACHED_PROJECTS = 20


class CachedTags(NamedTuple):
    """The tags of a file. They are valid while its modification time and size stay the same."""

    modified_ns: int
    """Modification time in nanoseconds."""
    size: int
    tags: Tags


def cache_path(folder: Path, root: Path) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:24]}.json"


def load_cache(path: Path) -> dict[str, CachedTags]:
    try:
        content = read_prefix(path, MAX_CACHE_BYTES + 1)
        table = json.loads(content) if len(content) <= MAX_CACHE_BYTES else {}
        if table.get("version") != CACHE_VERSION:
            return {}
        return {name: _parse_entry(entry) for name, entry in table["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _parse_entry(entry: list[object]) -> CachedTags:
    match entry:
        case [int(modified_ns), int(size), list(definitions), dict(uses)]:
            parsed_definitions = tuple(
                Definition(str(name), int(line), int(depth), str(text)) for name, line, depth, text in definitions
            )
            return CachedTags(
                modified_ns, size, Tags(parsed_definitions, {str(name): int(count) for name, count in uses.items()})
            )
    raise ValueError("not an entry")


def save_cache(path: Path, files: Mapping[str, CachedTags]) -> None:
    """Replace the stored tags, and delete the caches of the projects that were mapped longest ago."""
    entries = {
        name: (cached.modified_ns, cached.size, cached.tags.definitions, cached.tags.uses)
        for name, cached in files.items()
    }
    text = json.dumps({"version": CACHE_VERSION, "files": entries}, separators=(",", ":"))
    if len(text) > MAX_CACHE_BYTES:
        return
    new_path = path.with_name(f"{path.name}.{os.getpid()}.new")
    with suppress(OSError):
        create_private_folder(path.parent)
        try:
            with open(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
                file.write(text)
            new_path.replace(path)
        finally:
            new_path.unlink(missing_ok=True)
        caches = sorted(path.parent.glob("*.json"), key=lambda cache: cache.stat().st_mtime, reverse=True)
        for old_cache in caches[MAX_CACHED_PROJECTS:]:
            old_cache.unlink(missing_ok=True)

"""Files that users and projects bring, read no further than agreed: never a pipe, a device, or what a link outside of
its place leads to."""

import hashlib
import json
import os
import os.path
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tools.files.bounded import beginning_of

FILE_KINDS: tuple[Literal["skill", "command", "agent"], ...] = ("skill", "command", "agent")
"""What is a file for each, and may lie in any folder between the working folder and the top of the project."""
MOST_BYTES = 1_000_000
"""Of a file."""
MOST_FILES = 2_000
"""Files of one folder and those below it."""
MOST_TOGETHER = 20_000_000
"""Bytes of all files of something that is one folder."""
DEEPEST = 8
"""Folders within each other."""


class UnusableFile(Exception):
    """Why a file, or a folder, is left out, as the end of a sentence."""


def text_of(path: Path, boundary: Path | None) -> str:
    """The text of a file. `boundary`: the folder that no link may lead out of. Raises `UnusableFile`."""
    raw = _bytes_of(path, boundary, MOST_BYTES)
    if b"\0" in raw:
        raise UnusableFile("it is not a text")
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def table_of(path: Path, boundary: Path | None, *, may_be_empty: bool = False) -> dict[str, object]:
    """The table that a file holds as JSON. Raises `UnusableFile`."""
    try:
        text = text_of(path, boundary)
        content = {} if may_be_empty and not text.strip() else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableFile(f"it is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnusableFile("it holds no table")
    return content


def files_below(folder: Path, boundary: Path | None) -> Iterator[Path]:
    """The files of a folder and of those below it, sorted, bounded in number and depth; hidden ones are left out, and
    folders that links lead to are entered only where the user has linked them. Raises `UnusableFile` for too many."""
    count = 0
    for place, folders, names in os.walk(folder, followlinks=boundary is None):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < DEEPEST else []
        for name in sorted(names):
            if name.startswith("."):
                continue
            count += 1
            if count > MOST_FILES:
                raise UnusableFile(f"`{folder}` holds more than {MOST_FILES:,} files")
            yield Path(place, name)


def digest_of(folder: Path, boundary: Path | None) -> tuple[str, tuple[str, ...]]:
    """A digest of the names, the modes and the contents of all files of a folder, hidden ones, too, and their names.
    Raises `UnusableFile`, also for links that lead out of it, and for more than can be looked at."""
    digest, names, left = hashlib.sha256(), list[str](), MOST_TOGETHER
    for place, folders, files in os.walk(folder):
        folders.sort()
        linked = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in sorted([*files, *linked]):
            path = Path(place, name)
            shown = str(path.relative_to(folder))
            names.append(shown)
            if len(names) > MOST_FILES:
                raise UnusableFile(f"it holds more than {MOST_FILES:,} files")
            if path.is_dir():  # a link: what it leads to is digested where it lies, if that is in the folder
                if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                    raise UnusableFile(f"its link `{shown}` leads out of it")
                content, mode = os.readlink(path).encode("utf-8", "surrogateescape"), 0
            else:
                content = _bytes_of(path, folder if boundary is not None else None, left, shown)
                mode = path.stat().st_mode & 0o111
            left -= len(content)
            digest.update(f"{len(shown)} {shown} {mode:o} {len(content)}\n".encode("utf-8", "surrogateescape"))
            digest.update(content)
    return digest.hexdigest(), tuple(names)


def _bytes_of(path: Path, boundary: Path | None, most: int, shown: str = "") -> bytes:
    named = f"its file `{shown}` " if shown else "it "
    try:
        if boundary is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary)):
            raise UnusableFile(f"{named}leads out of `{boundary}`")
        raw = beginning_of(path, most + 1)
    except FileNotFoundError as error:
        raise UnusableFile(f"{named}is not there") from error
    except OSError as error:
        raise UnusableFile(f"{named}cannot be read: {error.strerror or error}") from error
    if len(raw) > most:
        raise UnusableFile(f"{named}is longer than {most:,} bytes" if not shown else "its files are too long together")
    return raw

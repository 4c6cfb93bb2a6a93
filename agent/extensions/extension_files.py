"""Reads files of extensions within limits: no pipes, no devices, and no links that lead outside the allowed folder."""

import hashlib
import json
import os
import os.path
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.byte_order import in_utf8

FILE_KINDS: tuple[Literal["skill", "command", "agent"], ...] = ("skill", "command", "agent")
"""Kinds that are defined in files, which may be in any folder between the working folder and the top of the project."""
MAX_FILE_BYTES = 1_000_000
"""Maximum size of a file."""
MAX_FILES = 2_000
"""Maximum number of files in a folder, including subfolders."""
MAX_TOTAL_BYTES = 20_000_000
"""Maximum total size of the files of one extension."""
MAX_DEPTH = 8
"""Maximum depth of nested folders."""
_MAX_PROGRAM_BYTES = 64_000_000
_SCRIPTS = (
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".awk",
    ".jq", ".sed", ".mk", ".go", ".swift", ".ps1",
)  # fmt: skip


class UnusableFile(Exception):
    """Why a file or folder is left out, as the end of a sentence."""


def text_of(path: Path, boundary: Path | None) -> str:
    """Return the text of a file. No link may lead outside `boundary`. Raises `UnusableFile`."""
    raw = in_utf8(_bytes_of(path, boundary, MAX_FILE_BYTES))
    if b"\0" in raw:
        raise UnusableFile("it is not a text")
    return raw.decode("utf-8", "replace")


def table_of(path: Path, boundary: Path | None, *, may_be_empty: bool = False) -> dict[str, object]:
    """Return the table in a JSON file. Raises `UnusableFile`."""
    try:
        text = text_of(path, boundary)
        content = {} if may_be_empty and not text.strip() else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableFile(f"it is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnusableFile("it does not contain a table")
    return content


def files_below(folder: Path, boundary: Path | None) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, sorted, with limits on number and depth. Hidden files are
    skipped; links to folders are followed only in the user's own folders. Raises `UnusableFile` if there are too
    many."""
    count = 0
    for place, folders, names in os.walk(folder, followlinks=boundary is None):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
        for name in sorted(names):
            if name.startswith("."):
                continue
            count += 1
            if count > MAX_FILES:
                raise UnusableFile(f"`{folder}` contains more than {MAX_FILES:,} files")
            yield Path(place, name)


def digest_of(folder: Path, boundary: Path | None) -> tuple[str, tuple[str, ...]]:
    """Return a digest of the names, modes and contents of all files in a folder, including hidden ones, and their
    names. Raises `UnusableFile` for links that lead outside and if a limit is exceeded."""
    digest, names, left = hashlib.sha256(), list[str](), MAX_TOTAL_BYTES
    for place, folders, files in os.walk(folder):
        folders.sort()
        linked = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in sorted([*files, *linked]):
            path = Path(place, name)
            shown = str(path.relative_to(folder))
            names.append(shown)
            if len(names) > MAX_FILES:
                raise UnusableFile(f"it contains more than {MAX_FILES:,} files")
            if path.is_dir():  # a link to a folder; its target is digested separately if it is in the folder
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


def scripts_among(words: Iterable[str], folder: Path, project: Path) -> tuple[Path, ...]:
    """Return the project's scripts among the words of a command. `folder` is its working directory."""
    parts = (part for word in words for part in re.split(r"[\s;&|()<>=]+", word) if part and "\0" not in part)
    paths = (Path(folder, part) for part in dict.fromkeys(parts) if os.path.isfile(os.path.join(folder, part)))
    found = (path for path in paths if _is_within(path, project) and is_script(path))
    return tuple(sorted({path if path.is_relative_to(project) else path.resolve() for path in found}))


def is_script(path: Path) -> bool:
    """Whether a file is a script or program, rather than data."""
    if not path.is_file():
        return False
    if path.suffix in _SCRIPTS or os.access(path, os.X_OK):
        return True
    with suppress(OSError):
        return beginning_of(path, 2) == b"#!"
    return False


def digest_of_programs(paths: Iterable[Path]) -> str:
    """Digest of the names and contents of files of any kind; empty if there are none."""
    digests = []
    for path in paths:
        try:
            held = hashlib.sha256(beginning_of(path, _MAX_PROGRAM_BYTES)).hexdigest()
        except OSError as error:
            held = str(error.errno)
        digests.append([os.fsencode(path).hex(), held])
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest() if digests else ""


def _is_within(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder) and path.resolve() != folder
    except OSError:
        return False


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

"""Reads files of extensions with limits. Pipes, devices, and links that lead outside the allowed folder are
rejected."""

import hashlib
import json
import os
import os.path
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.byte_order import to_utf8

FILE_KINDS: tuple[Literal["skill", "command", "agent"], ...] = ("skill", "command", "agent")
"""Kinds of extensions that are defined in separate files. These files can be in any folder from the working folder up
to the top of the project."""
MAX_FILE_BYTES = 1_000_000
"""Maximum size of a file, in bytes."""
MAX_FILES = 2_000
"""Maximum number of files in a folder, including subfolders."""
MAX_TOTAL_BYTES = 20_000_000
"""Maximum total size of the files of one extension, in bytes."""
MAX_DEPTH = 8
"""Maximum depth of nested folders."""
_MAX_PROGRAM_BYTES = 64_000_000
_SCRIPT_SUFFIXES = (
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".awk",
    ".jq", ".sed", ".mk", ".go", ".swift", ".ps1",
)  # fmt: skip


class UnusableFileError(Exception):
    """A file or folder cannot be used and is skipped. The message gives the reason, as the end of a sentence."""


def read_text_file(path: Path, boundary: Path | None) -> str:
    """Return the text of a file. No link may lead outside `boundary`. Raises `UnusableFileError`."""
    data = to_utf8(_read_bytes(path, boundary, MAX_FILE_BYTES))
    if b"\0" in data:
        raise UnusableFileError("it is not text")
    return data.decode("utf-8", "replace")


def read_json_table(path: Path, boundary: Path | None, *, may_be_empty: bool = False) -> dict[str, object]:
    """Return the table in a JSON file. Raises `UnusableFileError`."""
    try:
        text = read_text_file(path, boundary)
        content = {} if may_be_empty and not text.strip() else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableFileError(f"it is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnusableFileError("it does not contain a table")
    return content


def list_files_below(folder: Path, boundary: Path | None) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders, sorted, with limits on number and depth. Hidden files are
    skipped; links to folders are followed only in the user's own folders. Raises `UnusableFileError` if there are too
    many."""
    file_count = 0
    for parent, folders, names in os.walk(folder, followlinks=boundary is None):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
        for name in sorted(names):
            if name.startswith("."):
                continue
            file_count += 1
            if file_count > MAX_FILES:
                raise UnusableFileError(f"`{folder}` contains more than {MAX_FILES:,} files")
            yield Path(parent, name)


def hash_folder(folder: Path, boundary: Path | None) -> tuple[str, tuple[str, ...]]:
    """Return a digest of all files in a folder, including hidden ones, and the files' names. The digest depends on
    names, modes and contents. Raises `UnusableFileError` for links that lead outside, or if a limit is exceeded."""
    digest = hashlib.sha256()
    names: list[str] = []
    remaining_bytes = MAX_TOTAL_BYTES
    for parent, folders, files in os.walk(folder):
        folders.sort()
        linked_folders = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in sorted([*files, *linked_folders]):
            path = Path(parent, name)
            relative = str(path.relative_to(folder))
            names.append(relative)
            if len(names) > MAX_FILES:
                raise UnusableFileError(f"it contains more than {MAX_FILES:,} files")
            if path.is_dir():  # a link to a folder: only its target is added; files in the target are added there
                if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
                    raise UnusableFileError(f"its link `{relative}` leads out of it")
                content, mode = os.readlink(path).encode("utf-8", "surrogateescape"), 0
            else:
                content = _read_bytes(path, folder if boundary is not None else None, remaining_bytes, relative)
                mode = path.stat().st_mode & 0o111
            remaining_bytes -= len(content)
            digest.update(f"{len(relative)} {relative} {mode:o} {len(content)}\n".encode("utf-8", "surrogateescape"))
            digest.update(content)
    return digest.hexdigest(), tuple(names)


def scripts_in_words(words: Iterable[str], folder: Path, project: Path) -> tuple[Path, ...]:
    """Find the project's scripts among the words of a command. `folder`: the working folder of the command."""
    pieces = (piece for word in words for piece in re.split(r"[\s;&|()<>=]+", word) if piece and "\0" not in piece)
    paths = (Path(folder, piece) for piece in dict.fromkeys(pieces) if os.path.isfile(os.path.join(folder, piece)))
    scripts = (path for path in paths if _is_within(path, project) and is_script(path))
    return tuple(sorted({path if path.is_relative_to(project) else path.resolve() for path in scripts}))


def is_script(path: Path) -> bool:
    """Whether a file is a script or program, rather than data."""
    if not path.is_file():
        return False
    if path.suffix in _SCRIPT_SUFFIXES or os.access(path, os.X_OK):
        return True
    with suppress(OSError):
        return read_prefix(path, 2) == b"#!"
    return False


def hash_programs(paths: Iterable[Path]) -> str:
    """Return a digest of the names and contents of files, which may be binary programs; empty if there are no files."""
    digests = []
    for path in paths:
        try:
            digest = hashlib.sha256(read_prefix(path, _MAX_PROGRAM_BYTES)).hexdigest()
        except OSError as error:
            digest = str(error.errno)
        digests.append([os.fsencode(path).hex(), digest])
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest() if digests else ""


def _is_within(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder) and path.resolve() != folder
    except OSError:
        return False


def _read_bytes(path: Path, boundary: Path | None, max_bytes: int, relative: str = "") -> bytes:
    subject = f"its file `{relative}` " if relative else "it "
    try:
        if boundary is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary)):
            raise UnusableFileError(f"{subject}leads out of `{boundary}`")
        data = read_prefix(path, max_bytes + 1)
    except FileNotFoundError as error:
        raise UnusableFileError(f"{subject}does not exist") from error
    except OSError as error:
        raise UnusableFileError(f"{subject}cannot be read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise UnusableFileError(
            f"{subject}is longer than {max_bytes:,} bytes" if not relative else "its files are too large in total"
        )
    return data

"""The corpus of commands, and the folders in which they start."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

FileState: TypeAlias = tuple[int, int, int, int, int]
"""Mode, size, mtime, ctime and inode of a file. They change if the file is touched."""


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command."""

    id: str
    place: str
    command: str
    compare: str
    """`exit+output+files`, `exit`, or `must end`."""
    setups: tuple[str, ...] = ()
    """Additional setups in which the test suite runs the row. A manual run uses all setups."""

    @property
    def accepts_refusals(self) -> bool:
        return "refusal" in self.compare


def read_rows(folder: Path) -> Iterator[CommandRow]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            compare = row.get("compare", "exit+output+files")
            setups = tuple(row.get("setups", ()))
            yield CommandRow(str(row["id"]), row["place"], row["command"], compare, setups)


def restore_folders(base: Path) -> None:
    """Restore the folders `w` and `home` to the state in which `places.sh` left them."""
    built = base / "built"
    if not built.exists():
        built.mkdir()
        for name in ("w", "home"):
            (base / name).rename(built / name)
    for name in ("w", "home"):
        (base / name).mkdir(exist_ok=True)
        current, original = (dict(_states_below(str(folder), name)) for folder in (base, built))
        # Changes of content alter the size or times, unless a command hides them deliberately.
        same = {path for path in current if path in original and current[path][:3] == original[path][:3]}
        _restore_paths(base, built, (path for path in {*current, *original} if path not in same))


class CommandFolders:
    """The folders in which commands start, and their initial state."""

    def __init__(self, base: Path, places: Set[str]) -> None:
        """`places`: the names of all start folders. Files next to them in `w` belong to every start folder."""
        self.base, self._places = base, places
        self._initial = base / "first"
        shutil.rmtree(self._initial, ignore_errors=True)
        self._initial.mkdir()
        (self._initial / "w").symlink_to(base / "built" / "w")
        shutil.copytree(base / "home", self._initial / "home", symlinks=True)
        self._states = dict(_states_below(str(base), "home"))
        for entry in os.scandir(base / "w"):
            self._states |= _states_of(str(base), f"w/{entry.name}")

    def changes(self, place: str) -> dict[str, str]:
        """Return what a command in a start folder has touched since the last reset: kind, mode and content, by path."""
        other_folders = tuple(f"w/{other}" for other in self._places - {place})
        now = dict(_states_below(str(self.base), "home"))
        for entry in os.scandir(self.base / "w"):
            if f"w/{entry.name}" not in other_folders:
                now |= _states_of(str(self.base), f"w/{entry.name}")
        before = {
            path for path in self._states if not path.startswith("w/") or _place_folder(path) not in other_folders
        }
        return {
            path: describe_path(self.base / path) if path in now else "removed"
            for path in sorted({*now, *before})
            if now.get(path) != self._states.get(path)
        }

    def is_unchanged(self, path: str, description: str) -> bool:
        """Whether a touched path still has its initial state."""
        return os.path.lexists(self._initial / path) and describe_path(self._initial / path) == description

    def reset(self, changed: Iterable[str]) -> None:
        """Restore the initial state of the paths that `changes` returned."""
        paths = sorted(changed)
        _restore_paths(self.base, self._initial, paths)
        for path in paths:
            self._states.pop(path, None)
            if os.path.lexists(self.base / path):
                self._states[path] = _file_state(str(self.base / path))


def _restore_paths(base: Path, first: Path, changed: Iterable[str]) -> None:
    paths = sorted(changed)
    for path in reversed(paths):
        _remove(base / path, keeps_folder=_is_folder(first / path))
    for path in paths:
        if _is_folder(first / path):
            (base / path).mkdir(exist_ok=True)
        elif os.path.lexists(first / path):
            shutil.copy2(first / path, base / path, follow_symlinks=False)
    for folder in sorted({*map(os.path.dirname, paths), *paths}, reverse=True):
        if _is_folder(first / folder):
            shutil.copystat(first / folder, base / folder)


def _remove(path: Path, *, keeps_folder: bool) -> None:
    if not _is_folder(path):
        path.unlink(missing_ok=True)
        return
    path.chmod(stat.S_IRWXU)
    if not keeps_folder:
        shutil.rmtree(path)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def describe_path(path: Path) -> str:
    """Return a description of a path's kind, mode and content."""
    found = path.lstat()
    mode = oct(stat.S_IMODE(found.st_mode))
    if stat.S_ISLNK(found.st_mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISDIR(found.st_mode):
        return f"folder {mode}"
    if not stat.S_ISREG(found.st_mode):
        return f"kind {stat.S_IFMT(found.st_mode):o} {mode}"
    return f"file {mode} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]} of {found.st_size} bytes"


def _states_below(base: str, path: str) -> Iterator[tuple[str, FileState]]:
    """Yield the states of everything in a folder. `path` is relative to the base."""
    for name in sorted(os.listdir(f"{base}/{path}")) if os.access(f"{base}/{path}", os.R_OK) else ():
        state = _file_state(f"{base}/{path}/{name}")
        yield f"{path}/{name}", state
        if stat.S_ISDIR(state[0]):
            yield from _states_below(base, f"{path}/{name}")


def _states_of(base: str, path: str) -> dict[str, FileState]:
    """Return the states of a file, or of a folder and everything in it."""
    state = _file_state(f"{base}/{path}")
    return {path: state, **(dict(_states_below(base, path)) if stat.S_ISDIR(state[0]) else {})}


def _file_state(path: str) -> FileState:
    found = os.lstat(path)
    # The times of a folder are ignored, because its content is compared.
    times = (0, 0, 0) if stat.S_ISDIR(found.st_mode) else (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_mode, *times, found.st_ino)


def _place_folder(path: str) -> str:
    return "/".join(path.split("/")[:2])

"""Checks that the program's folders are writable and private."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.config.values import Folders
from ebbtide.agent.doctor.check_result import CheckResult

MAX_CHECKED_FILES = 10_000


def examine_folders(folders: Folders) -> Iterator[CheckResult]:
    """Check that the data can be written, and read only by the user."""
    data = folders.data
    if why := access_problem(data):
        yield CheckResult("folders", "broken", f"cannot access `{data}`: {why}")
        return
    if not data.exists():
        yield CheckResult("folders", "well", f"`{data}` will be created with the first session")
        return
    told = 0
    for path in (data, data / "sessions.db", data / "blobs", data / "outputs", data / "history", folders.logs):
        finding = _of_path(path, is_open=path in (data, folders.logs))
        if finding is not None:
            told += 1
            yield finding
    if not told:
        yield CheckResult("folders", "well", f"`{data}` is private")


def access_problem(path: Path) -> str:
    """Why a path cannot be examined, for example because a parent folder belongs to another user; empty if it can."""
    try:
        path.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _of_path(path: Path, *, is_open: bool) -> CheckResult | None:
    """Check one path, if it exists. `is_open` means that no parent folder keeps others out."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return CheckResult("folders", "broken", f"cannot access `{path}`: {error.strerror or error}")
    if status.st_uid != os.geteuid():
        return CheckResult("folders", "broken", f"`{path}` belongs to another user", f"run `chown $USER {path}`")
    if not os.access(path, os.W_OK):
        return CheckResult("folders", "broken", f"`{path}` is not writable", f"run `chmod u+w {path}`")
    if is_open and status.st_mode & 0o077:
        return _open_to_others(path, stat.S_IMODE(status.st_mode))
    return None


def _open_to_others(path: Path, mode: int) -> CheckResult:
    """Report what others can do in a folder that is not private. If all files in it are private, they only see
    names."""
    advice = f"run `chmod 700 {path}`"
    if mode & 0o022:
        return CheckResult("folders", "broken", f"others can create files in `{path}` (mode {mode:o})", advice)
    readable = _readable_in(path) if mode & 0o011 else None
    if readable is not None:
        return CheckResult(
            "folders", "broken", f"others can read `{readable}`, since `{path}` has mode {mode:o}", advice
        )
    what = "they cannot read its files"
    return CheckResult("folders", "note", f"others can list `{path}` (mode {mode:o}); {what}", advice)


def _readable_in(path: Path) -> Path | None:
    """A file readable by others, among the first ten thousand."""
    folders, left = [path], MAX_CHECKED_FILES
    while folders and left > 0:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                left -= 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISREG(mode) and mode & 0o044:
                    return Path(entry.path)
                if stat.S_ISDIR(mode) and mode & 0o011:
                    folders.append(Path(entry.path))
    return None

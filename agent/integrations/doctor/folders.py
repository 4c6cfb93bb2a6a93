"""Checks that the program's folders are writable and private."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.config.values import Folders
from ebbtide.agent.integrations.doctor.check_result import CheckResult

MAX_CHECKED_FILES = 10_000


def check_folders(folders: Folders) -> Iterator[CheckResult]:
    """Check that the program's data can be written, and that only the user can read it."""
    data = folders.data
    if problem := access_problem(data):
        yield CheckResult("folders", "broken", f"cannot access `{data}`: {problem}")
        return
    if not data.exists():
        yield CheckResult("folders", "well", f"`{data}` will be created with the first session")
        return
    problem_count = 0
    for path in (data, data / "sessions.db", data / "blobs", data / "outputs", data / "history", folders.logs):
        result = _check_path(path, is_reachable=path in (data, folders.logs))
        if result is not None:
            problem_count += 1
            yield result
    if not problem_count:
        yield CheckResult("folders", "well", f"`{data}` is private")


def access_problem(path: Path) -> str:
    """Return why a path is inaccessible, for example because a parent folder belongs to another user. Empty if it is
    accessible."""
    try:
        path.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _check_path(path: Path, *, is_reachable: bool) -> CheckResult | None:
    """Check one path, if it exists. `is_reachable`: other users can reach it through its parent folders."""
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
    if is_reachable and status.st_mode & 0o077:
        return _exposed_folder_result(path, stat.S_IMODE(status.st_mode))
    return None


def _exposed_folder_result(path: Path, mode: int) -> CheckResult:
    """Report what other users can do in a folder that is not private. If the files in it are private, others can see
    only their names."""
    advice = f"run `chmod 700 {path}`"
    if mode & 0o022:
        return CheckResult("folders", "broken", f"others can create files in `{path}` (mode {mode:o})", advice)
    readable = _readable_file(path) if mode & 0o011 else None
    if readable is not None:
        return CheckResult(
            "folders", "broken", f"others can read `{readable}`, since `{path}` has mode {mode:o}", advice
        )
    text = f"others can list `{path}` (mode {mode:o}); they cannot read its files"
    return CheckResult("folders", "note", text, advice)


def _readable_file(path: Path) -> Path | None:
    """Find a file that other users can read. Checks at most `MAX_CHECKED_FILES` entries."""
    folders, remaining_entries = [path], MAX_CHECKED_FILES
    while folders and remaining_entries > 0:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                remaining_entries -= 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISREG(mode) and mode & 0o044:
                    return Path(entry.path)
                if stat.S_ISDIR(mode) and mode & 0o011:
                    folders.append(Path(entry.path))
    return None

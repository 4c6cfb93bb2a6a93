"""Whether the folders in which things are kept can be written, and are the user's alone."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.agent.config.values import Folders
from ebbtide.agent.doctor.check_result import CheckResult

MAX_CHECKED_FILES = 10_000


def examine_folders(folders: Folders) -> Iterator[CheckResult]:
    """Whether what is kept can be written, and read by nobody else."""
    data = folders.data
    if why := access_problem(data):
        yield CheckResult("folders", "broken", f"cannot look at `{data}`: {why}")
        return
    if not data.exists():
        yield CheckResult("folders", "well", f"`{data}` will be made with the first session")
        return
    told = 0
    for path in (data, data / "sessions.db", data / "blobs", data / "outputs", data / "history", folders.logs):
        finding = _of_path(path, is_open=path in (data, folders.logs))
        if finding is not None:
            told += 1
            yield finding
    if not told:
        yield CheckResult("folders", "well", f"`{data}` is yours alone")


def access_problem(path: Path) -> str:
    """What keeps a place from being looked at, such as a folder of another user's around it."""
    try:
        path.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _of_path(path: Path, *, is_open: bool) -> CheckResult | None:
    """What is wrong with a path, when it is there. `is_open`: no folder around it keeps others out."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return CheckResult("folders", "broken", f"cannot look at `{path}`: {error.strerror or error}")
    if status.st_uid != os.geteuid():
        return CheckResult("folders", "broken", f"`{path}` belongs to another user", f"run `chown $USER {path}`")
    if not os.access(path, os.W_OK):
        return CheckResult("folders", "broken", f"`{path}` cannot be written", f"run `chmod u+w {path}`")
    if is_open and status.st_mode & 0o077:
        return _open_to_others(path, stat.S_IMODE(status.st_mode))
    return None


def _open_to_others(path: Path, mode: int) -> CheckResult:
    """What others may do with a folder that is not the user's alone. Where all in it is, they see names and no more."""
    advice = f"run `chmod 700 {path}`"
    if mode & 0o022:
        return CheckResult("folders", "broken", f"others may put files into `{path}` (mode {mode:o})", advice)
    readable = _readable_in(path) if mode & 0o011 else None
    if readable is not None:
        return CheckResult(
            "folders", "broken", f"others may read `{readable}`, since `{path}` has mode {mode:o}", advice
        )
    what = "nothing that is in it can be read by them"
    return CheckResult("folders", "note", f"others may see what there is in `{path}` (mode {mode:o}); {what}", advice)


def _readable_in(path: Path) -> Path | None:
    """A file that others may read, of the first ten thousand that are there."""
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

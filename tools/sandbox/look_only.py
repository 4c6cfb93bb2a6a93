"""The boundary of a command that is only allowed to read. It sees the system's programs and the working folder, except
for files with secrets. It cannot write anything, open sockets or reach other programs."""

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import Boundary, PathAccess
from ebbtide.tools.secrets.files import (
    SECRET_FOLDERS,
    SECRET_NAMES,
    SECRET_PREFIXES,
    SECRET_SUFFIXES,
    may_contain_secrets,
)

_PROGRAM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu")
"""Folders that contain the system's programs. Some of them may not exist."""
_SYSTEM_SETTINGS = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/magic", "/etc/magic.mime",
    "/etc/mime.types", "/etc/terminfo", "/etc/gitconfig", "/etc/gitattributes", "/etc/static",
)  # fmt: skip
"""Settings files that the system's programs need."""
GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes", ".gitignore_global")
"""Git's settings below the home folder. Passwords in them are masked in all outputs."""
_MAX_SEARCHED_FOLDERS = 20_000
"""Maximum number of folders searched for files with secrets."""
_MAX_HIDDEN_FILES = 100
"""Maximum number of hidden files; each takes a mount."""
_MIN_CACHEABLE_AGE_NS = 100_000_000
"""A folder's listing is cached only if its last change is at least this old, in nanoseconds. After a more recent
change, another one might not alter the folder's time stamp."""


class TooManySecretFilesError(OSError):
    """Raised if not every file with secrets can be hidden, because there are too many files or folders."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What a folder contained when it was last listed."""

    modified_ns: int
    """The folder's modification time in nanoseconds; 0 if the folder might have changed since the listing."""
    folders: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()
    """Files and folders with secrets, and named pipes, which can be written to even on a read-only mount."""


def read_only_boundary(
    roots: Sequence[Path], readable: Sequence[str], hidden: Sequence[str], scratch: Path
) -> Boundary:
    """Build the boundary of a command that is only allowed to read. `readable`: further paths that it sees. `hidden`:
    paths that it does not see."""
    access_by_path: dict[str, PathAccess] = {"/": "hidden folder"}
    for path in (*_PROGRAM_FOLDERS, *_SYSTEM_SETTINGS, *map(str, roots), *readable):
        if os.path.exists(path):
            access_by_path[path] = "read"
    for path in hidden:
        access_by_path[path] = "hidden folder" if os.path.isdir(path) else "locked file"
    return Boundary(access_by_path, str(scratch), "none")


def is_system_path(path: str) -> bool:
    """Whether a path is in a system folder and therefore always visible. `path` need not be resolved."""
    return path.startswith(tuple(f"{folder}/" for folder in _PROGRAM_FOLDERS))


def folders_to_search(roots: Sequence[Path], readable: Sequence[str]) -> tuple[str, ...]:
    """Return the visible folders to search for files with secrets. Raises `TooManySecretFilesError`."""
    readable_folders = (path for path in readable if os.path.isdir(path) and not is_system_path(path))
    folders = (*map(str, roots), *readable_folders)
    if "/" in folders:
        raise TooManySecretFilesError("it would see the whole file system")
    return folders


def find_secret_files(folders: Sequence[str], listings: dict[str, FolderListing], *, runs_git: bool) -> list[str]:
    """Find the files with secrets in the folders. `listings`: cached listings, which are updated. `runs_git`: whether
    the command runs Git, which needs its settings. Raises `TooManySecretFilesError`."""
    secret_paths = dict.fromkeys(path for folder in folders for path in _find_secrets(folder, listings))
    folder_prefixes = tuple(f"{folder}/" for folder in folders)
    real_paths = dict.fromkeys(map(os.path.realpath, secret_paths))
    hidden = [path for path in real_paths if f"{path}/".startswith(folder_prefixes) and os.path.exists(path)]
    if not runs_git:
        hidden += filter(os.path.isfile, (f"{folder}/.git/config" for folder in folders))
    if len(hidden) > _MAX_HIDDEN_FILES:
        raise TooManySecretFilesError(f"there are more than {_MAX_HIDDEN_FILES} files with secrets")
    return hidden


def _find_secrets(root: str, listings: dict[str, FolderListing]) -> Iterator[str]:
    pending, folder_count = [root], 0
    while pending:
        folder = pending.pop()
        folder_count += 1
        if folder_count > _MAX_SEARCHED_FOLDERS:
            raise TooManySecretFilesError(f"it has more than {_MAX_SEARCHED_FOLDERS} folders")
        try:
            changed_at = os.stat(folder, follow_symlinks=False).st_mtime_ns
            listing = listings.get(folder)
            if listing is None or listing.modified_ns != changed_at:
                listing = listings[folder] = _list_folder(folder, changed_at)
        except OSError:
            continue  # the command cannot read it either
        yield from listing.secret_paths
        pending += listing.folders


def _list_folder(folder: str, changed_at: int) -> FolderListing:
    is_settled = changed_at + _MIN_CACHEABLE_AGE_NS < time.time_ns()
    folders, secrets = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.casefold()
            if entry.is_dir(follow_symlinks=False):
                if name in SECRET_FOLDERS:
                    secrets.append(entry.path)
                elif name != ".git":
                    folders.append(entry.path)
            elif (_may_have_secret_name(name) and may_contain_secrets(name)) or _is_pipe(entry):
                secrets.append(entry.path)
    return FolderListing(changed_at if is_settled else 0, tuple(folders), tuple(secrets))


def _is_pipe(entry: "os.DirEntry[str]") -> bool:
    is_special = not (entry.is_file(follow_symlinks=False) or entry.is_symlink())
    return is_special and stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode)


def _may_have_secret_name(name: str) -> bool:
    return name in SECRET_NAMES or name.startswith(SECRET_PREFIXES) or name.endswith(SECRET_SUFFIXES)


def user_git_settings_paths(home: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of the user's Git settings, whether they exist or not."""
    yield from (str(home / name) for name in GIT_SETTINGS)
    yield from filter(os.path.isabs, (variables.get("GIT_CONFIG_GLOBAL", ""),))

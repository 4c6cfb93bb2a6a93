"""Determines which paths commands can write, can only read, or cannot see. These are the working folder, package
managers' caches, files that make Git run programs, and files that contain keys."""

import os
import pwd
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from itertools import chain, repeat
from pathlib import Path

from ebbtide.tools.lazy import regex
from ebbtide.tools.process.shell import is_passed_on
from ebbtide.tools.sandbox.boundary import PathAccess
from ebbtide.tools.sandbox.git_metadata import compute_git_path_access, is_in
from ebbtide.tools.secrets.files import (
    HOME_SECRET_PATHS,
    SECRET_FOLDER_VARIABLES,
    SECRET_PATH_VARIABLES,
    SYSTEM_SECRET_PATHS,
)
from ebbtide.tools.secrets.registry_settings import (
    NPM_SETTINGS_FILE,
    NPM_SETTINGS_VARIABLES,
    SETTINGS_FILES,
    SettingsCopy,
    copy_without_secrets,
)

CACHE_FOLDERS = (
    ".cache/pip", ".cache/uv", ".cache/pypoetry", ".cache/pdm", ".cache/hatch", ".cache/pre-commit", ".cache/yarn",
    ".cache/pnpm", ".cache/node", ".cache/node-gyp", ".cache/deno", ".cache/bun", ".cache/go-build", ".cache/ccache",
    ".cache/sccache", ".cache/zig", ".cache/bazel", ".cache/coursier", ".cache/mypy", ".cache/ruff", ".cache/black",
    ".cache/pylint", ".cache/matplotlib", ".cache/fontconfig", ".cache/typescript", ".cache/composer", ".npm",
    ".yarn/berry", ".local/share/pnpm/store", ".bun/install/cache", ".cargo/registry", ".cargo/git", "go/pkg",
    ".gradle/caches", ".gradle/wrapper", ".m2/repository", ".ivy2", ".nuget/packages", ".ccache", ".hex", ".mix",
    ".bundle/cache", ".pub-cache", ".stack", ".cabal/packages", ".opam/download-cache", ".cache/golangci-lint",
    ".cache/pip-tools", ".cache/virtualenv", ".cache/turbo", ".cache/vite", ".cache/helm", ".cache/bazelisk",
)  # fmt: skip
"""Shared build caches below the home folder. They are writable if they exist."""
_CACHES_BY_PROGRAM = {
    "pip": (".cache/pip",), "pip3": (".cache/pip",), "uv": (".cache/uv",), "poetry": (".cache/pypoetry",),
    "pre-commit": (".cache/pre-commit",), "npm": (".npm",), "yarn": (".cache/yarn",), "deno": (".cache/deno",),
    "bun": (".bun/install/cache",), "go": (".cache/go-build", "go/pkg"), "cargo": (".cargo/registry", ".cargo/git"),
    "ccache": (".cache/ccache",), "gradle": (".gradle/caches",), "mvn": (".m2/repository",),
    "composer": (".cache/composer",),
}  # fmt: skip
"""Each program's caches. In a sandbox, the program cannot create its caches itself."""
_CACHES_BY_VARIABLE = {
    "PIP_CACHE_DIR": ("",), "UV_CACHE_DIR": ("",), "PRE_COMMIT_HOME": ("",), "npm_config_cache": ("",),
    "NPM_CONFIG_CACHE": ("",), "YARN_CACHE_FOLDER": ("",), "DENO_DIR": ("",), "BUN_INSTALL_CACHE_DIR": ("",),
    "GOCACHE": ("",), "GOMODCACHE": ("",), "GOPATH": ("pkg",), "CARGO_HOME": ("registry", "git"), "CCACHE_DIR": ("",),
    "SCCACHE_DIR": ("",), "GRADLE_USER_HOME": ("caches", "wrapper"), "NUGET_PACKAGES": ("",),
    "COMPOSER_CACHE_DIR": ("",), "POETRY_CACHE_DIR": ("",),
}  # fmt: skip
"""Variables that set the path of a cache, or of a folder that contains caches. Each comes with the names of the caches
in the folder, or with an empty name for the folder itself."""

SHARED_SOCKET_FOLDERS = ("/tmp", "/var/tmp", "/run")
"""Folders that may be working folders although they contain other programs' sockets."""
_NAMESPACE_CACHE_S = 30
"""Seconds for which the network namespaces and working folders of processes are cached."""
_SOCKET_ROW = regex(rb"(?m)^[0-9a-fA-F]+:(?: [0-9A-F]+){5} +(\d+) ([^@\n][^\n]*)$")
"""Matches the row of a socket with a file in the kernel's table of named sockets: its number and its path, which may be
relative."""
HIDDEN_SOCKET_FOLDERS = ("/var/tmp",)
"""Folders with other programs' sockets that must be hidden explicitly. /tmp and /run need not be, because the sandbox
replaces them."""


def compute_path_access(
    root: Path,
    further_roots: Sequence[Path],
    home: Path,
    own_folders: Sequence[Path],
    visible: Sequence[Path],
    repositories: Sequence[Path] = (),
    unprotected: Sequence[str] = (),
) -> dict[str, PathAccess]:
    """Return the access that commands have, by path. `further_roots`: further writable folders, ignored if missing or
    replaced with a link; `own_folders`: folders with this program's own files; `visible`: readable folders inside
    those; `repositories`: repositories below the writable folders; `unprotected`: folders in which Git's files are not
    protected."""
    home = home.resolve()
    further_roots = [folder for folder in further_roots if folder.is_dir() and os.path.realpath(folder) == str(folder)]
    access_by_path: dict[str, PathAccess] = {}
    for path in HIDDEN_SOCKET_FOLDERS:
        if os.path.isdir(path) and os.path.realpath(path) == path:
            access_by_path[path] = "hidden folder"
    access_by_path |= secret_path_access(home, (root, *further_roots))
    for folder in own_folders:
        if folder.is_dir():
            access_by_path[str(folder.resolve())] = "hidden folder"
    for folder in visible:
        if folder != folder.parent:  # mounting the root again would uncover hidden paths
            access_by_path[str(folder)] = "read"
    for path in existing_caches(home):
        access_by_path.setdefault(path, "write")
    for path in _writable_folders(root, further_roots, home):
        access_by_path[path] = "write"
    for folder in (root, *further_roots):
        if str(folder) in SHARED_SOCKET_FOLDERS:
            access_by_path.update(dict.fromkeys(_subfolders_with_sockets(folder), "hidden folder"))
    for path in _find_other_program_sockets((root, *further_roots), home):
        if not _is_already_hidden(path, access_by_path):
            access_by_path[path] = "hidden file"
    writable = [path for path, access in access_by_path.items() if access == "write"]
    for folder in repositories:  # never made writable, because only their own files say which folders belong to them
        git_access = compute_git_path_access(folder, writable).items()
        access_by_path.update(
            {path: access for path, access in git_access if access != "write" and is_in(path, writable)}
        )
    for folder in (root, *further_roots):
        for path, access in compute_git_path_access(folder, writable).items():
            access_by_path[path] = access
        if (folder / ".ebb").is_dir():
            access_by_path[os.path.realpath(folder / ".ebb")] = "read"
    access_by_path = {
        path: access for path, access in access_by_path.items() if access != "read" or not is_in(path, unprotected)
    }
    return {path: access for path, access in (*_pinning_mounts(access_by_path), *access_by_path.items())}


def existing_caches(home: Path) -> Iterator[str]:
    """Yield the existing caches, both below the home folder and at paths set by variables. `home` must be resolved."""
    below_home = (_cache_path(name, home) for name in CACHE_FOLDERS)
    in_variables = (
        os.path.join(folder, name)
        for variable, names in _CACHES_BY_VARIABLE.items()
        if os.path.isabs(folder := os.environ.get(variable, ""))
        for name in names
    )
    for path in filter(os.path.isdir, (*below_home, *in_variables)):
        real = os.path.realpath(path)
        if not is_in(str(home), (real.rstrip("/"),)):
            yield real


def create_caches(home: Path) -> None:
    """Create the caches of installed programs that were never run, because the programs cannot create them in a
    sandbox. Nothing is created in another user's home folder."""
    with suppress(OSError):  # without a writable home folder, programs work without caches
        if home.stat().st_uid != os.getuid():
            return
        for program, names in _CACHES_BY_PROGRAM.items():
            if shutil.which(program):
                for name in names:
                    os.makedirs(_cache_path(name, home), mode=0o700, exist_ok=True)


def _cache_path(name: str, home: Path) -> str:
    """Return the path of a cache that is usually below the home folder. If `XDG_CACHE_HOME` is set, it replaces
    `.cache`."""
    cache_folder = os.environ.get("XDG_CACHE_HOME", "")
    return (
        f"{cache_folder}/{name.removeprefix('.cache/')}"
        if name.startswith(".cache/") and os.path.isabs(cache_folder)
        else f"{home}/{name}"
    )


def secret_path_access(home: Path, working_folders: Sequence[Path]) -> dict[str, PathAccess]:
    """Return the access to existing files with keys: the system's, those below the home folders, and those at paths set
    by variables.

    SSH and other programs use the home folder from the user database, so that folder is included. A path from a
    variable is skipped if the user passes the variable on to commands, or if the path is inside or above a working
    folder.
    """
    access_by_path: dict[str, PathAccess] = {}
    homes = dict.fromkeys(map(str, (home, _user_database_home())))
    for path in (*SYSTEM_SECRET_PATHS, *(path for folder in homes for path in _usual_secret_paths(folder))):
        if os.access(path, os.R_OK):
            real = os.path.realpath(path)
            access_by_path[real] = "hidden folder" if os.path.isdir(real) else "hidden file"
    project_folders = [folder for folder in working_folders if not home.is_relative_to(folder)]
    for secret_path in map(Path, map(os.path.realpath, _secret_paths_in_variables())):
        overlaps_project = any(map(secret_path.is_relative_to, project_folders)) or any(
            folder.is_relative_to(secret_path) for folder in (*project_folders, home)
        )
        if not overlaps_project and (os.path.isdir(secret_path) or os.path.isfile(secret_path)):
            access_by_path[str(secret_path)] = "hidden folder" if os.path.isdir(secret_path) else "hidden file"
    return access_by_path


def settings_copies(
    access_by_path: Mapping[str, PathAccess], home: Path, *, uses_proxy: bool
) -> dict[str, SettingsCopy]:
    """Return replacements for package managers' hidden settings files. They contain no secrets."""
    in_variables = ((NPM_SETTINGS_FILE, os.environ.get(name, "")) for name in NPM_SETTINGS_VARIABLES)
    homes = dict.fromkeys(map(str, (home.resolve(), _user_database_home())))
    in_homes = ((name, f"{folder}/{name}") for folder in homes for name in SETTINGS_FILES)
    copies: dict[str, SettingsCopy] = {}
    for name, path in (*in_homes, *in_variables):
        real_path = os.path.realpath(path) if os.path.isabs(path) else ""
        if access_by_path.get(real_path) == "hidden file" and real_path not in copies:
            with suppress(OSError, UnicodeDecodeError):
                copy = copy_without_secrets(name, Path(real_path).read_text("utf-8"), must_use_proxy=uses_proxy)
                copies |= {real_path: copy} if copy is not None else {}
    return copies


def _usual_secret_paths(home: str) -> Iterator[str]:
    """Yield the usual paths of keys below a home folder. Paths whose first component does not exist there are
    skipped."""
    names: frozenset[str] | None = None
    with suppress(OSError):  # the folder may not be listable
        names = frozenset(os.listdir(home))
    paths = (path for path in HOME_SECRET_PATHS if names is None or path.partition("/")[0] in names)
    yield from (f"{home}/{path}" for path in paths)


@cache
def _user_database_home() -> Path:
    """Return the user's home folder according to the user database. If the user is not in it, return the root
    folder."""
    try:
        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        return Path("/")


def _secret_paths_in_variables() -> Iterator[str]:
    """Yield the absolute paths that environment variables give for files with keys."""
    for name in SECRET_PATH_VARIABLES:
        paths = os.environ.get(name, "")
        if paths and not is_passed_on(name):
            yield from filter(os.path.isabs, paths.split(os.pathsep))
    for name, usual_folder in SECRET_FOLDER_VARIABLES.items():
        folder = os.environ.get(name, "")
        if os.path.isabs(folder):
            yield from (
                f"{folder}/{path.removeprefix(usual_folder)}"
                for path in HOME_SECRET_PATHS
                if path.startswith(usual_folder)
            )


def _writable_folders(root: Path, further_roots: Sequence[Path], home: Path) -> Iterator[str]:
    """Yield the writable folders. If one of them is the home folder or above it, yield only those entries of the home
    folder that have no leading dot, because other programs run dotfiles such as `.bashrc`."""
    for folder in (root, *further_roots):
        if not home.is_relative_to(folder):
            yield str(folder)
        else:
            for entry in os.scandir(home):
                if not entry.name.startswith(".") and not entry.is_symlink():
                    yield entry.path


def _subfolders_with_sockets(folder: Path) -> Iterator[str]:
    """Yield the subfolders with other programs' sockets: those of terminal multiplexers, SSH agents, display servers
    and the like."""
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and any(map(_is_socket, os.listdir(entry.path), repeat(entry.path))):
                yield entry.path


def _find_other_program_sockets(folders: Sequence[Path], home: Path) -> Iterator[str]:
    """Yield other programs' sockets anywhere on this machine: container daemons, SSH agents, editors. A program can
    connect to one without write access to its folder.

    Sockets in a working folder are skipped as part of the project, unless that folder is the home folder, contains it,
    or is in `SHARED_SOCKET_FOLDERS`.
    """
    project_folders = [
        str(folder)
        for folder in folders
        if not home.is_relative_to(folder) and str(folder) not in SHARED_SOCKET_FOLDERS
    ]
    rows = {row for table in _socket_tables() for row in _SOCKET_ROW.findall(table)}
    relative_rows = frozenset(row for row in rows if not row[1].startswith(b"/"))
    folders_of_processes = _WORKING_FOLDERS.find(relative_rows) if relative_rows else ()
    possible_paths = (folder + b"/" + name for folder in folders_of_processes for _, name in relative_rows)
    for path in map(os.fsdecode, sorted({*(path for _, path in rows - relative_rows), *possible_paths})):
        real = os.path.realpath(path)
        with suppress(OSError):
            if stat.S_ISSOCK(os.lstat(real).st_mode) and not is_in(real, project_folders):
                yield real


def _socket_tables() -> Iterator[bytes]:
    """Yield the kernel's table of named sockets of every network namespace. Socket files work across namespaces."""
    namespaces = _NETWORK_NAMESPACES.by_process({"self", *filter(str.isdecimal, os.listdir("/proc"))})
    representatives = dict(zip(namespaces.values(), namespaces.keys(), strict=True))
    for namespace, process in representatives.items():
        others = (other for other, its in namespaces.items() if its == namespace and other != process)
        for candidate in chain((process,), others):
            with suppress(OSError), open(f"/proc/{candidate}/net/unix", "rb", buffering=0) as table:
                yield table.readall()
                break  # the others, which are only needed if this process has just ended, have the same table


class _NetworkNamespaces:
    """The network namespaces of processes, as identifiers. Looking up those of all processes takes milliseconds, so it
    is done every `_NAMESPACE_CACHE_S` seconds. In between, only new processes are looked up: twice, because a new
    process may still move to another namespace."""

    def __init__(self) -> None:
        self._by_process = dict[str, int]()
        self._new_processes: AbstractSet[str] = frozenset()
        """The processes that have been looked up once."""
        self._cache_period = -1

    def by_process(self, processes: AbstractSet[str]) -> Mapping[str, int]:
        """Return the namespaces of running processes. Processes that have ended meanwhile are left out."""
        namespaces = self._by_process
        cache_period = int(time.monotonic() // _NAMESPACE_CACHE_S)
        new_processes = processes - namespaces.keys()
        outdated = new_processes | self._new_processes if cache_period == self._cache_period else processes
        for process in (namespaces.keys() - processes) | outdated:
            namespaces.pop(process, None)
        for process in outdated & processes:
            with suppress(OSError):
                namespaces[process] = os.stat(f"/proc/{process}/net/unix").st_ino
        self._new_processes, self._cache_period = new_processes, cache_period
        return namespaces.copy()


_NETWORK_NAMESPACES = _NetworkNamespaces()
"""Shared by all sessions."""


class _WorkingFolders:
    """The working folders of all processes that this process is allowed to inspect. A socket with a relative path lies
    in the folder in which its process was when it created the socket. So they are looked up as soon as there is a new
    one, and otherwise only every `_NAMESPACE_CACHE_S` seconds."""

    def __init__(self) -> None:
        self._folders = frozenset[bytes]()
        self._known_sockets: AbstractSet[tuple[bytes, bytes]] = frozenset()
        self._cache_period = -1

    def find(self, sockets: AbstractSet[tuple[bytes, bytes]]) -> AbstractSet[bytes]:
        """Return the working folders for the sockets, which are rows with a relative path."""
        cache_period = int(time.monotonic() // _NAMESPACE_CACHE_S)
        if cache_period != self._cache_period or not sockets <= self._known_sockets:
            self._folders = frozenset(_process_working_folders())
            self._known_sockets, self._cache_period = sockets, cache_period
        return self._folders


_WORKING_FOLDERS = _WorkingFolders()
"""Shared by all sessions."""


def _process_working_folders() -> Iterator[bytes]:
    for name in filter(bytes.isdigit, os.listdir(b"/proc")):
        with suppress(OSError):
            yield os.readlink(b"/proc/" + name + b"/cwd")


def _is_already_hidden(path: str, access_by_path: Mapping[str, PathAccess]) -> bool:
    """Whether a mount at a folder above the path already hides it."""
    ancestor = path
    while ancestor not in access_by_path and ancestor != "/":
        ancestor = os.path.dirname(ancestor)
    is_in_replaced_folder = any(path.startswith(f"{folder}/") for folder in ("/tmp", "/run"))
    return access_by_path.get(ancestor) == "hidden folder" or (is_in_replaced_folder and ancestor not in access_by_path)


def _is_socket(name: str, folder: str) -> bool:
    return stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)


def _pinning_mounts(access_by_path: dict[str, PathAccess]) -> Iterator[tuple[str, PathAccess]]:
    """Yield a mount for each folder between a writable folder and a protected path in it. A folder that is a mount
    point cannot be moved away and replaced."""
    for path, access in access_by_path.items():
        if access != "write":
            parent = os.path.dirname(path)
            while parent not in access_by_path and parent != "/":
                parent = os.path.dirname(parent)
            if access_by_path.get(parent) == "write":
                folder = os.path.dirname(path)
                while folder != parent:
                    yield folder, "write"
                    folder = os.path.dirname(folder)

"""Determines which paths commands may write, only read, or not see: the working folder, package manager caches, what
makes Git run programs, and where keys are stored."""

import os
import pwd
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import repeat
from pathlib import Path

from ebbtide.tools.process.shell import is_passed_on
from ebbtide.tools.sandbox.boundary import Access
from ebbtide.tools.sandbox.git_metadata import git_places, is_in
from ebbtide.tools.secrets.files import SECRETS_BELOW_HOME, SECRETS_BELOW_NAMED, SECRETS_NAMED, SECRETS_OF_THE_SYSTEM
from ebbtide.tools.secrets.registry_settings import (
    NAMED_SETTINGS,
    NPM,
    SETTINGS_FILES,
    SettingsCopy,
    copy_without_secrets,
)

CACHES = (
    ".cache/pip", ".cache/uv", ".cache/pypoetry", ".cache/pdm", ".cache/hatch", ".cache/pre-commit", ".cache/yarn",
    ".cache/pnpm", ".cache/node", ".cache/node-gyp", ".cache/deno", ".cache/bun", ".cache/go-build", ".cache/ccache",
    ".cache/sccache", ".cache/zig", ".cache/bazel", ".cache/coursier", ".cache/mypy", ".cache/ruff", ".cache/black",
    ".cache/pylint", ".cache/matplotlib", ".cache/fontconfig", ".cache/typescript", ".cache/composer", ".npm",
    ".yarn/berry", ".local/share/pnpm/store", ".bun/install/cache", ".cargo/registry", ".cargo/git", "go/pkg",
    ".gradle/caches", ".gradle/wrapper", ".m2/repository", ".ivy2", ".nuget/packages", ".ccache", ".hex", ".mix",
    ".bundle/cache", ".pub-cache", ".stack", ".cabal/packages", ".opam/download-cache", ".cache/golangci-lint",
    ".cache/pip-tools", ".cache/virtualenv", ".cache/turbo", ".cache/vite", ".cache/helm", ".cache/bazelisk",
)  # fmt: skip
"""Shared build caches below the home folder. Those that exist are writable."""
_CACHES_OF = {
    "pip": (".cache/pip",), "pip3": (".cache/pip",), "uv": (".cache/uv",), "poetry": (".cache/pypoetry",),
    "pre-commit": (".cache/pre-commit",), "npm": (".npm",), "yarn": (".cache/yarn",), "deno": (".cache/deno",),
    "bun": (".bun/install/cache",), "go": (".cache/go-build", "go/pkg"), "cargo": (".cargo/registry", ".cargo/git"),
    "ccache": (".cache/ccache",), "gradle": (".gradle/caches",), "mvn": (".m2/repository",),
    "composer": (".cache/composer",),
}  # fmt: skip
"""The caches that each program would create on its first run, which it cannot in a sandbox."""
_CACHES_NAMED = {
    "PIP_CACHE_DIR": ("",), "UV_CACHE_DIR": ("",), "PRE_COMMIT_HOME": ("",), "npm_config_cache": ("",),
    "NPM_CONFIG_CACHE": ("",), "YARN_CACHE_FOLDER": ("",), "DENO_DIR": ("",), "BUN_INSTALL_CACHE_DIR": ("",),
    "GOCACHE": ("",), "GOMODCACHE": ("",), "GOPATH": ("pkg",), "CARGO_HOME": ("registry", "git"), "CCACHE_DIR": ("",),
    "SCCACHE_DIR": ("",), "GRADLE_USER_HOME": ("caches", "wrapper"), "NUGET_PACKAGES": ("",),
    "COMPOSER_CACHE_DIR": ("",), "POETRY_CACHE_DIR": ("",),
}  # fmt: skip
"""Variables that set the path of such a cache, or of the folder that contains it."""

WITH_SOCKETS = ("/tmp", "/var/tmp", "/run")
"""Folders that may be worked in, and that contain other programs' sockets."""
_LOOKED_AGAIN = 30
"""Seconds for which a process's network namespace is cached."""
OTHERS_SOCKETS = ("/var/tmp",)
"""Folders with sockets of other programs. /tmp and /run are replaced in a sandbox anyway."""


def places_of(
    root: Path,
    more: Sequence[Path],
    home: Path,
    ours: Sequence[Path],
    shown: Sequence[Path],
    repositories: Sequence[Path] = (),
    opened: Sequence[str] = (),
) -> dict[str, Access]:
    """Return the access of commands to paths. `more`: further writable folders, ignored if missing or replaced with a
    link; `ours`: folders with this program's own files; `shown`: readable folders inside those; `repositories`:
    repositories below; `opened`: folders in which Git's files are not protected."""
    home = home.resolve()
    more = [folder for folder in more if folder.is_dir() and os.path.realpath(folder) == str(folder)]
    places: dict[str, Access] = {}
    for path in OTHERS_SOCKETS:
        if os.path.isdir(path) and os.path.realpath(path) == path:
            places[path] = "hidden folder"
    places |= _secrets(home, (root, *more))
    for folder in ours:
        if folder.is_dir():
            places[str(folder.resolve())] = "hidden folder"
    for folder in shown:
        if folder != folder.parent:  # the root is readable anyway, and mounting it again would uncover hidden places
            places[str(folder)] = "read"
    for path in caches(home):
        places.setdefault(path, "write")
    for path in _writable(root, more, home):
        places[path] = "write"
    for folder in (root, *more):
        if str(folder) in WITH_SOCKETS:
            places.update(dict.fromkeys(_with_sockets(folder), "hidden folder"))
    for path in _open_sockets((root, *more), home):
        if not _is_hidden(path, places):
            places[path] = "hidden file"
    writable = [path for path, access in places.items() if access == "write"]
    for folder in repositories:  # nothing is made writable for them, since only their own files say that they own it
        kept = git_places(folder, writable).items()
        places.update({path: access for path, access in kept if access != "write" and is_in(path, writable)})
    for folder in (root, *more):
        for path, access in git_places(folder, writable).items():
            places[path] = access
        if (folder / ".ebb").is_dir():
            places[os.path.realpath(folder / ".ebb")] = "read"
    places = {path: access for path, access in places.items() if access != "read" or not is_in(path, opened)}
    return {path: access for path, access in (*_pinning_mounts(places), *places.items())}


def caches(home: Path) -> Iterator[str]:
    """Yield the existing caches, below the home folder and at paths set by variables. `home`: resolved."""
    below_home = (_below_home(name, home) for name in CACHES)
    named = (
        os.path.join(folder, name)
        for variable, names in _CACHES_NAMED.items()
        if os.path.isabs(folder := os.environ.get(variable, ""))
        for name in names
    )
    for path in (*below_home, *named):
        real = os.path.realpath(path)
        if os.path.isdir(real) and not home.is_relative_to(real):
            yield real


def make_caches(home: Path) -> None:
    """Create the caches of installed programs that were never run, since they could not do so in a sandbox. Nothing is
    created in another user's home folder."""
    with suppress(OSError):  # missing or read-only: programs then work without a cache
        if home.stat().st_uid != os.getuid():
            return
        for program, names in _CACHES_OF.items():
            if shutil.which(program):
                for name in names:
                    os.makedirs(_below_home(name, home), mode=0o700, exist_ok=True)


def _below_home(name: str, home: Path) -> str:
    """Return the path of a cache that is usually below the home folder. `XDG_CACHE_HOME` replaces `.cache` if set."""
    other = os.environ.get("XDG_CACHE_HOME", "")
    return (
        f"{other}/{name.removeprefix('.cache/')}"
        if name.startswith(".cache/") and os.path.isabs(other)
        else f"{home}/{name}"
    )


def _secrets(home: Path, worked_in: Sequence[Path]) -> dict[str, Access]:
    """Return the readable places with keys: system-wide, below the home folder (also the one in the user database,
    which SSH and others use), and at paths set by variables. Paths in variables that the user passes on to commands are
    excluded, and so is everything inside or above the working folders."""
    found: dict[str, Access] = {}
    homes = dict.fromkeys(map(str, (home, _home_of_the_system())))
    for path in (*SECRETS_OF_THE_SYSTEM, *(path for each in homes for path in _below(each))):
        if os.access(path, os.R_OK):
            real = os.path.realpath(path)
            found[real] = "hidden folder" if os.path.isdir(real) else "hidden file"
    inner = [folder for folder in worked_in if not home.is_relative_to(folder)]
    for place in map(Path, map(os.path.realpath, _named_secrets())):
        is_worked_in = any(map(place.is_relative_to, inner)) or any(
            each.is_relative_to(place) for each in (*inner, home)
        )
        if not is_worked_in and (os.path.isdir(place) or os.path.isfile(place)):
            found[str(place)] = "hidden folder" if os.path.isdir(place) else "hidden file"
    return found


def settings_copies(places: Mapping[str, Access], home: Path, *, goes_by_proxy: bool) -> dict[str, SettingsCopy]:
    """Return the replacements for hidden settings files of package managers, without their secrets."""
    named = ((NPM, os.environ.get(name, "")) for name in NAMED_SETTINGS)
    homes = dict.fromkeys(map(str, (home.resolve(), _home_of_the_system())))
    usual = ((name, f"{each}/{name}") for each in homes for name in SETTINGS_FILES)
    found: dict[str, SettingsCopy] = {}
    for name, path in (*usual, *named):
        real = os.path.realpath(path) if os.path.isabs(path) else ""
        if places.get(real) == "hidden file" and real not in found:
            with suppress(OSError, UnicodeDecodeError):
                copy = copy_without_secrets(name, Path(real).read_text("utf-8"), goes_by_proxy=goes_by_proxy)
                found |= {real: copy} if copy is not None else {}
    return found


def _below(home: str) -> Iterator[str]:
    """Yield the usual places of keys whose first component exists in the home folder."""
    names: frozenset[str] | None = None
    with suppress(OSError):  # it may not be listable
        names = frozenset(os.listdir(home))
    wanted = (path for path in SECRETS_BELOW_HOME if names is None or path.partition("/")[0] in names)
    yield from (f"{home}/{path}" for path in wanted)


@cache
def _home_of_the_system() -> Path:
    """Return the user's home folder from the user database, or the root folder if there is none."""
    try:
        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        return Path("/")


def _named_secrets() -> Iterator[str]:
    """Yield the absolute paths set by variables."""
    for name in SECRETS_NAMED:
        if not is_passed_on(name):
            yield from filter(os.path.isabs, os.environ.get(name, "").split(os.pathsep))
    for name, usual in SECRETS_BELOW_NAMED.items():
        folder = os.environ.get(name, "")
        if os.path.isabs(folder):
            yield from (f"{folder}/{path.removeprefix(usual)}" for path in SECRETS_BELOW_HOME if path.startswith(usual))


def _writable(root: Path, more: Sequence[Path], home: Path) -> Iterator[str]:
    """Yield the writable folders. For the home folder, or one above it, only its entries without a leading dot, since
    dotfiles such as `.bashrc` are run by other programs."""
    for folder in (root, *more):
        if not home.is_relative_to(folder):
            yield str(folder)
        else:
            for entry in os.scandir(home):
                if not entry.name.startswith(".") and not entry.is_symlink():
                    yield entry.path


def _with_sockets(folder: Path) -> Iterator[str]:
    """Yield the subfolders with sockets of other programs: terminal multiplexers, SSH agents, display servers."""
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and any(map(_is_socket, os.listdir(entry.path), repeat(entry.path))):
                yield entry.path


def _open_sockets(folders: Sequence[Path], home: Path) -> Iterator[str]:
    """Yield the sockets of this machine's other programs, wherever they are: container daemons, SSH agents, editors.
    Connecting needs no write access to the folder. Those in the working folder are part of the work, unless that is the
    home folder, contains it, or is one with sockets."""
    inner = [folder for folder in folders if not home.is_relative_to(folder) and str(folder) not in WITH_SOCKETS]
    rows = (line.rstrip(b"\n").split(maxsplit=7) for line in _socket_lines())
    names = {os.fsdecode(row[7]) for row in rows if len(row) == 8 and not row[7].startswith(b"@")}
    relative = {name for name in names if not name.startswith("/")}
    below = (f"{folder}/{name}" for folder in (_working_folders() if relative else ()) for name in relative)
    for path in sorted({*(names - relative), *below}):
        real = os.path.realpath(path)
        with suppress(OSError):
            if stat.S_ISSOCK(os.lstat(real).st_mode) and not any(Path(real).is_relative_to(each) for each in inner):
                yield real


def _socket_lines() -> Iterator[bytes]:
    """Yield the kernel's tables of named sockets of every network namespace, since a socket file connects
    namespaces."""
    seen, now = set[int](), int(time.monotonic() // _LOOKED_AGAIN)
    for process in ("self", *filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(OSError):
            network = _network_of(process, now)
            if network not in seen:
                seen.add(network)
                with open(f"/proc/{process}/net/unix", "rb") as table:
                    yield from table.readlines()[1:]


@lru_cache(maxsize=4096)
def _network_of(process: str, _: int) -> int:
    """Return an id of a process's network namespace. Cached, since reading it for all processes takes milliseconds."""
    return os.stat(f"/proc/{process}/net/unix").st_ino


def _working_folders() -> set[str]:
    """Return the working folders of accessible processes."""
    found = set[str]()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{name}/cwd"))
    return found


def _is_hidden(path: str, places: Mapping[str, Access]) -> bool:
    """Whether another folder is mounted over it anyway."""
    above = path
    while above not in places and above != "/":
        above = os.path.dirname(above)
    is_elsewhere = any(path.startswith(f"{folder}/") for folder in ("/tmp", "/run"))
    return places.get(above) == "hidden folder" or (is_elsewhere and above not in places)


def _is_socket(name: str, folder: str) -> bool:
    return stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)


def _pinning_mounts(places: dict[str, Access]) -> Iterator[tuple[str, Access]]:
    """Yield the folders between a writable folder and a protected place in it. As mounts of their own they cannot be
    moved away and replaced."""
    for path, access in places.items():
        if access != "write":
            between = os.path.dirname(path)
            while between not in places and between != "/":
                between = os.path.dirname(between)
            if places.get(between) == "write":
                inner = os.path.dirname(path)
                while inner != between:
                    yield inner, "write"
                    inner = os.path.dirname(inner)

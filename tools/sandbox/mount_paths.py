"""Which places commands may write, which they only read and which they do not see: the working folder, caches of
package managers, what tells Git to run something, and where people keep keys."""

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
"""Below the home folder: what builds keep for each other. Those that are there can be written."""
_CACHES_OF = {
    "pip": (".cache/pip",), "pip3": (".cache/pip",), "uv": (".cache/uv",), "poetry": (".cache/pypoetry",),
    "pre-commit": (".cache/pre-commit",), "npm": (".npm",), "yarn": (".cache/yarn",), "deno": (".cache/deno",),
    "bun": (".bun/install/cache",), "go": (".cache/go-build", "go/pkg"), "cargo": (".cargo/registry", ".cargo/git"),
    "ccache": (".cache/ccache",), "gradle": (".gradle/caches",), "mvn": (".m2/repository",),
    "composer": (".cache/composer",),
}  # fmt: skip
"""What each program would make when it is first run, which it cannot in a sandbox."""
_CACHES_NAMED = {
    "PIP_CACHE_DIR": ("",), "UV_CACHE_DIR": ("",), "PRE_COMMIT_HOME": ("",), "npm_config_cache": ("",),
    "NPM_CONFIG_CACHE": ("",), "YARN_CACHE_FOLDER": ("",), "DENO_DIR": ("",), "BUN_INSTALL_CACHE_DIR": ("",),
    "GOCACHE": ("",), "GOMODCACHE": ("",), "GOPATH": ("pkg",), "CARGO_HOME": ("registry", "git"), "CCACHE_DIR": ("",),
    "SCCACHE_DIR": ("",), "GRADLE_USER_HOME": ("caches", "wrapper"), "NUGET_PACKAGES": ("",),
    "COMPOSER_CACHE_DIR": ("",), "POETRY_CACHE_DIR": ("",),
}  # fmt: skip
"""Variables that say where such a cache is, or the folder that it is in."""

WITH_SOCKETS = ("/tmp", "/var/tmp", "/run")
"""Folders that somebody may work in, and other programs have sockets in."""
_LOOKED_AGAIN = 30
"""Seconds for which a process is taken to stay in its network."""
OTHERS_SOCKETS = ("/var/tmp",)
"""Where other programs leave what one can connect to; /tmp and /run are other ones in a sandbox anyway."""


def places_of(
    root: Path,
    more: Sequence[Path],
    home: Path,
    ours: Sequence[Path],
    shown: Sequence[Path],
    repositories: Sequence[Path] = (),
    opened: Sequence[str] = (),
) -> dict[str, Access]:
    """What commands of a working folder may do where. `more`: further folders that can be written, as far as they are
    there and no link has taken their place; `ours`: where this program keeps its own files; `shown`: folders among
    those that can be read; `repositories`: those below; `opened`: folders in which nothing of Git is kept."""
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
        if folder != folder.parent:  # all of the disk is read anyway; mounted once more, it would cover what hides some
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
    for folder in repositories:  # nothing is opened for them: that something is theirs may be their word alone
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
    """Those that are there, below the home folder and where the user's variables say. `home`: resolved."""
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
    """Makes those of programs that are installed and were never run: the first run would do it, and cannot in a
    sandbox. Nothing is made for a home folder that is somebody else's."""
    with suppress(OSError):  # it is not there, or cannot be written: programs do without a cache then
        if home.stat().st_uid != os.getuid():
            return
        for program, names in _CACHES_OF.items():
            if shutil.which(program):
                for name in names:
                    os.makedirs(_below_home(name, home), mode=0o700, exist_ok=True)


def _below_home(name: str, home: Path) -> str:
    """Where a cache that is usually below the home folder is: `XDG_CACHE_HOME` stands for `.cache`, if it is set."""
    other = os.environ.get("XDG_CACHE_HOME", "")
    return (
        f"{other}/{name.removeprefix('.cache/')}"
        if name.startswith(".cache/") and os.path.isabs(other)
        else f"{home}/{name}"
    )


def _secrets(home: Path, worked_in: Sequence[Path]) -> dict[str, Access]:
    """Where keys are kept that can be read: by the system, below the home folder, also that which the system knows and
    programs such as SSH go by, and where variables say so. Of the last those that commands are given by the user's own
    word are left alone, and so is what lies where they work or holds that."""
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
    """What commands see of the hidden files that have settings of package managers, without the secrets in them."""
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
    """Where keys are usually kept, but for what the home folder has no name for."""
    names: frozenset[str] | None = None
    with suppress(OSError):  # it may be one that cannot be listed
        names = frozenset(os.listdir(home))
    wanted = (path for path in SECRETS_BELOW_HOME if names is None or path.partition("/")[0] in names)
    yield from (f"{home}/{path}" for path in wanted)


@cache
def _home_of_the_system() -> Path:
    """The user's, whatever the environment says; the root folder where there is none."""
    try:
        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        return Path("/")


def _named_secrets() -> Iterator[str]:
    """The absolute paths that variables name."""
    for name in SECRETS_NAMED:
        if not is_passed_on(name):
            yield from filter(os.path.isabs, os.environ.get(name, "").split(os.pathsep))
    for name, usual in SECRETS_BELOW_NAMED.items():
        folder = os.environ.get(name, "")
        if os.path.isabs(folder):
            yield from (f"{folder}/{path.removeprefix(usual)}" for path in SECRETS_BELOW_HOME if path.startswith(usual))


def _writable(root: Path, more: Sequence[Path], home: Path) -> Iterator[str]:
    """The folders; of the home folder, and of any that holds it, only what is in there under a name without a dot: what
    has one, such as `.bashrc`, is run by other programs."""
    for folder in (root, *more):
        if not home.is_relative_to(folder):
            yield str(folder)
        else:
            for entry in os.scandir(home):
                if not entry.name.startswith(".") and not entry.is_symlink():
                    yield entry.path


def _with_sockets(folder: Path) -> Iterator[str]:
    """The folders in one that other programs' sockets lie in: of shared terminals, of SSH agents, of screens."""
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and any(map(_is_socket, os.listdir(entry.path), repeat(entry.path))):
                yield entry.path


def _open_sockets(folders: Sequence[Path], home: Path) -> Iterator[str]:
    """The files by which other programs of this machine are reached, wherever they lie: daemons of containers, SSH
    agents, editors. To connect to one needs no right to write in its folder. Those in the working folder belong to
    what is worked on, unless that is the home folder, or holds it, or one for sockets."""
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
    """The kernel's tables of named sockets, one of each network: a file is a way from one to the other."""
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
    """What tells the network of a process from others. To ask for that of all takes milliseconds."""
    return os.stat(f"/proc/{process}/net/unix").st_ino


def _working_folders() -> set[str]:
    """Of the processes that this program may look at."""
    found = set[str]()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{name}/cwd"))
    return found


def _is_hidden(path: str, places: Mapping[str, Access]) -> bool:
    """Whether another folder stands there anyway."""
    above = path
    while above not in places and above != "/":
        above = os.path.dirname(above)
    is_elsewhere = any(path.startswith(f"{folder}/") for folder in ("/tmp", "/run"))
    return places.get(above) == "hidden folder" or (is_elsewhere and above not in places)


def _is_socket(name: str, folder: str) -> bool:
    return stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)


def _pinning_mounts(places: dict[str, Access]) -> Iterator[tuple[str, Access]]:
    """What lies between a folder that can be written and a place in it that cannot: as a mount of its own it cannot be
    moved away, and something else be put in its place."""
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

"""Copies plugins from a folder, or from one commit of a Git repository, to a private folder for inspection. Runs none
of their code."""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.extension_files import (
    MAX_FILES,
    MAX_TOTAL_BYTES,
    UnusableFile,
    digest_of,
    table_of,
)
from ebbtide.agent.extensions.marketplaces import Offer, RemotePlugin, choose_offer, inside, offers_in
from ebbtide.agent.extensions.plugins import MANIFEST, Plugin, plugin_in
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.process.git import SETTINGS, git_environment, program_outside
from ebbtide.tools.secrets.redaction import without_password

GIT_TIMEOUT_S = 180.0
"""Timeout of a fetch with Git, in seconds."""
PROTOCOLS = "https:ssh:file"
_BEGINNINGS = "`https://`, `ssh://`, `file://` or `git@`"
_SHORT = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SCHEMES = ("https://", "ssh://", "file://")


@contextmanager
def plugin_copy(source: str, beside: Path, name: str = "", ref: str = "") -> Iterator[Plugin]:
    """Copy the plugin at a path or an address to a temporary folder in `beside`, which is deleted afterwards unless it
    was moved. `name` selects a plugin of a marketplace; `ref` is a branch, tag or commit, which may also follow a `#`
    in the address. Raises `UsageError`."""
    if _is_address(source) and not ref:
        source, _, ref = source.partition("#")
    make_private(beside)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=beside, ignore_cleanup_errors=True) as scratch:
        local = Path(source).expanduser()
        shown, commit, folder = str(local.absolute()), "", local
        if _is_address(source):
            folder, shown = Path(scratch, "fetched"), without_password(source)
            commit = _fetch(source, ref or "HEAD", folder)
        elif not local.is_dir():
            on_github = f"; for the GitHub repository use `https://github.com/{source}`"
            hint = on_github if _SHORT.fullmatch(source) else ""
            raise UsageError(f"no folder `{source}`; an address begins with {_BEGINNINGS}{hint}")
        elif ref:
            raise UsageError("`--ref` works only with an address, not with a folder")
        offers, offer = offers_in(folder), None
        if offers is not None:
            offer = choose_offer(offers, name)
            if isinstance(offer.place, RemotePlugin):
                shown, address = without_password(offer.place.address), _allowed_address(offer.place.address, source)
                top = Path(scratch, "elsewhere")
                commit = _fetch(address, offer.place.ref or "HEAD", top)
                folder = inside(top, offer.place.folder, offer.name)
            else:
                folder = offer.folder_in(folder)
        copy, named = Path(scratch, "plugin"), offer.name if offer is not None else name or _name_in(source)
        try:
            _check(folder)
            shutil.copytree(folder, copy, symlinks=True, ignore=_without_git(folder))
            found = _with_offer(copy, offer) if offer is not None else plugin_in(copy, name or _name_in(source))
            digest, _ = digest_of(copy, copy)
        except UnusableFile as error:
            raise UsageError(f"the plugin `{named}` cannot be used: {error}") from error
        except (OSError, shutil.Error) as error:
            raise UsageError(f"the plugin `{named}` cannot be copied: {error}") from error
        yield replace(found, folder=copy, source=shown, commit=commit, digest=digest)


def _is_address(source: str) -> bool:
    return source.startswith((*_SCHEMES, "git@"))


def _allowed_address(address: str, market: str) -> str:
    """Return the address of a plugin named in a marketplace. Only a local marketplace may point to local folders.
    Raises `UsageError`."""
    is_remote = _is_address(market) and not market.startswith("file://")
    if not _is_address(address) or (is_remote and address.startswith("file://")):
        raise UsageError(f"the plugin is at `{without_password(address)[:200]}`, an address that is not allowed")
    return address


def _with_offer(copy: Path, offer: Offer) -> Plugin:
    """Merge the marketplace entry into the copied plugin's manifest and return the plugin. Raises `UsageError` and
    `UnusableFile`."""
    path = copy / MANIFEST
    own = table_of(path, copy) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(json.dumps(offer.manifest(own), indent=1), encoding="utf-8")
    return plugin_in(copy, offer.name)


def _name_in(source: str) -> str:
    return source.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]


def _fetch(address: str, ref: str, folder: Path) -> str:
    """Fetch a repository and return the commit. No hooks and filters of the repository are run, and no submodules are
    fetched."""
    git = program_outside("git", Path.cwd())
    if git is None:
        raise UsageError("Git is not installed; it is needed to fetch plugins")
    if ref.startswith("-"):
        raise UsageError(f"`{ref}` is not a branch, tag or commit")
    _git(git, "init", "-q", "--template=", str(folder))
    fetch = ("fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", address, ref)
    _git(git, "-C", str(folder), *fetch)
    _git(git, "-C", str(folder), "checkout", "-q", "--detach", "FETCH_HEAD")
    return _git(git, "-C", str(folder), "rev-parse", "HEAD").strip()


def _git(git: str, *words: str) -> str:
    environment = git_environment(SETTINGS, os.environ) | {"GIT_ALLOW_PROTOCOL": PROTOCOLS}
    try:
        ran = subprocess.run(
            [git, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git took longer than {GIT_TIMEOUT_S:.0f} s") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"git could not be run: {error}") from error
    if ran.returncode:
        said = without_password(_git_error_line(ran.stderr.decode(errors="replace")))[:300]
        raise UsageError(f"git could not fetch it: `{said}`")
    return ran.stdout.decode(errors="replace")


def _git_error_line(printed: str) -> str:
    """Return the line with the actual error. Git adds general advice after it."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith(("fatal: ", "error: ", "ssh: ", "Host key ", "git@"))]
    return next(iter([*wrong, *lines]), "nothing")


def _check(folder: Path) -> None:
    """Check the type, number and size of a plugin's files, and that no link leads outside. Raises `UnusableFile`."""
    real, count, size = os.path.realpath(folder), 0, 0
    for place, folders, files in os.walk(folder):
        if Path(place) == folder and ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(place, name)
            shown, status = path.relative_to(folder), path.lstat()
            count, size = count + 1, size + status.st_size
            if stat.S_ISLNK(status.st_mode):
                if os.path.isabs(os.readlink(path)) or not Path(os.path.realpath(path)).is_relative_to(real):
                    raise UnusableFile(f"its link `{shown}` leads out of it")
            elif not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise UnusableFile(f"`{shown}` is neither a file nor a folder")
            if count > MAX_FILES or size > MAX_TOTAL_BYTES:
                raise UnusableFile(f"it contains more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES:,} bytes")


def _without_git(folder: Path) -> Callable[[str, list[str]], list[str]]:
    return lambda place, names: [".git"] if Path(place) == folder and ".git" in names else []

"""Copies a plugin from a folder, or from a commit of a Git repository, to a private folder for inspection. None of its
code is run."""

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
    UnusableFileError,
    hash_folder,
    read_json_table,
)
from ebbtide.agent.extensions.marketplaces import (
    ListedPlugin,
    RemotePlugin,
    choose_plugin,
    listed_plugins,
    plugin_folder,
)
from ebbtide.agent.extensions.plugins import MANIFEST_PATH, Plugin, load_plugin
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.process.git import SAFE_SETTINGS, find_program_outside, git_environment
from ebbtide.tools.secrets.redaction import redact_url

GIT_TIMEOUT_S = 180.0
"""Timeout for a Git fetch, in seconds."""
ALLOWED_GIT_PROTOCOLS = "https:ssh:file"
_ADDRESS_EXAMPLES = "`https://`, `ssh://`, `file://` or `git@`"
_GITHUB_SHORTHAND = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_SCHEMES = ("https://", "ssh://", "file://")


@contextmanager
def copy_plugin(source: str, parent: Path, name: str = "", ref: str = "") -> Iterator[Plugin]:
    """Copy the plugin at a path or an address to a temporary folder in `parent`, and yield it. The folder is deleted
    afterwards unless it was moved. `name` selects a plugin of a marketplace; `ref` is a branch, tag or commit, which
    may also follow a `#` in the address. Raises `UsageError`."""
    if _is_address(source) and not ref:
        source, _, ref = source.partition("#")
    create_private_folder(parent)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent, ignore_cleanup_errors=True) as temporary_folder:
        local_folder = Path(source).expanduser()
        origin, commit, folder = str(local_folder.absolute()), "", local_folder
        if _is_address(source):
            folder, origin = Path(temporary_folder, "fetched"), redact_url(source)
            commit = _fetch_repository(source, ref or "HEAD", folder)
        elif not local_folder.is_dir():
            github_hint = f"; for the GitHub repository use `https://github.com/{source}`"
            hint = github_hint if _GITHUB_SHORTHAND.fullmatch(source) else ""
            raise UsageError(f"no folder `{source}`; an address begins with {_ADDRESS_EXAMPLES}{hint}")
        elif ref:
            raise UsageError("`--ref` works only with an address, not with a folder")
        marketplace_plugins = listed_plugins(folder)
        listed_plugin = None
        if marketplace_plugins is not None:
            listed_plugin = choose_plugin(marketplace_plugins, name)
            if isinstance(listed_plugin.location, RemotePlugin):
                origin = redact_url(listed_plugin.location.url)
                address = _check_address(listed_plugin.location.url, source)
                other_repository = Path(temporary_folder, "elsewhere")
                commit = _fetch_repository(address, listed_plugin.location.ref or "HEAD", other_repository)
                folder = plugin_folder(other_repository, listed_plugin.location.folder, listed_plugin.name)
            else:
                folder = listed_plugin.resolve_folder(folder)
        copied_folder = Path(temporary_folder, "plugin")
        plugin_name = listed_plugin.name if listed_plugin is not None else name or _name_from_source(source)
        try:
            _check_files(folder)
            shutil.copytree(folder, copied_folder, symlinks=True, ignore=_ignore_git_folder(folder))
            plugin = (
                _merge_listing(copied_folder, listed_plugin)
                if listed_plugin is not None
                else load_plugin(copied_folder, name or _name_from_source(source))
            )
            digest, _ = hash_folder(copied_folder, copied_folder)
        except UnusableFileError as error:
            raise UsageError(f"the plugin `{plugin_name}` cannot be used: {error}") from error
        except (OSError, shutil.Error) as error:
            raise UsageError(f"the plugin `{plugin_name}` cannot be copied: {error}") from error
        yield replace(plugin, folder=copied_folder, source=origin, commit=commit, digest=digest)


def _is_address(source: str) -> bool:
    return source.startswith((*_SCHEMES, "git@"))


def _check_address(address: str, marketplace: str) -> str:
    """Return the address of a plugin named in a marketplace. Only a local marketplace may point to local folders.
    Raises `UsageError`."""
    is_remote = _is_address(marketplace) and not marketplace.startswith("file://")
    if not _is_address(address) or (is_remote and address.startswith("file://")):
        raise UsageError(f"the plugin is at `{redact_url(address)[:200]}`, an address that is not allowed")
    return address


def _merge_listing(copied_folder: Path, listed_plugin: ListedPlugin) -> Plugin:
    """Merge the marketplace entry into the copied plugin's manifest and return the plugin. Raises `UsageError` and
    `UnusableFileError`."""
    path = copied_folder / MANIFEST_PATH
    own_manifest = read_json_table(path, copied_folder) if path.exists() else {}
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(json.dumps(listed_plugin.merged_manifest(own_manifest), indent=1), encoding="utf-8")
    return load_plugin(copied_folder, listed_plugin.name)


def _name_from_source(source: str) -> str:
    return source.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]


def _fetch_repository(address: str, ref: str, folder: Path) -> str:
    """Fetch a repository and return the commit. The repository's hooks and filters are not run, and its submodules are
    not fetched."""
    git = find_program_outside("git", Path.cwd())
    if git is None:
        raise UsageError("Git is not installed; it is needed to fetch plugins")
    if ref.startswith("-"):
        raise UsageError(f"`{ref}` is not a branch, tag or commit")
    _run_git(git, "init", "-q", "--template=", str(folder))
    fetch_arguments = ("fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", address, ref)
    _run_git(git, "-C", str(folder), *fetch_arguments)
    _run_git(git, "-C", str(folder), "checkout", "-q", "--detach", "FETCH_HEAD")
    return _run_git(git, "-C", str(folder), "rev-parse", "HEAD").strip()


def _run_git(git: str, *arguments: str) -> str:
    environment = git_environment(SAFE_SETTINGS, os.environ) | {"GIT_ALLOW_PROTOCOL": ALLOWED_GIT_PROTOCOLS}
    try:
        process = subprocess.run(
            [git, *arguments],
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
    if process.returncode:
        message = redact_url(_git_error_line(process.stderr.decode(errors="replace")))[:300]
        raise UsageError(f"git could not fetch it: `{message}`")
    return process.stdout.decode(errors="replace")


def _git_error_line(error_output: str) -> str:
    """Return the line of Git's output that states the actual error. Other lines might only give advice."""
    lines = [line.strip() for line in error_output.splitlines() if line.strip()]
    error_lines = [line for line in lines if line.startswith(("fatal: ", "error: ", "ssh: ", "Host key ", "git@"))]
    return next(iter([*error_lines, *lines]), "nothing")


def _check_files(folder: Path) -> None:
    """Check the type, number and size of a plugin's files, and that no link leads outside. Raises
    `UnusableFileError`."""
    real_folder = os.path.realpath(folder)
    file_count = total_bytes = 0
    for parent, folders, files in os.walk(folder):
        if Path(parent) == folder and ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(parent, name)
            relative, status = path.relative_to(folder), path.lstat()
            file_count += 1
            total_bytes += status.st_size
            if stat.S_ISLNK(status.st_mode):
                if os.path.isabs(os.readlink(path)) or not Path(os.path.realpath(path)).is_relative_to(real_folder):
                    raise UnusableFileError(f"its link `{relative}` leads out of it")
            elif not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise UnusableFileError(f"`{relative}` is neither a file nor a folder")
            if file_count > MAX_FILES or total_bytes > MAX_TOTAL_BYTES:
                raise UnusableFileError(f"it contains more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES:,} bytes")


def _ignore_git_folder(folder: Path) -> Callable[[str, list[str]], list[str]]:
    return lambda parent, names: [".git"] if Path(parent) == folder and ".git" in names else []

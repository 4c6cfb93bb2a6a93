"""Calls git so that nothing in the repository is executed: no hook, filter, monitor or external program. The index is
not modified."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which

GIT_TIMEOUT_S = 10.0
"""Timeout of one git call, in seconds."""
_MAX_MEMORY_BYTES = 2 << 30
"""Memory limit in bytes: attributes can come from an endless file."""

SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "core.pager": "cat",
    "diff.autoRefreshIndex": "false",  # it locks and writes even with optional locks disabled
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "log.showSignature": "false",
    "gpg.program": "/dev/null",  # a log format set by the repository can request signatures too
    "gpg.x509.program": "/dev/null",
    "gpg.ssh.program": "/dev/null",
    "safe.bareRepository": "explicit",
}
VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # a repository may allow protocols of its own, whatever the settings
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_RUN_BY = {
    "fetch": r"^(core\.(sshcommand|gitproxy|hookspath|askpass)|credential\..*helper|remote\..*\.(uploadpack|vcs))$",
    "archive": r"^(filter\..*\.(smudge|process)|tar\..*\.command|gpg\.(.*\.)?program)$",
}
_RUN_BY["ls-remote"] = _RUN_BY["fetch"]
"""Settings that make a git command run programs. Some names are arbitrary, so not all can be turned off."""
_HOOKS_OF_FETCH = ("reference-transaction", "pre-auto-gc")
_DRIVER = re.compile(r"filter\.(.*)\.(clean|smudge|process|required)", re.DOTALL)


_READ_BY_LINES = ("info", "objects/info", "rebase-merge", "rebase-apply", "sequencer")
"""Metadata folders with files whose lines git prints: those it does not understand, or has yet to process."""


class GitError(Exception):
    """A git call failed, as the message says."""


def files_behind_links(metadata: Path) -> Iterator[Path]:
    """Yield the targets of links in a repository's metadata, except to files of the same name, as in work trees that
    share them. Git prints lines of such files: `shallow`, `packed-refs`, `BISECT_START` and others."""
    worktrees = metadata / "worktrees"
    folders = (metadata, *(metadata / name for name in _READ_BY_LINES), *_entries(worktrees))
    for folder in folders:
        for path in _entries(folder):
            if path.is_symlink() and path.resolve().name != path.name:
                yield path.resolve()


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []


def folders_outside(root: Path, path: str | None = None) -> str:
    """Return the program search path without relative folders and those inside the folder."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return os.pathsep.join(
        each for each in folders if os.path.isabs(each) and not Path(os.path.realpath(each)).is_relative_to(root)
    )


def program_outside(name: str, root: Path) -> str | None:
    """Return the absolute path of a program, or None if it is inside the folder or missing."""
    found = which(name, path=folders_outside(root))
    return None if found is None or Path(os.path.realpath(found)).is_relative_to(root) else found


def top_of_repository(folder: Path) -> Path | None:
    """Return the nearest folder with a `.git`, this one or one above it."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def without_filters(git: str, root: Path) -> Mapping[str, str]:
    """Return settings that disable programs run when files are compared. Raises `GitError`."""
    names = run_git(git, root, SETTINGS, "config", "--null", "--name-only", "--get-regexp", r"^filter\.", codes=(0, 1))
    drivers = {match[1] for name in os.fsdecode(names).split("\0") if (match := _DRIVER.fullmatch(name))}
    return {
        f"filter.{driver}.{key}": value
        for driver in drivers
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


def run_by_settings(root: Path, command: str) -> str:
    """Return in words the setting or hook by which the repository, rather than the user, makes a git command run a
    program. Empty if there is none."""
    git, wanted = program_outside("git", root), _RUN_BY.get(command)
    if git is None or wanted is None:
        return ""
    try:
        names = run_git(
            git, root, SETTINGS, "config", "--null", "--show-scope", "--name-only", "--get-regexp", wanted, codes=(0, 1)
        )
        common = run_git(git, root, SETTINGS, "rev-parse", "--git-common-dir")
    except GitError as error:
        return "" if "not in a git repository" in str(error) else "its settings cannot be read"
    parts = os.fsdecode(names).split("\0")
    found = (name for scope, name in zip(parts[::2], parts[1::2], strict=False) if scope in ("local", "worktree"))
    folder = os.path.join(root, os.fsdecode(common.removesuffix(b"\n")), "hooks")
    hooks = _HOOKS_OF_FETCH if command == "fetch" else ()
    told = next(found, "") or next((name for name in hooks if os.access(os.path.join(folder, name), os.X_OK)), "")
    return told and f"`{told}`"


def run_git(
    git: str,
    root: Path,
    settings: Mapping[str, str],
    *arguments: str,
    codes: tuple[int, ...] = (0,),
    given: bytes = b"",
    patience: float = GIT_TIMEOUT_S,
) -> bytes:
    """Return git's output. Raises `GitError`."""
    command, environment = [git, *arguments], git_environment(settings, os.environ)
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, cwd=root, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            _bound_memory(process.pid)
            try:
                printed, said = process.communicate(given, patience)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git took longer than {patience:.0f} s") from error
    except (OSError, ValueError) as error:
        raise GitError(f"git could not be run: {error}") from error
    if process.returncode not in codes:
        problem = said.decode(errors="replace").strip().split("\n")[0]
        if "not a git repository" in problem:
            raise GitError("this folder is not in a git repository")
        raise GitError(f"git says `{problem[:200]}`")
    return printed


def _bound_memory(process: int) -> None:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415  # deferred: not available on every system

        with suppress(OSError):  # it has ended, or has a lower limit
            resource.prlimit(process, resource.RLIMIT_DATA, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


def git_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git, without variables that redirect it. `settings` override those of the
    repository."""
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    kept |= VARIABLES
    kept["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        kept[f"GIT_CONFIG_KEY_{number}"], kept[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return kept

"""Calls git in a way that executes nothing from the repository: no hook, filter, monitor or external program. The index
stays unchanged."""

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
_MAX_GIT_MEMORY_BYTES = 2 << 30
"""Memory limit, in bytes. Guards against an endless `.gitattributes`, such as a link to `/dev/zero`."""

SAFE_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "core.pager": "cat",
    "diff.autoRefreshIndex": "false",  # it takes a lock and writes even if optional locks are disabled
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "log.showSignature": "false",
    "gpg.program": "/dev/null",  # the repository's log format may request signatures
    "gpg.x509.program": "/dev/null",
    "gpg.ssh.program": "/dev/null",
    "safe.bareRepository": "explicit",
}
SAFE_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # otherwise the repository's settings could allow protocols
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_SETTINGS_RUNNING_PROGRAMS = {
    "fetch": r"^(core\.(sshcommand|gitproxy|hookspath|askpass)|credential\..*helper|remote\..*\.(uploadpack|vcs))$",
    "archive": r"^(filter\..*\.(smudge|process)|tar\..*\.command|gpg\.(.*\.)?program)$",
}
_SETTINGS_RUNNING_PROGRAMS["ls-remote"] = _SETTINGS_RUNNING_PROGRAMS["fetch"]
"""Settings that make a git command run programs. Not all of them can be disabled, because parts of the names are
arbitrary."""
_FETCH_HOOKS = ("reference-transaction", "pre-auto-gc")
_FILTER_SETTING = re.compile(r"filter\.(.*)\.(clean|smudge|process|required)", re.DOTALL)


_PRINTED_METADATA_FOLDERS = ("info", "objects/info", "rebase-merge", "rebase-apply", "sequencer")
"""Metadata folders with files that git might print: it quotes lines that it does not understand or has not processed
yet."""


class GitError(Exception):
    """Raised if a git call fails. The message says why."""


def metadata_link_targets(metadata: Path) -> Iterator[Path]:
    """Yield the targets of metadata files that are symbolic links and that git might print: `shallow`, `packed-refs`,
    `BISECT_START` and others. A link to a file of the same name is skipped, because work trees share files this way."""
    worktrees = metadata / "worktrees"
    folders = (metadata, *(metadata / name for name in _PRINTED_METADATA_FOLDERS), *_entries(worktrees))
    for folder in folders:
        for path in _entries(folder):
            if path.is_symlink() and path.resolve().name != path.name:
                yield path.resolve()


def _entries(folder: Path) -> Sequence[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except OSError:
        return []


def search_path_outside(root: Path, path: str | None = None) -> str:
    """Return the search path for programs, without relative folders or folders inside `root`."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return os.pathsep.join(
        folder
        for folder in folders
        if os.path.isabs(folder) and not Path(os.path.realpath(folder)).is_relative_to(root)
    )


def find_program_outside(name: str, root: Path) -> str | None:
    """Find a program outside `root` and return its absolute path. None if there is no such program."""
    path = which(name, path=search_path_outside(root))
    return None if path is None or Path(os.path.realpath(path)).is_relative_to(root) else path


def find_repository_top(folder: Path) -> Path | None:
    """Return the nearest folder that contains a `.git`, starting with this one and going up."""
    return next((ancestor for ancestor in (folder, *folder.parents) if os.path.lexists(ancestor / ".git")), None)


def filter_disabling_settings(git: str, root: Path) -> Mapping[str, str]:
    """Return settings that disable the programs which git would run to compare files. Raises `GitError`."""
    names = run_git(
        git, root, SAFE_SETTINGS, "config", "--null", "--name-only", "--get-regexp", r"^filter\.", accepted_codes=(0, 1)
    )
    drivers = {match[1] for name in os.fsdecode(names).split("\0") if (match := _FILTER_SETTING.fullmatch(name))}
    return {
        f"filter.{driver}.{key}": value
        for driver in drivers
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


def find_setting_running_program(root: Path, command: str) -> str:
    """Find a repository setting or hook that makes a git command run a program, and return its name. Empty if there is
    none. The user's own settings and hooks are ignored. If the repository's settings cannot be read, a text that says
    so is returned instead."""
    git = find_program_outside("git", root)
    setting_pattern = _SETTINGS_RUNNING_PROGRAMS.get(command)
    if git is None or setting_pattern is None:
        return ""
    try:
        names = run_git(
            git,
            root,
            SAFE_SETTINGS,
            "config",
            "--null",
            "--show-scope",
            "--name-only",
            "--get-regexp",
            setting_pattern,
            accepted_codes=(0, 1),
        )
        common_folder = run_git(git, root, SAFE_SETTINGS, "rev-parse", "--git-common-dir")
    except GitError as error:
        return "" if "not in a git repository" in str(error) else "its settings cannot be read"
    fields = os.fsdecode(names).split("\0")
    repository_settings = (
        name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in ("local", "worktree")
    )
    folder = os.path.join(root, os.fsdecode(common_folder.removesuffix(b"\n")), "hooks")
    hooks = _FETCH_HOOKS if command == "fetch" else ()
    setting_or_hook = next(repository_settings, "") or next(
        (name for name in hooks if os.access(os.path.join(folder, name), os.X_OK)), ""
    )
    return setting_or_hook and f"`{setting_or_hook}`"


def run_git(
    git: str,
    root: Path,
    settings: Mapping[str, str],
    *arguments: str,
    accepted_codes: tuple[int, ...] = (0,),
    input_bytes: bytes = b"",
    timeout: float = GIT_TIMEOUT_S,
) -> bytes:
    """Run git and return its output. Raises `GitError`."""
    command = [git, *arguments]
    environment = git_environment(settings, os.environ)
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, cwd=root, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            _limit_memory(process.pid)
            try:
                output, error_output = process.communicate(input_bytes, timeout)
            except BaseException:
                process.kill()
                raise
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git took longer than {timeout:.0f} s") from error
    except (OSError, ValueError) as error:
        raise GitError(f"git could not be run: {error}") from error
    if process.returncode not in accepted_codes:
        problem = error_output.decode(errors="replace").strip().split("\n")[0]
        if "not a git repository" in problem:
            raise GitError("this folder is not in a git repository")
        raise GitError(f"git says `{problem[:200]}`")
    return output


def _limit_memory(process_id: int) -> None:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415  # deferred: not available on every system

        with suppress(OSError):  # the process has already ended, or has a lower limit
            resource.prlimit(process_id, resource.RLIMIT_DATA, (_MAX_GIT_MEMORY_BYTES, _MAX_GIT_MEMORY_BYTES))


def git_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git, without variables that redirect git. `settings` override the repository's
    settings."""
    variables = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    variables |= SAFE_VARIABLES
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{index}"], variables[f"GIT_CONFIG_VALUE_{index}"] = key, value
    return variables

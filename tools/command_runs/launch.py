"""Starts a command line in the sandbox, if there is one. It runs in a shell unless it was proved read-only."""

import secrets
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools import command_runs, process, sandbox
from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import Launch, shell_launch
from ebbtide.tools.process.start import start_program
from ebbtide.tools.sandbox.diff_program import diff_override_variables

if TYPE_CHECKING:  # for type checking only: few commands need the network, so it is not imported here
    from ebbtide.tools.sandbox.git_settings import GitSettingsWatcher
    from ebbtide.tools.sandbox.network import NetworkAccess

_REMOVES_WORK_TREE = regex(r"\bworktree\s+(?:remove|move)\b")
_MAY_REMOVE_SUBMODULE = regex(r"\bgit\b[^\n]*\b(?:rm|deinit)\b")
_MENTIONS_GIT = regex(r"git|\bgh\b")


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command line to run, and what it may use in the sandbox."""

    line: str
    folder: Path
    """The folder in which it starts."""
    workspace: Workspace
    access: "NetworkAccess | None"
    """Its network access through the sandbox; None if there is no sandbox or it gets no access."""
    settings: "GitSettingsWatcher | None"
    """Stores the command's Git settings. None without a sandbox, and for commands that are read-only or do not use
    Git."""


async def prepare_run(line: str, folder: Path, workspace: Workspace) -> CommandRun:
    """Prepare to run a command: determine its network access and Git settings."""
    run = CommandRun(line, folder, workspace, await _network_access(workspace), _git_settings(line, workspace))
    if workspace.sandbox is not None and not workspace.sandbox.has_found_repositories:
        await run_exclusive(workspace.sandbox.find_repositories)
    return run


async def renew_access(run: CommandRun) -> CommandRun:
    """Return the run with new network access, for another try."""
    return replace(run, access=await _network_access(run.workspace))


async def release_access(run: CommandRun) -> None:
    sandbox = run.workspace.sandbox
    if run.access is not None and sandbox is not None and sandbox.network is not None:
        await sandbox.network.release(run.access)


async def _network_access(workspace: Workspace) -> "NetworkAccess | None":
    network = workspace.sandbox.network if workspace.sandbox is not None else None
    if network is None or workspace.network_policy is None or workspace.is_read_only:
        return None
    return await network.create_access(workspace.network_policy)


def _git_settings(line: str, workspace: Workspace) -> "GitSettingsWatcher | None":
    if workspace.sandbox is None or workspace.is_read_only or not _MENTIONS_GIT.search(line):
        return None
    git = process.git.find_program_outside("git", workspace.root)
    return sandbox.git_settings.GitSettingsWatcher(git) if git is not None else None


def with_cd(line: str, folder: Path, workspace: Workspace) -> str:
    """Return the command line prefixed with `cd` if it starts in another folder."""
    return line if folder == workspace.root else f"cd {shlex.quote(str(folder))} && {line}"


async def build_launch(run: CommandRun) -> Launch:
    """Determine how to launch the command: in a shell unless the call is read-only, and in the sandbox if there is
    one."""
    if run.workspace.is_read_only:
        line = with_cd(run.line, run.folder, run.workspace)
        launch = await run_exclusive(lambda: command_runs.read_only.read_only_launch(line, run.workspace))
        return _prepare_sandboxed_launch(launch, run)
    return _prepare_sandboxed_launch(
        _prepare_shell_launch(run),
        run,
        removes_work_trees=_REMOVES_WORK_TREE.search(run.line) is not None,
        removes_submodules=removes_submodules(run),
    )


def background_launch(run: CommandRun, *, has_terminal: bool) -> Launch:
    """Determine how to launch a job, which may keep running alongside other commands."""
    return _prepare_sandboxed_launch(_prepare_shell_launch(run), run, has_terminal=has_terminal)


def removes_submodules(run: CommandRun) -> bool:
    """Whether the command only removes submodules. If so, any processes it leaves running are ended."""
    if not _MAY_REMOVE_SUBMODULE.search(run.line):
        return False
    return sandbox.submodules.can_remove_submodules(run.line, run.folder)


async def submodule_removal_problem(run: CommandRun) -> str:
    """Explain that the sandbox would stop this submodule removal halfway. Empty if the command can be started."""
    workspace = run.workspace
    if workspace.sandbox is None or workspace.is_read_only or not _MAY_REMOVE_SUBMODULE.search(run.line):
        return ""
    is_stopped = sandbox.system.sandbox_kind() == "bubblewrap"
    return await run_exclusive(lambda: sandbox.submodules.removal_problem(run.line, run.folder)) if is_stopped else ""


def _prepare_shell_launch(run: CommandRun) -> Launch:
    workspace = run.workspace
    repositories = workspace.sandbox.repositories if workspace.sandbox is not None else ()
    overrides = diff_override_variables((run.folder, workspace.root, *repositories))
    return shell_launch(run.line, overrides | workspace.environment_variables)


def _prepare_sandboxed_launch(
    launch: Launch,
    run: CommandRun,
    *,
    has_terminal: bool = False,
    removes_work_trees: bool = False,
    removes_submodules: bool = False,
) -> Launch:
    workspace, may_write = run.workspace, not run.workspace.is_read_only
    sandbox = workspace.sandbox
    if sandbox is None:
        return launch
    if (
        run.access is None
        and may_write
        and workspace.network_policy is not None
        and workspace.network_policy.allows_all_hosts
    ):
        sandbox = replace(sandbox, has_network=True)  # network access is unrestricted, so no hosts need filtering
    try:
        return sandbox.wrap(
            launch,
            run.folder,
            may_write=may_write,
            has_terminal=has_terminal,
            access=run.access,
            settings=run.settings,
            removes_work_trees=removes_work_trees,
            removes_submodules=removes_submodules,
        )
    except OSError as error:
        raise ToolError(f"the sandbox could not be set up: {error}; ask the user what to do") from error


def start_run(
    run: CommandRun, launch: Launch, on_output: Callable[[str], None] | None, *, has_terminal: bool = False
) -> Program:
    """Start the command, with its output in a new log file. Raises `ToolError`."""
    workspace = run.workspace
    try:
        for folder in (workspace.outputs_folder.parent, workspace.outputs_folder):  # `mkdir` ignores a parent's mode
            create_private_folder(folder)
        log = workspace.outputs_folder / f"bash-{secrets.token_hex(4)}.txt"
        limits = ProcessLimits(output_bytes=workspace.max_output_bytes)
        return start_program(launch, run.folder, log, on_output, limits, has_terminal=has_terminal)
    except OSError as error:
        raise ToolError(_start_failure_text(error, run.line, run.folder)) from error
    except UnicodeEncodeError as error:
        raise ToolError("the command contains characters that programs cannot accept: write them as escapes") from error


def too_long_text(line: str) -> str:
    return f"the command is too long ({len(line)} characters): write it to a file and run that"


def _start_failure_text(error: OSError, line: str, folder: Path) -> str:
    if not folder.is_dir():
        return f"the working folder `{folder}` no longer exists: ask the user what to do"
    if error.errno == 7:  # E2BIG
        return too_long_text(line)
    return f"the command could not be started: {error}"

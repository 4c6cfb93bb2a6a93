"""The `bash` tool: runs a command line in the working folder."""

import os
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools.base import (
    Arguments,
    Effect,
    PrintedLog,
    ReadOnlyAccess,
    Result,
    ToolError,
    Workspace,
    read_description,
)
from ebbtide.tools.commands.viewers import viewed_names
from ebbtide.tools.files.change import note_looks
from ebbtide.tools.files.executed_config_files import ConfigFileStates, changes_note, config_file_states
from ebbtide.tools.files.paths import locate
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.process.jobs import Job
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import Launch, child_environment, in_shell
from ebbtide.tools.process.start import start
from ebbtide.tools.process.state import ProgramState, state_of
from ebbtide.tools.program_output import dropped_note, ended_job, job_of, new_output, news_of, with_log
from ebbtide.tools.sandbox.diff_program import own_diff_variables
from ebbtide.tools.schema import flag, number, object_of, text

if TYPE_CHECKING:  # a type only: few commands need the network
    from ebbtide.tools.sandbox.git_settings import GitSettings
    from ebbtide.tools.sandbox.network import NetworkAccess

DEFAULT_SECONDS, MAX_TIMEOUT_S = 120, 600
_MAX_COMMAND_BYTES = 128 * 1024
"""Commands of this many bytes or more cannot be started: Linux limits a single argument."""
_FAILURE_TAIL_BYTES = 16_384
"""Bytes at the end of the output that are searched for a failure."""
_IN_PLACE = regex(r"\b(?:sed|perl|ruby|g?awk|yq)\b[^|;&\n]*\s(?:-\w*i|--in-place)")
_REMOVES_WORK_TREE = regex(r"\bworktree\s+(?:remove|move)\b")
_MAY_REMOVE_SUBMODULE = regex(r"\bgit\b[^\n]*\b(?:rm|deinit)\b")
_ASKS_GIT = regex(r"git|\bgh\b")
_MAX_TRIES = 3
"""Attempts to set up the sandbox of one command."""
_JOB_REPLY_TIMEOUT_S = 1.0
"""Seconds to wait for a job's reply to its input."""


class Bash:
    name = "bash"
    description = read_description(__file__)
    effect: Effect = "run"
    schema = object_of(
        {
            "command": {"type": "string"},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT_S,
                "description": "seconds, default 120",
            },
            "workdir": {"type": "string"},
            "background": {"type": "boolean"},
            "terminal": {"type": "boolean"},
            "job": {"type": "string"},
        },
        required=("command",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        """Return the command line. With `workdir` it starts with `cd`; input to a job follows the job's command as
        `<<<`."""
        if text(arguments, "job", ""):
            return (f"{job_of(arguments, workspace).command} <<< {shlex.quote(text(arguments, 'command'))}",)
        folder, command = text(arguments, "workdir", ""), command_line(arguments)
        return (f"cd {shlex.quote(folder)} && {command}" if folder else command,)

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """Only for foreground commands that run in the working folder or below it."""
        if text(arguments, "job", "") or flag(arguments, "background") or flag(arguments, "terminal"):
            return None
        folder = _folder(text(arguments, "workdir", ""), workspace)
        if not folder.is_relative_to(workspace.root):
            return None
        from ebbtide.tools.read_only_run import read_only_access  # noqa: PLC0415  # deferred: only plan mode needs it

        return read_only_access(_from_root(command_line(arguments), folder, workspace), workspace)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if text(arguments, "job", ""):
            return await _send_to_job(job_of(arguments, workspace), text(arguments, "command"))
        command, folder = command_line(arguments), _folder(text(arguments, "workdir", ""), workspace)
        access, settings = await _access(workspace), _git_settings(command, workspace)
        if workspace.sandbox is not None and not workspace.sandbox.has_looked:
            await run_exclusive(workspace.sandbox.look)
        if flag(arguments, "background") or flag(arguments, "terminal"):
            return _run_in_background(
                command, folder, workspace, access, settings, terminal=flag(arguments, "terminal")
            )
        if why := await run_exclusive(lambda: _not_removed(command, folder, workspace)):
            return Result(f"nothing was run: in the sandbox {why}", failed=True, blocked=why)
        before, edited = _config_file_states(workspace), await run_exclusive(lambda: _edited_in_place(command, folder))
        seconds = number(arguments, "timeout", DEFAULT_SECONDS)
        result = await _run_in_foreground(command, folder, seconds, workspace, access, settings)
        result = _with_changes(result, before, workspace)
        if workspace.read_only and result.program is not None and not result.program.is_running:
            from ebbtide.tools.read_only_run import unseen_changes  # noqa: PLC0415  # deferred: only plan mode needs it

            result = _with_note(result, await run_exclusive(lambda: unseen_changes(command, workspace)))
        if edited and result.program is not None and not result.program.is_running:
            from ebbtide.tools.files.in_place_edits import edits_note  # noqa: PLC0415  # deferred: few commands edit files

            result = _with_note(result, await run_exclusive(lambda: edits_note(edited, workspace.root)))
        names = viewed_names(command)
        if names:
            await run_exclusive(lambda: note_looks((folder / name for name in names), workspace))
        return result


def command_line(arguments: Arguments) -> str:
    command = text(arguments, "command")
    if not command.strip():
        raise ToolError("the command is empty: say what to run")
    if "\0" in command:
        raise ToolError("the command contains a NUL character: remove it, or create it with `printf '\\0'`")
    if len(command.encode("utf-8", "surrogatepass")) >= _MAX_COMMAND_BYTES:  # fail before the user is asked about it
        raise ToolError(_too_long(command))
    return command


def _folder(written: str, workspace: Workspace) -> Path:
    folder = locate(written, workspace) if written else workspace.root
    if written and not folder.is_dir():
        raise ToolError(f"`{printable(written)}` is not a folder, so nothing was run: check `workdir`")
    return folder


def _from_root(command: str, folder: Path, workspace: Workspace) -> str:
    """Return the command prefixed with `cd` if it starts in another folder."""
    return command if folder == workspace.root else f"cd {shlex.quote(str(folder))} && {command}"


def _config_file_states(workspace: Workspace) -> ConfigFileStates:
    """Return the states of configuration files that other programs execute or obey."""
    if workspace.read_only:
        return {}
    roots = workspace.sandbox.roots if workspace.sandbox is not None else ()
    return config_file_states(map(str, (workspace.root, *roots)))


def _with_changes(result: Result, before: ConfigFileStates, workspace: Workspace) -> Result:
    """Add a note on changed configuration files: an approved command may have changed any of them."""
    return _with_note(result, changes_note(before, _config_file_states(workspace), str(workspace.root)))


def _edited_in_place(command: str, folder: Path) -> Mapping[Path, bytes]:
    """Return the files that the command edits in place, with their current contents."""
    if not _IN_PLACE.search(command):
        return {}
    from ebbtide.tools.commands.in_place import edited_in_place  # noqa: PLC0415  # deferred: few commands edit files
    from ebbtide.tools.files.in_place_edits import contents_of  # noqa: PLC0415  # deferred: as above

    return contents_of(folder, edited_in_place(command))


def _with_note(result: Result, told: str) -> Result:
    """Add a note to the result of a program."""
    if not told or result.program is None:
        return result
    program = replace(result.program, told=f"{result.program.told}\n{told}")
    return replace(result, text=f"{result.text}\n{told}", program=program)


async def _send_to_job(job: Job, words: str) -> Result:
    """Write a line to the job's terminal and return what it prints."""
    if not job.program.has_terminal:
        raise ToolError(f"{job.id} takes no input: start the command with `terminal`, and write to that job")
    if job.program.code is not None:
        raise ToolError(f"{job.id} has ended ({state_of(job.program.code).how}): start it again to write to it")
    before, line = job.program.size, words if words.endswith("\n") else f"{words}\n"
    if not job.program.write(line.encode("utf-8", "surrogateescape")):
        raise ToolError(f"{job.id} cannot accept that much now: check it with bash_output, and write less at a time")
    await job.program.wait_for_news(_JOB_REPLY_TIMEOUT_S, before + len(line) + line.count("\n"))
    return news_of(job)


async def _access(workspace: Workspace) -> "NetworkAccess | None":
    """Return the command's network access through the sandbox, or None if there is no sandbox or no way through."""
    network = workspace.sandbox.network if workspace.sandbox is not None else None
    if network is None or workspace.reach is None or workspace.read_only:
        return None
    return await network.access(workspace.reach)


def _git_settings(command: str, workspace: Workspace) -> "GitSettings | None":
    """Return the store for the command's Git settings, or None if it does not use Git or is read-only."""
    if workspace.sandbox is None or workspace.read_only or not _ASKS_GIT.search(command):
        return None
    from ebbtide.tools.process.git import program_outside  # noqa: PLC0415  # deferred: some sessions never ask Git
    from ebbtide.tools.sandbox.git_settings import GitSettings  # noqa: PLC0415  # deferred: as above

    git = program_outside("git", workspace.root)
    return GitSettings(git) if git is not None else None


def _run_in_background(
    command: str,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
    *,
    terminal: bool,
) -> Result:
    launched = _sandboxed_launch(
        _in_shell(command, folder, workspace), folder, workspace, access, settings, terminal=terminal
    )
    program = _start_program(command, launched, folder, workspace, None, terminal=terminal)
    job = workspace.jobs.add(command, program, ended_job, has_own_network=access is not None)
    told = f"{job.id} is running; bash_output shows its output, bash_kill ends it"
    return Result(told, program=ProgramState(told, job=job.id, is_silent=True))


async def _build_launch(
    command: str,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> Launch:
    """Return the launch of a command: in a shell, or without one if read-only; in the sandbox if there is one."""
    if not workspace.read_only:
        removes = _REMOVES_WORK_TREE.search(command) is not None
        submodules = _removes_submodules(command, folder)
        in_a_shell = _in_shell(command, folder, workspace)
        return _sandboxed_launch(
            in_a_shell,
            folder,
            workspace,
            access,
            settings,
            removes_work_trees=removes,
            removes_submodules=submodules,
        )
    from ebbtide.tools.read_only_run import launch  # noqa: PLC0415  # deferred: only plan mode needs it

    line = _from_root(command, folder, workspace)
    return _sandboxed_launch(await run_exclusive(lambda: launch(line, workspace)), folder, workspace, access)


def _removes_submodules(command: str, folder: Path) -> bool:
    """Whether the line only removes submodules, so that nothing of it keeps running afterwards."""
    if not _MAY_REMOVE_SUBMODULE.search(command):
        return False
    from ebbtide.tools.sandbox.submodules import can_remove_submodules  # noqa: PLC0415  # deferred: few commands remove one

    return can_remove_submodules(command, folder)


def _not_removed(command: str, folder: Path, workspace: Workspace) -> str:
    """Return why a command that removes a submodule is not started: the sandbox would stop it halfway."""
    if workspace.sandbox is None or workspace.read_only or not _MAY_REMOVE_SUBMODULE.search(command):
        return ""
    from ebbtide.tools.sandbox.submodules import why_not_removed  # noqa: PLC0415  # deferred: as above
    from ebbtide.tools.sandbox.system import sandbox_kind  # noqa: PLC0415  # deferred: as above

    return why_not_removed(command, folder) if sandbox_kind() == "bubblewrap" else ""


def _in_shell(command: str, folder: Path, workspace: Workspace) -> Launch:
    sandbox = workspace.sandbox
    below = sandbox.repositories if sandbox is not None else ()
    return in_shell(command, own_diff_variables((folder, workspace.root, *below)) | workspace.variables)


def _sandboxed_launch(
    launch: Launch,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None" = None,
    *,
    terminal: bool = False,
    removes_work_trees: bool = False,
    removes_submodules: bool = False,
) -> Launch:
    sandbox, may_write = workspace.sandbox, not workspace.read_only
    if sandbox is None:
        return launch
    if access is None and may_write and workspace.reach is not None and workspace.reach.is_open:
        sandbox = replace(sandbox, has_network=True)  # with open access, no host has to be filtered
    try:
        return sandbox.around(
            launch,
            folder,
            may_write=may_write,
            terminal=terminal,
            access=access,
            settings=settings,
            removes_work_trees=removes_work_trees,
            removes_submodules=removes_submodules,
        )
    except OSError as error:
        raise ToolError(f"the sandbox could not be set up: {error}; ask the user what to do") from error


async def _run_in_foreground(
    command: str,
    folder: Path,
    seconds: int,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> Result:
    """Run the command, and retry if a path to be mounted disappeared before the command started."""
    for tries_left in reversed(range(_MAX_TRIES)):
        launched = await _build_launch(command, folder, workspace, access, settings)
        result = await _run_in_time(command, folder, seconds, workspace, launched, access, settings)
        if not tries_left or not (launched.is_confined and result.failed and _was_overtaken(result)):
            break
        access = await _access(workspace)
    return result


def _was_overtaken(result: Result) -> bool:
    from ebbtide.tools.sandbox.blocked import was_overtaken  # noqa: PLC0415  # deferred: most commands succeed

    printed = result.program.printed_in(result.text) if result.program is not None and result.log is None else ""
    return was_overtaken(printed, os.path.lexists)


async def _run_in_time(
    command: str,
    folder: Path,
    seconds: int,
    workspace: Workspace,
    launched: Launch,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> Result:
    """Return the command's result, or its output so far if it timed out and continues as a job."""
    program = _start_program(command, launched, folder, workspace, workspace.progress)
    try:
        in_time = await _in_time(program, seconds, access)
        is_flooding = not in_time and program.output.is_over
        may_not_go_on = launched.is_confined and _removes_submodules(command, folder)
        is_ended = is_flooding or bool(program.output.problem) or (may_not_go_on and not program.is_over)
        if is_ended:
            await program.end()
    except BaseException:
        await program.close()
        await _leave_network(access, workspace)
        raise
    if not in_time and not is_ended:
        return _still_running_result(
            workspace.jobs.add(command, program, ended_job, has_own_network=access is not None), seconds
        )
    if program.is_over or is_ended:
        await program.close()
        await _leave_network(access, workspace)
    else:
        workspace.jobs.look_after(program)
    blocked = ""
    if launched.is_confined:
        kept = (_sandbox_denials(command, program, folder, workspace, access, settings), _missing_programs(command))
        blocked = "; ".join(filter(None, kept))
    withheld = _withheld(command, program, workspace)
    return _with_note(_exit_result(program, blocked, access, seconds if is_flooding else None), withheld)


async def _in_time(program: Program, seconds: float, access: "NetworkAccess | None") -> bool:
    """Whether the program ended in time. Time spent on open questions about it does not count."""
    asked = 0.0
    while not await program.wait(seconds):
        if access is None or access.reach.seconds_asked <= asked:
            return False
        seconds, asked = max(access.reach.seconds_asked - asked, 0.05), access.reach.seconds_asked
    return True


async def _leave_network(access: "NetworkAccess | None", workspace: Workspace) -> None:
    if access is not None and workspace.sandbox is not None and workspace.sandbox.network is not None:
        await workspace.sandbox.network.leave(access)


def _still_running_result(job: Job, seconds: int) -> Result:
    job.program.stop_progress()
    log = new_output(job)
    told = f"not finished after {seconds} s: it continues as {job.id}; bash_output shows its output, bash_kill ends it"
    return with_log(log, "no output yet", ProgramState(told, job=job.id), failed=False)


def _sandbox_denials(
    command: str,
    program: Program,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> str:
    """Return what the sandbox blocked or reverted. The end of the output is examined even on success: only the last
    program of the line may have succeeded."""
    assert workspace.sandbox is not None
    try:
        removed = workspace.sandbox.remove_unwanted()
    except OSError as error:
        return f"a forbidden file could not be removed: {error}"
    noted = tuple(settings.noted) if settings is not None else ()
    if removed:
        return "; ".join((f"{removed} may not be created, and was removed", *noted))
    from ebbtide.tools.sandbox.blocked import denied_paths, may_have_been_blocked  # noqa: PLC0415  # deferred: rare

    printed = _last_words(program)
    if not program.code and (noted or not may_have_been_blocked(printed)):
        return "; ".join(noted)
    try:
        boundary = workspace.sandbox.boundary(may_write=not workspace.read_only, access=access)
    except OSError:  # a running program changes the folders being examined
        return "; ".join(noted)
    if access is not None and access.noted:  # refused connections are already reported
        boundary = replace(boundary, network="open", copies={})  # a proxy's refusal reads like that of a registry
    found = denied_paths(command, printed, boundary, str(folder), os.path.lexists, failed=bool(program.code))
    return "; ".join(noted) or found


def _last_words(program: Program) -> str:
    with program.log.open("rb") as log:
        log.seek(max(program.output.flush() - _FAILURE_TAIL_BYTES, 0))
        return log.read(_FAILURE_TAIL_BYTES).decode("utf-8", "replace")


def _withheld(command: str, program: Program, workspace: Workspace) -> str:
    """Return a note on withheld environment variables that the command seems to need, or an empty string."""
    printed = _last_words(program) if program.code else ""
    if not any(name in command or name in printed for name in os.environ):
        return ""
    from ebbtide.tools.process.user_variables import note_on_withheld, withheld_variables  # noqa: PLC0415  # deferred: as above

    withheld = withheld_variables(os.environ, child_environment() | workspace.variables)
    return note_on_withheld(command, printed, withheld) if withheld else ""


def _missing_programs(command: str) -> str:
    """Return which of this machine's programs the command looks for but cannot see in the sandbox."""
    from ebbtide.tools.sandbox.blocked import what_is_not_seen  # noqa: PLC0415  # deferred: some sessions run no command
    from ebbtide.tools.sandbox.system import sandbox_kind  # noqa: PLC0415  # deferred: as above

    return what_is_not_seen(command) if sandbox_kind() == "bubblewrap" else ""


def _exit_result(program: Program, blocked: str, access: "NetworkAccess | None", limit: int | None) -> Result:
    """`limit`: the time limit in seconds, if the program was ended because of it."""
    state = state_of(program.code or 0) if limit is None else ProgramState(limit=limit)
    ended = f"{state.how}: it was ended because it kept printing" if limit is not None else state.how
    others = "" if program.is_over else "its background processes keep running until the session ends"
    log = PrintedLog(program.log, 0, program.output.flush(), program.is_over, program.output.is_whole)
    kept = f"it ran in a sandbox, where {blocked}: do without, or tell the user what it needs" if blocked else ""
    refused = (f"`{place}` was not reached: {why}" for place, why in access.noted.items()) if access else ()
    told = (program.output.problem, dropped_note(program), ended, kept, *refused, others)
    state = replace(state, told="\n".join(filter(None, told)))
    result = with_log(log, "no output", state, failed=state.code != 0 or bool(program.output.problem))
    return replace(result, blocked=blocked)


def _start_program(
    command: str,
    launched: Launch,
    folder: Path,
    workspace: Workspace,
    heard: Callable[[str], None] | None,
    *,
    terminal: bool = False,
) -> Program:
    try:
        for each in (workspace.outputs.parent, workspace.outputs):  # `mkdir` does not apply the mode to parents
            make_private(each)
        log = workspace.outputs / f"bash-{secrets.token_hex(4)}.txt"
        limits = ProcessLimits(output_bytes=workspace.max_output_bytes)
        return start(launched, folder, log, heard, limits, terminal=terminal)
    except OSError as error:
        raise ToolError(_why_not_started(error, command, folder)) from error
    except UnicodeEncodeError as error:
        raise ToolError("the command contains characters that programs cannot accept: write them as escapes") from error


def _too_long(command: str) -> str:
    return f"the command is too long ({len(command)} characters): write it to a file and run that"


def _why_not_started(error: OSError, command: str, root: Path) -> str:
    if not root.is_dir():
        return f"the working folder `{root}` is gone: ask the user what to do"
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return _too_long(command)
    return f"the command could not be started: {error}"

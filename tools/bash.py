"""The `bash` tool: runs a command line in the working folder."""

import os
import secrets
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools import command_runs, commands, files, process
from ebbtide.tools import sandbox as tools_sandbox
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
from ebbtide.tools.call_arguments.foreign_calls import (
    JOB_ARGUMENTS,
    TYPED_ARGUMENTS,
    TYPING_TOOLS,
    convert_to_seconds,
    is_typing_call,
    normalise_name,
    parse_json_list,
    pop_argument,
)
from ebbtide.tools.call_arguments.schema import get_flag, get_number, get_text, object_schema
from ebbtide.tools.command_runs.results import (
    dropped_output_note,
    job_update_result,
    require_job,
    result_with_log,
    summarise_ended_job,
    take_unread_output,
)
from ebbtide.tools.commands.viewers import shows_files, viewed_names
from ebbtide.tools.files.change import record_partial_views
from ebbtide.tools.files.executed_config_files import ConfigFileStates, changes_note, read_config_file_states
from ebbtide.tools.files.paths import locate_path
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.process.jobs import Job
from ebbtide.tools.process.program import ProcessLimits, Program
from ebbtide.tools.process.shell import Launch, child_environment, shell_launch
from ebbtide.tools.process.start import start_program
from ebbtide.tools.process.state import ProgramState, program_state
from ebbtide.tools.sandbox.diff_program import diff_override_variables
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, command_argument, first_line

if TYPE_CHECKING:  # for type checking only: few commands need the network, so it is not imported here
    from ebbtide.tools.sandbox.boundary import Boundary
    from ebbtide.tools.sandbox.git_settings import GitSettings
    from ebbtide.tools.sandbox.network import NetworkAccess

DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 120, 600
_MAX_COMMAND_BYTES = 128 * 1024
"""Size in bytes from which a command cannot be started, because Linux limits the size of an argument."""
_FAILURE_TAIL_BYTES = 16_384
"""Number of bytes at the end of the output that are searched for failures."""
_IN_PLACE_EDIT = regex(r"\b(?:sed|perl|ruby|g?awk|yq)\b[^|;&\n]*\s(?:-\w*i|--in-place)")
_REMOVES_WORK_TREE = regex(r"\bworktree\s+(?:remove|move)\b")
_MAY_REMOVE_SUBMODULE = regex(r"\bgit\b[^\n]*\b(?:rm|deinit)\b")
_MENTIONS_GIT = regex(r"git|\bgh\b")
_MAX_SANDBOX_TRIES = 3
"""Maximum number of attempts to set up the sandbox for a command."""
_JOB_REPLY_TIMEOUT_S = 1.0
"""Seconds to wait for a job's reply to its input."""


def _shows_files(arguments: Arguments) -> bool:
    command = arguments.get("command")
    return isinstance(command, str) and shows_files(command)


def _subject(arguments: Arguments) -> str:
    return first_line(command_argument(arguments))


_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh")


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    if called_name in TYPING_TOOLS:
        arguments["command"], job = (
            pop_argument(arguments, *TYPED_ARGUMENTS),
            pop_argument(arguments, "job", *map(normalise_name, JOB_ARGUMENTS.split())),
        )
        arguments["job"] = "" if job is None else str(job)
    command = arguments.get("command")
    if isinstance(command, str) and command.lstrip().startswith('["'):
        command = parse_json_list(command) or command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        is_script = len(command) == 3 and command[0] in _SHELLS and command[1] in ("-c", "-lc", "-ic", "-lic")
        command = command[2] if is_script else shlex.join(command)
    if command is not None:
        arguments["command"] = command
    convert_to_seconds(arguments, "timeout")
    folder = arguments.get("workdir")
    if folder is None or (isinstance(folder, str) and folder.rstrip("/") in ("", ".", root.rstrip("/"))):
        arguments.pop("workdir", None)


def _to_claude(arguments: dict[str, object]) -> None:
    if isinstance(seconds := arguments.get("timeout"), int):
        arguments["timeout"] = 1_000 * seconds


class Bash:
    name = "bash"
    description = read_description(__file__)
    effect: Effect = "run"
    traits = ToolTraits(
        role="run_command",
        output_content="program",
        shows_files=_shows_files,
        stub_template="Ran: {command}",
        stub_result="exit",
        editor_kind="execute",
        get_subject=_subject,
        editable_argument="command",
        aliases="shell run_shell_command execute_command execute_bash run_terminal_cmd run_terminal_command "
        "run_command run_in_terminal shell_command exec_command local_shell container.exec "
        "developer__shell terminal system.run",
        accepts_foreign_call=is_typing_call,
        argument_aliases={
            "command": "cmd script input commandline command_line shell_command code",
            "background": "run_in_background is_background",
            "workdir": "working_directory working_dir cwd directory dir dir_path",
        },
        adapt_arguments=_adapt_arguments,
        clamped_arguments=("timeout",),
        claude_names=("Bash",),
        claude_arguments={"background": "run_in_background"},
        convert_to_claude=_to_claude,
        small_windows="always",
        short_form=ShortForm("Runs a command with `bash -c` in the working folder.", ("command", "timeout")),
        small_model_form=ShortForm(
            "Runs a shell command: also to list, search, run, move, copy or delete files.", ("command",)
        ),
        is_for_read_only_agents=True,
    )
    schema = object_schema(
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
        """Return the command line. With `workdir`, it starts with `cd`. For input to a job, it is the job's command
        with the input appended after `<<<`."""
        if get_text(arguments, "job", ""):
            return (f"{require_job(arguments, workspace).command} <<< {shlex.quote(get_text(arguments, 'command'))}",)
        folder, command = get_text(arguments, "workdir", ""), command_line(arguments)
        return (f"cd {shlex.quote(folder)} && {command}" if folder else command,)

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """Return what a command shows; None if it may not run as read-only. Only foreground commands in the working
        folder or below it may. With a sandbox, a command that is not proved read-only may be tried in it.
        """
        if get_text(arguments, "job", "") or get_flag(arguments, "background") or get_flag(arguments, "terminal"):
            return None
        folder = _working_folder(get_text(arguments, "workdir", ""), workspace)
        if not folder.is_relative_to(workspace.root):
            return None
        command = command_line(arguments)
        proved_access = command_runs.read_only.read_only_access(_with_cd(command, folder, workspace), workspace)
        return proved_access or command_runs.contained.contained_access(command, folder, workspace)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if get_text(arguments, "job", ""):
            return await _send_to_job(require_job(arguments, workspace), get_text(arguments, "command"))
        command, folder = command_line(arguments), _working_folder(get_text(arguments, "workdir", ""), workspace)
        access, settings = await _network_access(workspace), _git_settings(command, workspace)
        if workspace.sandbox is not None and not workspace.sandbox.has_found_repositories:
            await run_exclusive(workspace.sandbox.find_repositories)
        if get_flag(arguments, "background") or get_flag(arguments, "terminal"):
            return _run_in_background(
                command, folder, workspace, access, settings, terminal=get_flag(arguments, "terminal")
            )
        if removal_problem := await run_exclusive(lambda: _submodule_removal_problem(command, folder, workspace)):
            return Result(
                f"nothing was run: in the sandbox {removal_problem}",
                has_failed=True,
                blocked_by_sandbox=removal_problem,
            )
        previous_config_states, edited_contents = (
            _config_file_states(workspace),
            await run_exclusive(lambda: _contents_edited_in_place(command, folder)),
        )
        seconds = get_number(arguments, "timeout", DEFAULT_TIMEOUT_S)
        if workspace.is_contained:
            result = await _run_contained(command, folder, seconds, workspace)
        else:
            result = await _run_in_foreground(command, folder, seconds, workspace, access, settings)
        result = _with_config_changes(result, previous_config_states, workspace)
        if workspace.is_read_only and result.program is not None and not result.program.is_running:
            result = _with_note(
                result, await run_exclusive(lambda: command_runs.read_only.submodule_changes_note(command, workspace))
            )
        if edited_contents and result.program is not None and not result.program.is_running:
            result = _with_note(
                result, await run_exclusive(lambda: files.in_place_edits.edits_note(edited_contents, workspace.root))
            )
        names = viewed_names(command)
        if names:
            await run_exclusive(lambda: record_partial_views((folder / name for name in names), workspace))
        return result


def command_line(arguments: Arguments) -> str:
    command = get_text(arguments, "command")
    if not command.strip():
        raise ToolError("the command is empty: say what to run")
    if "\0" in command:
        raise ToolError("the command contains a NUL character: remove it, or create it with `printf '\\0'`")
    if len(command.encode("utf-8", "surrogatepass")) >= _MAX_COMMAND_BYTES:  # fail before asking the user for approval
        raise ToolError(_too_long_text(command))
    return command


def _working_folder(workdir: str, workspace: Workspace) -> Path:
    folder = locate_path(workdir, workspace) if workdir else workspace.root
    if workdir and not folder.is_dir():
        raise ToolError(f"`{printable_name(workdir)}` is not a folder, so nothing was run: check `workdir`")
    return folder


def _with_cd(command: str, folder: Path, workspace: Workspace) -> str:
    """Return the command prefixed with `cd` if it starts in another folder."""
    return command if folder == workspace.root else f"cd {shlex.quote(str(folder))} && {command}"


def _config_file_states(workspace: Workspace) -> ConfigFileStates:
    """Return the states of configuration files that other programs run or read automatically."""
    if workspace.is_read_only:
        return {}
    roots = workspace.sandbox.added_roots if workspace.sandbox is not None else ()
    return read_config_file_states(map(str, (workspace.root, *roots)))


def _with_config_changes(result: Result, previous_states: ConfigFileStates, workspace: Workspace) -> Result:
    """Add a note about changed configuration files, because an approved command may have changed any of them."""
    return _with_note(result, changes_note(previous_states, _config_file_states(workspace), str(workspace.root)))


def _contents_edited_in_place(command: str, folder: Path) -> Mapping[Path, bytes]:
    """Return the files that the command edits in place, with their current contents."""
    if not _IN_PLACE_EDIT.search(command):
        return {}
    return files.in_place_edits.comparable_contents(folder, commands.in_place.files_edited_in_place(command))


def _with_note(result: Result, note: str) -> Result:
    """Add a note to the result of a program."""
    if not note or result.program is None:
        return result
    program = replace(result.program, told=f"{result.program.told}\n{note}")
    return replace(result, text=f"{result.text}\n{note}", program=program)


async def _send_to_job(job: Job, input_text: str) -> Result:
    """Write a line to the job's terminal and return what the job prints in response."""
    if not job.program.has_terminal:
        raise ToolError(f"{job.id} takes no input: start the command with `terminal`, and write to that job")
    if job.program.code is not None:
        raise ToolError(
            f"{job.id} has ended ({program_state(job.program.code).outcome_text}): start it again to write to it"
        )
    previous_size, line = job.program.printed_bytes, input_text if input_text.endswith("\n") else f"{input_text}\n"
    if not job.program.write(line.encode("utf-8", "surrogateescape")):
        raise ToolError(f"{job.id} cannot accept that much now: check it with bash_output, and write less at a time")
    await job.program.wait_for_output(_JOB_REPLY_TIMEOUT_S, previous_size + len(line) + line.count("\n"))
    return job_update_result(job)


async def _network_access(workspace: Workspace) -> "NetworkAccess | None":
    """Return the command's network access through the sandbox; None if there is no sandbox or the command gets no
    access."""
    network = workspace.sandbox.network if workspace.sandbox is not None else None
    if network is None or workspace.network_policy is None or workspace.is_read_only:
        return None
    return await network.create_access(workspace.network_policy)


def _git_settings(command: str, workspace: Workspace) -> "GitSettings | None":
    """Return the store for the command's Git settings; None if there is no sandbox, or the command is read-only or does
    not use Git."""
    if workspace.sandbox is None or workspace.is_read_only or not _MENTIONS_GIT.search(command):
        return None
    git = process.git.find_program_outside("git", workspace.root)
    return tools_sandbox.git_settings.GitSettings(git) if git is not None else None


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
        _shell_launch_of(command, folder, workspace), folder, workspace, access, settings, terminal=terminal
    )
    program = _start_program(command, launched, folder, workspace, None, terminal=terminal)
    job = workspace.jobs.add(command, program, summarise_ended_job, has_own_network=access is not None)
    state_text = f"{job.id} is running; bash_output shows its output, bash_kill ends it"
    return Result(state_text, program=ProgramState(state_text, job=job.id, is_silent=True))


async def _build_launch(
    command: str,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> Launch:
    """Return how to launch a command: in a shell unless the call is read-only, and in the sandbox if there is one."""
    if not workspace.is_read_only:
        removes_work_trees = _REMOVES_WORK_TREE.search(command) is not None
        removes_submodules = _removes_submodules(command, folder)
        launch = _shell_launch_of(command, folder, workspace)
        return _sandboxed_launch(
            launch,
            folder,
            workspace,
            access,
            settings,
            removes_work_trees=removes_work_trees,
            removes_submodules=removes_submodules,
        )
    line = _with_cd(command, folder, workspace)
    return _sandboxed_launch(
        await run_exclusive(lambda: command_runs.read_only.read_only_launch(line, workspace)), folder, workspace, access
    )


def _removes_submodules(command: str, folder: Path) -> bool:
    """Whether the line only removes submodules. If so, processes that it leaves running are ended."""
    if not _MAY_REMOVE_SUBMODULE.search(command):
        return False
    return tools_sandbox.submodules.can_remove_submodules(command, folder)


def _submodule_removal_problem(command: str, folder: Path, workspace: Workspace) -> str:
    """Return why a command that removes a submodule must not be started, because the sandbox would stop it halfway.
    Empty if it may be started."""
    if workspace.sandbox is None or workspace.is_read_only or not _MAY_REMOVE_SUBMODULE.search(command):
        return ""
    return (
        tools_sandbox.submodules.removal_problem(command, folder)
        if tools_sandbox.system.sandbox_kind() == "bubblewrap"
        else ""
    )


def _shell_launch_of(command: str, folder: Path, workspace: Workspace) -> Launch:
    sandbox = workspace.sandbox
    repositories = sandbox.repositories if sandbox is not None else ()
    return shell_launch(
        command, diff_override_variables((folder, workspace.root, *repositories)) | workspace.environment_variables
    )


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
    sandbox, may_write = workspace.sandbox, not workspace.is_read_only
    if sandbox is None:
        return launch
    if access is None and may_write and workspace.network_policy is not None and workspace.network_policy.is_open:
        sandbox = replace(sandbox, has_network=True)  # network access is unrestricted, so no hosts need filtering
    try:
        return sandbox.wrap(
            launch,
            folder,
            may_write=may_write,
            takes_terminal=terminal,
            access=access,
            settings=settings,
            removes_work_trees=removes_work_trees,
            removes_submodules=removes_submodules,
        )
    except OSError as error:
        raise ToolError(f"the sandbox could not be set up: {error}; ask the user what to do") from error


async def _run_contained(command: str, folder: Path, seconds: int, workspace: Workspace) -> Result:
    """Run a command in a sandbox in which it can only look. The result reports what was denied."""
    try:
        launched, boundary = await run_exclusive(
            lambda: command_runs.contained.launch_contained(command, folder, workspace)
        )
    except ToolError as error:
        return Result(f"nothing was run: {error}", has_failed=True, denied_access=str(error))
    return await _run_with_timeout(command, folder, seconds, workspace, launched, None, None, boundary)


async def _run_in_foreground(
    command: str,
    folder: Path,
    seconds: int,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> Result:
    """Run the command. If a path to be mounted disappears before the command starts, try again."""
    for remaining_tries in reversed(range(_MAX_SANDBOX_TRIES)):
        launched = await _build_launch(command, folder, workspace, access, settings)
        result = await _run_with_timeout(command, folder, seconds, workspace, launched, access, settings)
        if not remaining_tries or not (launched.is_confined and result.has_failed and _did_mount_path_vanish(result)):
            break
        access = await _network_access(workspace)
    return result


def _did_mount_path_vanish(result: Result) -> bool:
    printed = result.program.printed_text(result.text) if result.program is not None and result.log is None else ""
    return tools_sandbox.blocked.did_mount_path_vanish(printed, os.path.lexists)


async def _run_with_timeout(
    command: str,
    folder: Path,
    seconds: int,
    workspace: Workspace,
    launched: Launch,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
    contained: "Boundary | None" = None,
) -> Result:
    """Return the command's result, or its output so far if it timed out and continues as a job. `contained`: the
    boundary of a command that can only look. Such a command leaves no processes running when it has ended."""
    program = _start_program(command, launched, folder, workspace, workspace.on_progress)
    try:
        in_time = await _has_finished_in_time(program, seconds, access)
        is_flooding = not in_time and program.output.is_truncated
        is_submodule_removal = launched.is_confined and _removes_submodules(command, folder)
        must_end_children = (is_submodule_removal or (contained is not None and in_time)) and not program.is_fully_ended
        is_ended = is_flooding or bool(program.output.problem) or must_end_children
        if is_ended:
            await program.end()
    except BaseException:
        await program.close()
        await _leave_network(access, workspace)
        raise
    if not in_time and not is_ended:
        return _still_running_result(
            workspace.jobs.add(command, program, summarise_ended_job, has_own_network=access is not None), seconds
        )
    if program.is_fully_ended or is_ended:
        await program.close()
        await _leave_network(access, workspace)
    else:
        workspace.jobs.track_leftover(program)
    blocked = ""
    if contained is not None:
        printed = _output_tail(program)
        denied = command_runs.contained.denied_access(command, printed, program.code or 0, contained, str(folder))
        locked_note = command_runs.contained.locked_file_note(printed, contained, str(folder))
        result = _exit_result(program, denied or locked_note, None, seconds if is_flooding else None)
        return replace(result, blocked_by_sandbox="", denied_access=denied)
    if launched.is_confined:
        problems = (_sandbox_denials(command, program, folder, workspace, access, settings), _missing_programs(command))
        blocked = "; ".join(filter(None, problems))
    withheld_note = _withheld_variables_note(command, program, workspace)
    return _with_note(_exit_result(program, blocked, access, seconds if is_flooding else None), withheld_note)


async def _has_finished_in_time(program: Program, seconds: float, access: "NetworkAccess | None") -> bool:
    """Return whether the program ended in time, not counting the time spent waiting for the user to answer about its
    network access."""
    excluded_seconds = 0.0
    while not await program.wait(seconds):
        if access is None or access.policy.answer_wait_seconds <= excluded_seconds:
            return False
        seconds, excluded_seconds = (
            max(access.policy.answer_wait_seconds - excluded_seconds, 0.05),
            access.policy.answer_wait_seconds,
        )
    return True


async def _leave_network(access: "NetworkAccess | None", workspace: Workspace) -> None:
    if access is not None and workspace.sandbox is not None and workspace.sandbox.network is not None:
        await workspace.sandbox.network.release(access)


def _still_running_result(job: Job, seconds: int) -> Result:
    job.program.stop_progress()
    log = take_unread_output(job)
    state_text = (
        f"not finished after {seconds} s: it continues as {job.id}; bash_output shows its output, bash_kill ends it"
    )
    return result_with_log(log, "no output yet", ProgramState(state_text, job=job.id), failed=False)


def _sandbox_denials(
    command: str,
    program: Program,
    folder: Path,
    workspace: Workspace,
    access: "NetworkAccess | None",
    settings: "GitSettings | None",
) -> str:
    """Return what the sandbox blocked or reverted; empty if nothing. The end of the output is examined even on success,
    because an exit code of 0 only means that the line's last program succeeded."""
    assert workspace.sandbox is not None
    try:
        removed = workspace.sandbox.remove_forbidden_files()
    except OSError as error:
        return f"a forbidden file could not be removed: {error}"
    setting_notes = tuple(settings.refusals) if settings is not None else ()
    if removed:
        return "; ".join((f"{removed} may not be created, and was removed", *setting_notes))
    printed = _output_tail(program)
    if not program.code and (setting_notes or not tools_sandbox.blocked.may_have_been_blocked(printed)):
        return "; ".join(setting_notes)
    try:
        boundary = workspace.sandbox.boundary(may_write=not workspace.is_read_only, access=access)
    except OSError:  # a running program may change the folders being examined
        return "; ".join(setting_notes)
    if access is not None and access.failures:  # refused connections are already reported
        # otherwise, the proxy's refusal would be reported again, as a package registry's
        boundary = replace(boundary, network="open", copies={})
    denial_reasons = tools_sandbox.blocked.denial_reasons(
        command, printed, boundary, str(folder), os.path.lexists, has_failed=bool(program.code)
    )
    return "; ".join(setting_notes) or denial_reasons


def _output_tail(program: Program) -> str:
    with program.log.open("rb") as log:
        log.seek(max(program.output.flush() - _FAILURE_TAIL_BYTES, 0))
        return log.read(_FAILURE_TAIL_BYTES).decode("utf-8", "replace")


def _withheld_variables_note(command: str, program: Program, workspace: Workspace) -> str:
    """Return a note about environment variables that were withheld although the command seems to need them; empty if
    none."""
    printed = _output_tail(program) if program.code else ""
    if not any(name in command or name in printed for name in os.environ):
        return ""
    withheld = process.user_variables.withheld_variables(
        os.environ, child_environment() | workspace.environment_variables
    )
    return process.user_variables.withheld_variables_note(command, printed, withheld) if withheld else ""


def _missing_programs(command: str) -> str:
    """Return a note on the installed programs that the command needs but cannot see in the sandbox; empty if none."""
    return tools_sandbox.blocked.visibility_note(command) if tools_sandbox.system.sandbox_kind() == "bubblewrap" else ""


def _exit_result(program: Program, blocked: str, access: "NetworkAccess | None", limit: int | None) -> Result:
    """Return the result of a program that has ended. `limit`: the time limit in seconds, if the program was ended for
    exceeding it."""
    state = program_state(program.code or 0) if limit is None else ProgramState(limit=limit)
    end_text = (
        f"{state.outcome_text}: it was ended because it kept printing" if limit is not None else state.outcome_text
    )
    leftovers_note = "" if program.is_fully_ended else "its background processes keep running until the session ends"
    log = PrintedLog(program.log, 0, program.output.flush(), program.is_fully_ended, program.output.is_complete)
    advice = f"it ran in a sandbox, where {blocked}: do without it, or tell the user what it needs" if blocked else ""
    refusals = (f"`{host}` was not reached: {reason}" for host, reason in access.failures.items()) if access else ()
    notes = (program.output.problem, dropped_output_note(program), end_text, advice, *refusals, leftovers_note)
    state = replace(state, told="\n".join(filter(None, notes)))
    result = result_with_log(log, "no output", state, failed=state.code != 0 or bool(program.output.problem))
    return replace(result, blocked_by_sandbox=blocked)


def _start_program(
    command: str,
    launched: Launch,
    folder: Path,
    workspace: Workspace,
    on_output: Callable[[str], None] | None,
    *,
    terminal: bool = False,
) -> Program:
    try:
        for folder_to_create in (
            workspace.outputs_folder.parent,
            workspace.outputs_folder,
        ):  # `mkdir` ignores the mode for parents
            create_private_folder(folder_to_create)
        log = workspace.outputs_folder / f"bash-{secrets.token_hex(4)}.txt"
        limits = ProcessLimits(output_bytes=workspace.max_output_bytes)
        return start_program(launched, folder, log, on_output, limits, has_terminal=terminal)
    except OSError as error:
        raise ToolError(_start_failure_text(error, command, folder)) from error
    except UnicodeEncodeError as error:
        raise ToolError("the command contains characters that programs cannot accept: write them as escapes") from error


def _too_long_text(command: str) -> str:
    return f"the command is too long ({len(command)} characters): write it to a file and run that"


def _start_failure_text(error: OSError, command: str, root: Path) -> str:
    if not root.is_dir():
        return f"the working folder `{root}` no longer exists: ask the user what to do"
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return _too_long_text(command)
    return f"the command could not be started: {error}"

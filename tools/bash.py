"""The `bash` tool: runs a command line in the working folder."""

import shlex
from pathlib import Path

from ebbtide.tools import command_runs
from ebbtide.tools.base import (
    Arguments,
    Effect,
    ReadOnlyAccess,
    Result,
    ToolError,
    Workspace,
    read_description,
)
from ebbtide.tools.call_arguments.foreign_calls import (
    JOB_ARGUMENTS,
    TERMINAL_INPUT_ARGUMENTS,
    TERMINAL_INPUT_TOOLS,
    convert_to_seconds,
    is_terminal_input_call,
    normalise_name,
    parse_json_list,
    pop_argument,
)
from ebbtide.tools.call_arguments.schema import get_flag, get_number, get_text, object_schema
from ebbtide.tools.commands.viewers import shows_files
from ebbtide.tools.files.paths import locate_path
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, command_argument, first_line

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 600
_MAX_COMMAND_BYTES = 128 * 1024
"""Commands of this many bytes or more cannot be started, because Linux limits the size of an argument."""


def _is_viewer_call(arguments: Arguments) -> bool:
    command = arguments.get("command")
    return isinstance(command, str) and shows_files(command)


_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh")


def _adapt_foreign_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    if called_name in TERMINAL_INPUT_TOOLS:
        arguments["command"] = pop_argument(arguments, *TERMINAL_INPUT_ARGUMENTS)
        job = pop_argument(arguments, "job", *map(normalise_name, JOB_ARGUMENTS.split()))
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


def _timeout_to_milliseconds(arguments: dict[str, object]) -> None:
    if isinstance(seconds := arguments.get("timeout"), int):
        arguments["timeout"] = 1_000 * seconds


class Bash:
    name = "bash"
    description = read_description(__file__)
    effect: Effect = "run"
    traits = ToolTraits(
        role="run_command",
        output_content="program",
        shows_files=_is_viewer_call,
        stub_template="Ran: {command}",
        stub_result="exit",
        acp_kind="execute",
        get_subject=lambda arguments: first_line(command_argument(arguments)),
        editable_argument="command",
        aliases="shell run_shell_command execute_command execute_bash run_terminal_cmd run_terminal_command "
        "run_command run_in_terminal shell_command exec_command local_shell container.exec "
        "developer__shell terminal system.run",
        accepts_alias_call=is_terminal_input_call,
        argument_aliases={
            "command": "cmd script input commandline command_line shell_command code",
            "background": "run_in_background is_background",
            "workdir": "working_directory working_dir cwd directory dir dir_path",
        },
        adapt_arguments=_adapt_foreign_arguments,
        clamped_arguments=("timeout",),
        claude_names=("Bash",),
        claude_arguments={"background": "run_in_background"},
        convert_to_claude=_timeout_to_milliseconds,
        small_window_policy="always",
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
        """Return the command line. With `workdir`, it starts with `cd`. For input to a job, return the job's command,
        followed by `<<<` and the input."""
        if get_text(arguments, "job", ""):
            job = command_runs.jobs.get_job(arguments, workspace)
            return (f"{job.command} <<< {shlex.quote(get_text(arguments, 'command'))}",)
        folder, command = get_text(arguments, "workdir", ""), command_line(arguments)
        return (f"cd {shlex.quote(folder)} && {command}" if folder else command,)

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """Return what a command reads. None if it is not allowed to run as read-only. Only foreground commands in or
        below the working folder are allowed. If there is a sandbox, a command that is not known to be read-only can be
        tried in it."""
        if get_text(arguments, "job", "") or get_flag(arguments, "background") or get_flag(arguments, "terminal"):
            return None
        folder = _working_folder(get_text(arguments, "workdir", ""), workspace)
        if not folder.is_relative_to(workspace.root):
            return None
        command = command_line(arguments)
        line = command_runs.launch.with_cd(command, folder, workspace)
        proved_access = command_runs.read_only.read_only_access(line, workspace)
        return proved_access or command_runs.contained.contained_access(command, folder, workspace)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if get_text(arguments, "job", ""):
            job = command_runs.jobs.get_job(arguments, workspace)
            return await command_runs.jobs.send_to_job(job, get_text(arguments, "command"))
        command, folder = command_line(arguments), _working_folder(get_text(arguments, "workdir", ""), workspace)
        command_run = await command_runs.launch.prepare_run(command, folder, workspace)
        has_terminal = get_flag(arguments, "terminal")
        if get_flag(arguments, "background") or has_terminal:
            return command_runs.jobs.run_in_background(command_run, has_terminal=has_terminal)
        if problem := await command_runs.launch.submodule_removal_problem(command_run):
            text = f"nothing was run: in the sandbox {problem}"
            return Result(text, has_failed=True, sandbox_block=problem)
        files_before = await command_runs.changed_files.read_files_before(command_run)
        seconds = get_number(arguments, "timeout", DEFAULT_TIMEOUT_S)
        if workspace.runs_in_read_only_sandbox:
            result = await command_runs.foreground.run_contained(command_run, seconds)
        else:
            result = await command_runs.foreground.run_in_foreground(command_run, seconds)
        result = await command_runs.changed_files.note_changes(result, files_before, command_run)
        await command_runs.changed_files.record_viewed_files(command_run)
        return result


def command_line(arguments: Arguments) -> str:
    command = get_text(arguments, "command")
    if not command.strip():
        raise ToolError("the command is empty: say what to run")
    if "\0" in command:
        raise ToolError("the command contains a NUL character: remove it, or create it with `printf '\\0'`")
    if len(command.encode("utf-8", "surrogatepass")) >= _MAX_COMMAND_BYTES:  # fail before asking the user for approval
        raise ToolError(command_runs.launch.too_long_text(command))
    return command


def _working_folder(workdir: str, workspace: Workspace) -> Path:
    folder = locate_path(workdir, workspace) if workdir else workspace.root
    if workdir and not folder.is_dir():
        raise ToolError(f"`{printable_name(workdir)}` is not a folder, so nothing was run: check `workdir`")
    return folder

"""The `bash` tool: runs a command line in the working folder."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tools.base import Arguments, Effect, PrintedLog, Result, ToolError, Workspace, description_beside
from tools.plain_text import as_text
from tools.process.program import Program, start
from tools.process.shell import argv_of, child_environment
from tools.process.state import ProgramState, state_of
from tools.schema import flag, number, object_of, text

DEFAULT_SECONDS, MOST_SECONDS = 120, 600
LONGEST_PRINTED = 4096
"""Bytes of a log that stand in a text as they are."""


class Bash:
    name = "bash"
    description = description_beside(__file__)
    effect: Effect = "run"
    schema = object_of(
        {
            "command": {"type": "string"},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_SECONDS,
                "description": "seconds, default 120",
            },
            "background": {"type": "boolean"},
        },
        required=("command",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (command_line(arguments),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        command = command_line(arguments)
        if flag(arguments, "background"):
            return _run_in_background(command, workspace)
        return await _run_to_its_end(command, number(arguments, "timeout", DEFAULT_SECONDS), workspace)


def command_line(arguments: Arguments) -> str:
    command = text(arguments, "command")
    if not command.strip():
        raise ToolError("the command is empty: say what to run")
    if "\0" in command:
        raise ToolError("the command holds a NUL character: leave it out, or let `printf '\\0'` make it")
    return command


def _run_in_background(command: str, workspace: Workspace) -> Result:
    job = workspace.jobs.add(command, _started(command, workspace, None))
    told = f"{job.id} is running; bash_output gives what it prints, bash_kill ends it"
    return Result(told, program=ProgramState(told, job=job.id, is_silent=True))


async def _run_to_its_end(command: str, seconds: int, workspace: Workspace) -> Result:
    program = _started(command, workspace, workspace.progress)
    try:
        in_time = await program.wait(seconds)
        if not in_time or program.problem:
            await program.end()
    except BaseException:
        await program.close()
        raise
    if program.is_over or not in_time:
        await program.close()
    else:
        workspace.jobs.look_after(program)
    return _told(program, None if in_time else seconds)


def _told(program: Program, timeout: int | None) -> Result:
    state = state_of(program.code or 0) if timeout is None else ProgramState(limit=timeout)
    ended = state.how if timeout is None else f"ended: {state.how}; give a longer `timeout`, or set `background`"
    others = "" if program.is_over else "what it started in the background still runs, until the session ends"
    log = PrintedLog(program.log, 0, program.kept, program.is_over, program.kept >= program.size)
    state = replace(state, told="\n".join(filter(None, (program.problem, ended, others))))
    return with_log(log, "no output", state, failed=state.code != 0 or bool(program.problem))


def with_log(log: PrintedLog, nothing: str, state: ProgramState, *, failed: bool) -> Result:
    """What was printed and what is told of it, in one text where that can be."""
    state = replace(state, is_silent=log.start == log.end)
    shown = printed(log)
    if shown is None:
        return Result(state.told, log, failed=failed, program=state)
    if log.is_finished:
        log.path.unlink(missing_ok=True)
    return Result(f"{nothing if state.is_silent else shown}\n{state.told}", failed=failed, program=state)


def _started(command: str, workspace: Workspace, heard: Callable[[str], None] | None) -> Program:
    try:
        for folder in (workspace.outputs.parent, workspace.outputs):  # parents get no mode from `mkdir`
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log = workspace.outputs / f"bash-{secrets.token_hex(4)}.txt"
        return start(argv_of(command), workspace.root, child_environment(), log, heard)
    except OSError as error:
        raise ToolError(_why_not_started(error, command, workspace.root)) from error
    except UnicodeEncodeError as error:
        raise ToolError("the command holds characters that no program takes: write them as escapes") from error


def _why_not_started(error: OSError, command: str, root: Path) -> str:
    if not root.is_dir():
        return f"the working folder `{root}` is gone: ask the user what to do"
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return f"the command is too long ({len(command)} characters): write it to a file and run that"
    return f"the command could not be started: {error}"


def printed(log: PrintedLog) -> str | None:
    """The text of a log without the line end at its end; None when that would not be all that was printed."""
    if log.end - log.start > LONGEST_PRINTED:
        return None
    with log.path.open("rb") as file:
        file.seek(log.start)
        return as_text(file.read(log.end - log.start))

"""Turns a program's output, and how it ended, into the result of a call."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools import process
from ebbtide.tools.base import LoggedOutput, Result, Workspace
from ebbtide.tools.outputs.plain_text import lossless_text, terminal_text
from ebbtide.tools.process.program import Program
from ebbtide.tools.process.shell import child_environment
from ebbtide.tools.process.state import ProgramState, program_state

if TYPE_CHECKING:  # for type checking only: few commands need the network, so it is not imported here
    from ebbtide.tools.sandbox.network import NetworkAccess

MAX_PRINTED_BYTES = 4096
"""Maximum size of output that is put into the result's text, in bytes. Longer output stays in the log."""

_TAIL_BYTES = 16_384
"""Number of bytes at the end of the output to search for failures."""


def result_with_log(log: LoggedOutput, silent_text: str, state: ProgramState, *, has_failed: bool) -> Result:
    """Build a result with the output and the program's state. They form one text if the output is short enough."""
    state = replace(state, is_silent=log.start == log.end)
    printed = printed_text(log)
    if printed is None:
        return Result(state.told, log, has_failed=has_failed, program=state)
    if log.is_finished:
        log.path.unlink(missing_ok=True)
    return Result(f"{silent_text if state.is_silent else printed}\n{state.told}", has_failed=has_failed, program=state)


def exit_result(program: Program, blocked: str, access: "NetworkAccess | None", limit: int | None) -> Result:
    """Build the result of a program that has ended. `limit`: the time limit in seconds, if the program was stopped for
    exceeding it."""
    state = program_state(program.code or 0) if limit is None else ProgramState(limit=limit)
    end_text = (
        f"{state.outcome_text}: it was ended because it kept printing" if limit is not None else state.outcome_text
    )
    leftovers_note = "" if program.is_fully_ended else "its background processes keep running until the session ends"
    log = LoggedOutput(program.log, 0, program.output.flush(), program.is_fully_ended, program.output.is_complete)
    advice = f"it ran in a sandbox, where {blocked}: do without it, or tell the user what it needs" if blocked else ""
    refusals = (f"`{host}` was not reached: {reason}" for host, reason in access.failures.items()) if access else ()
    notes = (program.output.problem, dropped_output_note(program), end_text, advice, *refusals, leftovers_note)
    state = replace(state, told="\n".join(filter(None, notes)))
    result = result_with_log(log, "no output", state, has_failed=state.code != 0 or bool(program.output.problem))
    return replace(result, sandbox_block=blocked)


def with_note(result: Result, note: str) -> Result:
    """Add a note to the result of a program."""
    if not note or result.program is None:
        return result
    program = replace(result.program, told=f"{result.program.told}\n{note}")
    return replace(result, text=f"{result.text}\n{note}", program=program)


def printed_text(log: LoggedOutput) -> str | None:
    """Return the log's text without its final newline. None if it is too long or cannot be represented as text."""
    if log.end - log.start > MAX_PRINTED_BYTES:
        return None
    with log.path.open("rb") as file:
        file.seek(log.start)
        return lossless_text(file.read(log.end - log.start))


def truncated_output(result: Result, max_bytes: int) -> str:
    """Return the first `max_bytes` bytes of an ended program's output, followed by its state. Deletes the log."""
    log = result.log
    if log is None:
        return result.text
    with log.path.open("rb") as file:
        file.seek(log.start)
        printed = terminal_text(file.read(min(log.end - log.start, max_bytes)).decode("utf-8", "replace")).removesuffix(
            "\n"
        )
    log.path.unlink(missing_ok=True)
    omitted_bytes = log.end - log.start - max_bytes
    return "\n".join((printed, *((f"[… {omitted_bytes:,} bytes more …]",) if omitted_bytes > 0 else ()), result.text))


def dropped_output_note(program: Program) -> str:
    """Build a note if output was dropped because it exceeded the limit. Empty otherwise."""
    output = program.output
    if not output.is_truncated:
        return ""
    return (
        f"it printed {output.printed_bytes:,} bytes, more than the limit of {output.max_bytes:,}: the middle was "
        "dropped"
    )


def withheld_variables_note(command: str, program: Program, workspace: Workspace) -> str:
    """Build a note about withheld environment variables that the command seems to need. Empty if there are none."""
    printed = output_tail(program) if program.code else ""
    if not any(name in command or name in printed for name in os.environ):
        return ""
    withheld = process.user_variables.withheld_variables(
        os.environ, child_environment() | workspace.environment_variables
    )
    return process.user_variables.withheld_variables_note(command, printed, withheld) if withheld else ""


def output_tail(program: Program) -> str:
    with program.log.open("rb") as log:
        log.seek(max(program.output.flush() - _TAIL_BYTES, 0))
        return log.read(_TAIL_BYTES).decode("utf-8", "replace")

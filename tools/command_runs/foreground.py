"""Runs a command line and waits for it. A command that takes too long continues as a job."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools import command_runs, sandbox
from ebbtide.tools.base import Result, ToolError
from ebbtide.tools.command_runs.denials import (
    contained_denials,
    locked_file_note,
    missing_programs_note,
    sandbox_denials,
)
from ebbtide.tools.command_runs.jobs import still_running_result, summarise_ended_job
from ebbtide.tools.command_runs.launch import (
    CommandRun,
    build_launch,
    release_access,
    removes_submodules,
    renew_access,
    start_run,
)
from ebbtide.tools.command_runs.results import exit_result, output_tail, with_note, withheld_variables_note
from ebbtide.tools.files.read_write import run_exclusive
from ebbtide.tools.process.program import Program
from ebbtide.tools.process.shell import Launch

if TYPE_CHECKING:  # for type checking only: few commands need the network, so it is not imported here
    from ebbtide.tools.sandbox.boundary import Boundary
    from ebbtide.tools.sandbox.network import NetworkAccess

_MAX_SANDBOX_TRIES = 3
"""Maximum number of attempts to set up the sandbox for a command."""


async def run_contained(run: CommandRun, seconds: int) -> Result:
    """Run a command in a sandbox that lets it only read. The result reports what was denied."""
    try:
        launched, boundary = await run_exclusive(
            lambda: command_runs.contained.launch_contained(run.line, run.folder, run.workspace)
        )
    except ToolError as error:
        return Result(f"nothing was run: {error}", has_failed=True, denied_access=str(error))
    return await _run_with_timeout(run, seconds, launched, boundary)


async def run_in_foreground(run: CommandRun, seconds: int) -> Result:
    """Run the command. If a path that the sandbox mounts disappears first, try again."""
    for remaining_tries in reversed(range(_MAX_SANDBOX_TRIES)):
        launched = await build_launch(run)
        result = await _run_with_timeout(run, seconds, launched)
        if not remaining_tries or not (launched.is_confined and result.has_failed and _did_mount_path_vanish(result)):
            break
        run = await renew_access(run)
    return result


def _did_mount_path_vanish(result: Result) -> bool:
    printed = result.program.printed_text(result.text) if result.program is not None and result.log is None else ""
    return sandbox.blocked.did_mount_path_vanish(printed, os.path.lexists)


async def _run_with_timeout(
    run: CommandRun, seconds: int, launched: Launch, contained: "Boundary | None" = None
) -> Result:
    """Run the command. If it times out, it continues as a job, and its output so far is returned. `contained`: the
    boundary of a command that can only read. Such a command leaves no processes running."""
    workspace = run.workspace
    program = start_run(run, launched, workspace.on_progress)
    try:
        in_time = await _has_finished_in_time(program, seconds, run.access)
        is_flooding = not in_time and program.output.is_truncated
        is_submodule_removal = launched.is_confined and removes_submodules(run)
        must_end_children = (is_submodule_removal or (contained is not None and in_time)) and not program.is_fully_ended
        is_ended = is_flooding or bool(program.output.problem) or must_end_children
        if is_ended:
            await program.end()
    except BaseException:
        await program.close()
        await release_access(run)
        raise
    if not in_time and not is_ended:
        job = workspace.jobs.add(run.line, program, summarise_ended_job, has_own_network=run.access is not None)
        return still_running_result(job, seconds)
    if program.is_fully_ended or is_ended:
        await program.close()
        await release_access(run)
    else:
        workspace.jobs.track_leftover(program)
    limit = seconds if is_flooding else None
    if contained is not None:
        printed = output_tail(program)
        denied = contained_denials(run, printed, program.code or 0, contained)
        result = exit_result(program, denied or locked_file_note(run, printed, contained), None, limit)
        return replace(result, blocked_by_sandbox="", denied_access=denied)
    blocked = ""
    if launched.is_confined:
        blocked = "; ".join(filter(None, (sandbox_denials(run, program), missing_programs_note(run))))
    withheld_note = withheld_variables_note(run.line, program, workspace)
    return with_note(exit_result(program, blocked, run.access, limit), withheld_note)


async def _has_finished_in_time(program: Program, seconds: float, access: "NetworkAccess | None") -> bool:
    """Whether the program ended in time. Time spent waiting for the user to decide about network access does not
    count."""
    excluded_seconds = 0.0
    while not await program.wait(seconds):
        if access is None or access.policy.answer_wait_seconds <= excluded_seconds:
            return False
        seconds, excluded_seconds = (
            max(access.policy.answer_wait_seconds - excluded_seconds, 0.05),
            access.policy.answer_wait_seconds,
        )
    return True

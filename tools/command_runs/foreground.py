"""Runs a command line and waits for it. A command that takes too long continues as a job."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools import command_runs, sandbox
from ebbtide.tools.base import Result, ToolError
from ebbtide.tools.command_runs.denials import (
    contained_denials,
    find_sandbox_denials,
    locked_file_note,
    missing_programs_note,
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
    """Run a command in a read-only sandbox. The result reports what was denied."""
    try:
        launched, boundary = await run_exclusive(
            lambda: command_runs.contained.launch_contained(run.line, run.folder, run.workspace)
        )
    except ToolError as error:
        return Result(f"nothing was run: {error}", has_failed=True, denied_access=str(error))
    return await _run_with_timeout(run, seconds, launched, boundary)


async def run_in_foreground(run: CommandRun, seconds: int) -> Result:
    """Run the command. If a path that the sandbox mounts disappears before the command starts, try again."""
    for remaining_tries in reversed(range(_MAX_SANDBOX_TRIES)):
        launched = await build_launch(run)
        result = await _run_with_timeout(run, seconds, launched)
        if not remaining_tries or not (launched.is_sandboxed and result.has_failed and _did_mount_path_vanish(result)):
            break
        run = await renew_access(run)
    return result


def _did_mount_path_vanish(result: Result) -> bool:
    output_text = result.program.printed_text(result.text) if result.program is not None and result.log is None else ""
    return sandbox.blocked.did_mount_path_vanish(output_text, os.path.lexists)


async def _run_with_timeout(
    run: CommandRun, timeout_s: int, launch: Launch, read_only_boundary: "Boundary | None" = None
) -> Result:
    """Run the command. If it times out, it continues as a job, and its output so far is returned. `read_only_boundary`:
    the boundary of a command that can only read. Such a command leaves no processes running."""
    workspace = run.workspace
    program = start_run(run, launch, workspace.on_progress)
    try:
        in_time = await _has_finished_in_time(program, timeout_s, run.access)
        is_flooding = not in_time and program.output.is_truncated
        is_submodule_removal = launch.is_sandboxed and removes_submodules(run)
        must_end_children = (
            is_submodule_removal or (read_only_boundary is not None and in_time)
        ) and not program.is_fully_ended
        must_end = is_flooding or bool(program.output.problem) or must_end_children
        if must_end:
            await program.end()
    except BaseException:
        await program.close()
        await release_access(run)
        raise
    if not in_time and not must_end:
        job = workspace.jobs.add(run.line, program, summarise_ended_job, has_own_network=run.access is not None)
        return still_running_result(job, timeout_s)
    if program.is_fully_ended or must_end:
        await program.close()
        await release_access(run)
    else:
        workspace.jobs.track_leftover(program)
    limit = timeout_s if is_flooding else None
    if read_only_boundary is not None:
        last_output = output_tail(program)
        denied = contained_denials(run, last_output, program.code or 0, read_only_boundary)
        result = exit_result(program, denied or locked_file_note(run, last_output, read_only_boundary), None, limit)
        return replace(result, sandbox_block="", denied_access=denied)
    blocked = ""
    if launch.is_sandboxed:
        blocked = "; ".join(filter(None, (find_sandbox_denials(run, program), missing_programs_note(run))))
    withheld_note = withheld_variables_note(run.line, program, workspace)
    return with_note(exit_result(program, blocked, run.access, limit), withheld_note)


async def _has_finished_in_time(program: Program, seconds: float, access: "NetworkAccess | None") -> bool:
    """Whether the program ended in time. Time spent waiting for the user to decide about network access does not
    count."""
    excluded_seconds = 0.0
    while not await program.wait(seconds):
        if access is None or access.policy.answer_wait_seconds <= excluded_seconds:
            return False
        seconds = max(access.policy.answer_wait_seconds - excluded_seconds, 0.05)
        excluded_seconds = access.policy.answer_wait_seconds
    return True

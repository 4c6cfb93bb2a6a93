"""Runs a command as `bash -c` does, and as the bash tool does."""

import asyncio
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.everyday.corpus import describe_path
from ebbtide.agent.calls.approval import ApprovalContext, ApprovalResult, Approver
from ebbtide.agent.calls.network_access import CallNetworkAccess
from ebbtide.agent.calls.permission_request import build_permission_request
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.calls.unsandboxed import retry_unsandboxed
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.sandbox import Sandbox

COMMAND_TIMEOUT_S, UNENDING_TIMEOUT_S = 120, 4
"""Timeouts in seconds for a normal command and for one that need not end by itself."""
MAX_OUTPUT_BYTES = 1 << 22
_MAX_QUIET_SECONDS = 0.3
"""Seconds without output, after the command has exited, after which no more is expected from background processes."""
_TMP_PATH = re.compile(r"/tmp/[\w.-]+")


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The result of running a command."""

    code: int | None
    """None if it did not end."""
    output: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the command left behind, with their descriptions by path."""
    tool_note: str = ""
    """The tool's note in addition to the exit code."""
    seconds: float = 0.0


def run_plain(command: str, folder: Path, seconds: float) -> CommandRun:
    """Run a command as a user's shell does, without input."""
    began = time.monotonic()
    before = _existing_tmp_paths(command, Path("/tmp"))
    process = subprocess.Popen(
        ("/bin/bash", "-c", command),
        cwd=folder,
        env=os.environ | {"PWD": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    printed, is_over = _read_output(process, began + seconds)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    _end_session(process.pid)
    left_files = _collect_tmp_files(command, Path("/tmp"), before)
    return CommandRun(code if is_over else None, _decode_output(printed), left_files, seconds=time.monotonic() - began)


def _read_output(process: "subprocess.Popen[bytes]", end: float) -> tuple[bytes, bool]:
    """Return all output, and whether the command exited in time. Background processes may keep the pipe open after it
    exits."""
    assert process.stdout is not None
    descriptor, found, exited = process.stdout.fileno(), bytearray(), False
    while time.monotonic() < end:
        ready, _, _ = select.select([descriptor], [], [], 0.01 if not exited else _MAX_QUIET_SECONDS)
        if ready:
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                exited = _wait_for_exit(process, end)
                break
            found += chunk
            if len(found) > MAX_OUTPUT_BYTES:
                break
        elif exited:
            break
        exited = exited or process.poll() is not None
    process.stdout.close()
    return bytes(found), exited


def _wait_for_exit(process: "subprocess.Popen[bytes]", end: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(end - time.monotonic(), 0))
    return process.returncode is not None


def _end_session(leader: int) -> None:
    """Kill the processes that a shell's job groups left running."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ValueError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(name), signal.SIGKILL)


def run_by_tool(
    command: str, folder: Path, home: Path, seconds: float, session_folder: Path, *, sandboxed: bool
) -> CommandRun:
    """Run a command as the first call of a session without a user to ask. `session_folder`: a folder for the session's
    files."""
    shutil.rmtree(session_folder, ignore_errors=True)
    tmp = session_folder / "outputs" / "tmp" if sandboxed else Path("/tmp")
    before, began = _existing_tmp_paths(command, tmp), time.monotonic()
    ran = asyncio.run(
        _run_by_tool(command, folder.resolve(), home, seconds, session_folder / "outputs", sandboxed=sandboxed)
    )
    return replace(ran, files=_collect_tmp_files(command, tmp, before), seconds=time.monotonic() - began)


async def _run_by_tool(
    command: str, root: Path, home: Path, seconds: float, outputs: Path, *, sandboxed: bool
) -> CommandRun:
    network = SessionNetwork()
    sandbox = None
    if sandboxed:
        program_folders = (home / ".config" / "ebbtide", home / ".local" / "share" / "ebbtide")
        sandbox = Sandbox(
            root, outputs / "tmp", [], program_folders, (root, outputs), has_network=False, network=network
        )
    approval, events = Approver(Policy(str(root), "auto")), list[Event]()
    call = ToolCall("call", "bash", {"command": command, "timeout": max(int(seconds), 1)})
    reach = CallNetworkAccess(call, approval, events.append)
    workspace = Workspace(root, outputs, sandbox=sandbox, network_policy=reach)
    try:
        result = await Bash().run(call.arguments, workspace)
        asked = build_permission_request(Bash(), call.arguments, workspace, "auto")
        context = ApprovalContext({}, workspace, approval, Interrupt(), events.append)
        return _command_run(
            await retry_unsandboxed(ApprovalResult(call, Bash(), asked), result, context, _refuse_unsandboxed) or result
        )
    except ToolError as error:
        return CommandRun(None, "", tool_note=f"refused: {error}")
    finally:
        await workspace.jobs.close()
        await network.close()


async def _refuse_unsandboxed() -> Result | None:
    raise AssertionError("nobody was asked whether it runs outside")


def _command_run(result: Result) -> CommandRun:
    program = result.program
    assert program is not None
    if program.is_running:
        return CommandRun(None, result.text, tool_note=program.told)
    code = program.code if program.code is not None else -(program.signal or 0)
    note = program.told.replace(program.outcome_text, "", 1).strip()
    if result.log is None:
        return CommandRun(code, program.printed_text(result.text), tool_note=note)
    with result.log.path.open("rb") as log:
        log.seek(result.log.start)
        return CommandRun(code, _decode_output(log.read(result.log.end - result.log.start)), tool_note=note)


def _decode_output(printed: bytes) -> str:
    return printed.decode("utf-8", "surrogateescape").removesuffix("\n")


def _existing_tmp_paths(command: str, tmp: Path) -> frozenset[str]:
    return frozenset(path for path in _TMP_PATH.findall(command) if os.path.lexists(_path_in_tmp(path, tmp)))


def _collect_tmp_files(command: str, tmp: Path, before: frozenset[str]) -> dict[str, str]:
    """Return the files that the command left in /tmp at paths named in it, and remove them."""
    found = dict[str, str]()
    for path in dict.fromkeys(_TMP_PATH.findall(command)):
        target = _path_in_tmp(path, tmp)
        if path not in before and os.path.lexists(target):
            found[path] = describe_path(target)
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
    return found


def _path_in_tmp(path: str, tmp: Path) -> Path:
    return tmp / path.removeprefix("/tmp/")

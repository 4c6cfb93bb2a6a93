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
from ebbtide.agent.calls.approval import ApprovalContext, Approver, Permit
from ebbtide.agent.calls.permission_request import request_for
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.calls.reach import CallReach
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
_QUIET_SECONDS = 0.3
"""Seconds without output after which no more is expected from background processes."""
_BELOW_TMP = re.compile(r"/tmp/[\w.-]+")


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The result of running a command."""

    code: int | None
    """None if it did not end."""
    output: str
    files: Mapping[str, str] = field(default_factory=dict)
    """What it left behind, by path."""
    tool_note: str = ""
    """The tool's note in addition to the exit code."""
    seconds: float = 0.0


def run_plain(command: str, folder: Path, seconds: float) -> CommandRun:
    """Run a command as a user's shell does, without input."""
    began = time.monotonic()
    before = _names_below_tmp(command, Path("/tmp"))
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
    left = _collect_tmp_files(command, Path("/tmp"), before)
    return CommandRun(code if is_over else None, _text(printed), left, seconds=time.monotonic() - began)


def _read_output(process: "subprocess.Popen[bytes]", end: float) -> tuple[bytes, bool]:
    """Return all output, and whether the command exited in time. Background processes may keep the pipe open."""
    assert process.stdout is not None
    descriptor, found, exited = process.stdout.fileno(), bytearray(), False
    while time.monotonic() < end:
        ready, _, _ = select.select([descriptor], [], [], 0.01 if not exited else _QUIET_SECONDS)
        if ready:
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                exited = _exits(process, end)
                break
            found += chunk
            if len(found) > MAX_OUTPUT_BYTES:
                break
        elif exited:
            break
        exited = exited or process.poll() is not None
    process.stdout.close()
    return bytes(found), exited


def _exits(process: "subprocess.Popen[bytes]", end: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(end - time.monotonic(), 0))
    return process.returncode is not None


def _end_session(leader: int) -> None:
    """Kill what a shell's job groups left behind."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ValueError):
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(name), signal.SIGKILL)


def run_by_tool(command: str, folder: Path, home: Path, seconds: float, own: Path, *, sandboxed: bool) -> CommandRun:
    """Run a command as the first one of a session that asks nobody. `own` is a folder for the session's files."""
    shutil.rmtree(own, ignore_errors=True)
    tmp = own / "outputs" / "tmp" if sandboxed else Path("/tmp")
    before, began = _names_below_tmp(command, tmp), time.monotonic()
    ran = asyncio.run(_run_by_tool(command, folder.resolve(), home, seconds, own / "outputs", sandboxed=sandboxed))
    return replace(ran, files=_collect_tmp_files(command, tmp, before), seconds=time.monotonic() - began)


async def _run_by_tool(
    command: str, root: Path, home: Path, seconds: float, outputs: Path, *, sandboxed: bool
) -> CommandRun:
    network = SessionNetwork()
    sandbox = None
    if sandboxed:
        ours = (home / ".config" / "ebbtide", home / ".local" / "share" / "ebbtide")
        sandbox = Sandbox(root, outputs / "tmp", [], ours, (root, outputs), has_network=False, network=network)
    approval, heard = Approver(Policy(str(root), "auto")), list[Event]()
    call = ToolCall("call", "bash", {"command": command, "timeout": max(int(seconds), 1)})
    reach = CallReach(call, approval, heard.append)
    workspace = Workspace(root, outputs, sandbox=sandbox, reach=reach)
    try:
        result = await Bash().run(call.arguments, workspace)
        asked = request_for(Bash(), call.arguments, workspace, "auto")
        context = ApprovalContext({}, workspace, approval, Interrupt(), heard.append)
        return _ran(await retry_unsandboxed(Permit(call, Bash(), asked), result, context, _never) or result)
    except ToolError as error:
        return CommandRun(None, "", tool_note=f"refused: {error}")
    finally:
        await workspace.jobs.close()
        await network.close()


async def _never() -> Result | None:
    raise AssertionError("nobody was asked whether it runs outside")


def _ran(result: Result) -> CommandRun:
    program = result.program
    assert program is not None
    if program.is_running:
        return CommandRun(None, result.text, tool_note=program.told)
    code = program.code if program.code is not None else -(program.signal or 0)
    told = program.told.replace(program.how, "", 1).strip()
    if result.log is None:
        return CommandRun(code, program.printed_in(result.text), tool_note=told)
    with result.log.path.open("rb") as log:
        log.seek(result.log.start)
        return CommandRun(code, _text(log.read(result.log.end - result.log.start)), tool_note=told)


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "surrogateescape").removesuffix("\n")


def _names_below_tmp(command: str, tmp: Path) -> frozenset[str]:
    return frozenset(path for path in _BELOW_TMP.findall(command) if os.path.lexists(_inside(path, tmp)))


def _collect_tmp_files(command: str, tmp: Path, before: frozenset[str]) -> dict[str, str]:
    """Return and remove what the command left in /tmp at paths that it names."""
    left = dict[str, str]()
    for path in dict.fromkeys(_BELOW_TMP.findall(command)):
        place = _inside(path, tmp)
        if path not in before and os.path.lexists(place):
            left[path] = describe_path(place)
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    return left


def _inside(path: str, tmp: Path) -> Path:
    return tmp / path.removeprefix("/tmp/")

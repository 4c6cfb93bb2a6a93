"""Measures what a command in the sandbox costs: the shell tool with and without sandbox, and bubblewrap by itself, in
turns, so that other load affects all of them.

    python -m bench.sandbox [ROUNDS]

By itself, bubblewrap shows the whole file system, makes one folder writable and hides nothing. The rest of the price is
what the sandbox hides and protects, each of which takes a mount, and the shell tool's own work."""

import asyncio
import ctypes
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from bench.measure import format_row
from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.process.orphans import reap_orphans
from ebbtide.tools.sandbox.bubblewrap import UNSHARE_FLAGS
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import SandboxProgram, detect_sandbox, sandbox_kind

MAX_OVERHEAD_MS = 20.0
"""Limit for the median overhead in milliseconds."""
COMMANDS_PER_ROUND = 10
PLAIN_BWRAP = "bwrap alone"
_SETTLE_S = 0.05
"""Seconds after which the last processes of a command have ended and count."""
_PR_SET_CHILD_SUBREAPER = 36

RunCommand: TypeAlias = Callable[[], Awaitable[object]]


async def measure_costs(folder: Path, rounds: int) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Return the elapsed and processor time of a command in milliseconds, by the way of running it and by round."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # so that every process of a command counts
    work = folder / "work"
    work.mkdir()
    plain = Workspace(work, folder / "outputs")
    sandboxed = Workspace(work, folder / "outputs", sandbox=Sandbox(work, folder / "tmp"))
    run_command: dict[str, RunCommand] = {
        "without a sandbox": partial(Bash().run, {"command": "true"}, plain),
        f"with {sandbox_kind()}": partial(Bash().run, {"command": "true"}, sandboxed),
    }
    if isinstance(program := detect_sandbox(), SandboxProgram) and program.kind == "bubblewrap":
        run_command[PLAIN_BWRAP] = partial(asyncio.to_thread, run_plain_bwrap, program.argv[0], work)
    for run in run_command.values():
        await measure_round(run)
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in run_command}
    for _ in range(rounds):
        for name, run in run_command.items():
            costs[name].append(await measure_round(run))
    for workspace in (plain, sandboxed):
        await workspace.jobs.close()
    return costs


def run_plain_bwrap(bwrap: str, folder: Path) -> None:
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", folder, folder)
    command = (bwrap, *UNSHARE_FLAGS, *mounts, "--chdir", folder, "--", "/bin/bash", "-c", "true")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.wait() == 0
        reap_orphans(process.pid)


async def measure_round(run: RunCommand) -> tuple[float, float]:
    """Return the mean elapsed and processor time of a few commands, in milliseconds."""
    began, cpu_before = time.perf_counter(), _cpu_seconds()
    for _ in range(COMMANDS_PER_ROUND):
        await run()
    elapsed = time.perf_counter() - began
    await asyncio.sleep(_SETTLE_S)
    return 1000 * elapsed / COMMANDS_PER_ROUND, 1000 * (_cpu_seconds() - cpu_before) / COMMANDS_PER_ROUND


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def cpu_ratio(costs: Mapping[str, Sequence[tuple[float, float]]]) -> float:
    """Return the processor time of a sandboxed command relative to bubblewrap by itself."""
    pairs = zip(costs[f"with {sandbox_kind()}"], costs[PLAIN_BWRAP], strict=True)
    return statistics.median(sandboxed[1] / plain[1] for sandboxed, plain in pairs)


def measure_cpu_ratio(rounds: int) -> float:
    """Measure the processor time of a sandboxed command relative to bubblewrap by itself."""
    return cpu_ratio(_measure_in_new_folder(rounds))


def _measure_in_new_folder(rounds: int) -> Mapping[str, Sequence[tuple[float, float]]]:
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        return asyncio.run(measure_costs(Path(name).resolve(), rounds))


def main(arguments: list[str]) -> int:
    costs = _measure_in_new_folder(int(arguments[0]) if arguments else 10)
    for name, by_round in costs.items():
        cpu = statistics.median(each[1] for each in by_round)
        print(format_row(name, [each[0] for each in by_round], "ms"), f"  processor {cpu:.1f} ms")
    pairs = zip(costs[f"with {sandbox_kind()}"], costs["without a sandbox"], strict=True)
    print(format_row("more", [sandboxed[0] - bare[0] for sandboxed, bare in pairs], "ms", MAX_OVERHEAD_MS))
    if PLAIN_BWRAP in costs:
        print(f"processor time beside bwrap alone: {cpu_ratio(costs):.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

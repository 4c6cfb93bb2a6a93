"""Measures the sandbox overhead of a command: the shell tool with and without sandbox, alternating, so that other load
affects both.

    python -m bench.sandbox [TIMES]"""

import asyncio
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import format_row
from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import sandbox_kind

MAX_OVERHEAD_MS = 20.0
"""Limit for the median overhead in milliseconds."""


async def time_command(workspace: Workspace) -> tuple[float, float]:
    """Return the elapsed and processor time of a command, in milliseconds."""
    began, before = time.perf_counter(), _cpu_seconds()
    await Bash().run({"command": "true"}, workspace)
    return (time.perf_counter() - began) * 1000, (_cpu_seconds() - before) * 1000


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


async def measure_overhead(folder: Path, times: int) -> None:
    plain = Workspace(folder / "work", folder / "outputs")
    sandboxed_workspace = Workspace(
        folder / "work", folder / "outputs", sandbox=Sandbox(folder / "work", folder / "tmp")
    )
    for workspace in (plain, sandboxed_workspace):
        await time_command(workspace)
    pairs = [(await time_command(plain), await time_command(sandboxed_workspace)) for _ in range(times)]
    for workspace in (plain, sandboxed_workspace):
        await workspace.jobs.close()
    print(format_row("without a sandbox", [bare[0] for bare, _ in pairs], "ms"))
    print(format_row(f"with {sandbox_kind()}", [sandboxed[0] for _, sandboxed in pairs], "ms"))
    extra_cpu_ms = statistics.median(sandboxed[1] - bare[1] for bare, sandboxed in pairs)
    overheads = [sandboxed[0] - bare[0] for bare, sandboxed in pairs]
    print(format_row("more", overheads, "ms", MAX_OVERHEAD_MS), f"  processor {extra_cpu_ms:.1f} ms")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name).resolve()
        (folder / "work").mkdir()
        asyncio.run(measure_overhead(folder, int(arguments[0]) if arguments else 50))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

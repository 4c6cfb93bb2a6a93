"""Measures the overhead of a batch compared with its runs: `python -m bench.batch [TASKS]`.

Each task uses a scripted model that reads a file and answers. The baseline is the same sessions, run one after another
in one process through the Python API. A few separate `ebb -p` processes are measured as well. All times are processor
time, so that other load does not affect them.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ebbtide import Agent

SEPARATE_PROCESSES = 30
"""Number of `ebb -p` processes measured."""


def main(tasks: int = 1000) -> None:
    with tempfile.TemporaryDirectory(prefix="ebb-batch-") as name:
        folder = Path(name)
        (folder / "project").mkdir()
        (folder / "project" / "a.txt").write_text("one\n" * 50)
        reads = {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
        (folder / "script.json").write_text(json.dumps({"reply": [reads, {"text": "Done."}]}))
        lines = "".join(f'{{"id": {number}, "prompt": "read it"}}\n' for number in range(tasks))
        (folder / "tasks.jsonl").write_text(lines)
        seconds_per_process = _cpu_seconds_of(folder, ["-p", "read it"], SEPARATE_PROCESSES) / SEPARATE_PROCESSES
        in_process_seconds = _in_process_seconds(folder, tasks)
        print(
            f"{tasks:,} runs, one after the other in a process: {in_process_seconds:.1f} s "
            f"({1000 * in_process_seconds / tasks:.1f} ms each)",
            flush=True,
        )
        for jobs in (1, 2, 8):
            began = time.perf_counter()
            output = folder / f"results{jobs}.jsonl"
            flags = ["--jobs", str(jobs), "-o", str(output)]
            took = _cpu_seconds_of(folder, ["batch", str(folder / "tasks.jsonl"), *flags], 1)
            wall = time.perf_counter() - began
            done = output.read_text().count('"stop_reason": "answered"')
            comparison = f"{took / in_process_seconds - 1:+.0%} beside that, {wall:.1f} s on the clock"
            print(f"batch, {jobs} at a time: {took:.1f} s, {comparison}; {done:,} answered", flush=True)
        print(f"`ebb -p`: {1000 * seconds_per_process:.0f} ms each, {tasks * seconds_per_process:.0f} s for {tasks:,}")


def _environment(folder: Path, home: str) -> Mapping[str, str]:
    variables = {
        "PATH": os.environ["PATH"],
        "EBB_HOME": str(folder / home),
        "EBB_SANDBOX": "off",
        "EBB_LSP_ENABLED": "false",
    }
    return {**variables, "EBB_MODEL": f"scripted/{folder / 'script.json'}"}


def _cpu_seconds_of(folder: Path, arguments: list[str], times: int) -> float:
    """Return the processor time in seconds of a command that runs `times` times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", *arguments, "-C", str(folder / "project")]
    env = {**_environment(folder, "home"), "PYTHONPATH": str(Path.cwd())}
    for _ in range(times):
        subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _in_process_seconds(folder: Path, tasks: int) -> float:
    async def run() -> None:
        for _ in range(tasks):
            async with Agent(root=folder / "project", environment=_environment(folder, "alone")) as agent:
                assert (await agent.ask("read it")).stop_reason == "answered"

    began = time.process_time()
    asyncio.run(run())
    return time.process_time() - began


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

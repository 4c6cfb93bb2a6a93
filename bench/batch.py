"""Measures the overhead of a batch over its runs: `python -m bench.batch [TASKS]`.

Each task uses a scripted model that reads a file and answers. The baseline runs the same sessions sequentially in one
process through the Python API; a few separate `ebb -p` processes are measured as well. Times are processor time, to be
independent of other load."""

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

ALONE = 30
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
        of_one = _seconds_of(folder, ["-p", "read it"], ALONE) / ALONE
        runs = _in_process(folder, tasks)
        print(
            f"{tasks:,} runs, one after the other in a process: {runs:.1f} s ({1000 * runs / tasks:.1f} ms each)",
            flush=True,
        )
        for jobs in (1, 2, 8):
            began = time.perf_counter()
            output = folder / f"results{jobs}.jsonl"
            flags = ["--jobs", str(jobs), "-o", str(output)]
            took = _seconds_of(folder, ["batch", str(folder / "tasks.jsonl"), *flags], 1)
            wall = time.perf_counter() - began
            done = output.read_text().count('"stop_reason": "answered"')
            beside = f"{took / runs - 1:+.0%} beside that, {wall:.1f} s on the clock"
            print(f"batch, {jobs} at a time: {took:.1f} s, {beside}; {done:,} answered", flush=True)
        print(f"`ebb -p`: {1000 * of_one:.0f} ms each, {tasks * of_one:.0f} s for {tasks:,}")


def _environment(folder: Path, home: str) -> Mapping[str, str]:
    kept = {
        "PATH": os.environ["PATH"],
        "EBB_HOME": str(folder / home),
        "EBB_SANDBOX": "off",
        "EBB_LSP_ENABLED": "false",
    }
    return {**kept, "EBB_MODEL": f"scripted/{folder / 'script.json'}"}


def _seconds_of(folder: Path, arguments: list[str], times: int) -> float:
    """Processor time of commands that run sequentially."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", *arguments, "-C", str(folder / "project")]
    env = {**_environment(folder, "home"), "PYTHONPATH": str(Path.cwd())}
    for _ in range(times):
        subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _in_process(folder: Path, tasks: int) -> float:
    async def run() -> None:
        for _ in range(tasks):
            async with Agent(root=folder / "project", environment=_environment(folder, "alone")) as agent:
                assert (await agent.ask("read it")).stop_reason == "answered"

    began = time.process_time()
    asyncio.run(run())
    return time.process_time() - began


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Measures what a large tree costs: a command in it, `glob`, and completing a path after `@`.

    python -m bench.trees [FILES]

Processor times, because other programs hardly affect them. Those of `glob` and `@` include ripgrep, and are compared
with `rg --files` alone."""

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from bench.measure import compile_sources, format_row
from bench.steps import measure_ebb
from ebbtide.tools.base import Workspace
from ebbtide.tools.glob import Glob
from ebbtide.tui.prompt.files import ProjectFiles

FILES_PER_FOLDER, FOLDERS_PER_PART = 50, 40
STEP_COUNT = 12
UNCOUNTED_STEPS = 3
"""Number of steps that are not counted: the first command of a turn reads all files, and the second watches them."""
RUNS = 5
MAX_COMMAND_MS = 20.0
"""Limit for what a command costs more than in an empty folder, in milliseconds."""
MAX_GLOB_RATIO = 1.5
"""Limit for a `glob` that few files match, relative to `rg --files`."""


def make_tree(root: Path, files: int) -> None:
    """Create a repository with small files."""
    for number in range(files):
        at = number // FILES_PER_FOLDER
        folder = root / f"part{at // FOLDERS_PER_PART:03}" / f"module{at:05}"
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number:06}.py").write_text(f"{number}\n")
    subprocess.run(["git", "init", "-q", root], check=True)


def command_times(folder: Path | None) -> list[float]:
    """Return the processor time of each step with one `echo`, in milliseconds."""
    return list(measure_ebb(STEP_COUNT, folder=folder).cpu[UNCOUNTED_STEPS:])


def command_ratio(files: int) -> tuple[float, str]:
    """Return how much more a command costs in a tree than in an empty folder, and a description of it."""
    with tempfile.TemporaryDirectory() as name:
        make_tree(Path(name), files)
        inside, outside = statistics.median(command_times(Path(name))), statistics.median(command_times(None))
    return inside / outside, f"{inside:.1f} ms of processor time, in an empty folder {outside:.1f} ms"


def processor_time() -> float:
    """Return the processor time of this process and its ended children, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def run_times(work: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the processor time of each run of `work`, in seconds, without the first run, which loads modules."""
    times = []
    for _ in range(RUNS + 1):
        began = processor_time()
        await work()
        times.append(processor_time() - began)
    return times[1:]


async def print_listings(root: Path) -> None:
    workspace = Workspace(root, root.parent / "outputs")

    async def list_alone() -> None:
        await asyncio.to_thread(subprocess.run, ["rg", "--files"], cwd=root, stdout=subprocess.DEVNULL, check=True)

    async def complete_path() -> None:
        files = ProjectFiles(root)
        async for _ in files.find_matches("file01"):
            pass
        await files.close()

    alone = await run_times(list_alone)
    print(format_row("`rg --files`", alone, "s"))
    for name, pattern, limit in (
        ("`glob`, few files match", "file0001*.py", MAX_GLOB_RATIO * statistics.median(alone)),
        ("`glob`, all files match", "**/*.py", None),
    ):
        times = await run_times(partial(Glob().run, {"pattern": pattern}, workspace))
        print(format_row(name, times, "s", limit))
    print(format_row("a path after `@`, without drawing", await run_times(complete_path), "s"))


def main(arguments: Sequence[str]) -> int:
    compile_sources()
    files = int(arguments[0]) if arguments else 50_000
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "tree"
        root.mkdir()
        make_tree(root, files)
        outside = statistics.median(command_times(None))
        inside = command_times(root)
        print(format_row(f"command, in an empty folder {outside:.1f} ms", inside, "ms", outside + MAX_COMMAND_MS))
        asyncio.run(print_listings(root))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

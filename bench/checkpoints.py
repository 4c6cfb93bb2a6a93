"""Measures checkpoints of a large folder: the first, later ones after ten changed files, and the disk space of a
thousand.

    python -m bench.checkpoints [FILES [POINTS]]

The folder contains copies of this machine's Python sources, each made unique, fifty per folder. It is read once first,
so that it is in the page cache."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import format_row
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.undo_points import TurnKey
from ebbtide.agent.checkpoints.unread_files import ScanLimits

SCAN_LIMITS = ScanLimits(max_files=100_000, max_file_bytes=10_000_000, max_total_bytes=2_000_000_000)
CHANGED_FILES_PER_TURN = 10
"""Files changed in each turn."""
FILES_PER_FOLDER = 50
MAX_SOURCE_BYTES = 30_000
"""Maximum size of a source file."""
MAX_FIRST_S, MAX_LATER_S, MAX_DISK_MB = 5.0, 0.150, 200.0
"""Limits for the first checkpoint and for later ones, in seconds, and for disk space, in megabytes."""


def python_sources() -> Iterator[bytes]:
    """Yield Python sources of this machine, repeatedly."""
    paths = [
        path
        for top in dict.fromkeys((sys.base_prefix, sys.prefix))
        for path in sorted(Path(top).rglob("*.py"))
        if 0 < path.stat().st_size <= MAX_SOURCE_BYTES
    ]
    while True:
        yield from (path.read_bytes() for path in paths)


def make_tree(root: Path, files: int) -> int:
    """Create files with unique contents; return their total size."""
    total_bytes = 0
    for number, text in zip(range(files), python_sources(), strict=False):
        at = number // FILES_PER_FOLDER
        folder = root / f"part{at // 40:03}" / f"module{at:05}"
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir(parents=True)
        content = b"# %d\n%s" % (number, text)
        (folder / f"file{number:06}.py").write_bytes(content)
        total_bytes += len(content)
    return total_bytes


def append_to_files(root: Path, turn: int, files: int) -> None:
    """Append a line to each of ten files, as an agent's edits would."""
    for each in range(CHANGED_FILES_PER_TURN):
        number = (turn * 7_919 + each * 4_999) % files
        at = number // FILES_PER_FOLDER
        path = root / f"part{at // 40:03}" / f"module{at:05}" / f"file{number:06}.py"
        with path.open("ab") as file:
            file.write(b"TURN_%d_%d = %d\n" % (turn, each, turn * each))


def disk_megabytes(folder: Path) -> float:
    """Return the disk space of a folder's files in megabytes."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6


def main(arguments: list[str]) -> int:
    files, points = (int(one) for one in (arguments + ["50000", "1000"][len(arguments) :])[:2])
    load = f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        root, data = Path(folder) / "work", Path(folder) / "data"
        total_bytes = make_tree(root, files)
        began = time.perf_counter()
        subprocess.run(["tar", "-cf", "-", str(root)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        print(
            f"{files:,} files, {total_bytes / 1e6:,.0f} MB, read by tar in "
            f"{time.perf_counter() - began:.1f} s, load {load}"
        )
        time.sleep(2.2)  # recently modified files are read again, unlike in real projects
        project = ProjectCheckpoints(data, root, SCAN_LIMITS, SCAN_LIMITS.max_total_bytes)
        began, cpu = time.perf_counter(), time.process_time()
        assert project.begin_command(TurnKey("s", 0, "first"), in_job=False, is_cancelled=lambda: False) == ""
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(
            format_row("the first", [seconds], "s", MAX_FIRST_S),
            f"  processor {cpu:.1f} s, {disk_megabytes(data):.0f} MB on the disk",
        )
        later, cpu_times = [], []
        for turn in range(1, points + 1):
            place = TurnKey("s", turn, f"turn {turn}")
            assert project.begin_command(place, in_job=False, is_cancelled=lambda: False) == ""
            append_to_files(root, turn, files)
            began, cpu = time.perf_counter(), time.process_time()
            assert project.end_command(place) == ""
            later.append(time.perf_counter() - began)
            cpu_times.append(time.process_time() - cpu)
            project.finish_turn(place)
        print(
            format_row(f"later, {CHANGED_FILES_PER_TURN} files changed", later, "s", MAX_LATER_S),
            f"  processor {statistics.median(cpu_times):.3f} s",
        )
        print(format_row(f"{points:,} points, before it is closed", [disk_megabytes(data)], "MB", MAX_DISK_MB))
        project.close()
        print(format_row(f"{points:,} points, closed", [disk_megabytes(data)], "MB", MAX_DISK_MB))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

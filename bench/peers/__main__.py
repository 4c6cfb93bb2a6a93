"""Measures `ebb` and other installed agents side by side, with a scripted model server on loopback.

    python -m bench.peers [--programs FOLDER] [--runs 7] [ROW …]

Programs are measured in turn, so that other load affects all of them alike; the first round is discarded. Values are
medians, and a ratio is ours relative to the best peer's. Rows that take long are measured only if they are named."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import compile_sources
from bench.peers import headless_rows, terminal_rows
from bench.peers.listing import measure_listing
from bench.peers.places import Folders
from bench.peers.processes import MeasurementError, adopt_orphans, end_descendants
from bench.peers.programs import Installed, find_programs, search_path, variants_of
from bench.peers.row import OUTSIDE, Row
from bench.peers.tables import Table, format_table

ROWS = (*terminal_rows.ROWS, *headless_rows.ROWS)
LISTING = "listing"


def main() -> int:
    arguments = _parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a stopped comparison ends all programs, too
    adopt_orphans()
    compile_sources()
    found, missing = find_programs(arguments.programs)
    for name in missing:
        print(f"{name}: not installed, skipped")
    base = Path(tempfile.mkdtemp(prefix="ebb-peers-", dir=_cache_folder()))
    try:
        for installed in found:
            print(f"{installed.name}: {_version(installed, base)}", flush=True)
        _measure_rows(Folders(base.resolve()), found, arguments)
    finally:
        end_descendants()
        shutil.rmtree(base, ignore_errors=True)
    for name, hosts in OUTSIDE.items():
        if hosts:
            print(f"{name} asked for {', '.join(sorted(hosts))}: refused")
    return 0


def measure_row(row: Row, folders: Folders, programs: Sequence[Installed], runs: int) -> Table:
    """Measure a row for all programs, in turn. A program that cannot be measured is left out of later rounds."""
    values: dict[str, dict[str, list[float]]] = {installed.name: {} for installed in programs}
    failures: dict[str, str] = {}
    for number in range(min(runs, row.max_runs) + (not row.is_slow)):
        for installed in programs:
            if installed.name in failures:
                continue
            try:
                measured = row.measure(folders, installed)
            except MeasurementError as error:
                failures[installed.name] = str(error)
                values[installed.name] = {}
                continue
            if number or row.is_slow:  # the first round warms caches and is discarded
                for key, value in measured.items():
                    values[installed.name].setdefault(key, []).append(value)
    return Table(row.title, row.metrics, values, failures, os.getloadavg()[0])


def _measure_rows(folders: Folders, found: Sequence[Installed], arguments: argparse.Namespace) -> None:
    for row in ROWS:
        if row.name in arguments.rows or (not arguments.rows and not row.is_slow):
            programs = [*found, *(variants_of(found) if row.with_variants else ())]
            print(f"\n{format_table(measure_row(row, folders, programs, arguments.runs))}", flush=True)
    if LISTING in arguments.rows or not arguments.rows:
        print(f"\n{format_table(measure_listing(folders, arguments.runs, os.getloadavg()[0]))}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--programs", type=Path, metavar="FOLDER", help="folder of the other programs, in addition to PATH"
    )
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="runs of each program (default: 7)")
    names = [*(row.name for row in ROWS), LISTING]
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows to measure: {', '.join(names)}")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.rows if name not in names]:
        parser.error(f"no such row: {', '.join(unknown)} (rows: {', '.join(names)})")
    return arguments


def _version(installed: Installed, home: Path) -> str:
    env = {**os.environ, "PATH": search_path(installed), "HOME": str(home)}
    done = subprocess.run(
        [installed.path, "--version"], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    return (done.stdout.strip() or done.stderr.strip()).partition("\n")[0]


def _cache_folder() -> Path:
    folder = Path.home() / ".cache"
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())

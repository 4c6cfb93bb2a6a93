"""See `bench.everyday`."""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import bench.everyday
from bench.everyday.corpus import CommandRow, read_rows, restore_folders
from bench.everyday.setups import SETUPS, Setup, plain_setup
from bench.everyday.worker import RowOutcome
from bench.measure import ROOT


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m bench.everyday", description=bench.everyday.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="ids; default: all")
    parser.add_argument("--places", type=Path, default=Path("/home/everyday"))
    parser.add_argument("--as", dest="setups", default="plain", help=f"all, or some of {', '.join(SETUPS)}")
    options = parser.parse_args(arguments)
    rows = {row.id: row for row in read_rows(options.folder)}
    names = tuple(SETUPS) if options.setups == "all" else options.setups.split(",")
    faults = sum(_measure_setup(name, options.folder.resolve(), options.places, options.rows, rows) for name in names)
    return int(bool(faults))


def _measure_setup(name: str, folder: Path, places: Path, row_ids: Sequence[str], rows: dict[str, CommandRow]) -> int:
    """Print the outcomes in one setup, and return the number of faults."""
    restore_folders(places)
    began, found = time.monotonic(), list[RowOutcome]()
    for outcome in outcomes_in(SETUPS[name](plain_setup(places)), folder, row_ids):
        found.append(outcome)
        if outcome.verdict != "same":
            how = "sandbox" if outcome.sandboxed else "no sandbox"
            print(
                f"{outcome.verdict:5}  {outcome.row:>4}  {how}: {rows[outcome.row].command!r}: {outcome.why}",
                flush=True,
            )
    for sandboxed in (True, False):
        counted = Counter(each.verdict for each in found if each.sandboxed == sandboxed)
        how = "with the sandbox" if sandboxed else "without it"
        print(f"{name}, {how}: " + ", ".join(f"{counted[each]} {each}" for each in ("same", "meant", "fault")))
    print(f"{name}: {time.monotonic() - began:.0f} s")
    return sum(each.verdict == "fault" for each in found)


def outcomes_in(setup: Setup, folder: Path, row_ids: Sequence[str]) -> Iterator[RowOutcome]:
    """Yield the outcomes of the wanted rows, or of all, in a setup."""
    with subprocess.Popen(
        (sys.executable, "-m", "bench.everyday.worker", str(folder), str(setup.base), *row_ids),
        cwd=ROOT,
        env=dict(setup.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        umask=setup.umask,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            yield RowOutcome(**json.loads(line))
    if worker.returncode:
        raise SystemExit(f"the worker ended with exit code {worker.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

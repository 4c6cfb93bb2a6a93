"""Damages a home folder in many ways, runs commands in it, and reports how they behave: `python -m bench.damages 200`.
A fault is a command that ends with a traceback, without output or with an unknown exit code, or that loses readable
rows."""

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.kit.damages import Seen, Whole, made, tried


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--share", type=int, default=1, help="run one in this many commands after each damage")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ebb-damages-") as folder:
        homes = SimpleQueue[Whole]()
        for number in range(options.jobs):
            homes.put(made(Path(folder) / f"{number}" / "home"))

        def run_seed(seed: int) -> tuple[int, str, list[Seen]]:
            whole = homes.get()
            try:
                return (seed, *tried(whole, seed, options.share))
            finally:
                homes.put(whole)

        seeds = range(options.first, options.first + options.count)
        with ThreadPoolExecutor(options.jobs) as threads:
            codes, faults = Counter[tuple[str, int]](), 0
            for seed, damage, seen in threads.map(run_seed, seeds):
                for command in seen:
                    target = damage.partition(":")[0]
                    codes[target, command.run.code] += 1
                    if command.fault:
                        faults += 1
                        failure = f"{' '.join(command.arguments)}: {command.fault}\n{command.run.err[-2000:]}"
                        print(f"seed {seed} ({damage}): {failure}", flush=True)
    for (target, code), count in sorted(codes.items()):
        print(f"{target:<16} exit {code}: {count:>5} commands")
    print(f"{options.count} damages, {sum(codes.values())} commands, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

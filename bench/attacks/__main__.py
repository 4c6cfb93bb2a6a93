"""See `bench.attacks`."""

import os
import sys
from pathlib import Path

from bench.attacks import carried_out, walls
from bench.attacks.decisions import judged, report
from bench.attacks.rows import PLACE


def main(arguments: list[str]) -> int:
    if not os.environ.get(PLACE):
        print(f"{PLACE} names no file of attacks", file=sys.stderr)
        return 2
    file = Path(os.environ[PLACE])
    if arguments[:1] != ["run"]:
        return int(report(list(judged(file))))
    if not walls.is_inside():
        return walls.again_inside(*arguments[1:])
    return int(carried_out.report(file, frozenset(arguments[1:])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""See `bench.attacks`."""

import argparse
import sys
from pathlib import Path

import bench.attacks
from bench.attacks import isolation, outcomes
from bench.attacks.decisions import judge_rows, report


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m bench.attacks", description=bench.attacks.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("what", nargs="?", choices=("decide", "run"), default="decide")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="an id or an area; default: all")
    parser.add_argument("--each", action="store_true", help="print the outcome of each row, not only of failures")
    given = parser.parse_args(arguments)
    file, wanted = given.file.resolve(), frozenset(given.rows)
    if given.what == "decide":
        return int(report(list(judge_rows(file, wanted)), each=given.each))
    if not isolation.is_inside():
        return isolation.again_inside([str(file), *arguments[1:]])
    return int(outcomes.report(file, wanted, each=given.each))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

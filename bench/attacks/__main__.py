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
    options = parser.parse_args(arguments)
    file, selected = options.file.resolve(), frozenset(options.rows)
    if options.what == "decide":
        return int(report(list(judge_rows(file, selected)), each=options.each))
    if not isolation.is_isolated():
        return isolation.run_isolated([str(file), *arguments[1:]])
    return int(outcomes.print_report(file, selected, each=options.each))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

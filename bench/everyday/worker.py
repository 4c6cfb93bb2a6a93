"""Runs rows in the environment that it is started with, and prints what became of each as a line of JSON.

python -m bench.everyday.worker FOLDER BASE [ROW…]
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.everyday.compare import differences
from bench.everyday.corpus import Places, Row, rows_of
from bench.everyday.meant import meant_by
from bench.everyday.runs import SECONDS, SECONDS_THAT_NEED_END, Ran, run_by_tool, run_plain
from tools.sandbox.places import make_caches

_MOST_TIMES = 8
"""Further runs of `bash -c` at most, to find out what varies between two runs of the same command."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a row."""

    row: str
    sandboxed: bool
    verdict: str
    """`same`, `meant` or `fault`."""
    why: str = ""
    seconds: float = 0.0
    seconds_plain: float = 0.0


def outcomes(rows: Sequence[Row], base: Path, wanted: Set[str] = frozenset()) -> Iterator[Outcome]:
    places = Places(base, {row.place for row in rows})
    for row in rows:
        if not wanted or row.id in wanted:
            yield from _outcomes_of(row, places)


def _outcomes_of(row: Row, places: Places) -> Iterator[Outcome]:
    folder, home = places.base / "w" / row.place, places.base / "home"
    os.environ["PWD"] = str(folder)  # as a shell says in which folder a program was started, over links
    seconds = SECONDS_THAT_NEED_END if row.compare == "must end" else SECONDS
    in_bash = partial(_ran, places, row, partial(run_plain, row.command, folder, seconds))
    plain, again = in_bash(), list[Ran]()
    for sandboxed in (True, False):
        by_tool = partial(
            run_by_tool, row.command, folder, home, seconds, places.base.resolve() / "own", sandboxed=sandboxed
        )
        tool = _ran(places, row, by_tool)
        found = differences(row, plain, tool)
        for number in range(_MOST_TIMES if found else 0):
            again += [in_bash()] if number == len(again) else []
            found = differences(row, plain, tool, again[number]) and differences(row, again[number], tool)
            if not found:
                break
        verdict, why = _verdict(row, tool, found)
        yield Outcome(row.id, sandboxed, verdict, why, tool.seconds, plain.seconds)


def _ran(places: Places, row: Row, run: Callable[[], Ran]) -> Ran:
    """One run, with what it left behind, after which everything is as it was."""
    ran = run()
    changed = places.changes(row.place)
    left = {path: what for path, what in changed.items() if not places.is_as_first(path, what)}
    places.reset(changed)
    return Ran(ran.code, ran.output, {**left, **ran.files}, ran.told, ran.seconds)


def _verdict(row: Row, tool: Ran, found: list[str]) -> tuple[str, str]:
    if not found:
        return "same", ""
    name, missing = meant_by(tool.told)
    if name and not missing:
        return "meant", name
    return "fault", "; ".join(filter(None, (*found, f"told: {tool.told}" if tool.told else "", missing)))


def main(arguments: list[str]) -> int:
    folder, base, *wanted = arguments
    make_caches(Path.home())  # the first session of a user does it, and no command of theirs
    for outcome in outcomes(list(rows_of(Path(folder))), Path(base), frozenset(wanted)):
        print(json.dumps(asdict(outcome)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

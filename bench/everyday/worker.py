"""Runs rows in the environment it was started with, and prints each outcome as a line of JSON.

python -m bench.everyday.worker FOLDER BASE [ROW…]"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.everyday.compare import differences
from bench.everyday.corpus import CommandFolders, Row, rows_of
from bench.everyday.expected_differences import explain_difference
from bench.everyday.runs import COMMAND_TIMEOUT_S, UNENDING_TIMEOUT_S, CommandRun, run_by_tool, run_plain
from ebbtide.tools.sandbox.mount_paths import make_caches

_MAX_RERUNS = 8
"""Maximum number of additional `bash -c` runs to find out what varies between runs."""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """The outcome of a row."""

    row: str
    sandboxed: bool
    verdict: str
    """`same`, `meant` or `fault`."""
    why: str = ""
    seconds: float = 0.0
    seconds_plain: float = 0.0


def outcomes(rows: Sequence[Row], base: Path, wanted: Set[str] = frozenset()) -> Iterator[RowOutcome]:
    places = CommandFolders(base, {row.place for row in rows})
    for row in rows:
        if not wanted or row.id in wanted:
            yield from _outcomes_of(row, places)


def _outcomes_of(row: Row, places: CommandFolders) -> Iterator[RowOutcome]:
    folder, home = places.base / "w" / row.place, places.base / "home"
    os.environ["PWD"] = str(folder)  # like a shell, which keeps links in the working directory's path
    seconds = UNENDING_TIMEOUT_S if row.compare == "must end" else COMMAND_TIMEOUT_S
    in_bash = partial(_ran, places, row, partial(run_plain, row.command, folder, seconds))
    plain, again = in_bash(), list[CommandRun]()
    for sandboxed in (True, False):
        by_tool = partial(
            run_by_tool, row.command, folder, home, seconds, places.base.resolve() / "own", sandboxed=sandboxed
        )
        tool = _ran(places, row, by_tool)
        found = differences(row, plain, tool)
        for number in range(_MAX_RERUNS if found else 0):
            again += [in_bash()] if number == len(again) else []
            found = differences(row, plain, tool, again[number]) and differences(row, again[number], tool)
            if not found:
                break
        verdict, why = _verdict(row, tool, found)
        yield RowOutcome(row.id, sandboxed, verdict, why, tool.seconds, plain.seconds)


def _ran(places: CommandFolders, row: Row, run: Callable[[], CommandRun]) -> CommandRun:
    """Run once, collect what it left behind, and restore the initial state."""
    ran = run()
    changed = places.changes(row.place)
    left = {path: what for path, what in changed.items() if not places.is_as_first(path, what)}
    places.reset(changed)
    return CommandRun(ran.code, ran.output, {**left, **ran.files}, ran.tool_note, ran.seconds)


def _verdict(row: Row, tool: CommandRun, found: list[str]) -> tuple[str, str]:
    if not found:
        return "same", ""
    name, missing = explain_difference(tool.tool_note)
    if name and not missing:
        return "meant", name
    return "fault", "; ".join(filter(None, (*found, f"told: {tool.tool_note}" if tool.tool_note else "", missing)))


def main(arguments: list[str]) -> int:
    folder, base, *wanted = arguments
    make_caches(Path.home())  # normally done by the user's first session, not by a command
    for outcome in outcomes(list(rows_of(Path(folder))), Path(base), frozenset(wanted)):
        print(json.dumps(asdict(outcome)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs rows in the environment it was started with, and prints each outcome as a line of JSON.

python -m bench.everyday.worker FOLDER BASE [ROW…]"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.everyday.compare import run_differences
from bench.everyday.corpus import CommandFolders, CommandRow, read_rows
from bench.everyday.expected_differences import explain_difference
from bench.everyday.runs import COMMAND_TIMEOUT_S, UNENDING_TIMEOUT_S, CommandRun, run_by_tool, run_plain
from ebbtide.tools.sandbox.mount_paths import create_caches

_MAX_RERUNS = 8
"""Maximum number of additional `bash -c` runs, which show what varies between runs."""


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


def outcomes(rows: Sequence[CommandRow], base: Path, wanted: Set[str] = frozenset()) -> Iterator[RowOutcome]:
    places = CommandFolders(base, {row.place for row in rows})
    for row in rows:
        if not wanted or row.id in wanted:
            yield from _row_outcomes(row, places)


def _row_outcomes(row: CommandRow, places: CommandFolders) -> Iterator[RowOutcome]:
    folder, home = places.base / "w" / row.place, places.base / "home"
    os.environ["PWD"] = str(folder)  # as in a shell, the path of the working directory keeps its links
    seconds = UNENDING_TIMEOUT_S if row.compare == "must end" else COMMAND_TIMEOUT_S
    run_in_bash = partial(_run_and_reset, places, row, partial(run_plain, row.command, folder, seconds))
    bash_run, bash_reruns = run_in_bash(), list[CommandRun]()
    for sandboxed in (True, False):
        run_with_tool = partial(
            run_by_tool, row.command, folder, home, seconds, places.base.resolve() / "own", sandboxed=sandboxed
        )
        tool_run = _run_and_reset(places, row, run_with_tool)
        found = run_differences(row, bash_run, tool_run)
        for number in range(_MAX_RERUNS if found else 0):
            bash_reruns += [run_in_bash()] if number == len(bash_reruns) else []
            found = run_differences(row, bash_run, tool_run, bash_reruns[number]) and run_differences(
                row, bash_reruns[number], tool_run
            )
            if not found:
                break
        verdict, why = _verdict(row, tool_run, found)
        yield RowOutcome(row.id, sandboxed, verdict, why, tool_run.seconds, bash_run.seconds)


def _run_and_reset(places: CommandFolders, row: CommandRow, run: Callable[[], CommandRun]) -> CommandRun:
    """Run a command, add the files that it left behind to the result, and restore the initial state."""
    ran = run()
    changed = places.changes(row.place)
    left_files = {path: what for path, what in changed.items() if not places.is_unchanged(path, what)}
    places.reset(changed)
    return CommandRun(ran.code, ran.output, {**left_files, **ran.files}, ran.tool_note, ran.seconds)


def _verdict(row: CommandRow, tool: CommandRun, found: list[str]) -> tuple[str, str]:
    if not found:
        return "same", ""
    name, missing = explain_difference(tool.tool_note)
    if name and not missing:
        return "meant", name
    return "fault", "; ".join(filter(None, (*found, f"told: {tool.tool_note}" if tool.tool_note else "", missing)))


def main(arguments: list[str]) -> int:
    folder, base, *wanted = arguments
    create_caches(Path.home())  # the user's first session normally creates them
    for outcome in outcomes(list(read_rows(Path(folder))), Path(base), frozenset(wanted)):
        print(json.dumps(asdict(outcome)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

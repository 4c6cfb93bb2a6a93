"""Runs many `ebb -p` concurrently on one store: checks that all answer, and measures how long they wait for each
other's transactions.

    python -m bench.many_runs [RUNS]

Each run reads a file and answers, so it writes four times. Waits are reported twice: by the clock, which includes other
load, and until the lock was released. How long transactions hold the lock is also reported in processor time, since an
unscheduled process holds it for longer."""

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import compile_sources, minimal_environment, percentile
from ebbtide.store import open_databases
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn

RETRY_DELAY_SECONDS = 0.0005
"""Seconds between attempts to begin a transaction; the resolution of a wait."""
MAX_WAIT_S = 0.1
"""Maximum wait in seconds."""


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        return _run_recorded(Path(sys.argv[2]), sys.argv[3:])
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    compile_sources()
    with tempfile.TemporaryDirectory(prefix="ebb-many-") as name:
        return _print_report(runs, _measure_runs(Path(name), runs))


def _scripted_answer(request: Recorded) -> Turn:
    if "tool_result" in json.dumps(request.body["messages"][-1]):
        return Turn(text="done " * 20)
    return Turn(text="I look.", calls=(Call("read", {"path": "a.txt"}),))


def _measure_runs(folder: Path, runs: int) -> Sequence[Mapping[str, Any]]:
    """Run all processes, and return what each one recorded. The store is created by a run that is not counted."""
    project = folder / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n" * 50)
    with FakeProvider([_scripted_answer] * (2 * runs + 2)) as server:
        env = minimal_environment(folder / "home", {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})

        def begin(number: int) -> "subprocess.Popen[bytes]":
            flags = ("-C", str(project), "-p", f"go {number}", "-m", "anthropic/claude-haiku-5-5", "--quiet")
            command = (sys.executable, "-m", "bench.many_runs", "--run", str(folder / f"{number}.json"), *flags)
            return subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

        begin(-1).wait()
        for process in [begin(number) for number in range(runs)]:
            process.wait()
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(runs)]


def _print_report(runs: int, records: Sequence[Mapping[str, Any]]) -> int:
    failed = sum(run["code"] != 0 for run in records)
    waits = [wait for run in records for wait in run["waits"]]
    holds = [hold for run in records for hold in run["holds"]]
    ends = sorted(end for _, end, _ in holds)
    # Count the wait until the last earlier holder released the lock, because a process may notice late that the lock is
    # free.
    true_waits = [max([end for end in ends if began <= end <= got], default=got) - began for began, got in waits]
    print(f"{runs} runs at once: {failed} failed, {len(waits)} of {len(holds)} transactions waited")
    for name, values in (
        ("waited, on the clock", [end - begin for begin, end in waits]),
        ("waited until the lock was free", true_waits),
        ("held the lock, on the clock", [end - begin for begin, end, _ in holds]),
        ("held the lock, processor time", [cpu for _, _, cpu in holds]),
    ):
        if values:
            summary = f"median {1000 * statistics.median(values):.2f}, 99 % {1000 * percentile(values, 0.99):.1f}"
            print(f"{name}: {summary}, longest {1000 * max(values):.1f} ms")
    over_limit = sum(value > MAX_WAIT_S for value in true_waits)
    print(f"over {1000 * MAX_WAIT_S:.0f} ms: {over_limit}")
    return 1 if failed else 0


def _run_recorded(place: Path, arguments: Sequence[str]) -> int:
    """Run `ebb` and record the wait and duration of each write transaction."""
    waits, holds = list[tuple[float, float]](), list[tuple[float, float, float]]()
    base, execute = open_databases.OpenDatabase, sqlite3.Connection.execute
    begun = dict[int, tuple[float, float]]()

    def execute_recorded(self: sqlite3.Connection, sql: str, values: Any = ()) -> sqlite3.Cursor:  # noqa: ANN401  # as in sqlite3
        if sql == "begin immediate":
            cursor = _begin_transaction(self, execute, waits)
            begun[id(self)] = time.monotonic(), time.thread_time()
            return cursor
        cursor = execute(self, sql, values)
        if sql in ("commit", "rollback") and id(self) in begun:
            began, cpu = begun.pop(id(self))
            holds.append((began, time.monotonic(), time.thread_time() - cpu))
        return cursor

    base.execute = execute_recorded  # type: ignore[method-assign]  # patched to measure SQLite
    from ebbtide.tui.cli.main import main as ebb  # noqa: PLC0415  # deferred: imported after the database class is patched

    code = ebb(list(arguments))
    place.write_text(json.dumps({"code": code, "waits": waits, "holds": holds}))
    return code


def _begin_transaction(
    db: sqlite3.Connection, execute: Callable[..., sqlite3.Cursor], waits: list[tuple[float, float]]
) -> sqlite3.Cursor:
    ((patience,),) = execute(db, "pragma busy_timeout").fetchall()
    execute(db, "pragma busy_timeout = 0")
    first = time.monotonic()
    try:
        while True:
            try:
                cursor = execute(db, "begin immediate")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() - first > patience / 1000:
                    raise
                time.sleep(RETRY_DELAY_SECONDS)
            else:
                if (now := time.monotonic()) - first > RETRY_DELAY_SECONDS:
                    waits.append((first, now))
                return cursor
    finally:
        execute(db, f"pragma busy_timeout = {patience}")


if __name__ == "__main__":
    raise SystemExit(main())

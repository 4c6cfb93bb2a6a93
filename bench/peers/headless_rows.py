"""Rows that are measured without a terminal: the first request, gaps between steps, and several runs at once."""

import statistics
import time
from contextlib import ExitStack

from bench.peers.places import Folders, ProjectName, setting
from bench.peers.processes import HeadlessRun, MeasurementError, cpu_seconds, peak_memory_mb
from bench.peers.programs import Installed
from bench.peers.row import Row, Values, note_outside
from bench.peers.server import Answer, ScriptedServer, gaps_ms
from bench.peers.tables import Metric

PATIENCE_S = 120
STEPS, TREE_STEPS = 50, 20
RUNS_AT_ONCE = 8
GREETING = Answer(text="Hi.")


def measure_first_request(folders: Folders, installed: Installed) -> Values:
    """Measure a run of one request."""
    at_first: list[tuple[float, float]] = []
    with ScriptedServer(lambda _: GREETING, lambda: at_first.append((cpu_seconds(), peak_memory_mb()))) as server:
        place = setting(folders, installed, "project", server)
        before = cpu_seconds()
        with HeadlessRun(place.headless("Say hi."), place.env, place.project) as run:
            run.wait(PATIENCE_S)
            ended = time.monotonic()
        cpu = cpu_seconds() - before
        note_outside(installed, server)
    if not server.steps:
        raise MeasurementError("sent no request with a shell tool")
    return {
        "first": server.steps[0].arrived - run.began,
        "first_cpu": at_first[0][0] - before,
        "memory": at_first[0][1],
        "whole": ended - run.began,
        "whole_cpu": cpu,
    }


def measure_steps(folders: Folders, installed: Installed, name: ProjectName, count: int) -> Values:
    """Measure the gaps of a run of `count` steps with one `echo` each."""
    with ScriptedServer(lambda number: echo_step(number, count)) as server:
        place = setting(folders, installed, name, server)
        before = cpu_seconds()
        with HeadlessRun(place.headless("Count."), place.env, place.project) as run:
            run.wait(PATIENCE_S)
        cpu = cpu_seconds() - before
        note_outside(installed, server)
    gaps = gaps_ms(server.steps)
    if len(gaps) != count:
        raise MeasurementError(f"took {len(gaps)} of {count} steps")
    check_outputs(server, count)
    return {"first_gap": gaps[0], "gap": statistics.median(gaps), "cpu": cpu * 1000 / count}


def echo_step(number: int, count: int) -> Answer:
    return Answer(command=f"echo said-{number}") if number < count else Answer(text="All counted.")


def check_outputs(server: ScriptedServer, count: int) -> None:
    """Raise `MeasurementError` unless the last request has the output of the last command."""
    last = server.requests[count]
    if str(last).count(f"said-{count - 1}") < 2:  # the command itself and its output
        raise MeasurementError("its commands do not run here")


def measure_runs_at_once(folders: Folders, installed: Installed) -> Values:
    """Measure several runs of one request that are started together."""
    with ScriptedServer(lambda _: GREETING) as server, ExitStack() as stack:
        place = setting(folders, installed, "project", server)
        before, began = cpu_seconds(), time.monotonic()
        runs = [HeadlessRun(place.headless("Say hi."), place.env, place.project) for _ in range(RUNS_AT_ONCE)]
        for run in runs:
            stack.enter_context(run)
        for run in runs:
            run.wait(PATIENCE_S)
        return {"wall": time.monotonic() - began, "cpu": cpu_seconds() - before}


STEP_METRICS = (
    Metric("first_gap", "first gap", "ms"),
    Metric("gap", "median gap", "ms"),
    Metric("cpu", "processor time per step, with the start", "ms"),
)
ROWS = (
    Row(
        "first-request",
        "headless, one request",
        (
            Metric("first", "start to first request", "s"),
            Metric("first_cpu", "processor time until then", "s"),
            Metric("memory", "peak memory until then", "MB"),
            Metric("whole", "whole run", "s"),
            Metric("whole_cpu", "processor time of the whole run", "s"),
        ),
        measure_first_request,
    ),
    Row(
        "steps",
        f"headless, {STEPS} steps with one echo",
        STEP_METRICS,
        lambda folders, installed: measure_steps(folders, installed, "project", STEPS),
        with_variants=True,
    ),
    Row(
        "tree-steps",
        f"the same in 50,000 files, {TREE_STEPS} steps",
        STEP_METRICS,
        lambda folders, installed: measure_steps(folders, installed, "tree", TREE_STEPS),
        with_variants=True,
    ),
    Row(
        "at-once",
        f"{RUNS_AT_ONCE} headless runs at once",
        (Metric("wall", "until all have ended", "s"), Metric("cpu", "processor time", "s")),
        measure_runs_at_once,
    ),
)

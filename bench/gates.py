"""Checks that steps stay as fast as at the start, however long a session is, with limits that hold on any machine.

    python -m bench.gates

Processor time is compared within one run, and with a bare loop that sends the same requests and runs the same command.
Noise only makes things slower, so the best of a few tries counts, and the limits are generous."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.context.stalls import measure_rewrites
from bench.measure import compile_sources
from bench.sandbox import measure_cpu_ratio
from bench.startup import first_request_times
from bench.steps import StepTimes, measure_bare_loop, measure_ebb
from ebbtide.tools.sandbox.system import sandbox_kind

STEP_COUNT = 300
REWRITTEN_MESSAGES = 2_000
"""Number of messages in the session that is rewritten."""
SANDBOX_ROUNDS = 5
MAX_TRIES = 3
"""Maximum number of times that a gate is measured."""


@dataclass(frozen=True, slots=True)
class StepGate:
    name: str
    limit: float
    measure: Callable[[], tuple[float, str]]
    """Returns the measured ratio and a description of it."""


def step_growth() -> tuple[float, str]:
    run = measure_ebb(STEP_COUNT)
    return run.growth, steps_text(run)


def bare_loop_ratio() -> tuple[float, str]:
    run, bare_run = measure_ebb(STEP_COUNT), measure_bare_loop(STEP_COUNT)
    return run.last / bare_run.last, f"{steps_text(run)}; the bare loop {steps_text(bare_run)}"


def startup_ratio() -> tuple[float, str]:
    times = first_request_times(("script", "http"), 3)
    script, run = min(times["script"]), min(times["http"])
    return run / script, f"{run * 1000:.0f} ms, a script on the SDK {script * 1000:.0f} ms"


def rewrite_loop_share() -> tuple[float, str]:
    found = asyncio.run(measure_rewrites(REWRITTEN_MESSAGES))
    worst = max(
        (found[name] for name in ("mask", "summary by hand", "summary")), key=lambda took: took.loop / took.process
    )
    return (
        worst.loop / worst.process,
        f"{worst.loop:.0f} of {worst.process:.0f} ms, {worst.longest:.0f} ms of them at a time",
    )


def sandbox_ratio() -> tuple[float, str]:
    return measure_cpu_ratio(SANDBOX_ROUNDS), "processor time of `true`"


def steps_text(run: StepTimes) -> str:
    return f"{run.first:.1f} ms of processor time in the first tenth, {run.last:.1f} ms in the last"


SANDBOX_GATE = StepGate("a command in the sandbox beside bwrap alone", 3.5, sandbox_ratio)
GATES: Sequence[StepGate] = (
    StepGate(f"{STEP_COUNT} steps: the last beside the first", 1.3, step_growth),
    StepGate(f"{STEP_COUNT} steps: the last beside a bare loop's", 4.0, bare_loop_ratio),
    StepGate(f"rewrite of {REWRITTEN_MESSAGES:,} messages: on the loop, of all", 0.3, rewrite_loop_share),
    StepGate("start of `-p` beside a script on the SDK", 0.25, startup_ratio),
)


def main() -> int:
    began = time.monotonic()
    compile_sources()
    gates = (*GATES, SANDBOX_GATE) if sandbox_kind() == "bubblewrap" else GATES
    missed = [line for gate in gates if (line := check_gate(gate))]
    print(f"{len(gates) - len(missed)} of {len(gates)} limits hold; {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"MISSED  {line}")
    return 1 if missed else 0


def check_gate(gate: StepGate) -> str:
    """Measure a gate and print the result. Return the printed line if the gate failed, otherwise an empty string."""
    best, line = float("inf"), ""
    for _ in range(MAX_TRIES):
        ratio, about = gate.measure()
        if ratio < best:
            best, line = ratio, f"{gate.name:46} {ratio:7.2f} x   limit {gate.limit:g} x   {about}"
        if best <= gate.limit:
            break
    print(line, flush=True)
    return "" if best <= gate.limit else line


if __name__ == "__main__":
    sys.exit(main())

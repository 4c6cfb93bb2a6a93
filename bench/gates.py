"""Checks that steps stay as fast as at the start, however long a session is, with limits that hold on any machine.

    python -m bench.gates

Processor time is compared within one run, and with a bare loop that sends the same requests and runs the same command.
Noise only makes things slower, so the best of a few tries counts, and the limits are generous."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.context.stalls import rewrites
from bench.measure import compile_sources
from bench.startup import first_requests
from bench.steps import Steps, bare, ours

STEPS = 300
LONG = 2_000
"""Messages of the session that is rewritten."""
TRIES = 3
"""How often a failed gate is measured again."""


@dataclass(frozen=True, slots=True)
class StepGate:
    name: str
    limit: float
    measure: Callable[[], tuple[float, str]]
    """Measures the ratio and describes it."""


def growth() -> tuple[float, str]:
    run = ours(STEPS)
    return run.growth, steps_text(run)


def bare_loop_ratio() -> tuple[float, str]:
    run, theirs = ours(STEPS), bare(STEPS)
    return run.last / theirs.last, f"{steps_text(run)}; the bare loop {steps_text(theirs)}"


def start() -> tuple[float, str]:
    times = first_requests(("script", "http"), 3)
    script, run = min(times["script"]), min(times["http"])
    return run / script, f"{run * 1000:.0f} ms, a script on the SDK {script * 1000:.0f} ms"


def rewrite_loop_share() -> tuple[float, str]:
    found = asyncio.run(rewrites(LONG))
    worst = max((found[name] for name in ("mask", "summary by hand", "summary")), key=lambda took: took.loop / took.all)
    return worst.loop / worst.all, f"{worst.loop:.0f} of {worst.all:.0f} ms, {worst.longest:.0f} ms of them at a time"


def steps_text(run: Steps) -> str:
    return f"{run.first:.1f} ms of processor time in the first tenth, {run.last:.1f} ms in the last"


GATES: Sequence[StepGate] = (
    StepGate(f"{STEPS} steps: the last beside the first", 1.3, growth),
    StepGate(f"{STEPS} steps: the last beside a bare loop's", 4.0, bare_loop_ratio),
    StepGate(f"rewrite of {LONG:,} messages: on the loop, of all", 0.3, rewrite_loop_share),
    StepGate("start of `-p` beside a script on the SDK", 0.25, start),
)


def main() -> int:
    began = time.monotonic()
    compile_sources()
    missed = [line for gate in GATES if (line := missed_by(gate))]
    print(f"{len(GATES) - len(missed)} of {len(GATES)} limits hold; {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"MISSED  {line}")
    return 1 if missed else 0


def missed_by(gate: StepGate) -> str:
    """The line for a failed gate; empty if it holds."""
    best, line = float("inf"), ""
    for _ in range(TRIES):
        ratio, about = gate.measure()
        if ratio < best:
            best, line = ratio, f"{gate.name:46} {ratio:7.2f} x   limit {gate.limit:g} x   {about}"
        if best <= gate.limit:
            break
    print(line, flush=True)
    return "" if best <= gate.limit else line


if __name__ == "__main__":
    sys.exit(main())

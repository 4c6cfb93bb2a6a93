"""Measures the overhead of a step at the start and at the end of a long session, compared with a bare loop that does
the same.

    python -m bench.overhead [STEPS …]"""

import os
import statistics
import sys

from bench.measure import compile_sources
from bench.steps import StepTimes, measure_bare_loop, measure_ebb
from ebbtide.agent.config.load import find_folders
from ebbtide.agent.providers.tokenizers import load_token_counter
from ebbtide.agent.tokens.estimate import estimate_text

MAX_FIRST_STEP_MS = 8.0
"""Limit for a step at the start, in milliseconds."""
MAX_STEP_GROWTH = 1.3
"""Limit for the ratio of the last steps' time to the first steps' time."""


def main() -> int:
    compile_sources()
    for steps in [int(count) for count in sys.argv[1:]] or [300, 1_000]:
        plain = measure_bare_loop(steps)
        print_steps(f"{steps} steps, a bare loop", plain)
        for wire, has_sandbox in (("http", False), ("http", True), ("sdk", False)):
            run = measure_ebb(steps, wire, has_sandbox=has_sandbox)
            name = f"{steps} steps, {wire}{', in the sandbox' if has_sandbox else ''}"
            print_steps(name, run, MAX_STEP_GROWTH if wire == "http" and not has_sandbox else None)
            comparison = f"{run.first / plain.first:.1f} x at first, {run.last / plain.last:.1f} x at the end"
            print(f"{'':28} beside the bare loop: {comparison}; peak memory {run.peak_mb:.0f} MB")
        print(f"first request: system and tools as minified JSON take {token_count_text(run.first_request_json)}")
    return 0


def token_count_text(text: str) -> str:
    """Return the token count of a text, from `o200k_base` if `tiktoken` or a stored vocabulary provides it, otherwise
    as an estimate."""
    count = load_token_counter("o200k_base", find_folders(os.environ).data / "vocabularies")
    if count is None:
        return f"{estimate_text(text):,} tokens as estimated: the vocabulary of o200k_base is not on this machine"
    return f"{round(count(text), -1):,.0f} tokens of o200k_base"  # rounded, because the text contains a folder name


def print_steps(name: str, run: StepTimes, limit: float | None = None) -> None:
    """Print the first and the last tenth of a run: processor time and elapsed time."""
    tenth = max(len(run.cpu) // 10, 10)
    passed = statistics.median(run.elapsed[5 : 5 + tenth]), statistics.median(run.elapsed[-tenth:])
    limits = "" if limit is None else f"   limits {MAX_FIRST_STEP_MS:g} ms, {limit:g} x: {verdict(run, limit)}"
    print(
        f"{name:28} processor {run.first:5.1f} to {run.last:5.1f} ms ({run.growth:.2f} x), "
        f"passed {passed[0]:5.1f} to {passed[1]:5.1f} ms{limits}",
        flush=True,
    )


def verdict(run: StepTimes, limit: float) -> str:
    return "hold" if run.first <= MAX_FIRST_STEP_MS and run.growth <= limit else "MISSED"


if __name__ == "__main__":
    sys.exit(main())

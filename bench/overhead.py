"""Measures the overhead of a step at the start and at the end of a long session, compared with a bare loop that does
the same.

    python -m bench.overhead [STEPS …]"""

import os
import statistics
import sys

from bench.measure import compile_sources
from bench.steps import Steps, bare, ours
from ebbtide.agent.config.load import find_folders
from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.providers.tokenizers import load_encoding

QUICK = 8.0
"""Limit for a step at the start, in milliseconds."""
STEADY = 1.3
"""Limit for the growth of a step until the end."""


def main() -> int:
    compile_sources()
    for steps in [int(count) for count in sys.argv[1:]] or [300, 1_000]:
        plain = bare(steps)
        print_steps(f"{steps} steps, a bare loop", plain)
        for wire in ("http", "sdk"):
            run = ours(steps, wire)
            print_steps(f"{steps} steps, {wire}", run, STEADY if wire == "http" else None)
            beside = f"{run.first / plain.first:.1f} x at first, {run.last / plain.last:.1f} x at the end"
            print(f"{'':28} beside the bare loop: {beside}; peak memory {run.peak_mb:.0f} MB")
        print(f"first request: system and tools as minified JSON take {tokens_of(run.opening)}")
    return 0


def tokens_of(text: str) -> str:
    """Count tokens with `o200k_base`, if `tiktoken` or a stored vocabulary provides it; otherwise estimate."""
    count = load_encoding("o200k_base", find_folders(os.environ).data / "vocabularies")
    if count is None:
        return f"{estimate_text(text):,} tokens as estimated: the vocabulary of o200k_base is not on this machine"
    return (
        f"{round(count(text), -1):,.0f} tokens of o200k_base"  # rounded, since the text contains the name of the folder
    )


def print_steps(name: str, run: Steps, limit: float | None = None) -> None:
    """Print the first and the last tenth of a run: processor time and elapsed time."""
    tenth = max(len(run.cpu) // 10, 10)
    passed = statistics.median(run.passed[5 : 5 + tenth]), statistics.median(run.passed[-tenth:])
    held = "" if limit is None else f"   limits {QUICK:g} ms, {limit:g} x: {verdict(run, limit)}"
    print(
        f"{name:28} processor {run.first:5.1f} to {run.last:5.1f} ms ({run.growth:.2f} x), "
        f"passed {passed[0]:5.1f} to {passed[1]:5.1f} ms{held}",
        flush=True,
    )


def verdict(run: Steps, limit: float) -> str:
    return "hold" if run.first <= QUICK and run.growth <= limit else "MISSED"


if __name__ == "__main__":
    sys.exit(main())

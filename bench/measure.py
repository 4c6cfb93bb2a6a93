"""Measures child processes; shared by the benchmarks of whole programs."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """The cost of running a program."""

    began: float
    """`time.monotonic()` before the process was created."""
    seconds: float
    cpu: float
    """User and system time in seconds."""
    peak_mb: float
    exit_code: int


def minimal_environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an unconfigured user, with bytecode caching as in an installation."""
    variables = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**variables, "HOME": str(home), "EBB_HOME": str(home), "PYTHONPATH": str(ROOT), **extra}


def run(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> ProcessCost:
    """Run a program to its end, discarding its output."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    return ProcessCost(began, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def compile_sources() -> None:
    """Compile our sources to bytecode, as an installation does."""
    folders = [str(ROOT / name) for name in ("agent", "tools", "store", "tui")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], check=True)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1] if values[1:] else values[0]


def format_row(name: str, values: Sequence[float], unit: str, limit: float | None = None, *, share: float = 0.5) -> str:
    """Return a table row with the median or another percentile, the range, and whether the limit holds."""
    value = percentile(values, share)
    verdict = "" if limit is None else f"   limit {limit:g}: {'holds' if value <= limit else 'MISSED'}"
    label = name if share == 0.5 else f"{name}, {100 * share:.0f} % of them"
    return f"{label:48} {value:8.3f} {unit:3} ({min(values):.3f} to {max(values):.3f}){verdict}"

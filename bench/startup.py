"""Measures the time to the first request of a headless run, and its memory, compared with a ten-line script using the
SDK.

    python -m bench.startup [RUNS]"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measure import ROOT, ProcessCost, compile_sources, format_row, minimal_environment, run
from tests.kit.fake_provider import FakeProvider, Turn

SDK_SCRIPT = """\
import anthropic

client = anthropic.Anthropic()
with client.messages.stream(
    model="claude-sonnet-5-5",
    max_tokens=1024,
    messages=[{"role": "user", "content": "Say hi."}],
) as stream:
    for text in stream.text_stream:
        print(text, end="")
"""


EBB_COMMAND = [sys.executable, "-m", "ebbtide.tui.cli.main", "-p", "Say hi.", "-m", "anthropic/claude-sonnet-5-5"]
COMMANDS: Mapping[str, Sequence[str]] = {
    "script": [sys.executable, "script.py"],
    "http": EBB_COMMAND,
    "sdk": [*EBB_COMMAND, "--config", "providers.anthropic.wire=sdk"],
}


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    compile_sources()
    measured = measure_runs(tuple(COMMANDS), runs)
    with tempfile.TemporaryDirectory() as name:
        help_cost = [
            run([sys.executable, "-m", "ebbtide.tui.cli.main", "--help"], minimal_environment(Path(name), {}), ROOT)
            for _ in range(runs)
        ]
    first = {name: [seconds for seconds, _ in runs_of] for name, runs_of in measured.items()}
    costs = {name: [cost for _, cost in runs_of] for name, runs_of in measured.items()}
    _print_results(first, costs, help_cost)
    return 0


def first_request_times(names: Sequence[str], runs: int) -> dict[str, list[float]]:
    """Return the seconds from the start of each program to its first request, for each run."""
    return {name: [seconds for seconds, _ in found] for name, found in measure_runs(names, runs).items()}


def measure_runs(names: Sequence[str], runs: int) -> dict[str, list[tuple[float, ProcessCost]]]:
    """Return, for each run of each program, the seconds until its first request and the cost of the whole run."""
    found: dict[str, list[tuple[float, ProcessCost]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "script.py").write_text(SDK_SCRIPT)
        for number in range(runs + 1):
            for name in names:
                with FakeProvider([Turn(text="Hi.")]) as server:
                    env = minimal_environment(folder, {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})
                    cost = run(COMMANDS[name], env, folder)
                    assert cost.exit_code == 0, f"{name} failed with {cost.exit_code}"
                    if number:  # the first round warms the page cache and is discarded
                        found[name].append((server.requests[0].at - cost.began, cost))
    return found


def _print_results(
    first_times: dict[str, list[float]], costs: dict[str, list[ProcessCost]], help_cost: list[ProcessCost]
) -> None:
    for name, limit in (("script", None), ("http", 0.22), ("sdk", 1.2)):
        print(format_row(f"{name}: start to first request", first_times[name], "s"))
        if limit is not None:
            ratios = [ours / script for ours, script in zip(first_times[name], first_times["script"], strict=True)]
            print(format_row(f"{name}: of the script's", ratios, "x", limit))
    for name, limit in (("script", None), ("http", 50), ("sdk", 135)):
        print(format_row(f"{name}: peak memory", [cost.peak_mb for cost in costs[name]], "MB", limit))
    print(format_row("--help: processor time", [cost.cpu for cost in help_cost], "s", 0.15))


if __name__ == "__main__":
    sys.exit(main())

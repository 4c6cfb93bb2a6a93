"""How long a headless run takes to its first request, and how much memory, beside a ten-line script on the SDK.

python -m bench.startup [RUNS]
"""

import sys
import tempfile
from pathlib import Path

from bench.measure import ROOT, Cost, compile_sources, environment, row, run
from tests.fake_provider import FakeProvider, Turn

SCRIPT = """\
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


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(SCRIPT)
        ours = [sys.executable, "-m", "tui.cli", "-p", "Say hi.", "-m", "anthropic/claude-sonnet-5-5"]
        commands = {
            "script": [sys.executable, "script.py"],
            "http": ours,
            "sdk": [*ours, "--config", "providers.anthropic.wire=sdk"],
        }
        first: dict[str, list[float]] = {name: [] for name in commands}
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(runs + 1):  # the first round warms the disk's cache and does not count
            for name, command in commands.items():
                with FakeProvider([Turn(text="Hi.")]) as server:
                    env = environment(folder, {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})
                    cost = run(command, env, folder)
                    assert cost.code == 0, f"{name} failed with {cost.code}"
                    first[name].append(server.requests[0].at - cost.began)
                    costs[name].append(cost)
        help_cost = [
            run([sys.executable, "-m", "tui.cli", "--help"], environment(folder, {}), ROOT) for _ in range(runs)
        ]
    _print(first, costs, help_cost)
    return 0


def _print(first: dict[str, list[float]], costs: dict[str, list[Cost]], help_cost: list[Cost]) -> None:
    for name, limit in (("script", None), ("http", 0.3), ("sdk", 1.2)):
        print(row(f"{name}: start to first request", first[name][1:], "s"))
        if limit is not None:
            ratios = [ours / script for ours, script in zip(first[name][1:], first["script"][1:], strict=True)]
            print(row(f"{name}: of the script's", ratios, "x", limit))
    for name, limit in (("script", None), ("http", 60), ("sdk", 135)):
        print(row(f"{name}: peak memory", [cost.peak_mb for cost in costs[name][1:]], "MB", limit))
    print(row("--help: processor time", [cost.cpu for cost in help_cost], "s", 0.15))


if __name__ == "__main__":
    sys.exit(main())

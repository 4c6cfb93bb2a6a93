"""What a step costs by itself: from the end of a reply to the next request on the wire, with one `echo` in between.

python -m bench.overhead [STEPS]
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from agent.context.estimate import estimate_text
from bench.measure import compile_sources, environment, row, run
from tests.fake_provider import Call, FakeProvider, Recorded, Turn


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    compile_sources()
    for wire in ("http", "sdk"):
        sent: list[float] = []

        def answer(request: Recorded, sent: list[float] = sent) -> Turn:
            last = len(sent) == steps
            sent.append(time.monotonic())
            return Turn(text="Done.") if last else Turn(calls=(Call("bash", {"command": "echo"}),))

        with tempfile.TemporaryDirectory() as name, FakeProvider([answer]) as server:
            env = environment(Path(name), {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})
            command = [sys.executable, "-m", "tui.cli", "-p", "go", "-m", "anthropic/claude-sonnet-5-5"]
            options = ["--permission-mode", "auto", "--config", f"providers.anthropic.wire={wire}"]
            cost = run([*command, *options], env, Path(name))
            assert cost.code == 0, f"the run failed with {cost.code}"
            arrivals = [request.at for request in server.requests]
            first = server.requests[0].body
        # The server has answered within the same millisecond in which it was asked; its own time is in the figure.
        between = [(after - before) * 1000 for before, after in zip(sent, arrivals[1:], strict=False)]
        print(row(f"{wire}: step overhead with `echo`", between, "ms", 12))
        print(row(f"{wire}: peak memory of {steps} steps", [cost.peak_mb], "MB"))
    size = estimate_text(json.dumps(first["system"])) + estimate_text(json.dumps(first["tools"]))
    print(row("first request: system and tools", [size], "tok", 4000))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measures the cost of each step of a long session, compared with a bare loop that sends the same requests and runs the
same command.

The cost of a step is the program's processor time, which is independent of other load; elapsed time is reported as
well. `bench.overhead` prints limits, and `bench.gates` enforces them."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.measure import minimal_environment
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn

ECHO_COMMAND = "echo The quick brown fox jumps over the lazy dog, and the lazy dog does not mind at all."

BARE_LOOP_SCRIPT = """\
import json
import os
import subprocess
import sys

import httpx2

client = httpx2.Client(timeout=60)
tools = [{"name": "bash", "description": "Runs a command.", "input_schema": {"type": "object"}}]
messages = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
while True:
    body = {"model": "m", "max_tokens": 16000, "stream": True, "tools": tools, "messages": messages}
    blocks, pieces = [], {}
    headers = {"content-type": "application/json"}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    with client.stream("POST", url, content=json.dumps(body).encode(), headers=headers) as response:
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line[6:])
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
                pieces.setdefault(event["index"], []).append(event["delta"]["partial_json"])
    for index, joined in pieces.items():
        blocks[index]["input"] = json.loads("".join(joined))
    calls = [block for block in blocks if block["type"] == "tool_use"]
    if not calls:
        sys.exit()
    results = []
    for call in calls:
        done = subprocess.run(call["input"]["command"], shell=True, capture_output=True, text=True)
        results.append({"type": "tool_result", "tool_use_id": call["id"], "content": done.stdout})
    messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
"""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of the steps of a run in milliseconds, from one request to the next."""

    cpu: tuple[float, ...]
    elapsed: tuple[float, ...]
    peak_mb: float
    first_request_json: str
    """System prompt and tools of the first request, as minified JSON."""

    @property
    def first(self) -> float:
        """Median processor time of the steps in the first tenth, without the first five, which load modules."""
        return statistics.median(self.cpu[5 : 5 + max(len(self.cpu) // 10, 10)])

    @property
    def last(self) -> float:
        return statistics.median(self.cpu[-max(len(self.cpu) // 10, 10) :])

    @property
    def growth(self) -> float:
        """Ratio of the last tenth's time to the first tenth's."""
        return self.last / self.first


def measure_ebb(steps: int, wire: str = "http", *options: str, has_sandbox: bool = False) -> StepTimes:
    """Measure a headless run of `steps` steps. `has_sandbox`: whether its commands run in the sandbox, whose own
    processes are not included."""
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", "-p", "go", "-m", "anthropic/claude-sonnet-5-5"]
    chosen = ["--permission-mode", "auto", "--config", f"providers.anthropic.wire={wire}"]
    sandbox_options = () if has_sandbox else ("--no-sandbox",)
    return _measure_steps([*command, *chosen, *sandbox_options, *options], steps)


def measure_bare_loop(steps: int) -> StepTimes:
    """Measure the bare loop with `steps` steps."""
    return _measure_steps([sys.executable, "-c", BARE_LOOP_SCRIPT], steps)


def _measure_steps(command: Sequence[str], steps: int) -> StepTimes:
    cpu, sent, arrived, peaks = list[float](), list[float](), list[float](), list[float]()
    process: subprocess.Popen[bytes] | None = None

    def next_turn(recorded: Recorded) -> Turn:
        """Answer with one command per step, each different, because a repeating model is stopped. The program is idle
        while its processor time is read, because it waits for this answer."""
        assert process is not None
        arrived.append(recorded.at)
        cpu.append(cpu_seconds(process.pid))
        peaks.append(peak_memory_mb(process.pid))
        sent.append(time.monotonic())
        command = f"{ECHO_COMMAND} {len(sent)}"
        return Turn(text="Done.") if len(sent) > steps else Turn(calls=(Call("bash", {"command": command}),))

    with tempfile.TemporaryDirectory() as name, FakeProvider([next_turn], rules=None) as server:
        env = minimal_environment(Path(name), {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, env=env, cwd=name, stdin=quiet, stdout=quiet, stderr=quiet) as process:
            process.wait()
        first = server.requests[0].body
    assert process.returncode == 0, f"the run failed with {process.returncode}"
    parts = [first[name] for name in ("system", "tools") if name in first]
    opening = "".join(json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in parts)
    passed = tuple((after - before) * 1000 for before, after in zip(sent, arrived[1:], strict=False))
    return StepTimes(tuple((after - before) * 1000 for before, after in pairwise(cpu)), passed, max(peaks), opening)


def cpu_seconds(process: int) -> float:
    """Return the seconds that the threads of a process have run."""
    total = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # the thread has just ended
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def peak_memory_mb(process: int) -> float:
    """Return the peak memory of a running program in megabytes. The value that the system reports when the program
    exits would include the parent process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))

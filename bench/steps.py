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

from bench.measure import environment
from tests.fake_provider import Call, FakeProvider, Recorded, Turn

OUTPUT = "echo The quick brown fox jumps over the lazy dog, and the lazy dog does not mind at all."

BARE = """\
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
class Steps:
    """Times of the steps of a run in milliseconds, from one request to the next."""

    cpu: tuple[float, ...]
    passed: tuple[float, ...]
    peak_mb: float
    opening: str
    """System text and tools of the first request, as minified JSON."""

    @property
    def first(self) -> float:
        """Processor time of a step in the first tenth, without the very first steps, which load modules."""
        return statistics.median(self.cpu[5 : 5 + max(len(self.cpu) // 10, 10)])

    @property
    def last(self) -> float:
        return statistics.median(self.cpu[-max(len(self.cpu) // 10, 10) :])

    @property
    def growth(self) -> float:
        """Ratio of the last tenth to the first tenth."""
        return self.last / self.first


def ours(steps: int, wire: str = "http", *options: str) -> Steps:
    """Measure a headless run of `steps` steps."""
    command = [sys.executable, "-m", "ebbtide.tui.cli.main", "-p", "go", "-m", "anthropic/claude-sonnet-5-5"]
    chosen = ["--permission-mode", "auto", "--no-sandbox", "--config", f"providers.anthropic.wire={wire}"]
    return _measure([*command, *chosen, *options], steps)


def bare(steps: int) -> Steps:
    """Measure the bare loop with `steps` steps."""
    return _measure([sys.executable, "-c", BARE], steps)


def _measure(command: Sequence[str], steps: int) -> Steps:
    cpu, sent, arrived, peaks = list[float](), list[float](), list[float](), list[float]()
    process: subprocess.Popen[bytes] | None = None

    def answer(recorded: Recorded) -> Turn:
        """One command per step, all different, since a repeating model is stopped. The program is idle while its time
        is read, because it waits for this answer."""
        assert process is not None
        arrived.append(recorded.at)
        cpu.append(used_by(process.pid))
        peaks.append(peak_of(process.pid))
        sent.append(time.monotonic())
        command = f"{OUTPUT} {len(sent)}"
        return Turn(text="Done.") if len(sent) > steps else Turn(calls=(Call("bash", {"command": command}),))

    with tempfile.TemporaryDirectory() as name, FakeProvider([answer], rules=None) as server:
        env = environment(Path(name), {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "key"})
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, env=env, cwd=name, stdin=quiet, stdout=quiet, stderr=quiet) as process:
            process.wait()
        first = server.requests[0].body
    assert process.returncode == 0, f"the run failed with {process.returncode}"
    parts = [first[name] for name in ("system", "tools") if name in first]
    opening = "".join(json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in parts)
    passed = tuple((after - before) * 1000 for before, after in zip(sent, arrived[1:], strict=False))
    return Steps(tuple((after - before) * 1000 for before, after in pairwise(cpu)), passed, max(peaks), opening)


def used_by(process: int) -> float:
    """Seconds that the threads of a process have run."""
    total = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def peak_of(process: int) -> float:
    """Peak memory of a program in megabytes. The value reported at its exit would include the parent process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))

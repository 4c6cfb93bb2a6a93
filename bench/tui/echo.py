"""Measures the time from a key to its letter in the prompt while an answer streams.

python -m bench.tui.echo [MESSAGES …] [--only WORDS,WORDS] [--tokens COUNT] [--stacks]

Answers of every kind are streamed into sessions that are completely in view, and a letter is typed every 100 to
150 ms. Reported are the times until the letters were written to the pseudo-terminal, and how long callbacks held the
event loop in processor time, which other load does not affect. `--stacks` shows what held it."""

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.measure import compile_sources, percentile
from bench.tui.answers import ANSWERS, EDITED_FILE, EDITED_TEXT
from bench.tui.sessions import LAST_LINE, create_home, store_session
from bench.tui.streaming import StreamingServer
from bench.tui.terminal import Terminal
from bench.tui.watched import CALLBACK_LOG_SUFFIX

SESSION_ID = "aa11bb22cc33"
TOKENS_PER_SECOND = 200.0
TYPED_LETTERS = "QZXJWVYU"
"""Letters that no answer contains."""
LETTERS_PER_LINE = 40
KEY_PAUSES_S = (0.1, 0.15)


@dataclass(frozen=True, slots=True)
class EchoTimes:
    """Times in seconds."""

    keys: list[float]
    """From each key to its letter in the output."""
    callbacks: list[float]
    """Processor time of each long callback of the loop."""
    cpu_share: float
    """Share of one core that the program used."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tui.echo")
    parser.add_argument("messages", type=int, nargs="*", default=[20, 2_000])
    parser.add_argument("--only", default="")
    parser.add_argument("--tokens", type=int, default=3_000)
    parser.add_argument("--stacks", action="store_true")
    options = parser.parse_args()
    compile_sources()
    for count in options.messages:
        for name in ANSWERS:
            if any(words in name for words in options.only.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    times = measure_echo(Path(folder), name, count, options.tokens)
                    print(format_times(f"{name}, {count:,} messages", times), flush=True)
    return 0


def format_times(name: str, times: EchoTimes) -> str:
    keys = [1000 * value for value in times.keys]
    callback_ms = [1000 * value for value in times.callbacks] or [0.0]
    return (
        f"{name:32} p50 {percentile(keys, 0.5):5.1f} p95 {percentile(keys, 0.95):5.1f} max {max(keys):5.1f} ms "
        f"({len(keys)} keys); callbacks over 8 ms: {sum(value > 8 for value in callback_ms):3}, "
        f"longest {max(callback_ms):5.1f} ms; "
        f"{100 * times.cpu_share:3.0f} % of a core"
    )


def measure_echo(folder: Path, answer: str, messages: int, tokens: int) -> EchoTimes:
    """Type while an answer streams into a new session of `messages` messages."""
    project, log = folder / "project", folder / "stalls.jsonl"
    project.mkdir()
    (project / EDITED_FILE).write_text(EDITED_TEXT)
    model = StreamingServer(tokens, TOKENS_PER_SECOND, reply=ANSWERS[answer])
    env = create_home(folder / "home", model.url)
    store_session(folder / "home", project, SESSION_ID, messages)
    try:
        with Terminal(
            [sys.executable, "-m", "bench.tui.watched", str(log), "-r", SESSION_ID], env, project
        ) as terminal:
            terminal.wait_for_text(LAST_LINE)
            terminal.wait_until_idle(1.0)
            terminal.press("tell me everything")
            terminal.wait_until_idle()
            terminal.press("\r")
            terminal.read_for(1.0)
            began, before = time.monotonic(), terminal.read_load()
            keys = type_letters(terminal, began + tokens / TOKENS_PER_SECOND - 1.5)
            after, passed = terminal.read_load(), time.monotonic() - began
    finally:
        model.shutdown()
    rows = map(json.loads, log.with_name(log.name + CALLBACK_LOG_SUFFIX).read_text().splitlines())
    callbacks = [row["cpu"] for row in rows if row["at"] > began]
    return EchoTimes(keys, callbacks, (after.cpu - before.cpu) / passed)


def type_letters(terminal: Terminal, end: float) -> list[float]:
    """Type letters until a time, and return the seconds from each to its echo."""
    dice, times = random.Random(7), list[float]()
    while time.monotonic() < end:
        if len(times) % LETTERS_PER_LINE == LETTERS_PER_LINE - 1:
            terminal.press("\x15")
            terminal.read_for(0.2)
        times.append(terminal.echo_delay(TYPED_LETTERS[len(times) % len(TYPED_LETTERS)]))
        terminal.read_for(dice.uniform(*KEY_PAUSES_S))
    return times


if __name__ == "__main__":
    sys.exit(main())

"""Checks the speed of the interface, with limits that hold on any machine and are enforced in CI.

    python -m bench.tui.gates

Measurements are compared with a small Textual app, or with a loop of fixed work, in the same run. Noise only makes
things slower, so the best of a few tries counts, and the limits are generous. Bytes have absolute limits. The other
modules here measure absolute times."""

import asyncio
import random
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.measure import compile_sources, minimal_environment, percentile
from bench.tui.drawing import measure_drawing
from bench.tui.frames import growing_texts, measure_frames
from bench.tui.opening import EMPTY_APP_PROGRAM, PROMPT_TEXT, StartCost, seconds_until_visible, start_cost
from bench.tui.sessions import LAST_LINE, create_home, ebb_command, store_session
from bench.tui.streaming import StreamingServer
from bench.tui.terminal import Load, Terminal
from bench.tui.written import SILENCE_SECONDS, WrittenBytes, measure_written

MAX_TRIES = 3
"""Maximum number of times that a gate is measured."""
PAINT_RUNS = 8
START_RUNS = 4
KEY_COUNT = 40
TAIL_SHARE = 0.95
"""Share of keys and added blocks that must be fast enough."""
SCREEN_SIZES = ((100, 40), (80, 24), (200, 60), (120, 40))
IDLE_SECONDS = 2.0
"""Idle time in seconds."""
ANSWER_TOKENS = 600
TOKENS_PER_SECOND = 200.0
FRAME_TOKENS, FRAME_ANSWERS = 1_500, ("code blocks", "a table", "a list")
FIRST_FRAMES = 5
SHORT_MESSAGES, LONG_MESSAGES, VERY_LONG_MESSAGES = 20, 2_000, 50_000

EDITOR_PROGRAM = """\
from textual.app import App, ComposeResult
from textual.widgets import TextArea


class Editor(App[None]):
    def compose(self) -> ComposeResult:
        editor = TextArea()
        editor.cursor_blink = False
        yield editor


Editor().run()
"""


@dataclass(frozen=True, slots=True)
class UsageTimes:
    """Cost of using a program; times in seconds."""

    key_seconds: float
    """Time within which 95 % of the keys were on the screen."""
    resize_seconds: float
    wakeups_per_second: float
    """Wake-ups per second when idle."""
    load: Load


@dataclass(frozen=True, slots=True)
class TuiGate:
    name: str
    limit: float
    measure: Callable[["GateSetup"], tuple[float, str]]
    """Returns the measured ratio or machine-independent quantity, and a description of it."""
    unit: str = "x"


class GateSetup:
    """A home with sessions of all lengths, and the programs to compare."""

    def __init__(self, folder: Path) -> None:
        self._home, self._project = folder / "home", folder / "project"
        self._project.mkdir()
        self._env = create_home(self._home)
        self._folder = folder
        self._bare_environment = minimal_environment(self._home, {})
        for name, program in (("empty.py", EMPTY_APP_PROGRAM), ("editor.py", EDITOR_PROGRAM)):
            (self._project / name).write_text(program)
        for id, count in (("aaaa", SHORT_MESSAGES), ("bbbb", LONG_MESSAGES), ("cccc", VERY_LONG_MESSAGES)):
            store_session(self._home, self._project, id, count)

    def first_paint(self) -> tuple[float, str]:
        empty = [sys.executable, "empty.py"]
        pairs = [
            (
                seconds_until_visible(empty, self._bare_environment, self._project, "ready"),
                seconds_until_visible(ebb_command(), self._env, self._project, PROMPT_TEXT),
            )
            for _ in range(PAINT_RUNS)
        ]
        theirs, ours = (min(times) for times in zip(*pairs, strict=True))
        return ours / theirs, f"{ours * 1000:.0f} ms, an empty Textual app {theirs * 1000:.0f} ms"

    def start(self) -> tuple[float, str]:
        ours, theirs = min(cost.until_painted for cost in self.start_costs), self.empty_cpu
        return ours / theirs, f"{ours:.2f} s, an empty Textual app {theirs:.2f} s"

    def settling(self) -> tuple[float, str]:
        ours, theirs = min(cost.until_rest for cost in self.start_costs), self.empty_cpu
        return ours / theirs, f"{ours:.2f} s without a key, an empty Textual app {theirs:.2f} s until its paint"

    def very_long(self) -> tuple[float, str]:
        with Terminal(ebb_command("-r", "aaaa"), self._env, self._project) as terminal:
            terminal.wait_for_text(LAST_LINE)
            terminal.wait_until_idle()
            terminal.press("/clear\r")
            terminal.wait_until(lambda text: LAST_LINE not in text)
            terminal.wait_until_idle()
            terminal.press("/resume cccc")
            terminal.wait_until_idle()
            began = terminal.press("\r")
            took = terminal.wait_for_text(LAST_LINE) - began
        return took / fixed_loop_seconds(), f"{took * 1000:.0f} ms, a fixed loop {fixed_loop_seconds() * 1000:.0f} ms"

    def key(self) -> tuple[float, str]:
        ours, theirs = self.usage_times.key_seconds, self.editor.key_seconds
        return ours / theirs, f"{ours * 1000:.1f} ms, a bare editor {theirs * 1000:.1f} ms"

    def resize(self) -> tuple[float, str]:
        ours, theirs = self.usage_times.resize_seconds, self.editor.resize_seconds
        return ours / theirs, f"{ours * 1000:.0f} ms, a bare editor {theirs * 1000:.0f} ms"

    def rest(self) -> tuple[float, str]:
        ours, theirs = self.usage_times.wakeups_per_second, self.editor.wakeups_per_second
        return ours / max(1.0, theirs), f"{ours:.0f} wake-ups a second, a bare editor {theirs:.0f}"

    def memory(self) -> tuple[float, str]:
        ours, theirs = self.usage_times.load.peak_mb, self.editor.load.peak_mb
        return ours / theirs, f"{ours:.0f} MB, a bare editor {theirs:.0f} MB"

    def append(self) -> tuple[float, str]:
        ours, theirs = (
            percentile(asyncio.run(measure_drawing(count, KEY_COUNT)).added, TAIL_SHARE)
            for count in (LONG_MESSAGES, SHORT_MESSAGES)
        )
        return ours / theirs, f"{ours:.1f} ms, in a session of {SHORT_MESSAGES} messages {theirs:.1f} ms"

    def streaming(self) -> tuple[float, str]:
        model = StreamingServer(ANSWER_TOKENS, TOKENS_PER_SECOND)
        env = create_home(self._home, model.url)
        try:
            with Terminal(ebb_command("-r", "bbbb"), env, self._project, cores={0}) as terminal:
                terminal.wait_for_text(LAST_LINE)
                terminal.wait_until_idle(1.0)
                before = terminal.read_load()
                terminal.press("tell me everything\r")
                terminal.wait_for_text(f"mark-{ANSWER_TOKENS // 100 - 1} ")
                took = terminal.read_load().cpu - before.cpu
        finally:
            model.shutdown()
            create_home(self._home)
        return (
            took / fixed_loop_seconds(),
            f"{took:.2f} s of one core for {ANSWER_TOKENS} tokens, a fixed loop {fixed_loop_seconds() * 1000:.0f} ms",
        )

    def frame(self) -> tuple[float, str]:
        worst = {name: _tail_of_frames(name) for name in FRAME_ANSWERS}
        name = max(worst, key=lambda name: worst[name])
        loop = fixed_loop_seconds()
        return worst[name] / loop, f"{worst[name] * 1000:.1f} ms of {name}, a fixed loop {loop * 1000:.0f} ms"

    def typing(self) -> tuple[float, str]:
        return self.written_bytes.line / 1000, "41 letters"

    def opening(self) -> tuple[float, str]:
        return self.written_bytes.list / 1000, "that of all commands"

    def scrolling(self) -> tuple[float, str]:
        return self.written_bytes.scrolling / 1000, "ten screens"

    def waiting(self) -> tuple[float, str]:
        return self.written_bytes.waiting / 1000, f"{SILENCE_SECONDS:.0f} seconds for a model"

    def answer(self) -> tuple[float, str]:
        return self.written_bytes.answer / 1000, "five seconds of it, 20 tokens a second"

    @cached_property
    def written_bytes(self) -> WrittenBytes:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            return measure_written(Path(name))

    @cached_property
    def start_costs(self) -> Sequence[StartCost]:
        return [start_cost(ebb_command(), self._env, self._project, PROMPT_TEXT, "") for _ in range(START_RUNS)]

    @cached_property
    def empty_cpu(self) -> float:
        """Processor time of an empty Textual app until its first paint, in seconds."""
        command = [sys.executable, "empty.py"]
        return min(
            start_cost(command, self._bare_environment, self._project, "ready", "").until_painted
            for _ in range(START_RUNS)
        )

    @cached_property
    def usage_times(self) -> UsageTimes:
        with Terminal(ebb_command("-r", "bbbb"), self._env, self._project) as terminal:
            terminal.wait_for_text(LAST_LINE)
            terminal.wait_until_idle(1.0)
            return measure_use(terminal)

    @cached_property
    def editor(self) -> UsageTimes:
        with Terminal([sys.executable, "editor.py"], self._bare_environment, self._project) as terminal:
            terminal.wait_until_idle(1.0)
            return measure_use(terminal)

    def discard_measurements(self) -> None:
        """Discard cached measurements."""
        for name in ("usage_times", "editor", "written_bytes", "start_costs", "empty_cpu"):
            vars(self).pop(name, None)


GATES: Sequence[TuiGate] = (
    TuiGate("first paint", 1.5, GateSetup.first_paint),
    TuiGate("processor time until the first paint", 2.0, GateSetup.start),
    TuiGate("processor time after it, until at rest", 1.7, GateSetup.settling),
    TuiGate(f"{LONG_MESSAGES:,} messages: key to paint", 3.0, GateSetup.key),
    TuiGate(f"{LONG_MESSAGES:,} messages: new size to the right screen", 6.0, GateSetup.resize),
    TuiGate(f"{LONG_MESSAGES:,} messages: at rest", 2.0, GateSetup.rest),
    TuiGate(f"{LONG_MESSAGES:,} messages: peak memory", 2.8, GateSetup.memory),
    TuiGate(f"{LONG_MESSAGES:,} messages: append to paint", 2.5, GateSetup.append),
    TuiGate(f"{LONG_MESSAGES:,} messages: an answer that streams", 400.0, GateSetup.streaming),
    TuiGate("a frame of an answer that streams", 2.0, GateSetup.frame),
    TuiGate(f"{VERY_LONG_MESSAGES:,} messages: opened at their end", 40.0, GateSetup.very_long),
    TuiGate("written while a line is typed", 5.0, GateSetup.typing, "kB"),
    TuiGate("written for a list that opens", 12.0, GateSetup.opening, "kB"),
    TuiGate("written while somebody scrolls", 30.0, GateSetup.scrolling, "kB"),
    TuiGate("written while a model is silent", 2.0, GateSetup.waiting, "kB"),
    TuiGate("written for a slow answer", 15.0, GateSetup.answer, "kB"),
)


def _tail_of_frames(answer: str) -> float:
    """Return the processor time within which 95 % of the frames of a growing answer are drawn or painted, whichever
    takes longer. The first frames, which also load modules, do not count."""
    times = asyncio.run(measure_frames(growing_texts(answer, FRAME_TOKENS)))[FIRST_FRAMES:]
    return max(percentile(values, TAIL_SHARE) for values in zip(*times, strict=True))


def main() -> int:
    began = time.monotonic()
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        setup = GateSetup(Path(name))
        missed = [line for gate in GATES if (line := check_gate(gate, setup))]
    print(f"{len(GATES) - len(missed)} of {len(GATES)} limits hold; {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"MISSED  {line}")
    return 1 if missed else 0


def check_gate(gate: TuiGate, setup: GateSetup) -> str:
    """Measure a gate and print the result. Return the printed line if the gate failed, otherwise an empty string."""
    best, line = float("inf"), ""
    for _ in range(MAX_TRIES):
        ratio, note = gate.measure(setup)
        if ratio < best:
            best, line = ratio, f"{gate.name:46} {ratio:7.2f} {gate.unit}   limit {gate.limit:g} {gate.unit}   {note}"
        if best <= gate.limit:
            break
        setup.discard_measurements()
    print(line, flush=True)
    return "" if best <= gate.limit else line


def measure_use(terminal: Terminal) -> UsageTimes:
    """Type into a program, resize it, and leave it idle."""
    keys = key_delays(terminal)
    sizes = [terminal.resize(*size)[0] for size in SCREEN_SIZES]
    terminal.wait_until_idle(1.0)
    before, began = terminal.read_load(), time.monotonic()
    terminal.wait_until_idle(IDLE_SECONDS)
    after, took = terminal.read_load(), time.monotonic() - began
    return UsageTimes(
        percentile(keys, TAIL_SHARE), statistics.median(sizes), (after.wakes - before.wakes) / took, after
    )


def key_delays(terminal: Terminal) -> list[float]:
    """Return the seconds from each key to its letter on the screen."""
    times, dice, written = [], random.Random(7), ">>"
    terminal.press(written)
    terminal.wait_until_idle(0.3)
    for _ in range(KEY_COUNT):
        written += dice.choice(string.ascii_lowercase)
        began = time.monotonic()
        terminal.press(written[-1])
        times.append(terminal.wait_for_text(written) - began)
        terminal.wait_until_idle(0.02)
    return times


def fixed_loop_seconds() -> float:
    """Return the seconds that a fixed amount of work takes on this machine now; the best of a few runs."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        total = 0
        for number in range(200_000):
            total += number & 7
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())

"""Rows that are measured on a pseudo-terminal: start, keys, completion of file names, resuming, and memory."""

import random
import re
import statistics
import threading
from collections.abc import Iterator, Sequence

from bench.measure import percentile
from bench.peers.headless_rows import PATIENCE_S, echo_step
from bench.peers.places import Folders, ProjectName, Setting, setting
from bench.peers.processes import HeadlessRun, MeasurementError, cpu_seconds, memory_mb
from bench.peers.programs import Installed
from bench.peers.row import Row, Values, note_outside
from bench.peers.screens import Drawn, Screen, first_prompt_row, prompt_mark, row_of
from bench.peers.server import Answer, ScriptedServer
from bench.peers.tables import Metric
from bench.peers.terminal import COLUMNS, KEYS, LINES, Terminal

START_TIMEOUT_S = 40
SETTLE_S = 5.0
STREAM_SECONDS, PIECES_PER_SECOND = 16, 200
KEY_COUNT = 60
LISTED_FILE = re.compile(r"area_\d|alpha_\d")
LONG_STEPS = 100
LAST_LINE = "This is where the long session ends."
FEW_TURNS, MANY_TURNS = 200, 800


def measure_start(folders: Folders, installed: Installed) -> Values:
    """Measure the start of the interface in a small project."""
    with ScriptedServer(lambda _: Answer(text="Hi.")) as server:
        place = ready_place(folders, installed, "project", server)
        before = cpu_seconds()
        with Terminal(place.terminal, place.env, place.project) as terminal:
            usable, typed = terminal.wait_until_echoed(START_TIMEOUT_S)
            cpu = cpu_seconds()
            terminal.run_for(SETTLE_S)
            settled, memory = cpu_seconds(), memory_mb()
            values = {"usable": usable - terminal.began, "cpu": cpu - before, "after": settled - cpu, "memory": memory}
        note_outside(installed, server)
    return {**values, **start_screens(terminal.drawn, typed)}


def measure_echo(folders: Folders, installed: Installed) -> Values:
    """Measure the time from a key to its echo while an answer streams."""
    asked = threading.Event()
    answer = Answer(text=stream_text(), pieces_per_second=PIECES_PER_SECOND)
    with ScriptedServer(lambda _: answer, asked.set) as server:
        place = ready_place(folders, installed, "project", server)
        with Terminal(place.terminal, place.env, place.project) as terminal:
            open_prompt(terminal)
            send(terminal, "go")
            terminal.wait_for(lambda _: asked.is_set(), 20, "no request")
            terminal.run_for(2.0)
            before, dice, delays = cpu_seconds(), random.Random(7), []
            for key in KEYS[-KEY_COUNT:]:
                pressed = terminal.press(key)
                echoed = terminal.wait_for_bytes(key.encode(), 2.0)
                delays.append(2.0 if echoed is None else echoed - pressed)
                terminal.run_for(0.08 + 0.1 * dice.random())
            cpu = cpu_seconds() - before
        note_outside(installed, server)
    return {
        "p50": statistics.median(delays) * 1000,
        "p95": percentile(delays, 0.95) * 1000,
        "lost": sum(delay == 2.0 for delay in delays),
        "cpu": cpu,
    }


def measure_files(folders: Folders, installed: Installed) -> Values:
    """Measure the completion of `@a` in a repository of 50,000 files."""
    with ScriptedServer(lambda _: Answer(text="Hi.")) as server:
        place = ready_place(folders, installed, "tree", server)
        before = cpu_seconds()
        with Terminal(place.terminal, place.env, place.project) as terminal:
            open_prompt(terminal)
            terminal.run_for(3.0)
            opened = cpu_seconds()
            pressed = terminal.press("@")
            terminal.run_for(0.03)
            terminal.press("a")
            listed = terminal.wait_for(lambda text: LISTED_FILE.search(text) is not None, 20, "no list of files")
            cpu = cpu_seconds()
        note_outside(installed, server)
    return {"listed": listed - pressed, "cpu": cpu - opened, "all_cpu": cpu - before}


def measure_resume(folders: Folders, installed: Installed) -> Values:
    """Measure resuming a session of many steps, which the program itself has run."""
    if not folders.home(installed, "long").exists():
        _run_long_session(folders, installed)
    with ScriptedServer(lambda _: Answer(text="Hi.")) as server:
        place = ready_place(folders, installed, "long", server)
        before = cpu_seconds()
        with Terminal(place.resume, place.env, place.project) as terminal:
            usable, _ = terminal.wait_until_echoed(START_TIMEOUT_S)
            terminal.wait_for_text(LAST_LINE, 20)
            cpu = cpu_seconds() - before
            visible = first_time_of(LAST_LINE, terminal.drawn)
            began = terminal.began
        note_outside(installed, server)
    return {"usable": usable - began, "shown": visible - began, "both": max(usable, visible) - began, "cpu": cpu}


def measure_memory(folders: Folders, installed: Installed) -> Values:
    """Measure memory after many short turns in the interface."""
    found = {}
    with ScriptedServer(lambda number: Answer(text=f"Answer {number} ends.")) as server:
        place = ready_place(folders, installed, "project", server)
        with Terminal(place.terminal, place.env, place.project) as terminal:
            open_prompt(terminal)
            for turn in range(MANY_TURNS):
                send(terminal, f"question {turn}")
                terminal.wait_for_text(f"Answer {turn} ends.", 30)
                if turn + 1 in (FEW_TURNS, MANY_TURNS):
                    terminal.run_for(2.0)
                    found[turn + 1] = memory_mb()
        note_outside(installed, server)
    return {"few": found[FEW_TURNS], "many": found[MANY_TURNS], "growth": found[MANY_TURNS] - found[FEW_TURNS]}


def open_prompt(terminal: Terminal) -> None:
    """Wait until the prompt is usable and at rest, and empty it again."""
    _, typed = terminal.wait_until_echoed(START_TIMEOUT_S)
    terminal.run_for(1.0)
    for _ in typed:
        terminal.press("\x7f")
        terminal.run_for(0.01)
    terminal.wait_for(lambda text: not any(key in text for key in typed), 10, "the prompt was not emptied")
    terminal.run_for(0.3)


def send(terminal: Terminal, text: str) -> None:
    """Type a message and send it. Keys that arrive together would be taken for a paste."""
    terminal.press(text)
    terminal.wait_for_text(text, 10)
    terminal.run_for(0.15)
    terminal.press("\r")


def stream_text() -> str:
    """Return an answer that takes `STREAM_SECONDS` to stream, in pieces of seven characters."""
    words = ("the ", "parser ", "reads ", "a token ", "and ", "the line ", "of ", "values ", "then ", "none\n\n")
    dice = random.Random(7)
    length = STREAM_SECONDS * PIECES_PER_SECOND * 7
    return "".join(dice.choice(words) for _ in range(length // 3))[:length]


def start_screens(drawn: Sequence[Drawn], typed: str) -> dict[str, float]:
    """Return by how many lines the prompt has moved since it was first drawn, and how many typed keys it lacks."""
    snapshots = list(screens(drawn))
    last = snapshots[-1]
    first_echo = next(rows for rows in snapshots if row_of(typed, rows) is not None)
    last_row = row_of(typed, last)
    if last_row is None:
        raise MeasurementError("the echoed key has disappeared")
    moves = [last_row - (row_of(typed, first_echo) or 0)]
    mark = prompt_mark(last[last_row], typed)
    if (first_row := first_prompt_row(snapshots, mark)) is not None:
        moves.append((first_prompt_row([last], mark) or 0) - first_row)
    return {"moved": max(map(abs, moves)), "lost": len(typed) - sum(key in typed for key in last[last_row])}


def first_time_of(text: str, drawn: Sequence[Drawn]) -> float:
    """Return when a text was first on the screen."""
    times = (piece.at for piece, rows in zip(drawn, screens(drawn), strict=True) if text in "\n".join(rows))
    return next(times)


def screens(drawn: Sequence[Drawn]) -> Iterator[list[str]]:
    """Yield the screen after each piece of output."""
    screen = Screen(COLUMNS, LINES)
    for piece in drawn:
        screen.feed(piece.raw)
        yield screen.rows


def _run_long_session(folders: Folders, installed: Installed) -> None:
    def answer(number: int) -> Answer:
        return echo_step(number, LONG_STEPS) if number < LONG_STEPS else Answer(text=f"Done.\n\n{LAST_LINE}")

    with ScriptedServer(answer) as server:
        place = setting(folders, installed, "long", server)
        with HeadlessRun(place.headless("Count to the end."), place.env, place.project) as run:
            run.wait(4 * PATIENCE_S)


def ready_place(folders: Folders, installed: Installed, name: ProjectName, server: ScriptedServer) -> Setting:
    """Return the setting of a program that has been asked all that it asks only once in a project."""
    place = setting(folders, installed, name, server)
    answered = folders.home(installed, name) / "answered-questions"
    if installed.program.first_questions and not answered.exists():
        with Terminal(place.terminal, place.env, place.project) as terminal:
            for question, keys in installed.program.first_questions.items():
                terminal.wait_for_text(question, START_TIMEOUT_S)
                terminal.run_for(0.5)
                terminal.press(keys)
            terminal.run_for(3.0)
        answered.touch()
    return place


ROWS = (
    Row(
        "start",
        "terminal, start",
        (
            Metric("usable", "until a typed key is echoed", "s"),
            Metric("cpu", "processor time until then", "s"),
            Metric("after", "processor time in the 5 s after it", "s"),
            Metric("memory", "memory then", "MB"),
            Metric("moved", "prompt moved after its first paint", "lines", is_compared=False),
            Metric("lost", "typed keys lost until then", "keys", is_compared=False),
        ),
        measure_start,
    ),
    Row(
        "echo",
        f"terminal, keys while {PIECES_PER_SECOND} tokens/s stream",
        (
            Metric("p50", "key to echo, median", "ms"),
            Metric("p95", "key to echo, 95 %", "ms"),
            Metric("lost", f"keys not echoed of {KEY_COUNT}", "", is_compared=False),
            Metric("cpu", "processor time", "s"),
        ),
        measure_echo,
        max_runs=3,
    ),
    Row(
        "files",
        "terminal, `@a` in 50,000 files",
        (
            Metric("listed", "until the first list", "s"),
            Metric("cpu", "processor time", "s"),
            Metric("all_cpu", "the same, with the start", "s"),
        ),
        measure_files,
    ),
    Row(
        "resume",
        f"terminal, resume {LONG_STEPS} steps",
        (
            Metric("usable", "until a typed key is echoed", "s"),
            Metric("shown", "until the last line is on screen", "s"),
            Metric("both", "until both", "s"),
            Metric("cpu", "processor time", "s"),
        ),
        measure_resume,
    ),
    Row(
        "memory",
        "terminal, memory over short turns",
        (
            Metric("few", f"after {FEW_TURNS}", "MB"),
            Metric("many", f"after {MANY_TURNS}", "MB"),
            Metric("growth", "growth", "MB"),
        ),
        measure_memory,
        max_runs=1,
        is_slow=True,
    ),
)

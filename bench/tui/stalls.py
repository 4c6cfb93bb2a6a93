"""Measures how long actions in a long session block the event loop of the interface, delaying keys and drawing.

    python -m bench.tui.stalls [MESSAGES] [RUNS] [--only WORDS,WORDS] [--stacks]

Each action runs on a pseudo-terminal, in a session that is completely in context. Reported are its longest stall in
processor time, which is independent of other load, in elapsed time, and the time until the result was shown. `--stacks`
shows where the stalls were."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import compile_sources
from bench.tui.opening import PROMPT
from bench.tui.sessions import LAST, home, store_session
from bench.tui.streaming import Model
from bench.tui.terminal import Terminal
from bench.tui.watched import Stall

ID, OTHER = "aa11bb22cc33", "bb22cc33dd44"
MODEL = "\n[providers.openai-chat.models.other]\ncontext_window = 100000000\nmax_output_tokens = 100000\n"
TOKENS, PACE = 1_000, 200.0
PAGES = 60
QUIET = 0.4
"""Seconds without drawing after which the program is idle."""
FRAMES = 8
"""Number of stack frames shown, plus those of libraries."""
LIBRARIES = ("textual/", "asyncio/", "python3", "rich/", "css/", "cli/main", "cli/start", "tui/watched")


@dataclass(frozen=True, slots=True)
class Act:
    name: str
    do: Callable[[Terminal], float]
    """Perform the action; return the seconds until its result was on the screen."""
    undo: Callable[[Terminal], object] = lambda terminal: None


@dataclass(frozen=True, slots=True)
class ActTime:
    """Times of one action in seconds."""

    cpu: float
    """The longest stall in processor time."""
    longest_stall: float
    """The longest stall in elapsed time."""
    there: float
    holds: tuple[Stall, ...] = ()


def press_keys(*keys: str | tuple[str, str], shows: str) -> Callable[[Terminal], float]:
    """Press keys one after another, each when the program is idle or shows the expected words; the last one is timed
    until `shows` appears."""

    def do(terminal: Terminal) -> float:
        for one in keys[:-1]:
            typed, words = (one, "") if isinstance(one, str) else one
            terminal.press(typed)
            terminal.shows(words)
            terminal.rest(QUIET)
        before, last = terminal.text, keys[-1]
        assert isinstance(last, str), "what is waited for last is `shows`"
        began = terminal.press(last)
        terminal.changes(before)
        return terminal.shows(shows) - began

    return do


def then(*keys: str) -> Callable[[Terminal], None]:
    def do(terminal: Terminal) -> None:
        for one in keys:
            terminal.press(one)
            terminal.rest(QUIET)

    return do


def page_up(terminal: Terminal) -> float:
    """Page up without pause; return the time of the slowest page."""
    worst = 0.0
    for _ in range(PAGES):
        before = terminal.text
        began = terminal.press("\x1b[5~")
        worst = max(worst, terminal.changes(before) - began)
    return worst


def type_while_streaming(terminal: Terminal) -> float:
    """Type while an answer streams; return the time of the slowest key."""
    worst, written = 0.0, "zq"
    terminal.press("tell me everything\r")
    terminal.shows("mark-0 ")
    while f"mark-{TOKENS // 100 - 2} " not in terminal.text:
        key = written if written == "zq" else "abcdefghij"[len(written) % 10]
        written += key if key != written else ""
        began = terminal.press(key)
        worst = max(worst, terminal.shows(written) - began)
        if len(written) > 60:
            terminal.press("\x15")
            terminal.until(lambda text: "zqc" not in text)
            written = "zq"
    return worst


ESC, CLEAR, END = then("\x1b"), then("\x15", "\x15"), then("\x1b[1;5F")
ACTS: Sequence[Act] = (
    Act("a key in the prompt", press_keys("zq", "k", shows="zqk"), CLEAR),
    Act("/sessions", press_keys("/sessions", "\r", shows="msgs"), ESC),
    Act("Ctrl-F", press_keys("\x06", shows="find"), ESC),
    Act("Ctrl-F and a word at once", press_keys("\x06token", shows=" of "), ESC),
    Act("/context", press_keys("/context", "\r", shows="Context"), ESC),
    Act(
        "/context, a word",
        press_keys("/context", ("\r", "usable"), ("/", "type to filter"), "fails", shows=" fails"),
        then("\x1b", "\x1b"),
    ),
    Act("/model", press_keys("/model", "\r", shows="bench"), ESC),
    Act("/archive", press_keys("/archive", "\r", shows=" kept"), ESC),
    Act("/archive, a word", press_keys("/archive", ("\r", " kept"), "test_37", shows="test_37 "), then("\x1b", "\x1b")),
    Act("/why", press_keys("/why parser token", "\r", shows="parser token"), ESC),
    Act("/files", press_keys("/files", "\r", shows="file"), ESC),
    Act("/diff session", press_keys("/diff session", "\r", shows="chang"), ESC),
    Act("Ctrl-P", press_keys("\x10", shows="commands"), ESC),
    Act(f"{PAGES} pages up", page_up, END),
    Act("Ctrl-Home", press_keys("\x1b[1;5H", shows="please look at"), END),
    Act("another size", lambda terminal: terminal.resize(100, 40)[0], lambda terminal: terminal.resize(120, 40)),
    Act("list of /rewind", press_keys("/rewind", "\r", shows="Rewind"), ESC),
    Act("/rewind", press_keys("/rewind", ("\r", "Rewind"), "\x1b[A\x1b[A", "\r", shows="in the prompt again"), CLEAR),
    Act("/resume of another", press_keys(f"/resume {OTHER}", "\r", shows=LAST)),
    Act("another model", press_keys("/model openai-chat/other", ("\r", "Esc"), "\r", shows="the model is now")),
    Act("/clear", press_keys("/clear", "\r", shows="keys and commands")),
    Act("keys while an answer streams", type_while_streaming, CLEAR),
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("messages", nargs="?", type=int, default=10_000)
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--stacks", action="store_true")
    options = parser.parse_args()
    compile_sources()
    waited: dict[str, list[ActTime]] = {}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as name:
            for act, one in once(Path(name), options.messages, options.only.split(",")).items():
                waited.setdefault(act, []).append(one)
    for act, found in waited.items():
        cpu, held, there = (
            [1000 * value for value in values]
            for values in zip(*((one.cpu, one.longest_stall, one.there) for one in found), strict=True)
        )
        print(
            f"{act:30} holds at most {max(cpu):4.0f} ms (median {statistics.median(cpu):3.0f}; passed "
            f"{min(held):4.0f} to {max(held):4.0f}), there after {statistics.median(there):5.0f} ms"
        )
        if options.stacks:
            print_stacks([hold for one in found for hold in one.holds])
    return 0


def once(folder: Path, messages: int, only: Sequence[str]) -> dict[str, ActTime]:
    """Measure the start and each action in one terminal."""
    project, log = folder / "project", folder / "holds.jsonl"
    project.mkdir()
    log.touch()
    model = Model(TOKENS, PACE)
    env = home(folder / "home", model.url)
    with (folder / "home" / "config" / "config.toml").open("a") as file:
        file.write(MODEL)
    for id in (ID, OTHER):
        store_session(folder / "home", project, id, messages)
    found: dict[str, ActTime] = {}
    try:
        with Terminal([sys.executable, "-m", "bench.tui.watched", str(log), "-r", ID], env, project) as terminal:
            painted = terminal.shows(PROMPT)
            terminal.press("zq")
            there = {"start, first paint": painted, "first key": terminal.shows("zq"), "its end": terminal.shows(LAST)}
            terminal.rest(1.0)
            for name, moment in there.items():
                found[name] = _act_time(log, painted, moment - terminal.began)
            CLEAR(terminal)
            for act in ACTS:
                if any(words in act.name for words in only):
                    began = time.monotonic()
                    try:
                        took = act.do(terminal)
                    except AssertionError as error:
                        raise AssertionError(f"{act.name}: {error}") from error
                    terminal.rest(1.0)
                    found[act.name] = _act_time(log, began, took)
                    act.undo(terminal)
    finally:
        model.shutdown()
    return found


def _act_time(log: Path, began: float, took: float) -> ActTime:
    """The stalls since a moment."""
    every = (Stall(**json.loads(line)) for line in log.read_text().splitlines())
    holds = tuple(hold for hold in every if hold.at >= began)
    worst = max((min(hold.cpu, hold.passed) for hold in holds), default=0.0)
    return ActTime(worst, max((hold.passed for hold in holds), default=0.0), took, holds)


def print_stacks(holds: Sequence[Stall]) -> None:
    for hold in sorted(holds, key=lambda hold: -hold.cpu)[:3]:
        print(f"    {1000 * hold.cpu:.0f} ms, passed {1000 * hold.passed:.0f} ms")
        for stack, times in Counter(map(_own, hold.stacks)).most_common(4):
            print(f"    {times:6} {stack}")


def _own(stack: str) -> str:
    """The innermost frame, and our own frames that led to it."""
    first, *rest = stack.split(" < ")
    return " < ".join((first, *[one for one in rest if not one.startswith(LIBRARIES)][:FRAMES]))


if __name__ == "__main__":
    sys.exit(main())

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
from bench.tui.opening import PROMPT_TEXT
from bench.tui.sessions import LAST_LINE, create_home, store_session
from bench.tui.streaming import StreamingServer
from bench.tui.terminal import Terminal
from bench.tui.watched import Stall

SESSION_ID, OTHER_SESSION_ID = "aa11bb22cc33", "bb22cc33dd44"
OTHER_MODEL_SETTINGS = (
    "\n[providers.openai-chat.models.other]\ncontext_window = 100000000\nmax_output_tokens = 100000\n"
)
ANSWER_TOKENS, TOKENS_PER_SECOND = 1_000, 200.0
PAGE_COUNT = 60
IDLE_SECONDS = 0.4
"""Seconds without drawing after which the program is idle."""
MAX_VISIBLE_FRAMES = 8
"""Maximum number of our own stack frames shown."""
LIBRARY_PREFIXES = ("textual/", "asyncio/", "python3", "rich/", "css/", "cli/main", "cli/start", "tui/watched")


@dataclass(frozen=True, slots=True)
class TimedAction:
    name: str
    perform: Callable[[Terminal], float]
    """Performs the action, and returns the seconds until its result was on the screen."""
    revert: Callable[[Terminal], object] = lambda terminal: None


@dataclass(frozen=True, slots=True)
class ActionTime:
    """Times of one action in seconds."""

    cpu: float
    """The longest stall in processor time."""
    longest_stall: float
    """The longest stall in elapsed time."""
    visible_after: float
    stalls: tuple[Stall, ...] = ()


def press_keys(*keys: str | tuple[str, str], shows: str) -> Callable[[Terminal], float]:
    """Return a function that presses keys one after another. Each waits until the program is idle and, if given, shows
    the expected words. The last key is timed until `shows` appears."""

    def perform(terminal: Terminal) -> float:
        for one in keys[:-1]:
            typed, words = (one, "") if isinstance(one, str) else one
            terminal.press(typed)
            terminal.wait_for_text(words)
            terminal.wait_until_idle(IDLE_SECONDS)
        before, last = terminal.text, keys[-1]
        assert isinstance(last, str), "what is waited for last is `shows`"
        began = terminal.press(last)
        terminal.wait_for_change(before)
        return terminal.wait_for_text(shows) - began

    return perform


def press_all(*keys: str) -> Callable[[Terminal], None]:
    def perform(terminal: Terminal) -> None:
        for one in keys:
            terminal.press(one)
            terminal.wait_until_idle(IDLE_SECONDS)

    return perform


def page_up(terminal: Terminal) -> float:
    """Page up without pause, and return the time of the slowest page in seconds."""
    worst = 0.0
    for _ in range(PAGE_COUNT):
        before = terminal.text
        began = terminal.press("\x1b[5~")
        worst = max(worst, terminal.wait_for_change(before) - began)
    return worst


def type_while_streaming(terminal: Terminal) -> float:
    """Type while an answer streams, and return the time of the slowest key in seconds."""
    worst, written = 0.0, "zq"
    terminal.press("tell me everything\r")
    terminal.wait_for_text("mark-0 ")
    while f"mark-{ANSWER_TOKENS // 100 - 2} " not in terminal.text:
        key = written if written == "zq" else "abcdefghij"[len(written) % 10]
        written += key if key != written else ""
        began = terminal.press(key)
        worst = max(worst, terminal.wait_for_text(written) - began)
        if len(written) > 60:
            terminal.press("\x15")
            terminal.wait_until(lambda text: "zqc" not in text)
            written = "zq"
    return worst


PRESS_ESCAPE, CLEAR_INPUT, SCROLL_TO_END = press_all("\x1b"), press_all("\x15", "\x15"), press_all("\x1b[1;5F")
ACTIONS: Sequence[TimedAction] = (
    TimedAction("a key in the prompt", press_keys("zq", "k", shows="zqk"), CLEAR_INPUT),
    TimedAction("/sessions", press_keys("/sessions", "\r", shows="msgs"), PRESS_ESCAPE),
    TimedAction("Ctrl-F", press_keys("\x06", shows="find"), PRESS_ESCAPE),
    TimedAction("Ctrl-F and a word at once", press_keys("\x06token", shows=" of "), PRESS_ESCAPE),
    TimedAction("/context", press_keys("/context", "\r", shows="Context"), PRESS_ESCAPE),
    TimedAction(
        "/context, a word",
        press_keys("/context", ("\r", "usable"), ("/", "type to filter"), "fails", shows=" fails"),
        press_all("\x1b", "\x1b"),
    ),
    TimedAction("/model", press_keys("/model", "\r", shows="bench"), PRESS_ESCAPE),
    TimedAction("/archive", press_keys("/archive", "\r", shows=" kept"), PRESS_ESCAPE),
    TimedAction(
        "/archive, a word",
        press_keys("/archive", ("\r", " kept"), "test_37", shows="test_37 "),
        press_all("\x1b", "\x1b"),
    ),
    TimedAction("/why", press_keys("/why parser token", "\r", shows="parser token"), PRESS_ESCAPE),
    TimedAction("/files", press_keys("/files", "\r", shows="file"), PRESS_ESCAPE),
    TimedAction("/diff session", press_keys("/diff session", "\r", shows="chang"), PRESS_ESCAPE),
    TimedAction("Ctrl-P", press_keys("\x10", shows="commands"), PRESS_ESCAPE),
    TimedAction(f"{PAGE_COUNT} pages up", page_up, SCROLL_TO_END),
    TimedAction("Ctrl-Home", press_keys("\x1b[1;5H", shows="please look at"), SCROLL_TO_END),
    TimedAction(
        "another size", lambda terminal: terminal.resize(100, 40)[0], lambda terminal: terminal.resize(120, 40)
    ),
    TimedAction("list of /rewind", press_keys("/rewind", "\r", shows="Rewind"), PRESS_ESCAPE),
    TimedAction(
        "/rewind",
        press_keys("/rewind", ("\r", "Rewind"), "\x1b[A\x1b[A", "\r", shows="in the prompt again"),
        CLEAR_INPUT,
    ),
    TimedAction("/resume of another", press_keys(f"/resume {OTHER_SESSION_ID}", "\r", shows=LAST_LINE)),
    TimedAction("another model", press_keys("/model openai-chat/other", ("\r", "Esc"), "\r", shows="the model is now")),
    TimedAction("/clear", press_keys("/clear", "\r", shows="keys and commands")),
    TimedAction("keys while an answer streams", type_while_streaming, CLEAR_INPUT),
)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("messages", nargs="?", type=int, default=10_000)
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--stacks", action="store_true")
    options = parser.parse_args()
    compile_sources()
    action_times: dict[str, list[ActionTime]] = {}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as name:
            for act, one in measure_actions(Path(name), options.messages, options.only.split(",")).items():
                action_times.setdefault(act, []).append(one)
    for act, found in action_times.items():
        cpu, blocked, there = (
            [1000 * value for value in values]
            for values in zip(*((one.cpu, one.longest_stall, one.visible_after) for one in found), strict=True)
        )
        print(
            f"{act:30} holds at most {max(cpu):4.0f} ms (median {statistics.median(cpu):3.0f}; passed "
            f"{min(blocked):4.0f} to {max(blocked):4.0f}), there after {statistics.median(there):5.0f} ms"
        )
        if options.stacks:
            print_stacks([hold for one in found for hold in one.stalls])
    return 0


def measure_actions(folder: Path, messages: int, only: Sequence[str]) -> dict[str, ActionTime]:
    """Return the measurements of the start and of each action, in one terminal."""
    project, log = folder / "project", folder / "holds.jsonl"
    project.mkdir()
    log.touch()
    model = StreamingServer(ANSWER_TOKENS, TOKENS_PER_SECOND)
    env = create_home(folder / "home", model.url)
    with (folder / "home" / "config" / "config.toml").open("a") as file:
        file.write(OTHER_MODEL_SETTINGS)
    for id in (SESSION_ID, OTHER_SESSION_ID):
        store_session(folder / "home", project, id, messages)
    found: dict[str, ActionTime] = {}
    try:
        with Terminal(
            [sys.executable, "-m", "bench.tui.watched", str(log), "-r", SESSION_ID], env, project
        ) as terminal:
            painted = terminal.wait_for_text(PROMPT_TEXT)
            terminal.press("zq")
            there = {
                "start, first paint": painted,
                "first key": terminal.wait_for_text("zq"),
                "its end": terminal.wait_for_text(LAST_LINE),
            }
            terminal.wait_until_idle(1.0)
            for name, moment in there.items():
                found[name] = _action_time(log, painted, moment - terminal.began)
            CLEAR_INPUT(terminal)
            for act in ACTIONS:
                if any(words in act.name for words in only):
                    began = time.monotonic()
                    try:
                        took = act.perform(terminal)
                    except AssertionError as error:
                        raise AssertionError(f"{act.name}: {error}") from error
                    terminal.wait_until_idle(1.0)
                    found[act.name] = _action_time(log, began, took)
                    act.revert(terminal)
    finally:
        model.shutdown()
    return found


def _action_time(log: Path, began: float, took: float) -> ActionTime:
    """Return the time of an action that began at `began`, with the stalls since then."""
    every = (Stall(**json.loads(line)) for line in log.read_text().splitlines())
    holds = tuple(hold for hold in every if hold.at >= began)
    worst = max((min(hold.cpu, hold.passed) for hold in holds), default=0.0)
    return ActionTime(worst, max((hold.passed for hold in holds), default=0.0), took, holds)


def print_stacks(holds: Sequence[Stall]) -> None:
    for hold in sorted(holds, key=lambda hold: -hold.cpu)[:3]:
        print(f"    {1000 * hold.cpu:.0f} ms, passed {1000 * hold.passed:.0f} ms")
        for stack, times in Counter(map(_own_frames, hold.stacks)).most_common(4):
            print(f"    {times:6} {stack}")


def _own_frames(stack: str) -> str:
    """Return the innermost frame of a stack, and those of our own frames that led to it."""
    first, *rest = stack.split(" < ")
    return " < ".join((first, *[one for one in rest if not one.startswith(LIBRARY_PREFIXES)][:MAX_VISIBLE_FRAMES]))


if __name__ == "__main__":
    sys.exit(main())

"""Measures the time to the first frame of the interface, compared with an empty Textual app, the processor time that a
start takes before and after it, and the time to the end of a long session.

    python -m bench.tui.opening [RUNS]"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import compile_sources, format_row, minimal_environment
from bench.tui.sessions import LAST_LINE, create_home, ebb_command, store_session
from bench.tui.terminal import Terminal

EMPTY_APP_PROGRAM = """\
from textual.app import App, ComposeResult
from textual.widgets import Static


class Empty(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("ready")


Empty().run()
"""
PROMPT_TEXT = "Ask, or / for commands"
OPENING_RUNS = 5
IDLE_SECONDS = 0.25
"""Seconds without drawing after which the program is idle."""
SESSION_LENGTHS = {"aaaa": 20, "bbbb": 2_000, "cccc": 50_000}


@dataclass(frozen=True, slots=True)
class StartCost:
    """Processor time of a start, in seconds."""

    until_painted: float
    """Until the first paint."""
    until_rest: float
    """From then until the program is at rest, without a key."""
    after_key: float
    """From the first key until the program is at rest again."""


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        env = create_home(folder)
        (project / "empty.py").write_text(EMPTY_APP_PROGRAM)
        for session_id, count in SESSION_LENGTHS.items():
            store_session(folder, project, session_id, count)
        store_session(folder, project, "dddd", SESSION_LENGTHS["cccc"], visible=200)
        empty = [sys.executable, "empty.py"]
        first_paints: dict[str, list[float]] = {"empty": [], "ebb": [], "resumed": []}
        costs, empty_costs = list[StartCost](), list[float]()
        for _ in range(runs + 1):  # the first round warms the page cache and is discarded
            first_paints["empty"].append(
                seconds_until_visible(empty, minimal_environment(folder, {}), project, "ready")
            )
            first_paints["ebb"].append(seconds_until_visible(ebb_command(), env, project, PROMPT_TEXT))
            first_paints["resumed"].append(seconds_until_visible(ebb_command("-r", "bbbb"), env, project, LAST_LINE))
            costs.append(start_cost(ebb_command(), env, project, PROMPT_TEXT))
            empty_costs.append(
                start_cost(empty, minimal_environment(folder, {}), project, "ready", key_text="").until_painted
            )
        opened = {id: [resume_ms(env, project, id) for _ in range(OPENING_RUNS)] for id in ("bbbb", "cccc", "dddd")}
    print(format_row("empty Textual app: first paint", first_paints["empty"][1:], "s"))
    print(format_row("ebb: first paint", first_paints["ebb"][1:], "s"))
    print(format_row("ebb: of the empty app's", ratios(first_paints["ebb"], first_paints["empty"]), "x", 1.5))
    print(
        format_row(
            "ebb -r, 2,000 messages: of the empty app's", ratios(first_paints["resumed"], first_paints["empty"]), "x"
        )
    )
    print(format_row("empty Textual app: processor time", empty_costs[1:], "s"))
    print(format_row("ebb: processor time until the first paint", [cost.until_painted for cost in costs[1:]], "s", 0.6))
    print(format_row("ebb: from then on, without a key", [cost.until_rest for cost in costs[1:]], "s"))
    print(format_row("ebb: after the first key", [cost.after_key for cost in costs[1:]], "s"))
    for id, times in opened.items():
        length = "50,000 messages, 200 in view" if id == "dddd" else f"{SESSION_LENGTHS[id]:,} messages"
        print(format_row(f"/resume, {length}: to its end", times, "ms", 500))
    return 0


def seconds_until_visible(command: Sequence[str], env: dict[str, str], cwd: Path, words: str) -> float:
    """Return the seconds from the start of a program until it shows these words."""
    with Terminal(command, env, cwd) as terminal:
        return terminal.wait_for_text(words) - terminal.began


def start_cost(
    command: Sequence[str], env: dict[str, str], cwd: Path, words: str, key_text: str = "typed"
) -> StartCost:
    """Return the processor time of a program that shows these words, and to which this text is typed once it is at
    rest."""
    with Terminal(command, env, cwd) as terminal:
        terminal.wait_for_text(words)
        painted = terminal.read_cpu()
        terminal.wait_until_at_rest()
        at_rest = terminal.read_cpu()
        if key_text:
            terminal.press(key_text)
            terminal.wait_for_text(key_text)
            terminal.wait_until_at_rest()
        return StartCost(painted, at_rest - painted, terminal.read_cpu() - at_rest)


def resume_ms(env: dict[str, str], project: Path, id: str) -> float:
    """Return the milliseconds from Enter after `/resume` until the session's last line is shown, in a process that had
    another session open."""
    with Terminal(ebb_command("-r", "aaaa"), env, project) as terminal:
        terminal.wait_for_text(LAST_LINE)
        terminal.wait_until_idle(IDLE_SECONDS)
        terminal.press("/clear\r")
        terminal.wait_until(lambda text: LAST_LINE not in text)
        terminal.wait_until_idle(IDLE_SECONDS)
        terminal.press(f"/resume {id}")
        terminal.wait_until_idle(IDLE_SECONDS)
        began = terminal.press("\r")
        return (terminal.wait_for_text(LAST_LINE) - began) * 1000


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [our / their for our, their in zip(ours[1:], theirs[1:], strict=True)]


if __name__ == "__main__":
    sys.exit(main())

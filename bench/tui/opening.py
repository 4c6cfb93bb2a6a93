"""Measures the time to the first frame of the interface, compared with an empty Textual app, and to the end of a long
session.

    python -m bench.tui.opening [RUNS]"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import compile_sources, environment, row
from bench.tui.sessions import LAST, ebb, home, store_session
from bench.tui.terminal import Terminal

EMPTY = """\
from textual.app import App, ComposeResult
from textual.widgets import Static


class Empty(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("ready")


Empty().run()
"""
PROMPT = "Ask, or / for commands"
OPENINGS = 5
QUIET = 0.25
"""Seconds without drawing after which the program is idle."""
LONG = {"aaaa": 20, "bbbb": 2_000, "cccc": 50_000}


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        env = home(folder)
        (project / "empty.py").write_text(EMPTY)
        for long, count in LONG.items():
            store_session(folder, project, long, count)
        store_session(folder, project, "dddd", LONG["cccc"], shown=200)
        empty = [sys.executable, "empty.py"]
        first: dict[str, list[float]] = {"empty": [], "ebb": [], "resumed": []}
        for _ in range(runs + 1):  # the first round warms the page cache and is discarded
            first["empty"].append(seconds(empty, environment(folder, {}), project, "ready"))
            first["ebb"].append(seconds(ebb(), env, project, PROMPT))
            first["resumed"].append(seconds(ebb("-r", "bbbb"), env, project, LAST))
        opened = {id: [opening(env, project, id) for _ in range(OPENINGS)] for id in ("bbbb", "cccc", "dddd")}
    print(row("empty Textual app: first paint", first["empty"][1:], "s"))
    print(row("ebb: first paint", first["ebb"][1:], "s"))
    print(row("ebb: of the empty app's", ratios(first["ebb"], first["empty"]), "x", 1.5))
    print(row("ebb -r, 2,000 messages: of the empty app's", ratios(first["resumed"], first["empty"]), "x"))
    for id, times in opened.items():
        length = "50,000 messages, 200 in view" if id == "dddd" else f"{LONG[id]:,} messages"
        print(row(f"/resume, {length}: to its end", times, "ms", 500))
    return 0


def seconds(command: Sequence[str], env: dict[str, str], cwd: Path, words: str) -> float:
    """Seconds from the start of a program until it shows these words."""
    with Terminal(command, env, cwd) as terminal:
        return terminal.shows(words) - terminal.began


def opening(env: dict[str, str], project: Path, id: str) -> float:
    """Milliseconds from Enter after `/resume` to the last line of the session, in a process that has opened another
    one."""
    with Terminal(ebb("-r", "aaaa"), env, project) as terminal:
        terminal.shows(LAST)
        terminal.rest(QUIET)
        terminal.press("/clear\r")
        terminal.until(lambda text: LAST not in text)
        terminal.rest(QUIET)
        terminal.press(f"/resume {id}")
        terminal.rest(QUIET)
        began = terminal.press("\r")
        return (terminal.shows(LAST) - began) * 1000


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [our / their for our, their in zip(ours[1:], theirs[1:], strict=True)]


if __name__ == "__main__":
    sys.exit(main())

"""Measures the interface in use, with a long history: keys, resizing, idle time and memory.

python -m bench.tui.working [MESSAGES]"""

import random
import string
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import compile_sources, row
from bench.tui.sessions import LAST, ebb, home, store_session
from bench.tui.terminal import Terminal

ID = "aa11bb22cc33"
KEYS = 200
SIZES = ((100, 40), (120, 40), (80, 24), (200, 60), (60, 30), (120, 40)) * 3
IDLE = 10.0
"""Idle time in seconds."""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        env = home(folder)
        store_session(folder, project, ID, count)
        with Terminal(ebb("-r", ID), env, project) as terminal:
            terminal.shows(LAST)
            terminal.rest()
            opened = terminal.load().peak_mb
            keys = key_delays_ms(terminal)
            print(row("key to paint", keys, "ms"))
            print(row("key to paint", keys, "ms", 16, share=0.95))
            print(row("keys dropped of 600 at once", [dropped_keys(terminal)], "", 0))
            pages = page_delays_ms(terminal)
            print(row("PgUp to paint", pages, "ms", share=0.95))
            sizes = [terminal.resize(*size) for size in SIZES]
            resized = [took * 1000 for took, _ in sizes]
            print(row("resize to the first correct screen", resized, "ms"))
            print(row("resize to the first correct screen", resized, "ms", 100, share=0.95))
            print(row("wrong pictures before it", [float(wrong) for _, wrong in sizes], ""))
            before = terminal.load()
            began = time.monotonic()
            terminal.rest(IDLE)
            after, seconds = terminal.load(), time.monotonic() - began
            print(row("processor at rest", [100 * (after.cpu - before.cpu) / seconds], "%", 1))
            print(row("wake-ups at rest, all threads", [(after.wakes - before.wakes) / seconds], "1/s"))
            print(row("memory when opened", [opened], "MB"))
            print(row("peak memory", [after.peak_mb], "MB", 120))
    return 0


def key_delays_ms(terminal: Terminal) -> list[float]:
    """Milliseconds from each key to its letter on the screen, at typing speed."""
    times, dice, written = [], random.Random(7), ""
    for number in range(KEYS):
        if number % 40 == 0:
            terminal.press("\x15\x15>>")  # Ctrl-U clears the line
            written = ">>"
            terminal.rest(0.3)
        written += dice.choice(string.ascii_lowercase)
        began = time.monotonic()
        terminal.press(written[-1])
        times.append((terminal.shows(written) - began) * 1000)
        terminal.rest(0.03 + 0.05 * dice.random())
    terminal.press("\x15" * 3)
    terminal.rest()
    return times


def dropped_keys(terminal: Terminal) -> float:
    """Number of keys, of 600 typed at once, that did not reach the prompt."""
    before = terminal.text.count("~")
    terminal.press("~" * 600)
    terminal.rest(1.0)
    missing = 600 - (terminal.text.count("~") - before)
    terminal.press("\x15" * 20)
    terminal.rest()
    return float(missing)


def page_delays_ms(terminal: Terminal) -> list[float]:
    """Milliseconds from PgUp to a changed screen."""
    times = []
    for _ in range(40):
        before = terminal.text
        began = time.monotonic()
        terminal.press("\x1b[5~")
        times.append((terminal.changes(before) - began) * 1000)
        terminal.rest(0.1)
    terminal.press("\x1b[1;5F")  # Ctrl-End
    terminal.rest()
    return times


if __name__ == "__main__":
    sys.exit(main())

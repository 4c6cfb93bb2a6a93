"""Measures the interface in use, with a long history: keys, resizing, idle time and memory.

python -m bench.tui.working [MESSAGES]"""

import random
import string
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import compile_sources, format_row
from bench.tui.sessions import LAST_LINE, create_home, ebb_command, store_session
from bench.tui.terminal import Terminal

SESSION_ID = "aa11bb22cc33"
KEY_COUNT = 200
SCREEN_SIZES = ((100, 40), (120, 40), (80, 24), (200, 60), (60, 30), (120, 40)) * 3
IDLE_SECONDS = 10.0
"""Idle time in seconds."""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name) / "home", Path(name) / "project"
        project.mkdir()
        env = create_home(folder)
        store_session(folder, project, SESSION_ID, count)
        with Terminal(ebb_command("-r", SESSION_ID), env, project) as terminal:
            terminal.wait_for_text(LAST_LINE)
            terminal.wait_until_idle()
            opened = terminal.read_load().peak_mb
            keys = key_delays_ms(terminal)
            print(format_row("key to paint", keys, "ms"))
            print(format_row("key to paint", keys, "ms", 16, share=0.95))
            print(format_row("keys dropped of 600 at once", [dropped_keys(terminal)], "", 0))
            pages = page_delays_ms(terminal)
            print(format_row("PgUp to paint", pages, "ms", share=0.95))
            sizes = [terminal.resize(*size) for size in SCREEN_SIZES]
            resized = [took * 1000 for took, _ in sizes]
            print(format_row("resize to the first correct screen", resized, "ms"))
            print(format_row("resize to the first correct screen", resized, "ms", 100, share=0.95))
            print(format_row("wrong pictures before it", [float(wrong) for _, wrong in sizes], ""))
            before = terminal.read_load()
            began = time.monotonic()
            terminal.wait_until_idle(IDLE_SECONDS)
            after, seconds = terminal.read_load(), time.monotonic() - began
            print(format_row("processor at rest", [100 * (after.cpu - before.cpu) / seconds], "%", 1))
            print(format_row("wake-ups at rest, all threads", [(after.wakes - before.wakes) / seconds], "1/s"))
            print(format_row("memory when opened", [opened], "MB"))
            print(format_row("peak memory", [after.peak_mb], "MB", 120))
    return 0


def key_delays_ms(terminal: Terminal) -> list[float]:
    """Return the milliseconds from each key, at typing speed, to its letter on the screen."""
    times, dice, written = [], random.Random(7), ""
    for number in range(KEY_COUNT):
        if number % 40 == 0:
            terminal.press("\x15\x15>>")  # Ctrl-U clears the line
            written = ">>"
            terminal.wait_until_idle(0.3)
        written += dice.choice(string.ascii_lowercase)
        began = time.monotonic()
        terminal.press(written[-1])
        times.append((terminal.wait_for_text(written) - began) * 1000)
        terminal.wait_until_idle(0.03 + 0.05 * dice.random())
    terminal.press("\x15" * 3)
    terminal.wait_until_idle()
    return times


def dropped_keys(terminal: Terminal) -> float:
    """Return how many of 600 keys typed at once did not reach the prompt."""
    before = terminal.text.count("~")
    terminal.press("~" * 600)
    terminal.wait_until_idle(1.0)
    missing = 600 - (terminal.text.count("~") - before)
    terminal.press("\x15" * 20)
    terminal.wait_until_idle()
    return float(missing)


def page_delays_ms(terminal: Terminal) -> list[float]:
    """Return the milliseconds from each PgUp to a changed screen."""
    times = []
    for _ in range(40):
        before = terminal.text
        began = time.monotonic()
        terminal.press("\x1b[5~")
        times.append((terminal.wait_for_change(before) - began) * 1000)
        terminal.wait_until_idle(0.1)
    terminal.press("\x1b[1;5F")  # Ctrl-End
    terminal.wait_until_idle()
    return times


if __name__ == "__main__":
    sys.exit(main())

"""Measures how soon `@` with letters offers files in a large folder, and whether keys are delayed while the list is
built.

    python -m bench.tui.attaching [FILES]"""

import sys
import tempfile
import time
from pathlib import Path

from bench.measure import compile_sources, format_row
from bench.tui.sessions import create_home, ebb_command
from bench.tui.terminal import Terminal

RUNS = 7
FILES_PER_FOLDER = 100
"""Files per folder."""
TOP_FOLDERS = 20
"""Number of top folders that contain the others."""
SEARCHED_NAME = "parser"
TYPED_LETTERS = "writtenwhilethelistismade"


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "project"
        make_files(project, count)
        env = create_home(Path(name) / "home")
        first_delays: list[float] = []
        later_delays: list[float] = []
        key_delays: list[float] = []
        for _ in range(RUNS):
            with Terminal(ebb_command(), env, project) as terminal:
                terminal.wait_for_text("context")  # the session is open
                terminal.wait_until_idle()
                first_delays.append(offer_delay_ms(terminal))
                terminal.press("\x1b\x15")
                key_delays += key_delays_ms(terminal)
                terminal.wait_until_idle(1.0)
                terminal.press("\x15")
                terminal.wait_until_idle()
                later_delays.append(offer_delay_ms(terminal))
    print(format_row("letters behind `@`, no list yet: to offers", first_delays, "ms", 100))
    print(format_row("the same with the list made", later_delays, "ms", 100))
    print(format_row("key to paint while it is made", key_delays, "ms", 16, share=0.95))
    return 0


def make_files(folder: Path, count: int) -> None:
    """Create `count` empty files, a hundred per folder, with realistic names."""
    for number in range(count // FILES_PER_FOLDER):
        place = folder / f"part{number % TOP_FOLDERS:02}" / f"unit{number:04}"
        place.mkdir(parents=True)
        for index in range(FILES_PER_FOLDER):
            (place / f"{SEARCHED_NAME if index == FILES_PER_FOLDER // 2 else 'module'}_{index:02}.py").touch()


def offer_delay_ms(terminal: Terminal) -> float:
    """Return the milliseconds from typing letters after `@` until a matching file is offered."""
    began = time.monotonic()
    terminal.press(f"@{SEARCHED_NAME}")
    return (terminal.wait_for_text(f"{SEARCHED_NAME}_") - began) * 1000


def key_delays_ms(terminal: Terminal) -> list[float]:
    """Return the milliseconds from each key to its letter on the screen."""
    times, written = [], ""
    for letter in TYPED_LETTERS:
        written += letter
        began = time.monotonic()
        terminal.press(letter)
        times.append((terminal.wait_for_text(written) - began) * 1000)
    return times


if __name__ == "__main__":
    sys.exit(main())

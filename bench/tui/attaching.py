"""Measures how soon `@` with letters offers files in a large folder, and whether keys are delayed while the list is
built.

    python -m bench.tui.attaching [FILES]"""

import sys
import tempfile
import time
from pathlib import Path

from bench.measure import compile_sources, row
from bench.tui.sessions import ebb, home
from bench.tui.terminal import Terminal

RUNS = 7
EACH = 100
"""Files per folder."""
FOLDERS = 20
"""Number of top folders that contain the others."""
SOUGHT = "parser"
LETTERS = "writtenwhilethelistismade"


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "project"
        make_files(project, count)
        env = home(Path(name) / "home")
        soon: list[float] = []
        known: list[float] = []
        keys: list[float] = []
        for _ in range(RUNS):
            with Terminal(ebb(), env, project) as terminal:
                terminal.shows("context")  # the session is open
                terminal.rest()
                soon.append(offer_delay_ms(terminal))
                terminal.press("\x1b\x15")
                keys += key_delays_ms(terminal)
                terminal.rest(1.0)
                terminal.press("\x15")
                terminal.rest()
                known.append(offer_delay_ms(terminal))
    print(row("letters behind `@`, no list yet: to offers", soon, "ms", 100))
    print(row("the same with the list made", known, "ms", 100))
    print(row("key to paint while it is made", keys, "ms", 16, share=0.95))
    return 0


def make_files(folder: Path, count: int) -> None:
    """Create `count` empty files, a hundred per folder, with realistic names."""
    for number in range(count // EACH):
        place = folder / f"part{number % FOLDERS:02}" / f"unit{number:04}"
        place.mkdir(parents=True)
        for index in range(EACH):
            (place / f"{SOUGHT if index == EACH // 2 else 'module'}_{index:02}.py").touch()


def offer_delay_ms(terminal: Terminal) -> float:
    """Milliseconds from typing letters after `@` to a matching file."""
    began = time.monotonic()
    terminal.press(f"@{SOUGHT}")
    return (terminal.shows(f"{SOUGHT}_") - began) * 1000


def key_delays_ms(terminal: Terminal) -> list[float]:
    """Milliseconds from each key to its letter on the screen."""
    times, written = [], ""
    for letter in LETTERS:
        written += letter
        began = time.monotonic()
        terminal.press(letter)
        times.append((terminal.shows(written) - began) * 1000)
    return times


if __name__ == "__main__":
    sys.exit(main())

"""Measures drawing of the transcript inside the process: opening sessions and adding blocks.

python -m bench.tui.drawing [MESSAGES]"""

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual.app import App, ComposeResult
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from bench.measure import row
from bench.tui.sessions import ANSWER, history
from ebbtide.agent.messages import Conversation
from ebbtide.tui.text.themes import DARK
from ebbtide.tui.view.blocks import AnswerText, SessionView
from ebbtide.tui.view.resumed import view_of
from ebbtide.tui.widgets.transcript import TranscriptView

ADDED_BLOCKS = 100
SHORT = 20
FRAME = 20
"""Bytes below which a write does not count as a frame."""


class Paper(HeadlessDriver):
    """A driver that draws everything without a terminal."""

    drawn = asyncio.Event()
    drawn_at = 0.0
    """`time.perf_counter()` of the last frame."""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        if len(data) > FRAME:
            Paper.drawn_at = time.perf_counter()
            Paper.drawn.set()


@dataclass(frozen=True, slots=True)
class Times:
    """Times in milliseconds."""

    opened: float
    added: list[float]


class Stage(App[None]):
    """An app with only the transcript."""

    CSS = "Transcript { overflow-y: scroll; overflow-x: hidden; }"

    def compose(self) -> ComposeResult:
        yield TranscriptView()

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.register_theme(DARK)
        self.theme = DARK.name


def main() -> int:
    gc.set_threshold(100_000, 50, 100)  # as `ebb` does
    short = asyncio.run(measure_drawing(SHORT)).added
    for count in [int(number) for number in sys.argv[1:]] or [2_000, 50_000]:
        times = asyncio.run(measure_drawing(count))
        print(row(f"{count:,} messages: opened and painted", [times.opened], "ms", 500))
        print(row(f"{count:,} messages: append to paint", times.added, "ms"))
        print(row(f"{count:,} messages: append to paint", times.added, "ms", 30, share=0.95))
        ratio = statistics.median(times.added) / statistics.median(short)
        print(row(f"beside a session of {SHORT} messages", [ratio], "x", 1.5))
    return 0


async def measure_drawing(count: int, more: int = ADDED_BLOCKS) -> Times:
    """Measure opening a session of `count` messages, and adding `more` blocks."""
    view = view_of(Conversation(tuple(message for _, message in zip(range(count), history(), strict=False))))
    Paper.drawn = asyncio.Event()
    stage, opened, added = Stage(driver_class=Paper), [0.0], [0.0]

    async def drive(pilot: Pilot[object]) -> None:
        nonlocal view
        await pilot.pause(0.3)
        transcript = stage.query_one(TranscriptView)
        opened[0] = await paint_ms(partial(transcript.restart, view.past))
        added.clear()
        for number in range(more):
            view = SessionView(view.past, (*view.turn, AnswerText(ANSWER.format(count=number))))
            added.append(await paint_ms(partial(transcript.show, view.past, view.turn)))
        stage.exit()

    await stage.run_async(size=(120, 40), auto_pilot=drive)
    return Times(opened[0], added)


async def paint_ms(act: Callable[[], object]) -> float:
    """Milliseconds from an action to the frame that shows it; later frames are not counted."""
    Paper.drawn.clear()
    began = time.perf_counter()
    act()
    await Paper.drawn.wait()
    took = (Paper.drawn_at - began) * 1000
    await asyncio.sleep(0.05)
    return took


if __name__ == "__main__":
    sys.exit(main())

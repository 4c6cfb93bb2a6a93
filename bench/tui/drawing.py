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

from bench.measure import format_row
from bench.tui.sessions import ANSWER_TEMPLATE, endless_history
from ebbtide.agent.messages import Conversation
from ebbtide.tui.text.themes import DARK
from ebbtide.tui.view.blocks import AnswerText, SessionView
from ebbtide.tui.view.resumed import build_resumed_view
from ebbtide.tui.widgets.transcript import TranscriptView

ADDED_BLOCKS = 100
SHORT_SESSION_MESSAGES = 20
MIN_FRAME_BYTES = 20
"""Minimum size in bytes of a write that counts as a frame."""


class RecordingDriver(HeadlessDriver):
    """A driver that draws everything without a terminal, and records when."""

    drawn = asyncio.Event()
    drawn_at = 0.0
    """`time.perf_counter()` of the last frame."""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        if len(data) > MIN_FRAME_BYTES:
            RecordingDriver.drawn_at = time.perf_counter()
            RecordingDriver.drawn.set()


@dataclass(frozen=True, slots=True)
class DrawingTimes:
    """Times in milliseconds."""

    opened: float
    added: list[float]


class TranscriptApp(App[None]):
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
    short = asyncio.run(measure_drawing(SHORT_SESSION_MESSAGES)).added
    for count in [int(number) for number in sys.argv[1:]] or [2_000, 50_000]:
        times = asyncio.run(measure_drawing(count))
        print(format_row(f"{count:,} messages: opened and painted", [times.opened], "ms", 500))
        print(format_row(f"{count:,} messages: append to paint", times.added, "ms"))
        print(format_row(f"{count:,} messages: append to paint", times.added, "ms", 30, share=0.95))
        ratio = statistics.median(times.added) / statistics.median(short)
        print(format_row(f"beside a session of {SHORT_SESSION_MESSAGES} messages", [ratio], "x", 1.5))
    return 0


async def measure_drawing(count: int, added_blocks: int = ADDED_BLOCKS) -> DrawingTimes:
    """Measure opening a session of `count` messages, and adding `added_blocks` blocks."""
    view = build_resumed_view(
        Conversation(tuple(message for _, message in zip(range(count), endless_history(), strict=False)))
    )
    RecordingDriver.drawn = asyncio.Event()
    app, open_ms, add_ms = TranscriptApp(driver_class=RecordingDriver), [0.0], [0.0]

    async def drive(pilot: Pilot[object]) -> None:
        nonlocal view
        await pilot.pause(0.3)
        transcript = app.query_one(TranscriptView)
        open_ms[0] = await paint_ms(partial(transcript.replace_blocks, view.past_blocks))
        add_ms.clear()
        for number in range(added_blocks):
            view = SessionView(view.past_blocks, (*view.turn_blocks, AnswerText(ANSWER_TEMPLATE.format(count=number))))
            add_ms.append(await paint_ms(partial(transcript.show, view.past_blocks, view.turn_blocks)))
        app.exit()

    await app.run_async(size=(120, 40), auto_pilot=drive)
    return DrawingTimes(open_ms[0], add_ms)


async def paint_ms(act: Callable[[], object]) -> float:
    """Return the milliseconds from an action to the frame that shows it. Later frames are not counted."""
    RecordingDriver.drawn.clear()
    began = time.perf_counter()
    act()
    await RecordingDriver.drawn.wait()
    took = (RecordingDriver.drawn_at - began) * 1000
    await asyncio.sleep(0.05)
    return took


if __name__ == "__main__":
    sys.exit(main())

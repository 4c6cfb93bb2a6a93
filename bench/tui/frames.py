"""Measures the processor time of the frames of a growing answer, inside the process.

python -m bench.tui.frames [TOKENS]"""

import asyncio
import gc
import random
import sys
import time
from collections.abc import Iterator, Sequence

from textual.pilot import Pilot

from bench.measure import format_row
from bench.tui.answers import ANSWER_TEXTS, split_tokens
from bench.tui.drawing import RecordingDriver, TranscriptApp
from ebbtide.tui.view.blocks import AnswerText, Block, ReasoningBlock
from ebbtide.tui.widgets.transcript import TranscriptView

TOKENS_PER_FRAME = 17
"""200 tokens a second at 12 frames a second."""


def main() -> int:
    gc.set_threshold(100_000, 50, 100)  # as `ebb` does
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    for name in ANSWER_TEXTS:
        times = asyncio.run(measure_frames(growing_texts(name, tokens), is_reasoning=name == "thinking"))
        for label, values in zip(("drawn", "painted"), zip(*times, strict=True), strict=True):
            milliseconds = [1000 * value for value in values]
            print(format_row(f"{name}: {label}", milliseconds, "ms", share=0.95))
    return 0


def growing_texts(name: str, token_count: int) -> Iterator[str]:
    """Yield an answer as it is at each frame."""
    text, tokens = "", split_tokens(ANSWER_TEXTS[name](random.Random(7)))
    for _ in range(token_count // TOKENS_PER_FRAME):
        text += "".join(next(tokens) for _ in range(TOKENS_PER_FRAME))
        yield text


async def measure_frames(texts: Iterator[str], *, is_reasoning: bool = False) -> Sequence[tuple[float, float]]:
    """Show a text as it grows. Return the seconds of processor time for drawing and for painting each frame."""
    app, times = TranscriptApp(driver_class=RecordingDriver), list[tuple[float, float]]()

    async def drive(pilot: Pilot[object]) -> None:
        await pilot.pause(0.3)
        transcript = app.query_one(TranscriptView)
        transcript.set_detail(thoughts="open")
        for text in texts:
            block: Block = (ReasoningBlock if is_reasoning else AnswerText)(text, is_streaming=True)
            RecordingDriver.drawn.clear()
            began = time.thread_time()
            transcript.show((), (block,))
            drawn = time.thread_time()
            await RecordingDriver.drawn.wait()
            await asyncio.sleep(0.02)
            times.append((drawn - began, time.thread_time() - drawn))
        app.exit()

    RecordingDriver.drawn = asyncio.Event()
    await app.run_async(size=(120, 40), auto_pilot=drive)
    return times


if __name__ == "__main__":
    sys.exit(main())

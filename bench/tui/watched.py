"""Runs `ebb` with a watch on its event loop: each stall is written to a file.

python -m bench.tui.watched FILE [ARGUMENTS OF EBB …]"""

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

CLOCK_INTERVAL_S = 0.002
"""Interval between clock checks while the loop is free, in seconds."""
MIN_STALL_S = 0.015
"""Minimum length of a recorded stall, in seconds."""
MIN_LONG_CALLBACK_S = 0.004
"""Minimum processor time of a recorded callback, in seconds."""
CALLBACK_LOG_SUFFIX = ".callbacks"
"""Appended to the name of the file to get that of the file with the long callbacks."""
MAX_STACK_FRAMES = 40
"""Maximum number of stack frames recorded."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A period in which the loop was blocked."""

    at: float
    """`time.monotonic()` at its start."""
    passed: float
    """Duration in seconds."""
    cpu: float
    """Duration in processor time of all threads, which excludes other load."""
    stacks: list[str]
    """Stacks of the loop's thread during the stall, innermost frame first."""


class LoopWatcher:
    """Checks the clock inside the loop. While the loop is late, another thread samples the stack of the loop's
    thread."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._stacks: list[str] = []
        self._last_beat = self._last_cpu = self._collection_start = 0.0
        self._thread = 0

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start watching a loop that is about to run in this thread."""
        self._thread = threading.get_ident()
        self._last_beat, self._last_cpu = time.monotonic(), time.process_time()
        gc.callbacks.append(self._on_garbage_collection)
        threading.Thread(target=self._sample_stacks, daemon=True).start()
        loop.call_soon(self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        now, used = time.monotonic(), time.process_time()
        passed = now - self._last_beat - CLOCK_INTERVAL_S
        if passed > MIN_STALL_S:
            stacks, self._stacks = self._stacks, []
            self._file.write(json.dumps(asdict(Stall(self._last_beat, passed, used - self._last_cpu, stacks))) + "\n")
        self._stacks.clear()
        self._last_beat, self._last_cpu = now, used
        loop.call_later(CLOCK_INTERVAL_S, self._beat, loop)

    def _on_garbage_collection(self, phase: str, info: dict[str, int]) -> None:
        """Record a long garbage collection, because it blocks all threads."""
        if phase == "start":
            self._collection_start = time.monotonic()
        elif (took := time.monotonic() - self._collection_start) > MIN_STALL_S / 2:
            self._stacks.append(f"garbage collection of generation {info['generation']}: {1000 * took:.0f} ms")

    def _sample_stacks(self) -> None:
        while True:
            time.sleep(MIN_STALL_S / 3)
            if time.monotonic() - self._last_beat > MIN_STALL_S and (frame := sys._current_frames().get(self._thread)):
                self._stacks.append(" < ".join(stack_frames(frame)))


def record_long_callbacks(file: Path) -> None:
    """Write the processor time of each long callback of the loop to a file. Keys wait for the end of a callback, in
    which nothing but the loop's own thread counts."""
    log, run_callback = file.open("a", buffering=1), asyncio.events.Handle._run

    def run_timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run_callback(handle)
        if (cpu := time.thread_time() - began) > MIN_LONG_CALLBACK_S:
            log.write(json.dumps({"at": time.monotonic(), "cpu": cpu}) + "\n")

    asyncio.events.Handle._run = run_timed  # type: ignore[method-assign,assignment]  # asyncio has no hook for this


def stack_frames(frame: FrameType | None) -> Iterator[str]:
    """Yield the frames of a stack, innermost first."""
    for _ in range(MAX_STACK_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        if not code.co_filename.startswith("<frozen"):
            yield f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_name}"
        frame = frame.f_back


def main() -> int:
    from ebbtide.tui.cli.main import main as run  # noqa: PLC0415  # deferred: loaded in the same way as by `ebb`

    file = Path(sys.argv.pop(1))
    watch, new_loop = LoopWatcher(file), asyncio.events.new_event_loop
    record_long_callbacks(file.with_name(file.name + CALLBACK_LOG_SUFFIX))

    def new_watched_loop() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        watch.watch_loop(loop)
        return loop

    asyncio.events.new_event_loop = new_watched_loop
    return run()


if __name__ == "__main__":
    sys.exit(main())

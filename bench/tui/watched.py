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

BEAT = 0.002
"""Interval between clock checks while the loop is free, in seconds."""
MIN_STALL_S = 0.015
"""Minimum length of a recorded stall, in seconds."""
DEEP = 40
"""Maximum number of stack frames recorded."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A period in which the loop was blocked."""

    at: float
    """`time.monotonic()` at its start."""
    passed: float
    """Seconds."""
    cpu: float
    """The same in processor time of all threads, which excludes other load."""
    stacks: list[str]
    """Stacks of the loop's thread during the stall, innermost frame first."""


class LoopWatcher:
    """Checks the clock inside the loop, and samples the loop's thread from another thread while it is late."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._seen: list[str] = []
        self._last = self._used = self._collecting = 0.0
        self._thread = 0

    def attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start watching a loop that is about to run in this thread."""
        self._thread = threading.get_ident()
        self._last, self._used = time.monotonic(), time.process_time()
        gc.callbacks.append(self._on_garbage_collection)
        threading.Thread(target=self._look, daemon=True).start()
        loop.call_soon(self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        now, used = time.monotonic(), time.process_time()
        passed = now - self._last - BEAT
        if passed > MIN_STALL_S:
            stacks, self._seen = self._seen, []
            self._file.write(json.dumps(asdict(Stall(self._last, passed, used - self._used, stacks))) + "\n")
        self._seen.clear()
        self._last, self._used = now, used
        loop.call_later(BEAT, self._beat, loop)

    def _on_garbage_collection(self, phase: str, info: dict[str, int]) -> None:
        """A garbage collection blocks all threads."""
        if phase == "start":
            self._collecting = time.monotonic()
        elif (took := time.monotonic() - self._collecting) > MIN_STALL_S / 2:
            self._seen.append(f"garbage collection of generation {info['generation']}: {1000 * took:.0f} ms")

    def _look(self) -> None:
        while True:
            time.sleep(MIN_STALL_S / 3)
            if time.monotonic() - self._last > MIN_STALL_S and (frame := sys._current_frames().get(self._thread)):
                self._seen.append(" < ".join(frames(frame)))


def frames(frame: FrameType | None) -> Iterator[str]:
    """A stack, innermost frame first."""
    for _ in range(DEEP):
        if frame is None:
            return
        code = frame.f_code
        if not code.co_filename.startswith("<frozen"):
            yield f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_name}"
        frame = frame.f_back


def main() -> int:
    from ebbtide.tui.cli.main import main as run  # noqa: PLC0415  # deferred: loaded in the same way as by `ebb`

    watch, new_loop = LoopWatcher(Path(sys.argv.pop(1))), asyncio.events.new_event_loop

    def watched() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        watch.attend(loop)
        return loop

    asyncio.events.new_event_loop = watched
    return run()


if __name__ == "__main__":
    sys.exit(main())

"""Measures how long resuming a long session takes: reading snapshot and tail, and building the context, without process
start.

    python -m bench.context.resume [MESSAGES]"""

import asyncio
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import row
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.debug import Debug
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.resume import restore
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow, UsageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace

ROW = SessionRow("aa11bb22cc33", "/p", "a long session", "scripted/a", "ask", 1.0, 1.0)
SNAPSHOT_MESSAGES = 200
"""Messages in the snapshot."""
FILES = 200
ROUNDS = 20


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, count)
        size = (folder / "sessions.db").stat().st_size / 1e6
        both, whole = asyncio.run(measure_resume(folder))
        print(row(f"resume of {count:,} messages: view", both, "ms", 50))
        print(row("the same with a look at the disk", whole, "ms"))
        print(row("database", [size], "MB"))
    return 0


async def measure_resume(folder: Path) -> tuple[list[float], list[float]]:
    """Milliseconds until the context is ready, and until changed files are known, for each round."""
    both: list[float] = []
    whole: list[float] = []
    for _ in range(ROUNDS):
        thread = StoreThread(lambda: SessionStore(folder / "sessions.db"))
        store = await thread.open()
        recorder = Recorder(thread, store, ROW, is_new=False)
        began = time.perf_counter()
        conversation = await recorder.load()
        build_prompt(conversation, Instructions("Be brief."))
        both.append((time.perf_counter() - began) * 1000)
        assert len(conversation.messages) == SNAPSHOT_MESSAGES
        await thread.close()

        thread = StoreThread(lambda: SessionStore(folder / "sessions.db"))
        store = await thread.open()
        began = time.perf_counter()
        await restore(
            Recorder(thread, store, ROW, is_new=False), Workspace(folder, folder), "scripted/a", "ask", Debug()
        )
        whole.append((time.perf_counter() - began) * 1000)
        await thread.close()
    return both, whole


def fill(folder: Path, count: int) -> None:
    """Store a session of `count` messages, with usage, seen files and a snapshot."""
    store = SessionStore(folder / "sessions.db")
    store.create(ROW)
    messages = [message for _, message in zip(range(count), history(), strict=False)]
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    usage = [UsageRow("scripted/a", "step", 40, 60_000, 900, 180, 0.02) for _ in range(count // 2)]
    shown = Conversation(tuple(messages[-SNAPSHOT_MESSAGES:]))
    store.write(ROW.id, rows, usage, SnapshotRow(count, encode_snapshot(shown, count)), facts(folder))
    store.close()


def history() -> Iterator[Message]:
    """An endless session: request, steps with one call each, answer."""
    rng = random.Random(7)
    number = 0
    while True:
        yield User((Text(words(rng, 200)),))
        for _ in range(9):
            number += 1
            call = ToolCall(f"c{number}", "bash", {"command": words(rng, 60)}, "")
            yield Assistant((Text(words(rng, 150)), call), "scripted/a")
            yield User((ToolOutput(call.id, words(rng, int(min(40_000, rng.lognormvariate(5.5, 1.7))))),))
        yield Assistant((Text(words(rng, 600)),), "scripted/a")


def words(rng: random.Random, size: int) -> str:
    return "".join(rng.choices("etaoin shrdlu\n", k=max(size, 1)))


def facts(folder: Path) -> list[FactRow]:
    found: list[FactRow] = []
    for number in range(FILES):
        path = folder / f"{number}.py"
        path.write_text("x\n")
        digest = hashlib.sha256(b"x\n").hexdigest()
        found.append(FactRow("seen", str(path), f'[{path.stat().st_mtime_ns}, "{digest}"]'))
    return found


if __name__ == "__main__":
    sys.exit(main())

"""Measures resuming a long session whose context holds its last 200 messages: reading snapshot and tail, and building
the context, without process start. Times are processor time, because the clock also counts other programs.

    python -m bench.context.resume [MESSAGES]"""

import asyncio
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import format_row
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.resume import resume_session
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.session_rows import FactRow, SessionRow, SnapshotRow, UsageRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace

ROW = SessionRow("aa11bb22cc33", "/p", "a long session", "scripted/a", "ask", 1.0, 1.0)
SNAPSHOT_MESSAGES = 200
"""Number of messages in the snapshot."""
SEEN_FILES = 200
ROUNDS = 20


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store_session(folder, count)
        size = (folder / "sessions.db").stat().st_size / 1e6
        load_times, total_times = asyncio.run(measure_resume(folder))
        print(format_row(f"resume of {count:,} messages: view, processor", load_times, "ms", 50))
        print(format_row("the same with a look at 200 files", total_times, "ms"))
        print(format_row("database", [size], "MB"))
    return 0


async def measure_resume(folder: Path) -> tuple[list[float], list[float]]:
    """Return, for each round, the milliseconds of processor time until the context is ready, and until changed files
    are known."""
    load_times: list[float] = []
    total_times: list[float] = []
    for _ in range(ROUNDS):
        thread = StoreThread(lambda: SessionStore(folder / "sessions.db"))
        store = await thread.open()
        recorder = Recorder(thread, store, ROW, is_new=False)
        began = time.process_time()
        conversation = await recorder.load()
        build_prompt(conversation, Instructions("Be brief."))
        load_times.append((time.process_time() - began) * 1000)
        assert len(conversation.messages) == SNAPSHOT_MESSAGES
        await thread.close()

        thread = StoreThread(lambda: SessionStore(folder / "sessions.db"))
        store = await thread.open()
        began = time.process_time()
        await resume_session(
            Recorder(thread, store, ROW, is_new=False), Workspace(folder, folder), "scripted/a", "ask", DebugLog()
        )
        total_times.append((time.process_time() - began) * 1000)
        await thread.close()
    return load_times, total_times


def store_session(folder: Path, count: int) -> None:
    """Store a session of `count` messages, with usage, seen files and a snapshot."""
    store = SessionStore(folder / "sessions.db")
    store.create(ROW)
    messages = [message for _, message in zip(range(count), endless_history(), strict=False)]
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    usage = [UsageRow("scripted/a", "step", 40, 60_000, 900, 180, 0.02) for _ in range(count // 2)]
    view = Conversation(tuple(messages[-SNAPSHOT_MESSAGES:]))
    store.write(ROW.id, rows, usage, SnapshotRow(count, encode_snapshot(view, count)), seen_file_facts(folder))
    store.close()


def endless_history() -> Iterator[Message]:
    """Yield the messages of an endless session: a request, steps with one call each, an answer."""
    rng = random.Random(7)
    number = 0
    while True:
        yield User((Text(random_text(rng, 200)),))
        for _ in range(9):
            number += 1
            call = ToolCall(f"c{number}", "bash", {"command": random_text(rng, 60)}, "")
            yield Assistant((Text(random_text(rng, 150)), call), "scripted/a")
            yield User((ToolOutput(call.id, random_text(rng, int(min(40_000, rng.lognormvariate(5.5, 1.7))))),))
        yield Assistant((Text(random_text(rng, 600)),), "scripted/a")


def random_text(rng: random.Random, size: int) -> str:
    return "".join(rng.choices("etaoin shrdlu\n", k=max(size, 1)))


def seen_file_facts(folder: Path) -> list[FactRow]:
    found: list[FactRow] = []
    for number in range(SEEN_FILES):
        path = folder / f"{number}.py"
        path.write_text("x\n")
        digest = hashlib.sha256(b"x\n").hexdigest()
        found.append(FactRow("seen", str(path), f'[{path.stat().st_mtime_ns}, "{digest}"]'))
    return found


if __name__ == "__main__":
    sys.exit(main())

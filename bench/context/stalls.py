"""Measures how long rewrites of a long conversation block the event loop, which also handles keys and drawing.

python -m bench.context.stalls [MESSAGES …]"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.tui.sessions import MODEL, history
from ebbtide.agent.context.mask import numbered_outputs
from ebbtide.agent.context.old_outputs import old_items
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.context.view_edits import EditRequest
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.wires.scripted import Scripted, parse_script
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.session import Session
from ebbtide.agent.window.compact import CompactedConversation, ForcedStrategy
from ebbtide.agent.window.edit_view import EditQuote, do_act, price_act
from ebbtide.agent.window.manual_compact import apply_summary, draft_summary, preview_compaction
from ebbtide.agent.window.rewrite import compact_now
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.triggers import ignore_event
from ebbtide.agent.window.undo import undo
from ebbtide.store.blobs import Blobs
from ebbtide.store.session_rows import SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace
from tests.kit.session import assembled

SUMMARY = "<retain>\nKeep the parser.\n</retain>\n<summary>\nThe parser was looked at.\n</summary>"
BEAT = 0.001
"""Interval between clock checks while the loop is free, in seconds."""
WINDOW = 100_000_000


@dataclass(frozen=True, slots=True)
class LoopTime:
    """Duration of an operation in milliseconds."""

    longest: float
    """The longest block of the loop, in processor time."""
    loop: float
    """Processor time of the loop's thread."""
    all: float
    """Processor time of all threads."""


async def measure_loop(work: Callable[[], Awaitable[object]]) -> LoopTime:
    """Measure how a coroutine blocks the running loop."""
    gaps: list[float] = []

    async def beat() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(BEAT)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(5 * BEAT)
    loop, all_threads = time.thread_time(), time.process_time()
    await work()
    loop, all_threads = time.thread_time() - loop, time.process_time() - all_threads
    await asyncio.sleep(5 * BEAT)
    beating.cancel()
    return LoopTime(1000 * max(gaps), 1000 * loop, 1000 * all_threads)


@asynccontextmanager
async def long_session(folder: Path, count: int) -> AsyncIterator[Session]:
    """Open a session with `count` earlier messages, all in context, and a model that writes summaries and answers."""
    thread = StoreThread(lambda: SessionStore(folder / "sessions.db", blobs=Blobs(folder / "blobs")))
    store = await thread.open()
    row = SessionRow("aa11bb22cc33", str(folder), "a long session", MODEL, "auto", 0.0, 0.0)
    messages = tuple(message for _, message in zip(range(count), history(), strict=False))
    await thread.run(store.create, row)
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    view = SnapshotRow(count, encode_snapshot(Conversation(messages), count))
    await thread.run(store.write, row.id, rows, [], view, [])
    replies = [{"text": SUMMARY, "when": "<retain>"}] * 9 + [{"text": "Done."}] * 9
    script = parse_script(json.dumps({"reply": replies, "context_window": WINDOW}).encode(), is_json=True)
    workspace, how = Workspace(folder, folder / "outputs"), CompactionSettings(policy="fixed")
    session = await assembled(Scripted(script), workspace, thread, store, row, is_new=False, compacting=how)
    try:
        yield session
    finally:
        await session.close()
        await thread.close()


async def rewrites(count: int) -> Mapping[str, LoopTime]:
    """Measure each kind of rewrite, and the first request, by name."""
    with tempfile.TemporaryDirectory() as name:
        async with long_session(Path(name), count) as session:
            found = {"first request": await measure_loop(lambda: send_message(session))}
            keys = frozenset(item.key for item in old_items(session.history, 8_000))
            found["mask"] = await measure_loop(lambda: session.change(mask_outputs, keys))
            found["undone"] = await measure_loop(lambda: session.change(undo))
            found["price of an act"] = await measure_loop(lambda: session.change(price_eviction))
            found["act"] = await measure_loop(lambda: session.change(do_act, eviction_request(session.history)))
            found["summary by hand"] = await measure_loop(lambda: by_hand(session))
            await session.change(undo)
            found["summary"] = await measure_loop(session.compact)
    return found


async def send_message(session: Session) -> None:
    async for _ in session.send("go on"):
        pass


def mask_outputs(
    conversation: Conversation, env: SessionContext, keys: frozenset[str]
) -> Awaitable[CompactedConversation]:
    return compact_now(conversation, env, "rent", chosen=ForcedStrategy("mask", keys=keys))


def price_eviction(conversation: Conversation, env: SessionContext) -> Awaitable[EditQuote]:
    return price_act(conversation, env, eviction_request(conversation))


def eviction_request(conversation: Conversation) -> EditRequest:
    """Evict the longest output."""
    longest = max(numbered_outputs(conversation), key=lambda found: len(found.output.text))
    return EditRequest("evict", longest.ref)


async def by_hand(session: Session) -> None:
    preview = await session.change(preview_compaction)
    drafted = await session.change(draft_summary, preview, ignore_event)
    await session.change(apply_summary, preview, drafted.draft, drafted, ignore_event)


def main() -> int:
    for count in [int(one) for one in sys.argv[1:]] or [2_000, 10_000]:
        for name, took in asyncio.run(rewrites(count)).items():
            print(
                f"{count:,} messages, {name:16} longest hold of the loop {took.longest:6.0f} ms, "
                f"all of it on the loop {took.loop:6.0f} ms, in all threads {took.all:6.0f} ms",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

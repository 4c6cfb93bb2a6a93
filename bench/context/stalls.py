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

from bench.tui.sessions import MODEL, endless_history
from ebbtide.agent.compaction.apply_edits import EditPreview, apply_edit, preview_edit
from ebbtide.agent.compaction.compact import CompactedConversation, ForcedStrategy
from ebbtide.agent.compaction.manual_compaction import apply_summary, draft_summary, preview_compaction
from ebbtide.agent.compaction.rewrite import compact_now, ignore_event
from ebbtide.agent.compaction.undo import undo_rewrite
from ebbtide.agent.compaction.view_edits import EditRequest
from ebbtide.agent.eviction.carrying_costs import old_maskable_items
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.wires.scripted import ScriptedProvider, parse_script
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.session import Session
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import Workspace
from tests.kit.session import assembled

SUMMARY = "<retain>\nKeep the parser.\n</retain>\n<summary>\nThe parser was looked at.\n</summary>"
CLOCK_INTERVAL_SECONDS = 0.001
"""Interval between clock checks while the loop is free, in seconds."""
WINDOW_TOKENS = 100_000_000


@dataclass(frozen=True, slots=True)
class LoopTime:
    """Duration of an operation in milliseconds."""

    longest: float
    """The longest time that the loop was blocked, in processor time."""
    loop: float
    """Processor time of the loop's thread."""
    process: float
    """Processor time of all threads."""


async def measure_loop(work: Callable[[], Awaitable[object]]) -> LoopTime:
    """Measure how a coroutine blocks the running loop."""
    gaps: list[float] = []

    async def beat() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(CLOCK_INTERVAL_SECONDS)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(5 * CLOCK_INTERVAL_SECONDS)
    loop, all_threads = time.thread_time(), time.process_time()
    await work()
    loop, all_threads = time.thread_time() - loop, time.process_time() - all_threads
    await asyncio.sleep(5 * CLOCK_INTERVAL_SECONDS)
    beating.cancel()
    return LoopTime(1000 * max(gaps), 1000 * loop, 1000 * all_threads)


@asynccontextmanager
async def open_long_session(folder: Path, count: int) -> AsyncIterator[Session]:
    """Open a session with `count` earlier messages, all in context, and a model that writes summaries and answers."""
    thread = StoreThread(lambda: SessionStore(folder / "sessions.db", blobs=BlobStore(folder / "blobs")))
    store = await thread.open()
    row = SessionRow("aa11bb22cc33", str(folder), "a long session", MODEL, "auto", 0.0, 0.0)
    messages = tuple(message for _, message in zip(range(count), endless_history(), strict=False))
    await thread.run(store.create, row)
    rows = [encode_message(message, position) for position, message in enumerate(messages)]
    view = SnapshotRow(count, encode_snapshot(Conversation(messages), count))
    await thread.run(store.write, row.id, rows, [], view, [])
    replies = [{"text": SUMMARY, "when": "<retain>"}] * 9 + [{"text": "Done."}] * 9
    script = parse_script(json.dumps({"reply": replies, "context_window": WINDOW_TOKENS}).encode(), is_json=True)
    workspace, how = Workspace(folder, folder / "outputs"), CompactionSettings(policy="fixed")
    session = await assembled(
        ScriptedProvider(script), workspace, thread, store, row, is_new=False, compaction_settings=how
    )
    try:
        yield session
    finally:
        await session.close()
        await thread.close()


async def measure_rewrites(count: int) -> Mapping[str, LoopTime]:
    """Return the measurements of each kind of rewrite and of the first request, by name."""
    with tempfile.TemporaryDirectory() as name:
        async with open_long_session(Path(name), count) as session:
            found = {"first request": await measure_loop(lambda: send_message(session))}
            keys = frozenset(item.key for item in old_maskable_items(session.history, 8_000))
            found["mask"] = await measure_loop(lambda: session.change_conversation(mask_outputs, keys))
            found["undone"] = await measure_loop(lambda: session.change_conversation(undo_rewrite))
            found["price of an act"] = await measure_loop(lambda: session.change_conversation(price_eviction))
            found["act"] = await measure_loop(
                lambda: session.change_conversation(apply_edit, eviction_request(session.history))
            )
            found["summary by hand"] = await measure_loop(lambda: summarise_manually(session))
            await session.change_conversation(undo_rewrite)
            found["summary"] = await measure_loop(session.compact)
    return found


async def send_message(session: Session) -> None:
    async for _ in session.send("go on"):
        pass


def mask_outputs(
    conversation: Conversation, window: WindowContext, turn: TurnContext, keys: frozenset[str]
) -> Awaitable[CompactedConversation]:
    return compact_now(conversation, window, turn, "rent", forced=ForcedStrategy("mask", item_keys=keys))


def price_eviction(conversation: Conversation, window: WindowContext, turn: TurnContext) -> Awaitable[EditPreview]:
    return preview_edit(conversation, window, turn, eviction_request(conversation))


def eviction_request(conversation: Conversation) -> EditRequest:
    """Return a request to evict the longest output."""
    longest = max(numbered_outputs(conversation), key=lambda found: len(found.output.text))
    return EditRequest("evict", longest.ref)


async def summarise_manually(session: Session) -> None:
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, ignore_event)
    await session.change_conversation(apply_summary, preview, drafted.draft, drafted, ignore_event)


def main() -> int:
    for count in [int(one) for one in sys.argv[1:]] or [2_000, 10_000]:
        for name, took in asyncio.run(measure_rewrites(count)).items():
            print(
                f"{count:,} messages, {name:16} longest hold of the loop {took.longest:6.0f} ms, "
                f"all of it on the loop {took.loop:6.0f} ms, in all threads {took.process:6.0f} ms",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

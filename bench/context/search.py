"""Measures searches over a long history: the first one, which finds no index, the time until the process in the
background has indexed everything, and searches after that.

    python -m bench.context.search [MESSAGES [SESSIONS [FOLDER]]]

With the folder of a model2vec model, semantic search is measured as well."""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from bench.measure import format_row
from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.index_lock import IndexLock
from ebbtide.store.session_rows import SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import RecallQuery

PROJECTS = 5
ROUNDS = 10
VOCABULARY_SIZE = 40_000
"""Number of different words. The n-th word is used with a frequency proportional to 1/n, as in real texts."""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        sessions, model = int(sys.argv[2]) if len(sys.argv) > 2 else 100, sys.argv[3] if len(sys.argv) > 3 else None
        asyncio.run(measure_search(Path(name) / "sessions.db", count, sessions, model))
    return 0


async def measure_search(path: Path, count: int, sessions: int, model: str | None) -> None:
    thread = StoreThread(lambda: SessionStore(path))
    store = await thread.open()
    words = vocabulary()
    await thread.run(create_history, store, count, sessions, words)
    before = await asyncio.to_thread(megabytes, path)
    archive = Archive(thread, store, "s0", "/p/0")
    recall = SessionRecall(thread, store, archive, "s0", "/p/0", "all", embedding_model=model)
    name = f"first search over {count:,} messages in {sessions:,} sessions"
    print(format_row(name, [await elapsed_ms(lambda: recall.search(RecallQuery("nothing")))], "ms", 500))
    began, processor_s = time.perf_counter(), await asyncio.to_thread(wait_for_index, path)
    print(format_row("until everything is indexed", [time.perf_counter() - began], "s"))
    print(format_row("processor time of the process that indexes", [processor_s], "s"))
    await thread.run(store.query, "pragma wal_checkpoint(truncate)")
    size = await asyncio.to_thread(megabytes, path)
    print(format_row("database before and after", [before, size], "MB"))
    queries = {
        "a rare word": RecallQuery(words[20_000]),
        "a common word": RecallQuery(words[3]),
        "the most common word": RecallQuery(words[0]),
        "three words, one common": RecallQuery(f"{words[2]} {words[300]} {words[900]}"),
        "a phrase of two words": RecallQuery(f'"{words[10]} {words[11]}"'),
        "a common word in this session": RecallQuery(words[3], scope="session"),
        "a common word, outputs of this project": RecallQuery(words[3], kinds=("output",), scope="project"),
        "a common word in one path": RecallQuery(words[3], path="src/7.py"),
        "part of a word": RecallQuery(words[20_000][1:-1]),
        "any of eight words": RecallQuery(" ".join(words[5_000:40_000:4_400])),
        "all file views of the last hour": RecallQuery(kinds=("output",), tool="read", since=time.time() - 3600),
    }
    for name, one in queries.items():
        await recall.search(one)
        print(format_row(name, [await elapsed_ms(partial(recall.search, one)) for _ in range(ROUNDS)], "ms", 50))
    text = " ".join(words[10:12])
    rounds = [await elapsed_ms(lambda: recall.locate_text(text, Conversation())) for _ in range(ROUNDS)]
    print(format_row("where a text went (`/why`)", rounds, "ms", 50))
    await thread.run(add_step, store, 10_000, words)
    print(
        format_row("catch-up with a step", [await elapsed_ms(lambda: recall.search(RecallQuery(words[20_000])))], "ms")
    )
    await thread.close()


async def elapsed_ms(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


def wait_for_index(path: Path) -> float:
    """Wait until the process that indexes has ended, and return the processor time that it took in seconds."""
    processor_s = 0.0
    while (lock := IndexLock.acquire(path)) is None:
        processor_s = max(processor_s, *map(processor_time, index_processes(path)), 0.0)
        time.sleep(0.05)
    lock.close()
    return processor_s


def index_processes(path: Path) -> list[Path]:
    """Return the folders in `/proc` of the processes that index a database."""
    found = list[Path]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes()
            if b"index_worker" in arguments and str(path).encode() in arguments:
                found.append(process)
    return found


def processor_time(process: Path) -> float:
    with suppress(OSError):  # it has ended
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def vocabulary() -> list[str]:
    rng = random.Random(3)
    return ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 11))) for _ in range(VOCABULARY_SIZE)]


def create_history(store: SessionStore, count: int, sessions: int, words: list[str]) -> None:
    """Store sessions with requests, steps and answers."""
    rng = random.Random(7)
    pool = rng.choices(words, [1 / (place + 5) for place in range(len(words))], k=1_000_000)
    for number in range(sessions):
        store.create(SessionRow(f"s{number}", f"/p/{number % PROJECTS}", "", "m", "ask", number, number))
        messages = [message for step in range(count // sessions // 2) for message in random_step(step, rng, pool)]
        rows = [encode_message(message, position) for position, message in enumerate(messages)]
        snapshot = SnapshotRow(len(rows), encode_snapshot(Conversation(), len(rows)))
        store.write(f"s{number}", rows, snapshot=snapshot)


def add_step(store: SessionStore, position: int, words: list[str]) -> None:
    rng = random.Random(1)
    start = len(store.messages("s0"))
    store.write("s0", [encode_message(m, start + at) for at, m in enumerate(random_step(position, rng, words))])


def random_step(number: int, rng: random.Random, pool: list[str]) -> list[Message]:
    call = ToolCall(f"c{number}", "read", {"path": f"src/{number % 50}.py"}, "")
    reply = Assistant((Text(random_text(rng, pool, 40)), call), "m")
    return [
        reply,
        User((ToolOutput(call.id, random_text(rng, pool, max(3, min(4000, int(rng.lognormvariate(4, 1.3)))))),)),
    ]


def random_text(rng: random.Random, pool: list[str], count: int) -> str:
    at = rng.randrange(len(pool) - min(count, len(pool) - 1))
    return " ".join(pool[at : at + count])


if __name__ == "__main__":
    sys.exit(main())

"""Measures storing and reading outputs: `python -m bench.context.archive`.

Time and memory for storing 10 MB and 1 GB, each in its own process; the time to read a part of a gigabyte by reference;
and whether everything that left a session's context can be retrieved byte for byte in at most two calls."""

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.calls.execute import CallPosition
from ebbtide.agent.calls.output_view import OutputIntake
from ebbtide.agent.context.offload import StreamedPreview
from ebbtide.agent.messages import Assistant, ToolCall, User
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.blobs import Blobs
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import PrintedLog, Result, Workspace
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.read_result import ReadResult

MB = 1 << 20
ROW = SessionRow("aa11bb22cc33", "/bench/app", "", "scripted/a", "ask", 1.0, 1.0)
READS = 400


def lines_of_a_log(seed: int) -> bytes:
    """A megabyte of log output."""
    source = random.Random(seed)
    words = ["".join(source.choices("abcdefghij/_.", k=source.randint(2, 12))) for _ in range(800)]
    levels = ["INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"]
    text = bytearray()
    while len(text) < MB:
        said = " ".join(source.choices(words, k=8))
        text += f"2026-11-22T10:{source.randint(0, 59):02}:00 {source.choice(levels)} [{seed}] {said}\n".encode()
    return bytes(text[:MB])


def take_in(folder: Path, size: int) -> dict[str, float]:
    """Store `size` bytes as `bash` does, from a program's log file."""
    pieces = [lines_of_a_log(seed) for seed in range(10)]
    log = folder / "log"
    with log.open("wb") as file:
        for number in range(size // MB):
            file.write(pieces[number % len(pieces)])
    del pieces
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = asyncio.run(_take_in(folder, log, size))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": after / 1024, "more": (after - before) / 1024}


async def _take_in(folder: Path, log: Path, size: int) -> float:
    thread, recorder, archive = await open_archive(folder)
    ingest = OutputIntake(archive)
    call = ToolCall("c1", "bash", {"command": "make"})
    await recorder.record_user_message(User(()))
    start = time.perf_counter()
    output = await ingest.preview(
        call, CallPosition(), "done", Result("exit code 0", PrintedLog(log, 0, size, is_finished=True))
    )
    seconds = time.perf_counter() - start
    await recorder.record_reply(Assistant((call,)))
    await recorder.record_user_message(User((output,)))
    await thread.close()
    return seconds


async def open_archive(folder: Path) -> tuple[StoreThread, Recorder, Archive]:
    thread = StoreThread(lambda: SessionStore(folder / "s.db", blobs=Blobs(folder / "blobs")))
    store = await thread.open()
    is_new = await thread.run(store.session, ROW.id) is None
    if is_new:
        await thread.run(store.create, ROW)
    recorder = Recorder(thread, store, ROW, is_new=False)
    await recorder.read()
    return thread, recorder, Archive(thread, store, ROW.id, ROW.project)


async def read_back(folder: Path, size: int) -> dict[str, float]:
    """Milliseconds of reads by reference at random places in a stored output."""
    thread, _, archive = await open_archive(folder)

    async def find(ref: str) -> StoredContent:
        return await archive.open(await archive.resolve(ref))

    workspace = Workspace(folder, folder, stored_content=find)
    source, found, tool = random.Random(7), list[float](), list[float]()
    pieces = [lines_of_a_log(seed) for seed in range(10)]
    located = await archive.resolve("r1")
    for number in range(READS):
        at = source.randrange(size - 4096)
        start = time.perf_counter()
        data = await archive.read("r1", at, 4096)
        found.append((time.perf_counter() - start) * 1000)
        piece, offset = pieces[at // MB % 10], at % MB
        assert data[: MB - offset] == piece[offset : offset + 4096], "the bytes differ"
        line = source.randrange(1, located.lines - 50)
        arguments = {"ref_id": "r1", "lines": f"{line}-{line + 40}"} if number % 2 else {"ref_id": "r1", "offset": at}
        start = time.perf_counter()
        await ReadResult().run(arguments, workspace)
        tool.append((time.perf_counter() - start) * 1000)
    start = time.perf_counter()
    await ReadResult().run({"ref_id": "r1", "pattern": "no such words"}, workspace)
    search = time.perf_counter() - start
    await thread.close()
    return {"read p95": p95(found), "read_result p95": p95(tool), "pattern over all, s": search}


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


async def identity(folder: Path) -> tuple[int, int, int]:
    """Return the number of outputs of every kind, of those that left the context completely or partly, and of those
    retrieved exactly with one call to locate them and one for their bytes."""
    thread, recorder, archive = await open_archive(folder)
    ingest, kept, absent = OutputIntake(archive), dict[int, bytes](), 0
    for number, data in enumerate(_outputs(), 1):
        log = folder / f"log-{number}"
        await asyncio.to_thread(log.write_bytes, data)
        call = ToolCall(f"c{number}", "bash", {})
        raw = Result("exit code 0", PrintedLog(log, 0, len(data), is_finished=True))
        output = await ingest.preview(call, CallPosition(number), "done", raw)
        await recorder.record_reply(Assistant((call,)))
        await recorder.record_user_message(User((output,)))
        if output.stored is not None:
            absent += 1
            kept[number] = data
    exact = 0
    for number, data in kept.items():
        located = await archive.resolve(f"r{number}")
        exact += await archive.read(located.reference, 0, located.size) == data
    await thread.close()
    return len(list(_outputs())), absent, exact


def _outputs() -> Iterator[bytes]:
    source = random.Random(3)
    log = lines_of_a_log(1)
    for size in (10, 4000, 5000, 70_000, 300_000):
        yield log[:size]
        yield source.randbytes(size)
        yield b"\0" * size
        yield "é日本".encode() * (size // 8) + b"\xff\xfe"
        yield b"x" * size + b"\n" + log[:size]
    yield b""
    yield b"\n\n\n"
    yield b"\x1b[31mred\x1b[0m\r\n"


def skim(size: int) -> float:
    """Seconds to scan data for a preview."""
    piece, seen = lines_of_a_log(1).replace(b"ERROR", b"NOTED"), StreamedPreview()
    start = time.perf_counter()
    for _ in range(size // MB):
        seen.take(piece)
    return time.perf_counter() - start


def in_a_process(folder: Path, size: int) -> dict[str, float]:
    argv = [sys.executable, "-m", "bench.context.archive", "--take-in", str(size), "--folder", str(folder)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(ran.stdout)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take-in", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the large output")
    given = parser.parse_args()
    if given.take_in:
        print(json.dumps(take_in(given.folder, given.take_in)))
        return
    for megabytes in (10, given.megabytes):
        with tempfile.TemporaryDirectory() as name:
            told = in_a_process(Path(name), megabytes * MB)
            memory = f"{told['megabytes']:.0f} MB of memory, {told['more']:.0f} of them for this"
            print(f"taking in {megabytes} MB: {told['seconds'] * 1000:,.0f} ms, {memory}")
            if megabytes == given.megabytes:
                blob = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
                print(f"on disk: {blob / MB:,.0f} MB")
                for what, value in asyncio.run(read_back(Path(name), megabytes * MB)).items():
                    print(f"{what}: {value:.2f}{'' if what.endswith('s') else ' ms'}")
    print(f"looking for the lines of a preview in 10 MB: {skim(10 * MB) * 1000:.0f} ms")
    with tempfile.TemporaryDirectory() as name:
        outputs, absent, exact = asyncio.run(identity(Path(name)))
        print(
            f"of {outputs} outputs {absent} were not shown as they came; {exact} came back byte for byte in two calls"
        )


if __name__ == "__main__":
    main()

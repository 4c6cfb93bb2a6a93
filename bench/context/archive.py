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
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.messages import Assistant, ToolCall, User
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.previews import StreamedPreview
from ebbtide.store.blobs import BlobStore
from ebbtide.store.session_rows import SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.base import LoggedOutput, Result, Workspace
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.read_result import ReadResult

MEGABYTE = 1 << 20
ROW = SessionRow("aa11bb22cc33", "/bench/app", "", "scripted/a", "ask", 1.0, 1.0)
READ_COUNT = 400


def log_megabyte(seed: int) -> bytes:
    """Return a megabyte of log output."""
    source = random.Random(seed)
    words = ["".join(source.choices("abcdefghij/_.", k=source.randint(2, 12))) for _ in range(800)]
    levels = ["INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"]
    text = bytearray()
    while len(text) < MEGABYTE:
        words_of_line = " ".join(source.choices(words, k=8))
        text += (
            f"2026-11-22T10:{source.randint(0, 59):02}:00 {source.choice(levels)} [{seed}] {words_of_line}\n".encode()
        )
    return bytes(text[:MEGABYTE])


def measure_storing(folder: Path, size: int) -> dict[str, float]:
    """Store `size` bytes from a program's log file, as `bash` does. Return the time and memory used."""
    pieces = [log_megabyte(seed) for seed in range(10)]
    log = folder / "log"
    with log.open("wb") as file:
        for number in range(size // MEGABYTE):
            file.write(pieces[number % len(pieces)])
    del pieces
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = asyncio.run(_store_log(folder, log, size))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": after / 1024, "more": (after - before) / 1024}


async def _store_log(folder: Path, log: Path, size: int) -> float:
    thread, recorder, archive = await open_archive(folder)
    ingest = OutputArchiver(archive)
    call = ToolCall("c1", "bash", {"command": "make"})
    await recorder.record_user_message(User(()))
    start = time.perf_counter()
    output = await ingest.store_and_show(
        call, CallPosition(), "done", Result("exit code 0", LoggedOutput(log, 0, size, is_finished=True))
    )
    seconds = time.perf_counter() - start
    await recorder.record_reply(Assistant((call,)))
    await recorder.record_user_message(User((output,)))
    await thread.close()
    return seconds


async def open_archive(folder: Path) -> tuple[StoreThread, Recorder, Archive]:
    thread = StoreThread(lambda: SessionStore(folder / "s.db", blobs=BlobStore(folder / "blobs")))
    store = await thread.open()
    is_new = await thread.run(store.session, ROW.id) is None
    if is_new:
        await thread.run(store.create, ROW)
    recorder = Recorder(thread, store, ROW, is_new=False)
    await recorder.read_conversation()
    return thread, recorder, Archive(thread, store, ROW.id, ROW.project)


async def measure_reads(folder: Path, size: int) -> dict[str, float]:
    """Return the times of reads by reference at random places in a stored output, in milliseconds."""
    thread, _, archive = await open_archive(folder)

    async def find(ref: str) -> StoredContent:
        return await archive.open(await archive.resolve(ref))

    workspace = Workspace(folder, folder, get_stored_content=find)
    source, read_times, tool_times = random.Random(7), list[float](), list[float]()
    pieces = [log_megabyte(seed) for seed in range(10)]
    located = await archive.resolve("r1")
    for number in range(READ_COUNT):
        at = source.randrange(size - 4096)
        start = time.perf_counter()
        data = await archive.read("r1", at, 4096)
        read_times.append((time.perf_counter() - start) * 1000)
        piece, offset = pieces[at // MEGABYTE % 10], at % MEGABYTE
        assert data[: MEGABYTE - offset] == piece[offset : offset + 4096], "the bytes differ"
        line = source.randrange(1, located.line_count - 50)
        arguments = {"ref_id": "r1", "lines": f"{line}-{line + 40}"} if number % 2 else {"ref_id": "r1", "offset": at}
        start = time.perf_counter()
        await ReadResult().run(arguments, workspace)
        tool_times.append((time.perf_counter() - start) * 1000)
    start = time.perf_counter()
    await ReadResult().run({"ref_id": "r1", "pattern": "no such words"}, workspace)
    search = time.perf_counter() - start
    await thread.close()
    return {"read p95": p95(read_times), "read_result p95": p95(tool_times), "pattern over all, s": search}


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


async def count_exact_reads(folder: Path) -> tuple[int, int, int]:
    """Return three counts: all sample outputs; those that left the context completely or partly; and those retrieved
    exactly with one call to locate them and one for their bytes."""
    thread, recorder, archive = await open_archive(folder)
    ingest, stored, left_context = OutputArchiver(archive), dict[int, bytes](), 0
    for number, data in enumerate(_sample_outputs(), 1):
        log = folder / f"log-{number}"
        await asyncio.to_thread(log.write_bytes, data)
        call = ToolCall(f"c{number}", "bash", {})
        raw = Result("exit code 0", LoggedOutput(log, 0, len(data), is_finished=True))
        output = await ingest.store_and_show(call, CallPosition(number), "done", raw)
        await recorder.record_reply(Assistant((call,)))
        await recorder.record_user_message(User((output,)))
        if output.stored is not None:
            left_context += 1
            stored[number] = data
    exact = 0
    for number, data in stored.items():
        located = await archive.resolve(f"r{number}")
        exact += await archive.read(located.reference, 0, located.size) == data
    await thread.close()
    return len(list(_sample_outputs())), left_context, exact


def _sample_outputs() -> Iterator[bytes]:
    source = random.Random(3)
    log = log_megabyte(1)
    for size in (10, 4000, 5000, 70_000, 300_000):
        yield log[:size]
        yield source.randbytes(size)
        yield b"\0" * size
        yield "é日本".encode() * (size // 8) + b"\xff\xfe"
        yield b"x" * size + b"\n" + log[:size]
    yield b""
    yield b"\n\n\n"
    yield b"\x1b[31mred\x1b[0m\r\n"


def measure_preview_scan(size: int) -> float:
    """Return the seconds needed to scan data for a preview."""
    piece, seen = log_megabyte(1).replace(b"ERROR", b"NOTED"), StreamedPreview()
    start = time.perf_counter()
    for _ in range(size // MEGABYTE):
        seen.add_chunk(piece)
    return time.perf_counter() - start


def run_in_process(folder: Path, size: int) -> dict[str, float]:
    argv = [sys.executable, "-m", "bench.context.archive", "--take-in", str(size), "--folder", str(folder)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(ran.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take-in", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the large output")
    options = parser.parse_args()
    if options.take_in:
        print(json.dumps(measure_storing(options.folder, options.take_in)))
        return
    for megabytes in (10, options.megabytes):
        with tempfile.TemporaryDirectory() as name:
            measured = run_in_process(Path(name), megabytes * MEGABYTE)
            memory = f"{measured['megabytes']:.0f} MB of memory, {measured['more']:.0f} of them for this"
            print(f"taking in {megabytes} MB: {measured['seconds'] * 1000:,.0f} ms, {memory}")
            if megabytes == options.megabytes:
                blob = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file())
                print(f"on disk: {blob / MEGABYTE:,.0f} MB")
                for what, value in asyncio.run(measure_reads(Path(name), megabytes * MEGABYTE)).items():
                    print(f"{what}: {value:.2f}{'' if what.endswith('s') else ' ms'}")
    print(f"looking for the lines of a preview in 10 MB: {measure_preview_scan(10 * MEGABYTE) * 1000:.0f} ms")
    with tempfile.TemporaryDirectory() as name:
        outputs, absent, exact = asyncio.run(count_exact_reads(Path(name)))
        print(
            f"of {outputs} outputs {absent} were not shown as they came; {exact} came back byte for byte in two calls"
        )


if __name__ == "__main__":
    main()

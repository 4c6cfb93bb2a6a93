"""A program that is told something on its standard input and may answer: bounded in time and in what is kept of its
answer, and ended with everything that it started."""

import asyncio
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from tools.groups import signal_group

_CHUNK = 1 << 16
_LOOK_EVERY = 0.02
"""Seconds between two looks whether a program has exited while something that it started holds its output open."""

_AFTERWARDS = 0.2
"""Seconds after its exit in which what it left is read, when somebody goes on printing."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int | None
    """None: it was not done in time, and was ended."""
    out: bytes
    """The beginning of what it printed."""
    err: bytes


async def answer_of(
    argv: Sequence[str], told: bytes, folder: Path, environment: Mapping[str, str], seconds: float, most: int
) -> Answer:
    """What the program answers, of each of its outputs at most so many bytes. Nothing of its process group is left when
    this returns or is cancelled. Raises `OSError` when the program cannot be started."""
    process = _started(argv, folder, environment)
    talk = asyncio.ensure_future(asyncio.to_thread(_talk, process, told, seconds, most))
    try:
        return await asyncio.shield(talk)
    except asyncio.CancelledError:
        _end(process)
        await asyncio.wait([talk])
        raise


def _started(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )


def _talk(process: subprocess.Popen[bytes], told: bytes, seconds: float, most: int) -> Answer:
    pipes = [cast(IO[bytes], pipe) for pipe in (process.stdin, process.stdout, process.stderr)]
    stdin, stdout, stderr = (pipe.fileno() for pipe in pipes)
    kept = {stdout: bytearray(), stderr: bytearray()}
    left, end = memoryview(told), time.monotonic() + seconds
    try:
        with selectors.DefaultSelector() as selector:
            for pipe in pipes:
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_WRITE if pipe is pipes[0] else selectors.EVENT_READ)
            while selector.get_map() and time.monotonic() < end:
                has_exited = process.poll() is not None  # before the look, so that nothing it left is missed
                if has_exited:
                    end = min(end, time.monotonic() + _AFTERWARDS)
                ready = selector.select(0 if has_exited else _LOOK_EVERY)
                for key, _ in ready:
                    if key.fd == stdin:
                        left = _given(stdin, left)
                    if not (left if key.fd == stdin else _taken(key.fd, kept[key.fd], most)):
                        selector.unregister(key.fileobj)
                        cast(IO[bytes], key.fileobj).close()
                if has_exited and not ready:
                    break
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(end - time.monotonic(), 0))
        return Answer(process.returncode, bytes(kept[stdout]), bytes(kept[stderr]))
    finally:
        _end(process)
        for pipe in pipes:
            pipe.close()
        process.wait()


def _given(descriptor: int, told: memoryview) -> memoryview:
    """What is still to be told after as much as the pipe takes; nothing when nobody listens."""
    try:
        return told[os.write(descriptor, told[:_CHUNK]) :]
    except BlockingIOError:
        return told
    except BrokenPipeError:
        return told[len(told) :]


def _taken(descriptor: int, kept: bytearray, most: int) -> bool:
    """Whether more may come. What is beyond the most is let go."""
    try:
        chunk = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return True
    kept += chunk[: max(most - len(kept), 0)]
    return bool(chunk)


def _end(process: subprocess.Popen[bytes]) -> None:
    signal_group(process.pid, signal.SIGKILL, is_reaped=process.returncode is not None)

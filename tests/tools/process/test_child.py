"""Programs that are told something and answer, as real processes."""

import asyncio
import os
from pathlib import Path

import pytest

from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.tools.process.child import ChildResult, run_with_input, start_child
from ebbtide.tools.process.shell import Launch
from tests.kit.polling import soon
from tests.tools.test_bash import is_running

MOST = 1000


async def ask(command: str, folder: Path, given: bytes = b"", seconds: float = 60.0) -> ChildResult:
    return await run_with_input(Launch(("/bin/sh", "-c", command), os.environ), given, folder, seconds, MOST)


@pytest.mark.parametrize(
    ("command", "size", "answer"),
    [
        ("cat", 5, ChildResult(0, b"xxxxx", b"")),
        ("cat; echo no >&2; exit 2", 5, ChildResult(2, b"xxxxx", b"no\n")),
        ("exit 3", 5_000_000, ChildResult(3, b"", b"")),
        ("exec 0<&- 1>&- 2>&-; exit 4", 5_000_000, ChildResult(4, b"", b"")),
        ("wc -c", 5_000_000, ChildResult(0, b"5000000\n", b"")),
        ("head -c 5000000 /dev/zero | tr '\\0' y", 0, ChildResult(0, b"y" * MOST, b"")),
        ("kill -9 $$", 0, ChildResult(-9, b"", b"")),
        ("echo first; sleep 600 &", 0, ChildResult(0, b"first\n", b"")),
        ("echo first; head -c 2000 /dev/zero | tr '\\0' z >&2; yes >&2 &", 0, ChildResult(0, b"first\n", b"z" * MOST)),
    ],
)
async def test_an_answer_is_what_the_program_itself_said(
    command: str, size: int, answer: ChildResult, tmp_path: Path
) -> None:
    assert await ask(command, tmp_path, b"x" * size) == answer


@pytest.mark.parametrize("command", ["sleep 600 & echo $! > pid; wait", "trap '' TERM; echo $$ > pid; sleep 600"])
async def test_a_program_that_takes_too_long_is_ended_with_its_children(command: str, tmp_path: Path) -> None:
    assert (await ask(command, tmp_path, seconds=0.5)).code is None
    await soon(lambda: not is_running(tmp_path / "pid"))


async def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    assert (await ask("sleep 600 & echo $! > pid", tmp_path)).code == 0
    await soon(lambda: not is_running(tmp_path / "pid"))


async def test_a_daemon_of_a_server_ends_with_it_though_the_server_left_first(tmp_path: Path) -> None:
    daemon = "setsid sh -c 'echo $$ > new; mv new pid; exec sleep 600' & cat >/dev/null"
    server = await start_child(
        Launch(("/bin/sh", "-c", daemon), os.environ), tmp_path, ServerLog(tmp_path / "log"), MOST
    )
    await soon((tmp_path / "pid").exists)
    await server.end()
    assert server.code == 0
    await soon(lambda: not is_running(tmp_path / "pid"))


async def test_nothing_is_left_of_a_program_that_nobody_listens_to(tmp_path: Path) -> None:
    asking = asyncio.create_task(ask("echo $$ > new; mv new pid; exec sleep 600", tmp_path))
    await soon((tmp_path / "pid").exists)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await soon(lambda: not is_running(tmp_path / "pid"))


async def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_with_input(Launch((str(tmp_path / "nothing"),), {}), b"", tmp_path, 60.0, MOST)


async def test_a_program_that_is_given_up_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ("/bin/sh", "-c", f"sleep 600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {pid}; wait")
    starting = asyncio.create_task(run_with_input(Launch(command, os.environ), b"", tmp_path, 60.0, MOST))
    for _ in range(2):  # to where the program is started, and no further
        await asyncio.sleep(0)
    while not pid.exists():  # the event loop stands still: it has not seen yet that the program runs
        os.sched_yield()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await soon(lambda: not is_running(pid))

"""Ports of jobs in the sandbox, reached from outside: real servers, real namespaces."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.bash_kill import BashKill
from ebbtide.tools.sandbox.job_ports import JobPorts, PortRule
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.network_namespace import namespace_problem
from ebbtide.tools.sandbox.sandbox import Sandbox
from tests.kit.polling import soon

pytestmark = pytest.mark.skipif(bool(namespace_problem()), reason="needs bubblewrap and a network namespace")


class NoWay:
    """What a command may reach: nothing."""

    allows_all_hosts, answer_wait_seconds = False, 0.0

    async def refusal_reason(self, place: object) -> str:
        return "closed"

    async def close(self) -> None:
        pass


class Session:
    """A workspace whose commands share a network, with what looks after their ports."""

    def __init__(self, folder: Path, rule: PortRule) -> None:
        (folder / "project").mkdir()
        root = (folder / "project").resolve()
        self.network = SessionNetwork()
        sandbox = Sandbox(root, folder / "scratch", has_network=False, network=self.network)
        self.workspace = replace(Workspace(root, folder / "outputs", sandbox=sandbox), network_policy=NoWay())
        self.jobs, self.notices = self.workspace.jobs, list[str]()
        self.ports = JobPorts(self.jobs, rule, lambda: self.network.namespace, self.notices.append)
        self.jobs.on_start = self.ports.watch

    async def serve(self, command: str) -> None:
        await Bash().run({"command": command, "background": True}, self.workspace)

    async def close(self) -> None:
        await self.ports.close()
        await self.jobs.close()
        await self.network.close()


@pytest.fixture
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Session]:
    made = Session(tmp_path, request.param)
    yield made
    await made.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def fetched(port: int, path: str = "/") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


def is_closed(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0


SERVES = f"exec {sys.executable} -m http.server"


@pytest.mark.parametrize("session", ["forward"], indirect=True)
async def test_a_server_is_reached_at_its_port_for_as_long_as_its_job_runs(session: Session) -> None:
    port, large = free_port(), b"x" * 3_000_000
    (session.workspace.root / "large").write_bytes(large)
    await session.serve(f"{SERVES} {port} --bind 127.0.0.1")
    await soon(lambda: bool(session.notices))
    at = f"http://127.0.0.1:{port}"
    assert session.notices == [f"job-1 listens on port {port}: you reach it at {at}"]
    assert session.jobs.take_pending_notes() == (f"job-1 listens on port {port}: the user reaches it at {at}",)
    answers = await asyncio.gather(*(fetched(port, "/large") for _ in range(5)))
    assert [answer.endswith(large) for answer in answers] == [True] * 5
    job = session.jobs.by_id["job-1"]
    assert job.ports_text == f" (port {port} at 127.0.0.1:{port})"
    await BashKill().run({"job": "job-1"}, session.workspace)
    await soon(lambda: is_closed(port))
    assert job.ports_text == ""


@pytest.mark.parametrize("session", ["forward"], indirect=True)
async def test_where_the_port_is_taken_another_one_is_used(session: Session) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        await session.serve(f"{SERVES} {port}")
        await soon(lambda: bool(session.notices))
        outside = session.jobs.by_id["job-1"].ports[port]
        assert outside not in (None, port)
        assert b"200 OK" in await fetched(outside or 0)


@pytest.mark.parametrize("session", ["forward"], indirect=True)
async def test_a_server_of_version_6_alone_is_reached(session: Session) -> None:
    port = free_port()
    await session.serve(f"{SERVES} {port} --bind ::1")
    await soon(lambda: bool(session.notices))
    assert b"200 OK" in await fetched(port)


@pytest.mark.parametrize("session", ["ask"], indirect=True)
async def test_nothing_is_reached_before_the_user_wants_it(session: Session) -> None:
    port = free_port()
    await session.serve(f"{SERVES} {port}")
    await soon(lambda: bool(session.notices))
    assert session.notices == [
        f"job-1 listens on port {port} inside the sandbox, which you cannot reach. "
        "`/tasks forward` makes it reachable at 127.0.0.1."
    ]
    assert is_closed(port)
    assert await session.ports.forward_all() == 1
    assert b"200 OK" in await fetched(port)
    assert await session.ports.forward_all() == 0


@pytest.mark.parametrize("session", ["off"], indirect=True)
async def test_where_it_is_off_the_model_is_told(session: Session) -> None:
    port = free_port()
    await session.serve(f"{SERVES} {port}")
    await soon(lambda: bool(session.jobs.pending_notes))
    why = "the user cannot reach it, because `sandbox.ports` is `off`"
    assert session.jobs.take_pending_notes() == (f"job-1 listens on port {port}, inside the sandbox: {why}",)
    assert (session.notices, is_closed(port)) == ([], True)


@pytest.mark.parametrize("session", ["forward"], indirect=True)
async def test_ports_of_other_commands_are_not_taken_for_those_of_a_job(session: Session) -> None:
    first, second = free_port(), free_port()
    await session.serve(f"{SERVES} {first}")
    await session.serve(f"{SERVES} {second}")
    await soon(lambda: len(session.notices) == 2)
    assert [[*job.ports] for job in session.jobs.by_id.values()] == [[first], [second]]

"""Servers for tests: real programs, ended with the test."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.tools.mcp.desks import RecordingDesk
from tools.mcp.client_handlers import ClientHandlers
from tools.mcp.server import Server, close_all
from tools.mcp.spec import ServerSpec

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

Starts: TypeAlias = Callable[..., Server]


def raw(way: str = "well", *more: str, **options: Any) -> ServerSpec:
    """The server of `raw.py`, misbehaving in one way."""
    command = (sys.executable, "-I", "-S", str(HERE / "raw.py"), way, *more)
    return replace(ServerSpec("raw", command), **options)


def everything(**options: Any) -> ServerSpec:
    """The server of `serving.py`."""
    command = (sys.executable, "-m", "tests.tools.mcp.serving")
    return replace(ServerSpec("everything", command, cwd=ROOT), **options)


@contextmanager
def listening(module: str, *arguments: str) -> Iterator[str]:
    """The address of a server that is a program of its own and prints its port."""
    command = [sys.executable, "-m", f"tests.tools.mcp.{module}", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        finally:
            process.kill()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the server of `serving.py` answers over HTTP."""
    with listening("serving", "http") as found:
        yield found


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Starts]:
    """Starts servers, and closes them at the end of the test. They wait a moment only before they are restarted."""
    servers: list[Server] = []

    def started(spec: ServerSpec, handlers: ClientHandlers | None = None) -> Server:
        log, credentials = tmp_path / "logs" / f"{len(servers)}.log", tmp_path / "credentials.json"
        server = Server(spec, handlers or RecordingDesk(), log, credentials, first_pause=0.01)
        servers.append(server)
        server.start()
        return server

    yield started
    await close_all(servers)

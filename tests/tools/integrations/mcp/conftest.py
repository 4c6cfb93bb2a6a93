"""Servers for tests: real programs, ended with the test."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.server import McpServer, close_all
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from tests.tools.integrations.mcp.desks import RecordingDesk

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


def raw(way: str = "well", *more: str, **options: Any) -> ServerSpec:
    """The server of `raw.py`, misbehaving in one way."""
    command = (sys.executable, "-I", "-S", str(HERE / "raw.py"), way, *more)
    return replace(ServerSpec("raw", command), **options)


def everything(**options: Any) -> ServerSpec:
    """The server of `serving.py`."""
    command = (sys.executable, "-m", "tests.tools.integrations.mcp.serving")
    return replace(ServerSpec("everything", command, cwd=ROOT), **options)


@contextmanager
def listening(module: str, *arguments: str) -> Iterator[str]:
    """The address of a server that is a program of its own and prints its port."""
    command = [sys.executable, "-m", f"tests.tools.integrations.mcp.{module}", *arguments]
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


class Starts:
    """Starts servers. They wait a moment only before they are restarted."""

    def __init__(self, folder: Path) -> None:
        self.servers: list[McpServer] = []
        self._folder = folder

    def __call__(self, spec: ServerSpec, handlers: ClientHandlers | None = None) -> McpServer:
        log, credentials = self._folder / "logs" / f"{len(self.servers)}.log", self._folder / "credentials.json"
        server = McpServer(spec, handlers or RecordingDesk(), log, credentials, first_restart_delay=0.01)
        self.servers.append(server)
        server.start()
        return server

    async def ready(self, spec: ServerSpec, handlers: ClientHandlers | None = None) -> McpServer:
        """One that is ready, or is known not to be."""
        server = self(spec, handlers)
        await server.wait_until_started()
        return server


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Starts]:
    """They are closed at the end of the test."""
    starts = Starts(tmp_path)
    yield starts
    await close_all(starts.servers)

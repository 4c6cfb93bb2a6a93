"""Servers over HTTP that misbehave: each answer that goes wrong is one call's, told in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.tools.base import Result, ToolError, no_progress
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from tests.tools.integrations.mcp.conftest import ROOT, Starts
from tests.tools.integrations.mcp.web import misbehaving

CALLS = [
    ("large json", "refused `echo`: Failed to parse JSON response: it has more than 1,000,000 bytes"),
    ("large event", "was lost during `echo` (SSE stream failed: "),
    ("packed", "refused `echo`: the server cannot be reached: its answer is compressed, which was not requested"),
    ("cut", "refused `echo`: Failed to parse JSON response: it is incomplete: peer closed connection without sending"),
    ("page", "refused `echo`: the server answers with HTTP 503 Service Unavailable"),
    ("nested", "refused `echo`: "),
    ("no json", "refused `echo`: Failed to parse JSON response: 1 validation error for union"),
]


@pytest.mark.parametrize(("way", "message"), CALLS)
async def test_a_call_that_goes_wrong_is_told_in_a_line(way: str, message: str, start: Starts) -> None:
    with misbehaving(way) as address:
        server = await start.ready(ServerSpec("web", url=address, max_result_bytes=1_000_000))
        for _ in range(2):
            with pytest.raises(ToolError) as caught:
                await server.call("echo", {}, no_progress)
            assert str(caught.value).startswith(f"the server `web` {message}")
            assert server.state.phase == "ready"
        await server.close()


async def test_a_call_without_an_answer_ends(start: Starts) -> None:
    with misbehaving("hang") as address:
        server = await start.ready(ServerSpec("web", url=address, call_timeout=0.1))
        with pytest.raises(ToolError, match=r"did not answer `echo` within 0\.1 seconds"):
            await server.call("echo", {}, no_progress)
        assert server.state.phase == "ready"
        await server.close()


@pytest.mark.parametrize("way", ["forgetful", "started again"])
async def test_a_server_that_has_forgotten_us_is_greeted_again(way: str, start: Starts) -> None:
    with misbehaving(way) as address:
        server = await start.ready(ServerSpec("web", url=address))
        assert await server.call("echo", {}, no_progress) == Result("s2")
        await server.close()


async def test_a_server_that_does_not_answer_a_farewell_is_started_again(
    start: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.tools.integrations.mcp.transport._NOTIFY_TIMEOUT_S", 0.2)
    with misbehaving("stays") as address:
        server = await start.ready(ServerSpec("web", url=address))
        assert (await server.restart()).phase == "ready"
        assert await server.call("echo", {}, no_progress) == Result("s2")
        await server.close()


async def test_what_is_half_a_character_harms_no_connection(start: Starts) -> None:
    half = "the request contains an incomplete character, so it was not sent: write the full character"
    with misbehaving("well") as address:
        server = await start.ready(ServerSpec("web", url=address))
        for asked in (
            server.call("echo", {"text": "\udc80"}, no_progress),
            server.read_resource("docs://\udc80"),
            server.get_prompt("review", {"file": "\udc80"}),
        ):
            with pytest.raises(ToolError, match=half):
                await asked
        assert await server.call("echo", {}, no_progress) == Result("s1")
        await server.close()


LOUD = """
import asyncio, pathlib, sys
from tests.tools.integrations.mcp.web import misbehaving
from ebbtide.tools.base import ToolError
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import ServerSpec

async def main(folder):
    with misbehaving("no json") as address:
        server = McpServer(ServerSpec("web", url=address), ClientHandlers(), folder / "log", folder / "login")
        server.start()
        try:
            await server.call("echo", {}, print)
        except ToolError:
            print("refused")
        await server.close()

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


def test_what_the_sdk_has_to_say_is_not_printed_over_the_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOUD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("refused\n", "")

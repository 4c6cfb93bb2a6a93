"""Servers over HTTP that misbehave: each answer that goes wrong is one call's, told in one line."""

import pytest

from tests.tools.mcp.conftest import Starts
from tests.tools.mcp.web import misbehaving
from tools.base import Result, ToolError, unwatched
from tools.mcp.spec import ServerSpec

CALLS = [
    (
        "large json",
        "refused `echo`: Failed to parse JSON response: it holds more than 1,000,000 bytes",
    ),
    ("large event", "was lost during `echo` (SSE stream failed: "),
    ("packed", "refused `echo`: the server cannot be reached: it answers in a compressed form that was not asked for"),
    ("cut", "refused `echo`: Failed to parse JSON response: it is not whole: peer closed connection without sending"),
    ("page", "refused `echo`: the server answers with HTTP 503 Service Unavailable"),
    ("no json", "refused `echo`: Failed to parse JSON response: 1 validation error for union"),
]


@pytest.mark.parametrize(("way", "told"), CALLS)
async def test_a_call_that_goes_wrong_is_told_in_a_line(way: str, told: str, start: Starts) -> None:
    with misbehaving(way) as address:
        server = start(ServerSpec("web", url=address, most_bytes=1_000_000))
        await server.ready()
        for _ in range(2):
            with pytest.raises(ToolError) as caught:
                await server.call("echo", {}, unwatched)
            assert str(caught.value).startswith(f"the server `web` {told}")
            assert server.state.phase == "ready"
        await server.close()


async def test_a_call_without_an_answer_ends(start: Starts) -> None:
    with misbehaving("hang") as address:
        server = start(ServerSpec("web", url=address, call_timeout=0.1))
        await server.ready()
        with pytest.raises(ToolError, match=r"gave no answer for `echo` within 0\.1 seconds"):
            await server.call("echo", {}, unwatched)
        assert server.state.phase == "ready"
        await server.close()


async def test_a_server_that_has_forgotten_us_is_greeted_again(start: Starts) -> None:
    with misbehaving("forgetful") as address:
        server = start(ServerSpec("web", url=address))
        await server.ready()
        assert await server.call("echo", {}, unwatched) == Result("s2")
        await server.close()

"""A server's life with servers that behave: started, asked, cancelled, closed."""

import asyncio
from pathlib import Path

import pytest

from ebbtide.tools.base import Arguments, ImageData, Result, ToolError, Workspace, no_progress
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from tests.kit.polling import until
from tests.tools.integrations.mcp.conftest import Starts, everything, raw
from tests.tools.integrations.mcp.serving import PIXEL

CALLS: list[tuple[str, Arguments, Result]] = [
    ("echo", {"text": "hi"}, Result("hi")),
    ("add", {"a": 1, "b": 2}, Result('{\n  "sum": 3\n}')),
    ("picture", {}, Result("", images=(ImageData("image/png", PIXEL),))),
    ("fail", {}, Result("Error executing tool fail", has_failed=True)),
    ("steps", {"count": 2}, Result("2 steps")),
]


async def test_a_server_over_its_pipes_answers_calls(start: Starts) -> None:
    server = start(everything())
    state = await server.wait_until_started()
    assert (state.phase, state.name, state.version) == ("ready", "everything", "1.2")
    assert [await server.call(name, arguments, no_progress) for name, arguments, _ in CALLS] == [
        expected for _, _, expected in CALLS
    ]


async def test_a_server_at_an_address_answers_calls(start: Starts, address: str) -> None:
    server = start(ServerSpec("web", url=address))
    assert [tool.name for tool in (await server.wait_until_started()).tools] == [
        f"mcp__web__{name}"
        for name in ("echo", "add", "picture", "fail", "steps", "hang", "greet", "joke", "folders", "grow")
    ]
    assert [await server.call(name, arguments, no_progress) for name, arguments, _ in CALLS] == [
        expected for _, _, expected in CALLS
    ]


async def test_a_tool_runs_on_its_server(start: Starts, workspace: Workspace) -> None:
    server = start(raw())
    (tool,) = (await server.wait_until_started()).tools
    assert (tool.name, tool.kind, tool.effect, tool.subjects({}, workspace)) == (
        "mcp__raw__echo", "mcp", "serve", ()
    )  # fmt: skip
    assert await tool.run({"text": "hi"}, workspace) == Result("hi")


async def test_a_cancelled_call_leaves_the_server_alive(start: Starts) -> None:
    server = await start.ready(everything())
    began = asyncio.Event()
    call = asyncio.create_task(server.call("hang", {}, lambda text: began.set()))
    await began.wait()
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
    assert await server.call("echo", {"text": "alive"}, no_progress) == Result("alive")


async def test_a_server_is_told_of_a_cancelled_call(start: Starts) -> None:
    server = await start.ready(raw("hang"))
    call = asyncio.create_task(server.call("echo", {}, no_progress))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await until(lambda: "cancelled: caller cancelled" in server.log.read_text())


async def test_a_call_without_an_answer_ends(start: Starts) -> None:
    server = await start.ready(raw("hang", call_timeout=0.05))
    with pytest.raises(ToolError) as caught:
        await server.call("echo", {}, no_progress)
    assert str(caught.value) == (
        "the server `raw` did not answer `echo` within 0.05 seconds, so it was told to stop; it may be partly done"
    )


async def test_only_wanted_tools_are_offered(start: Starts) -> None:
    server = start(everything(enabled_tools=("e*", "add", "fail"), disabled_tools=("fail",)))
    assert [tool.original_name for tool in (await server.wait_until_started()).tools] == ["echo", "add"]


async def test_a_closed_server_says_so(start: Starts) -> None:
    server = await start.ready(raw())
    await server.close()
    assert server.state.phase == "closed"
    with pytest.raises(ToolError, match=r"the server `raw` cannot be used \(closed\)"):
        await server.call("echo", {}, no_progress)


async def test_a_server_is_started_again_on_demand(start: Starts) -> None:
    server = await start.ready(raw())
    assert (await server.restart()).phase == "ready"
    assert await server.call("echo", {"text": "again"}, no_progress) == Result("again")


async def test_what_a_server_prints_goes_to_a_file_that_only_its_owner_reads(start: Starts) -> None:
    server: McpServer = start(raw())
    await server.wait_until_started()
    await server.close()
    assert (server.log.read_text(), server.log.stat().st_mode & 0o777) == ("started\n", 0o600)


async def test_a_program_that_is_not_there_is_named(start: Starts, tmp_path: Path) -> None:
    state = await start(ServerSpec("none", (str(tmp_path / "nothing"),))).wait_until_started()
    assert (state.phase, state.detail) == ("failed", f"`{tmp_path / 'nothing'}`: No such file or directory")


async def test_an_address_where_nobody_answers_is_named(start: Starts) -> None:
    state = await start(ServerSpec("none", url="http://127.0.0.1:1/mcp")).wait_until_started()
    assert (state.phase, state.detail) == (
        "failed", "the server cannot be reached: All connection attempts failed"
    )  # fmt: skip

"""Servers that misbehave: each is named in one line, and whoever called it and the other servers go on."""

from pathlib import Path

import pytest

from ebbtide.tools.base import Result, ToolError, no_progress
from ebbtide.tools.integrations.mcp.offers import ServerPhase
from ebbtide.tools.integrations.mcp.server import McpServer, close_all
from tests.kit.polling import is_there, until
from tests.tools.integrations.mcp.conftest import Starts, raw
from tests.tools.integrations.mcp.raw import OBJECT

STARTS: list[tuple[str, ServerPhase, str]] = [
    ("hangs at start", "failed", "it was not ready within 0.3 seconds"),
    ("dies at start", "failed", "it ended with exit code 2: no such database"),
    ("deep", "failed", "the answer cannot be read: it is not a valid message"),
]


@pytest.mark.parametrize(("way", "phase", "detail"), STARTS)
async def test_a_server_that_cannot_be_started_is_named_in_a_line(
    way: str, phase: ServerPhase, detail: str, start: Starts
) -> None:
    other, server = start(raw()), start(raw(way, startup_timeout=0.3 if way == "hangs at start" else 30))
    state = await server.wait_until_started()
    assert (state.phase, state.detail, state.tools) == (phase, detail, ())
    await other.wait_until_started()
    assert await other.call("echo", {"text": "well"}, no_progress) == Result("well")


CALLS = [
    ("dies", "the server `raw` was lost during `echo` (it ended with exit code 3: out of luck); it may be partly done"),
    (
        "endless line",
        "the server `raw` was lost during `echo` (it printed a line of more than 2,000,000 bytes); "
        "it may be partly done",
    ),
    (
        "huge result",
        "the server `raw` refused `echo`: the answer cannot be read: it has 1,500,073 bytes, which is too large",
    ),
    (
        "huge result, id last",
        "the server `raw` refused `echo`: the answer cannot be read: it has 1,500,073 bytes, which is too large",
    ),
    ("invalid json", "the server `raw` refused `echo`: the answer cannot be read: it is not a valid message"),
    ("wrong result", "the server `raw` sent an invalid response to `echo`"),
    (
        "many questions",
        "the server `raw` was lost during `echo` (it sends more requests than can be answered); it may be partly done",
    ),
]


@pytest.mark.parametrize(("way", "message"), CALLS)
async def test_a_call_that_goes_wrong_is_told_in_a_line(way: str, message: str, start: Starts) -> None:
    server = await start.ready(raw(way, "1500000", max_result_bytes=1_000_000))
    with pytest.raises(ToolError) as caught:
        await server.call("echo", {}, no_progress)
    assert str(caught.value) == message
    # It serves on, or is started again, which whoever calls does not notice.
    assert (await server.wait_until_started()).phase == "ready"


@pytest.mark.parametrize("way", ["huge result", "huge result, id last", "invalid json", "wrong result", "hang"])
async def test_a_wrong_answer_ends_no_other_call(way: str, start: Starts) -> None:
    server = await start.ready(raw(way, "1500000", max_result_bytes=1_000_000, call_timeout=0.05))
    process = server.log.read_text()
    for _ in range(3):
        with pytest.raises(ToolError):
            await server.call("echo", {}, no_progress)
    assert server.log.read_text().count("started") == process.count("started") == 1


async def test_entries_of_a_list_that_mean_nothing_are_left_out_alone(start: Starts) -> None:
    state = await start(raw("no schema")).wait_until_started()
    assert [(tool.original_name, tool.schema) for tool in state.tools] == [
        ("echo", {"type": "object", "properties": {}}),
        ("well", OBJECT),
        ("untyped", {"anyOf": [OBJECT], "type": "object", "properties": {}}),
        ("either", {"properties": {}, "type": "object"}),
    ]
    assert state.notes == (
        "a tool without a name is skipped: `name`: Field required",
        "a tool without a name is skipped: ``: Input should be a valid dictionary or instance of Tool",
        "`wrong` is skipped: `inputSchema`: Input should be a valid dictionary",
        "`text` is skipped: `inputSchema.type`: Input should be 'object'",
    )


@pytest.mark.parametrize("text", ["database locked", "Connection closed"])
async def test_an_error_of_a_server_is_no_lost_connection(text: str, start: Starts) -> None:
    server = await start.ready(raw("own trouble"))
    with pytest.raises(ToolError) as caught:
        await server.call("echo", {"text": text}, no_progress)
    assert str(caught.value) == f"the server `raw` refused `echo`: {text}"
    assert (server.state.phase, server.log.read_text()) == ("ready", "started\n")


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("half a character", "a?b"),
        ("only structured", '{"result": [1, 2]}'),
        (
            "unknown part",
            "a\n[a part of the type `film` is omitted: it is unknown to the protocol]\n"
            "[a part of the type `text` is omitted: it is unknown to the protocol]",
        ),
        ("decorated", 'a\nb\nc\n{"d": 1}\ne\n[a link to `x:f` (x:f)]\n[`x:g`:]\nh'),
        ("one block", "a"),
        ("no output", ""),
        ("much progress", "at last"),
        ("many parts", "x\n" * 10_000 + "[2 more parts are omitted]"),
    ],
)
async def test_what_is_not_quite_right_is_taken_as_it_is_meant(way: str, text: str, start: Starts) -> None:
    server = await start.ready(raw(way))
    assert await server.call("echo", {}, no_progress) == Result(text)


async def test_an_error_of_a_tool_reads_as_one(start: Starts) -> None:
    server = await start.ready(raw("error flag"))
    result = Result("error:\nmissing required parameter: owner", has_failed=True)
    assert await server.call("echo", {}, no_progress) == result


async def test_the_details_of_an_error_are_told(start: Starts) -> None:
    server = await start.ready(raw("error details"))
    with pytest.raises(ToolError) as caught:
        await server.call("echo", {}, no_progress)
    assert str(caught.value) == (
        'the server `raw` refused `echo`: Invalid params ([{"path": ["owner"], "message": "Required\\u001b[31m"}])'
    )


NOT_LISTED = [
    ("fail", 'no database ({"at": "%s"})'),
    ("nothing", "the answer cannot be read: it is not a valid message"),
    ("text", "its list is invalid: `%s`: Input should be a valid list"),
    ("null", ""),
    ("none", ""),
]


@pytest.mark.parametrize(("way", "why"), NOT_LISTED)
async def test_a_list_that_cannot_be_had_costs_a_line_and_no_tool(way: str, why: str, start: Starts) -> None:
    state = await start(raw(f"lists {way}")).wait_until_started()
    assert (state.phase, [tool.original_name for tool in state.tools]) == ("ready", ["echo"])
    kinds = ("resources", "prompts") if why else ()
    assert state.notes == tuple(f"its {kind} are unknown: {why.replace('%s', kind)}" for kind in kinds)


async def test_tools_do_not_wait_for_lists_that_never_come(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.tools.integrations.mcp.connection._STARTUP_LIST_S", 0.01)
    server = await start.ready(raw("lists late", startup_timeout=600))
    assert await server.call("echo", {"text": "well"}, no_progress) == Result("well")
    assert server.state.notes == (
        "its resources are unknown: it did not answer `resources/list` within 0.01 s",
        "its prompts are unknown: it did not answer `prompts/list` within 0.01 s",
    )


async def test_odd_decoration_removes_nothing_from_a_list(start: Starts) -> None:
    state = await start(raw("lists odd")).wait_until_started()
    assert ([each.uri for each in state.resources], [each.name for each in state.prompts]) == (["x:y"], ["well"])
    tools = (await start(raw("odd tools")).wait_until_started()).tools
    assert [(tool.original_name, tool.schema) for tool in tools] == [("echo", OBJECT)]


async def test_a_server_that_says_nothing_of_what_it_offers_is_asked_for_tools(start: Starts) -> None:
    assert [tool.original_name for tool in (await start(raw("says nothing")).wait_until_started()).tools] == ["echo"]


async def test_what_a_tool_gave_back_steers_no_terminal(start: Starts) -> None:
    server = await start.ready(raw("codes"))
    assert await server.call("echo", {}, no_progress) == Result("ab2Jc\nd\ne")


async def test_a_server_that_broke_is_started_again_and_answers(start: Starts, tmp_path: Path) -> None:
    server = await start.ready(raw("dies once", cwd=tmp_path))
    with pytest.raises(ToolError, match="was lost during"):
        await server.call("echo", {"text": "first"}, no_progress)
    assert await server.call("echo", {"text": "second"}, no_progress) == Result("second")


async def test_a_server_that_breaks_again_and_again_is_given_up(start: Starts) -> None:
    server = start(raw("dies"))
    for _ in range(6):
        await server.wait_until_started()
        with pytest.raises(ToolError, match="was lost during"):
            await server.call("echo", {}, no_progress)
    await until(lambda: server.state.phase == "failed")
    assert server.state.detail == "it ended with exit code 3: out of luck"
    assert (await server.restart()).phase == "ready"


async def test_chatter_between_answers_is_written_down(start: Starts) -> None:
    server = await start.ready(raw("chatter"))
    assert await server.call("echo", {}, no_progress) == Result("done")
    assert server.log.read_text() == (
        "started\n[on its standard output] just so you know: called\n[on its standard output] [1, 2\n"
    )


async def test_what_a_call_has_changed_can_be_called_at_once(start: Starts) -> None:
    server = start(raw("changes"))
    assert [tool.original_name for tool in (await server.wait_until_started()).tools] == ["first"]
    first = server.state.tools[0]
    assert await server.call("first", {}, no_progress) == Result("changed")
    assert [tool.original_name for tool in server.state.tools] == ["second"]
    assert await server.call("second", {}, no_progress) == Result("changed")
    with pytest.raises(ToolError, match="the server `raw` no longer offers `first`"):
        await first.caller.call("first", {}, no_progress)


async def test_servers_that_will_not_end_are_ended_with_their_children(start: Starts) -> None:
    servers = [start(raw("hangs at exit")) for _ in range(3)] + [start(raw("has a child"))]
    for server in servers:
        await server.wait_until_started()
    child = int(servers[-1].log.read_text().split()[-1])
    await close_all(servers)
    assert [server.state.phase for server in servers] == ["closed"] * 4
    await until(lambda: not is_there(child))  # a killed process is gone when the system gets round to it


async def test_a_server_that_is_starting_can_be_closed(start: Starts) -> None:
    server: McpServer = start(raw("hangs at start"))
    await until(server.log.exists)
    await server.close()
    assert server.state.phase == "closed"

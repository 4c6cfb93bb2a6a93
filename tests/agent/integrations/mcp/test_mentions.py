"""What a message names of servers is read and stands with it."""

import asyncio
import json
from dataclasses import replace

import pytest

from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.extensions.trust_question import APPROVE_OPTION
from ebbtide.agent.integrations.mcp import status
from ebbtide.agent.integrations.mcp.mentions import MAX_RESOURCE_CHARS, MAX_RESOURCES, parse_prompt_arguments
from ebbtide.agent.integrations.mcp.running_servers import RunningServers
from ebbtide.agent.messages import Note, Text, ToolOutput, User
from ebbtide.agent.session import Session
from ebbtide.tools.integrations.mcp.offers import McpPrompt, PromptArgument
from tests.kit.mcp_project import McpProject, command, notices, say
from tests.kit.polling import until

REVIEW = McpPrompt(
    "mcp__docs__review", "review", "Reviews.", (PromptArgument("file", is_required=True), PromptArgument("style"))
)


def library(project: McpProject, **texts: str) -> None:
    """A server `docs` with these resources."""
    words = project.server("docs", echo="Says it again.")
    (project.folder / "docs" / "library.json").write_text(json.dumps({f"docs://{name}": texts[name] for name in texts}))
    project.user(docs=command(words))


def last_said(session: Session) -> User:
    return next(m for m in reversed(session.history.messages) if isinstance(m, User) and not m.outputs)


def notes(session: Session) -> list[str]:
    return [part.text for part in last_said(session).parts if isinstance(part, Note)]


async def test_a_resource_that_is_named_stands_with_the_message(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})

    await say(session, "follow @docs:docs://guide, please; me@docs:docs://guide is an address")

    assert last_said(session).parts[0] == Text("follow @docs:docs://guide, please; me@docs:docs://guide is an address")
    assert "`@docs:docs://guide` holds:\n\nMeasure twice." in notes(session)


async def test_a_resource_that_cannot_be_read_is_named_and_the_turn_goes_on(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})

    events = await say(session, "see @docs:docs://none and @other:x")

    assert not [event for event in events if isinstance(event, TurnFailed)]
    (note,) = [text for text in notes(session) if "docs://none" in text]
    assert note.startswith("`@docs:docs://none` could not be read: ")
    assert "Resource not found" in note
    assert notices(events) == [note]


async def test_no_more_resources_are_read_than_one_message_may_bring(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})

    events = await say(session, " ".join(f"@docs:docs://{number}" for number in range(MAX_RESOURCES + 2)))

    notice = f"the message mentions 2 resources beyond the limit of {MAX_RESOURCES}; these were not read"
    assert notice in notices(events)
    assert notice in notes(session)
    assert len([text for text in notes(session) if "could not be read" in text]) == MAX_RESOURCES


async def test_of_a_long_resource_the_beginning_is_shown_and_a_tool_brings_the_rest(project: McpProject) -> None:
    library(project, log="x" * (MAX_RESOURCE_CHARS + 1234))
    call = {"calls": [{"name": "mcp__docs__read_resource", "arguments": {"uri": "docs://log"}}]}
    listing = {"calls": [{"name": "mcp__docs__read_resource", "arguments": {}}]}
    session = await project.open(call, listing, {"text": "ok"})

    await say(session, "read @docs:docs://log")

    (note,) = [text for text in notes(session) if "docs://log" in text]
    assert note.endswith("\n[… 1,234 more characters: `mcp__docs__read_resource` returns all of it …]")
    whole, listed = [part for m in session.history.messages for part in m.parts if isinstance(part, ToolOutput)]
    assert (whole.status, whole.stored is not None) == ("done", True)
    assert listed.text == "docs://log  (log)"


async def test_a_prompt_is_what_its_command_stands_for(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})

    await say(session, "/mcp__docs__review 'a b.py' style=harshly")

    assert "The user asks what the prompt `review` of the server `docs` says:\n\nReview a b.py, harshly." in notes(
        session
    )
    assert isinstance(session.servers, RunningServers)
    (server,) = session.servers.statuses_with_tools()
    assert server.state.prompts == (REVIEW,)
    assert [tool.name for tool in server.tools] == ["echo", "read_resource"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/mcp__docs__review", "the prompt `review` needs `file`: its arguments are FILE [STYLE]"),
        ("/mcp__docs__none", "no server currently offers the prompt `/mcp__docs__none`; `/mcp` lists prompts"),
    ],
)
async def test_a_prompt_that_cannot_be_had_ends_the_turn_before_anything_is_sent(
    project: McpProject, text: str, why: str
) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})

    failed = (await say(session, text))[-1]

    assert isinstance(failed, TurnFailed)
    assert (failed.message, failed.exit_code) == (why, 2)
    assert session.history.messages == ()
    assert not isinstance((await say(session, "hello"))[-1], TurnFailed)


def test_arguments_are_written_in_order_or_by_name() -> None:
    assert REVIEW.usage == "FILE [STYLE]"
    assert parse_prompt_arguments(REVIEW, "a.py") == {"file": "a.py"}
    assert parse_prompt_arguments(REVIEW, "style=kindly a.py") == {"file": "a.py", "style": "kindly"}
    assert parse_prompt_arguments(REVIEW, "a.py very kindly") == {"file": "a.py", "style": "very kindly"}
    assert parse_prompt_arguments(REVIEW, "it's") == {"file": "it's"}
    with pytest.raises(UsageError, match="takes no arguments"):
        parse_prompt_arguments(McpPrompt("mcp__docs__plain", "plain"), "more")


async def test_a_server_can_be_switched_off_and_on(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})
    board, changes = session.servers, list[str]()
    assert isinstance(board, RunningServers)
    await until(lambda: bool(board.statuses_with_tools()[0].tools))
    assert {tool.availability for tool in board.statuses_with_tools()[0].tools} == {"next request"}
    await say(session, "hello")
    board.set_watcher(lambda: changes.append(board.statuses_with_tools()[0].state.phase))

    await board.toggle("docs")
    (off,) = board.statuses_with_tools()
    await board.toggle("docs")
    await board.restart("docs")
    (on,) = board.statuses_with_tools()

    assert board.last_log_lines("docs", 5) == []
    assert (off.is_enabled, off.state.phase, off.state.detail, off.tools) == (
        False,
        "disabled",
        "switched off in this session",
        (),
    )
    assert (on.is_enabled, on.state.phase, [(tool.name, tool.availability) for tool in on.tools]) == (
        True, "ready", [("echo", "offered"), ("read_resource", "offered")],
    )  # fmt: skip
    assert on.token_count == sum(tool.token_count for tool in on.tools) > 0
    assert {"disabled", "starting", "ready"} <= set(changes)


async def test_two_logins_at_once_disturb_nobody(project: McpProject) -> None:
    library(project, guide="Measure twice.")
    session = await project.open({"text": "ok"})
    board = session.servers
    assert isinstance(board, RunningServers)

    await asyncio.gather(*(board.log_in("docs", lambda url: None) for _ in range(2)))

    assert [server.state.phase for server in board.statuses_with_tools()] == ["ready"]


async def test_looking_at_servers_makes_no_digest_again(project: McpProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project.declares(forge=command(project.server("forge")))
    session = await project.open({"text": "ok"}, interactive=True)
    await say(session, answer=lambda event: APPROVE_OPTION)
    board = session.servers
    assert isinstance(board, RunningServers)
    monkeypatch.setattr(status, "compute_tool_digests", None)

    looks = [(board.statuses_with_tools(), board.statuses()) for _ in range(2)]

    assert looks[0] == looks[1]
    assert looks[0][1] == (replace(looks[0][0][0], tools=()),)
    assert [(tool.name, tool.availability) for tool in looks[0][0][0].tools] == [("echo", "offered")]

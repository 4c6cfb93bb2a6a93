"""What a message names of servers is read and stands with it."""

import asyncio
import json
from dataclasses import replace

import pytest

from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import TurnFailed
from ebbtide.agent.extensions.trust_question import APPROVE
from ebbtide.agent.mcp import status
from ebbtide.agent.mcp.mentions import MAX_RESOURCE_CHARS, MAX_RESOURCES, arguments_of
from ebbtide.agent.messages import Note, Text, ToolOutput, User
from ebbtide.agent.session import Session
from ebbtide.tools.mcp.offers import PromptArgument, ServerPrompt
from tests.agent.mcp.serving import House, command, notices, say
from tests.waiting import until

REVIEW = ServerPrompt(
    "mcp__docs__review", "review", "Reviews.", (PromptArgument("file", required=True), PromptArgument("style"))
)


def library(house: House, **texts: str) -> None:
    """A server `docs` with these resources."""
    words = house.server("docs", echo="Says it again.")
    (house.folder / "docs" / "library.json").write_text(json.dumps({f"docs://{name}": texts[name] for name in texts}))
    house.user(docs=command(words))


def last_said(session: Session) -> User:
    return next(m for m in reversed(session.history.messages) if isinstance(m, User) and not m.outputs)


def notes(session: Session) -> list[str]:
    return [part.text for part in last_said(session).parts if isinstance(part, Note)]


async def test_a_resource_that_is_named_stands_with_the_message(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})

    await say(session, "follow @docs:docs://guide, please; me@docs:docs://guide is an address")

    assert last_said(session).parts[0] == Text("follow @docs:docs://guide, please; me@docs:docs://guide is an address")
    assert "`@docs:docs://guide` holds:\n\nMeasure twice." in notes(session)


async def test_a_resource_that_cannot_be_read_is_named_and_the_turn_goes_on(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})

    events = await say(session, "see @docs:docs://none and @other:x")

    assert not [event for event in events if isinstance(event, TurnFailed)]
    (note,) = [text for text in notes(session) if "docs://none" in text]
    assert note.startswith("`@docs:docs://none` could not be read: ")
    assert "Resource not found" in note
    assert notices(events) == [note]


async def test_no_more_resources_are_read_than_one_message_may_bring(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})

    events = await say(session, " ".join(f"@docs:docs://{number}" for number in range(MAX_RESOURCES + 2)))

    told = f"the message mentions 2 resources beyond the limit of {MAX_RESOURCES}; these were not read"
    assert told in notices(events)
    assert told in notes(session)
    assert len([text for text in notes(session) if "could not be read" in text]) == MAX_RESOURCES


async def test_of_a_long_resource_the_beginning_is_shown_and_a_tool_brings_the_rest(house: House) -> None:
    library(house, log="x" * (MAX_RESOURCE_CHARS + 1234))
    call = {"calls": [{"name": "mcp__docs__read_resource", "arguments": {"uri": "docs://log"}}]}
    listing = {"calls": [{"name": "mcp__docs__read_resource", "arguments": {}}]}
    session = await house.open(call, listing, {"text": "ok"})

    await say(session, "read @docs:docs://log")

    (note,) = [text for text in notes(session) if "docs://log" in text]
    assert note.endswith("\n[… 1,234 characters more: `mcp__docs__read_resource` brings all of it …]")
    whole, listed = [part for m in session.history.messages for part in m.parts if isinstance(part, ToolOutput)]
    assert (whole.status, whole.stored is not None) == ("done", True)
    assert listed.text == "docs://log  (log)"


async def test_a_prompt_is_what_its_command_stands_for(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})

    await say(session, "/mcp__docs__review 'a b.py' style=harshly")

    assert "The user asks what the prompt `review` of the server `docs` says:\n\nReview a b.py, harshly." in notes(
        session
    )
    assert session.servers is not None
    (server,) = session.servers.servers()
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
    house: House, text: str, why: str
) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})

    failed = (await say(session, text))[-1]

    assert isinstance(failed, TurnFailed)
    assert (failed.message, failed.exit_code) == (why, 2)
    assert session.history.messages == ()
    assert not isinstance((await say(session, "hello"))[-1], TurnFailed)


def test_arguments_are_written_in_order_or_by_name() -> None:
    assert REVIEW.usage == "FILE [STYLE]"
    assert arguments_of(REVIEW, "a.py") == {"file": "a.py"}
    assert arguments_of(REVIEW, "style=kindly a.py") == {"file": "a.py", "style": "kindly"}
    assert arguments_of(REVIEW, "a.py very kindly") == {"file": "a.py", "style": "very kindly"}
    assert arguments_of(REVIEW, "it's") == {"file": "it's"}
    with pytest.raises(UsageError, match="takes no arguments"):
        arguments_of(ServerPrompt("mcp__docs__plain", "plain"), "more")


async def test_a_server_can_be_switched_off_and_on(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})
    board, changes = session.servers, list[str]()
    assert board is not None
    await until(lambda: bool(board.servers()[0].tools))
    assert {tool.offer for tool in board.servers()[0].tools} == {"due"}
    await say(session, "hello")
    board.watch(lambda: changes.append(board.servers()[0].state.phase))

    await board.switch("docs")
    (off,) = board.servers()
    await board.switch("docs")
    await board.restart("docs")
    (on,) = board.servers()

    assert board.log("docs", 5) == []
    assert (off.is_on, off.state.phase, off.state.detail, off.tools) == (
        False,
        "disabled",
        "switched off in this session",
        (),
    )
    assert (on.is_on, on.state.phase, [(tool.name, tool.offer) for tool in on.tools]) == (
        True, "ready", [("echo", "offered"), ("read_resource", "offered")],
    )  # fmt: skip
    assert on.tokens == sum(tool.tokens for tool in on.tools) > 0
    assert {"disabled", "starting", "ready"} <= set(changes)


async def test_two_logins_at_once_disturb_nobody(house: House) -> None:
    library(house, guide="Measure twice.")
    session = await house.open({"text": "ok"})
    board = session.servers
    assert board is not None

    await asyncio.gather(*(board.login("docs", lambda url: None) for _ in range(2)))

    assert [server.state.phase for server in board.servers()] == ["ready"]


async def test_looking_at_servers_makes_no_digest_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.declares(forge=command(house.server("forge")))
    session = await house.open({"text": "ok"}, interactive=True)
    await say(session, answer=lambda event: APPROVE)
    board = session.servers
    assert board is not None
    monkeypatch.setattr(status, "digests_of", None)

    looks = [(board.servers(), board.statuses()) for _ in range(2)]

    assert looks[0] == looks[1]
    assert looks[0][1] == (replace(looks[0][0][0], tools=()),)
    assert [(tool.name, tool.offer) for tool in looks[0][0][0].tools] == [("echo", "offered")]

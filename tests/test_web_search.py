"""`web_search` as a user has it, with a model whose provider searches the web itself."""

from pathlib import Path

import pytest

from ebbtide.agent.messages import Usage
from tests.kit.commands import ebb
from tests.kit.driver import driven
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.kit.search_frames import PAGES, answer, anthropic_stream, cited, found, openai_stream, searched, searches
from tests.kit.user import User

CLAUDE, GPT = "anthropic/claude-haiku-5-5", "openai/gpt-6-sol"
QUERY = "new in 3.14"
ASKED = Turn(calls=(Call("web_search", {"query": QUERY}),), usage=Usage(input=4000, output=5))
DONE = Turn(text="It is faster.", usage=Usage(input=4100, output=5))
BY_ANTHROPIC = Turn(raw=anthropic_stream([searched("s1", QUERY), found("s1"), cited("It is faster.", PAGES[0])]))
BY_OPENAI = Turn(raw=openai_stream([searches("ws_1", QUERY, PAGES[:1]), answer("It is faster.")]))
ON = ("--config", 'web.search="provider"')


def is_search(request: Recorded) -> bool:
    return any(str(tool.get("type")).startswith("web_search") for tool in request.body["tools"])


@pytest.mark.parametrize(("model", "searched"), [(CLAUDE, BY_ANTHROPIC), (GPT, BY_OPENAI)])
def test_an_allowed_search_is_a_request_of_its_own_and_is_paid_for(tmp_path: Path, model: str, searched: Turn) -> None:
    with FakeProvider([ASKED, searched, DONE]) as server:
        flags = ("-m", model, *ON, "--allow", "web_search", "--output-format", "stream-json")
        run = ebb("-p", "What is new?", *flags, home=tmp_path, env=server.environment)
        assert (run.code, run.result["result"]) == (0, "It is faster.")
        assert [is_search(request) for request in server.requests] == [False, True, False]
        first, search, second = (request.body for request in server.requests)
        for name in ("system", "instructions", "tools"):
            assert first.get(name) == second.get(name)
        assert "What is new?" not in str(search)
        assert "https://docs.example.org/a" in str(second)
        assert server.blind == []
    replies = [line for line in run.lines if line["type"] == "reply_finished"]
    assert [reply["purpose"] for reply in replies] == ["step", "search", "step"]
    assert replies[1]["cost"] > 0.01
    assert run.result["usage"]["cost"] == pytest.approx(sum(reply["cost"] for reply in replies))
    assert run.result["usage"]["input"] == sum(reply["usage"]["input"] for reply in replies)
    assert run.result["steps"] == 2


def test_without_a_rule_a_script_does_not_search(tmp_path: Path) -> None:
    with FakeProvider([ASKED, DONE]) as server:
        run = ebb("-p", "What is new?", "-m", CLAUDE, *ON, home=tmp_path, env=server.environment)
        assert not any(map(is_search, server.requests))
    assert run.code == 5
    assert "denied web_search: ask mode: web access needs your OK" in run.err
    assert "`--allow web_search`" in run.err


def test_a_user_is_asked_about_each_query(user: User) -> None:
    other = Turn(calls=(Call("web_search", {"query": "old"}),), usage=Usage(input=4100, output=5))
    with (
        FakeProvider([ASKED, BY_ANTHROPIC, other, DONE]) as server,
        driven(user, *ON, model=CLAUDE, env=server.environment) as program,
    ):
        program.say("message", text="What is new?")
        first = program.until("permission_asked")
        assert (first["name"], first["arguments"]) == ("web_search", {"query": QUERY})
        assert [is_search(request) for request in server.requests] == [False]
        program.say("answer", id=first["id"], verdict="allow")
        second = program.until("permission_asked")
        assert second["arguments"] == {"query": "old"}
        program.say("answer", id=second["id"], verdict="deny", note="enough")
        program.end()
        assert [is_search(request) for request in server.requests] == [False, True, False, False]
        assert "enough" in str(server.requests[-1].body)


@pytest.mark.parametrize("setting", ["auto", "off"])
def test_at_another_address_or_when_it_is_off_there_is_no_search(tmp_path: Path, setting: str) -> None:
    with FakeProvider([Turn(text="Hi.")]) as server:
        flags = ("--config", f'web.search="{setting}"')
        assert ebb("-p", "Hello.", "-m", CLAUDE, *flags, home=tmp_path, env=server.environment).code == 0
        names = [tool["name"] for tool in server.requests[0].body["tools"]]
    assert "web_fetch" in names
    assert "web_search" not in names


def test_a_program_comes_before_the_provider(tmp_path: Path) -> None:
    with FakeProvider([ASKED, DONE]) as server:
        flags = ("--config", 'web.search=["printf", "by a program: %s"]', "--allow", "web_search")
        run = ebb("-p", "What is new?", "-m", CLAUDE, *flags, home=tmp_path, env=server.environment)
        assert run.code == 0
        assert f"by a program: {QUERY}" in str(server.requests[1].body)


def test_a_search_that_is_not_allowed_by_the_provider_is_an_output(tmp_path: Path) -> None:
    refused = Turn(status=400, error=("invalid_request_error", "Web search is not enabled for this organization."))
    with FakeProvider([ASKED, refused, DONE]) as server:
        run = ebb(
            "-p", "What is new?", "-m", CLAUDE, *ON, "--allow", "web_search", home=tmp_path, env=server.environment
        )  # fmt: skip
        assert (run.code, run.out) == (0, "It is faster.\n")
        output = server.requests[2].body["messages"][-1]["content"][0]
    assert output["is_error"]
    assert output["content"][0]["text"].startswith("the provider's search cannot be used: ")

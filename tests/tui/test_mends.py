"""Failures say what to do; questions hide nothing that was told before them, and show all that they are about."""

from pathlib import Path

from textual.containers import VerticalScroll

from ebbtide.agent.archive.listing import ContentPage
from ebbtide.agent.errors import AgentError, QuotaExceeded
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import Event, Noticed, TextDelta, TurnFailed
from ebbtide.agent.integrations.mcp.approvals import build_tools_question
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.offers import McpTool
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tui.view.advice import ADVICE_BY_CODE, advice_for
from ebbtide.tui.widgets.pages import page_heading
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession


def codes(error: type[AgentError]) -> set[str]:
    return {error.code}.union(*(codes(kind) for kind in error.__subclasses__()))


def test_every_error_has_its_advice() -> None:
    assert codes(AgentError) <= set(ADVICE_BY_CODE)


def test_advice_is_not_given_twice() -> None:
    assert (
        advice_for("quota", "no credit is left") == "add credit at the provider, or choose another model with `/model`"
    )
    assert advice_for("quota", "no credit is left; `/model` switches to another model") == ""
    assert advice_for("from another version", "what?") == ""
    assert advice_for("auth", "not in your country", "country") == "`/model` switches to a model of another provider"


async def test_a_failure_says_what_to_do() -> None:
    async with terminal(FakeSession([[TurnFailed("overloaded", "the server is overloaded", 3)]])) as t:
        await t.type("go", shows="send the message again in a moment")


async def test_what_to_do_is_said_once() -> None:
    error = QuotaExceeded("no credit is left: buy some.", todo="Add credit, or use another model.")
    async with terminal(FakeSession([[TurnFailed.from_error(error)]])) as t:
        await t.type("go", shows="choose another model with /model")
        assert "✗ no credit is left: buy some.\n  add credit at the provider, or" in t.transcript.visible_text()


async def test_a_long_question_shows_what_came_before_and_can_be_read_to_its_end() -> None:
    question = QuestionAsked("q", "\n".join(f"line {n}" for n in range(200)), ("not now", "approve"))
    turn: list[Event] = [TextDelta("Wait."), Noticed("the server has changed\x1b[2J"), question]
    async with terminal(FakeSession([turn])) as t:
        await t.type("go", asks=QuestionAsked)
        assert "· the server has changed␛[2J" in t.transcript.visible_text()
        subject = t.app.screen.query_one("#subject", VerticalScroll)
        assert "Ctrl-O show 1" in t.reads("answers")
        await t.press("ctrl+o", until=lambda: subject.size.height > 12)
        assert t.transcript.region.height <= 1
        for _ in range(30):
            await t.pilot.press("pagedown")
        assert subject.scroll_offset.y == subject.max_scroll_y
        await t.press("pageup", "escape")


def test_a_question_shows_all_that_is_approved() -> None:
    description = f"{'Reads a file. ' * 40}\nThen it sends it away."
    schema = {"properties": {"path": {"description": "and everything beside it"}, "deep": {"type": "string"}}}
    server = McpServer(ServerSpec("s"), ClientHandlers(), Path("log"), Path("login"))
    tools = [McpTool(f"mcp__s__t{n}", f"t{n}", description, schema, server) for n in range(60)]
    asked = build_tools_question("s", tools, ("t1 says that it is read", "t2 hides signs"), {}, has_changed=False)
    lines = asked.splitlines()
    assert lines[2:5] == ["Look at this first:", "- t1 says that it is read", "- t2 hides signs"]
    assert asked.count("Then it sends it away.") == asked.count("path: and everything beside it") == len(tools)
    assert lines[-1] == "May the model use them?"


def test_one_line_is_one_line() -> None:
    assert page_heading("r1", ContentPage(("a",), 5, 9)) == "r1  line 5 of 9"
    assert page_heading("r1", ContentPage(("a", "b"), 5, 9)) == "r1  lines 5-6 of 9"

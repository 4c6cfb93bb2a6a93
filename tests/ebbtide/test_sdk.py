"""An agent in a program: turns, tools that are functions, questions that a function answers."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import pytest
from pydantic import Field

import ebbtide
from ebbtide import Agent, AgentError, Decision, FunctionTool, Question, ToolError, UsageError, events, tool
from ebbtide.events import PermissionAsked, QuestionAsked, TextDelta, ToolFinished, TurnFinished, TurnStarted

WRONG = "the arguments of `ticket` are invalid, so it was not run"


@dataclass(frozen=True)
class Ticket:
    id: int
    title: str


@tool
async def ticket(id: Annotated[int, Field(description="its number", ge=1)], wanted: list[str] | None = None) -> Ticket:
    """Finds a ticket."""
    if id == 404:
        raise ToolError("there is no such ticket")
    return Ticket(id, "prices are wrong" if wanted is None else ", ".join(wanted))


@tool(asks=True)
def deploy(target: str) -> str:
    """Deploys the program."""
    return f"deployed to {target}"


@tool
def broken() -> str:
    """Fails."""
    raise KeyError("price")


@tool
def read() -> None:
    """Has the name of a tool that is there already."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def agent_in(project: Path, *replies: object, **given: object) -> Agent:
    script = project.parent / "s.json"
    script.write_text(json.dumps({"reply": replies}))
    home = {"EBB_HOME": str(project.parent / "home"), "EBB_SANDBOX": "off"}
    options: Mapping[str, object] = {"root": project, "model": f"scripted/{script}", "environment": home, **given}
    return Agent(**options)  # type: ignore[arg-type]  # what is given differs from test to test


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"name": name, "arguments": arguments}]}


async def outputs(agent: Agent, prompt: str = "go") -> list[tuple[str, str]]:
    """How each call of a turn ended, and what the model was shown of it."""
    return [(event.status, event.text) async for event in agent.send(prompt) if isinstance(event, ToolFinished)]


async def test_a_turn_is_told_as_it_happens_and_the_next_one_goes_on(project: Path) -> None:
    async with agent_in(project, {"text": "Hello."}, {"text": "Again."}) as agent:
        received = [event async for event in agent.send("hi")]
        assert received[0] == TurnStarted(agent.session, agent.model or "", "hi")
        assert "".join(event.text for event in received if isinstance(event, TextDelta)) == "Hello."
        assert received[-1] == TurnFinished("answered", "Hello.")
        outcome = await agent.ask("and?")
        session = agent.session
    assert (outcome.session, outcome.result, outcome.stop_reason) == (session, "Again.", "answered")
    async with agent_in(project, {"text": "Still there."}, resume=session) as agent:
        assert (await agent.ask("hi")).result == "Still there."
        assert agent.session == session


async def test_what_a_function_gives_and_raises_is_told_to_the_model(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = [
        call("ticket", id=7), call("ticket", id=8, wanted=["a", "b"]), call("ticket", id=404), call("ticket", id=0),
        call("broken"), {"text": "Done."},
    ]  # fmt: skip
    async with agent_in(project, *calls, tools=[ticket, broken]) as agent:
        assert await outputs(agent) == [
            ("done", '{"id":7,"title":"prices are wrong"}'),
            ("done", '{"id":8,"title":"a, b"}'),
            ("failed", "there is no such ticket"),
            ("failed", f"{WRONG}: `id`: 0 is less than the minimum of 1"),
            ("failed", "`broken` failed: KeyError: 'price'"),
        ]  # fmt: skip
    (record,) = [record for record in caplog.records if record.name == "ebbtide"]
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


@tool
def prices(as_table: bool) -> object:
    """Lists what costs how much."""
    names = [f"article {number}" for number in range(60)]
    return {name: {"price": 1.5} for name in names} if as_table else [{"name": name, "price": 1.5} for name in names]


async def test_long_values_have_a_line_for_each_part(project: Path) -> None:
    calls = [call("prices", as_table=False), call("prices", as_table=True), {"text": "Done."}]
    async with agent_in(project, *calls, tools=[prices]) as agent:
        (_, listed), (_, table) = await outputs(agent)
    for text, first in ((listed, '{"name":"article 0","price":1.5},'), (table, '"article 0":{"price":1.5},')):
        lines = text.splitlines()
        assert (lines[1], len(lines)) == (first, 62)
    assert json.loads(listed) == prices(as_table=False)
    assert json.loads(table) == prices(as_table=True)


async def test_what_is_no_tool_and_a_loop_in_a_loop_are_said(project: Path) -> None:
    with pytest.raises(UsageError, match="is not a tool: decorate the function with `@tool`"):
        await agent_in(project, tools=[len]).__aenter__()
    with pytest.raises(UsageError, match="an event loop is already running"):
        agent_in(project).run("hi")


def test_a_tool_is_what_its_function_says() -> None:
    assert (ticket.name, ticket.description, ticket.effect) == ("ticket", "Finds a ticket.", "none")
    assert ticket.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1, "description": "its number"},
            "wanted": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
        },
        "required": ["id"],
        "additionalProperties": False,
    }
    assert deploy("here") == "deployed to here"
    with pytest.raises(UsageError, match="`<lambda>` is not a valid tool name"):
        tool(lambda: "")
    with pytest.raises(UsageError, match="the tool `one` has no docstring"):
        tool(name="one")(lambda: "")
    with pytest.raises(UsageError, match="the arguments of `odd` cannot be described to a model"):

        @tool
        def odd(callback: asyncio.Event) -> None:
            """Takes what is no JSON."""


@pytest.mark.parametrize(
    ("mode", "answer", "expected"),
    [
        ("ask", None, "denied"),
        ("auto", None, "done"),
        ("plan", Decision("allow"), "denied"),
        ("ask", Decision("allow"), "done"),
        ("ask", "not today", "denied"),
    ],
)
async def test_a_tool_that_asks_runs_when_it_may(
    project: Path, mode: str, answer: Decision | str | None, expected: str
) -> None:
    asked: list[Question] = []

    def decided(question: Question) -> Decision | str:
        asked.append(question)
        assert answer is not None
        return answer

    given = {"answer": decided} if answer is not None else {}
    async with agent_in(
        project, call("deploy", target="x"), {"text": "Done."}, tools=[deploy], mode=mode, **given
    ) as agent:
        ((status, text),) = await outputs(agent)
    assert status == expected
    assert (text == "deployed to x") == (expected == "done")
    assert [type(question) for question in asked] == ([PermissionAsked] if answer and mode == "ask" else [])


async def test_questions_of_the_model_are_answered_while_the_turn_goes_on(project: Path) -> None:
    async def answered(question: Question) -> str:
        assert isinstance(question, QuestionAsked)
        return question.options[1]

    ask = call("ask_user", question="Which?", options=["red", "blue"])
    async with agent_in(project, ask, {"text": "Blue it is."}, answer=answered) as agent:
        received = [event async for event in agent.send("go")]
    assert QuestionAsked("question-1", "Which?", ("red", "blue")) in received
    assert received[-1] == TurnFinished("answered", "Blue it is.")


@pytest.mark.parametrize(("given", "error"), [(RuntimeError("gone"), RuntimeError), (None, TypeError)])
async def test_what_goes_wrong_in_an_answer_ends_the_turn_and_is_raised(
    project: Path, given: Exception | None, error: type[Exception]
) -> None:
    async def answered(question: Question) -> Decision:
        if given is not None:
            raise given
        return None  # type: ignore[return-value]  # what untyped programs give

    async with agent_in(project, call("deploy", target="x"), {"text": "On."}, tools=[deploy], answer=answered) as agent:
        with pytest.raises(error):
            await agent.ask("go")
        assert (await agent.ask("go on")).result == "On."


async def test_an_interrupted_turn_does_not_wait_for_its_question(project: Path) -> None:
    cancelled = asyncio.Event()

    async def never(question: Question) -> str:
        agent.interrupt()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async with agent_in(project, call("deploy", target="x"), tools=[deploy], answer=never) as agent:
        assert (await agent.ask("go")).stop_reason == "interrupted"
    assert cancelled.is_set()


async def test_leaving_a_turn_early_leaves_a_session_that_goes_on(project: Path) -> None:
    async with agent_in(project, call("bash", command="echo x"), {"text": "On."}, mode="auto") as agent:
        async for event in (turn := agent.send("go")):
            if isinstance(event, TurnStarted):
                break
        await turn.aclose()
        assert (await agent.ask("go on")).stop_reason == "answered"


def test_a_script_needs_no_loop(project: Path) -> None:
    agent = agent_in(project, {"text": "One."}, {"text": "Two."})
    assert [agent.run("go").result, agent.run("go").result] == ["One.", "One."], "each is a session of its own"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"root": "/no/such/folder"}, "the folder `/no/such/folder` does not exist"),
        ({"mode": "yolo"}, "agent.permission_mode"),
        ({"settings": {"agent.max_turns": "many"}}, "agent.max_turns"),
        ({"settings": {"agent.no_such_key": 1}}, "agent.no_such_key"),
        ({"allow": ["bash("]}, "is not a rule"),
        ({"resume": "ffff"}, "ffff"),
        ({"tools": [read]}, "there are two tools named `read`"),
        ({"tools": [deploy, deploy]}, "there are two tools named `deploy`"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_opened(project: Path, given: dict[str, object], message: str) -> None:
    with pytest.raises(AgentError, match=message):
        agent_in(project, {"text": "Hi."}, **given).run("go")


async def test_an_agent_that_is_not_open_says_so(project: Path) -> None:
    with pytest.raises(UsageError, match="the agent is not open"):
        await agent_in(project).ask("go")
    async with (agent := agent_in(project)):
        with pytest.raises(UsageError, match="already open"):
            await agent.__aenter__()


def test_every_event_can_be_imported() -> None:
    assert {kind.__name__ for kind in get_args(events.Event)} <= vars(events).keys()
    assert isinstance(deploy, FunctionTool)
    with pytest.raises(AttributeError, match="module 'ebbtide' has no attribute 'agents'"):
        ebbtide.agents  # type: ignore[attr-defined]  # noqa: B018  # it is not there

"""Turns whose model falls silent after its calls: the request for a sentence, and the program's own line."""

import pytest

from ebbtide.agent.events.session import TurnFailed, TurnFinished
from ebbtide.agent.messages import Assistant, Conversation, OutputStatus, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.empty_reply import ANSWER_REQUEST, build_answer_request, work_summary
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from tests.kit.session import Home, bash, call, calls, events_of, first_turn

EMPTY_NOTE = "[The model ended without text, so the program added this line. Calls that succeeded: "


def step(number: int, name: str, status: OutputStatus = "done", **arguments: object) -> tuple[Assistant, User]:
    wanted = ToolCall(f"c{number}", name, arguments)
    return Assistant((wanted,)), User((ToolOutput(wanted.id, "out", status),))


GO = User((Text("go"),))
READ, WRITE, FAILED = (
    step(1, "read", path="a.py"),
    step(2, "write", path="a.py", content="x" * 500),
    step(3, "bash", "failed", command="make"),
)


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ((GO, *READ), f"{EMPTY_NOTE}`read` a.py.]"),
        ((GO, *FAILED, *READ, *WRITE), f"{EMPTY_NOTE}`read` a.py; `write` a.py.]"),
        ((GO, *READ, Assistant((Text("So."),)), GO, *WRITE), f"{EMPTY_NOTE}`write` a.py.]"),
        ((GO, *READ, *READ, *READ, *WRITE), f"{EMPTY_NOTE}`read` a.py; `read` a.py; `write` a.py; and 1 earlier.]"),
        ((GO, *step(1, "bash", command="make\n  all")), f"{EMPTY_NOTE}`bash` make all.]"),
        ((GO, *step(1, "todo", items=[])), f"{EMPTY_NOTE}`todo`.]"),
        ((GO, *READ, *FAILED), ""),
        ((GO,), ""),
        ((), ""),
    ],
)
def test_the_line_names_what_the_calls_of_the_turn_have_done(messages: tuple[User | Assistant, ...], line: str) -> None:
    assert work_summary(Conversation(messages)) == line


def test_a_sentence_is_asked_for_behind_a_call_that_did_something() -> None:
    asked = User((ANSWER_REQUEST,))
    assert build_answer_request(Conversation((GO, *READ))) == asked
    for messages in ((), (GO,), (GO, *FAILED), (GO, *READ, asked)):
        assert build_answer_request(Conversation(messages)) is None
    assert build_answer_request(Conversation((GO, *FAILED)), is_small_model=True) == asked
    for messages in ((), (GO,), (GO, *FAILED, asked)):
        assert build_answer_request(Conversation(messages), is_small_model=True) is None


async def test_a_model_that_is_silent_after_its_work_is_asked_for_a_sentence(home: Home) -> None:
    model = ScriptedProvider.from_replies(
        calls(call("write", path="a", content="x")), {"text": ""}, {"text": "Written."}
    )
    session, events = await first_turn(home.session(model))
    assert events[-1] == TurnFinished("answered", "Written.")
    assert ANSWER_REQUEST in model.requests[2].messages[-1].parts
    assert ANSWER_REQUEST not in model.requests[1].messages[-1].parts
    assert User((ANSWER_REQUEST,)) in session.history.messages, "the next request begins with this one"


async def test_a_model_that_stays_silent_has_answered_with_the_program_s_line(home: Home) -> None:
    work = calls(call("write", path="a", content="x"), bash("cat a"))
    model = ScriptedProvider.from_replies(work, {"text": ""}, {"reasoning": "hm"}, {"text": "more"})
    session, events = await first_turn(home.session(model))
    assert events[-1] == TurnFinished("answered", f"{EMPTY_NOTE}`write` a; `bash` cat a.]")
    assert (await events_of(session))[-1] == TurnFinished("answered", "more")


@pytest.mark.parametrize("work", [[], [calls(bash("false"))]])
async def test_a_model_that_is_silent_without_having_done_anything_has_failed(
    home: Home, work: list[dict[str, object]]
) -> None:
    _, events = await first_turn(home.session(ScriptedProvider.from_replies(*work, {"text": ""}, {"text": ""})))
    assert isinstance(events[-1], TurnFailed)
    assert events[-1].code == "empty_answer"

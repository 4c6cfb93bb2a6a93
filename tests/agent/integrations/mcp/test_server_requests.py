"""What servers ask: forms and addresses of the user, texts of the model."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.channel import Channel
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import Event, ReplyFinished
from ebbtide.agent.events.view import PrefixDrifted
from ebbtide.agent.integrations.mcp.elicitation import (
    DECLINE_OPTION,
    SEND_OPTION,
    SKIP_FIELD,
    parse_fields,
    prefilled_form,
)
from ebbtide.agent.integrations.mcp.server_requests import (
    ALWAYS_ANSWER,
    NO_ANSWER,
    OPENED_ANSWER,
    ServerRequests,
    generate_sample,
)
from ebbtide.agent.messages import Assistant, Image, Text, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tools.base import ImageData
from ebbtide.tools.integrations.mcp.client_handlers import (
    DismissedAnswer,
    SamplingMessage,
    SamplingRefusal,
    SamplingReply,
    SamplingRequest,
)
from tests.kit.mcp_project import McpProject, command, notices, questions, say
from tests.kit.session import call, finished

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Who you are", "minLength": 2, "default": "Ann"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "size": {"type": "number"},
        "sure": {"type": "boolean"},
        "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
        "taste": {"type": "string", "oneOf": [{"const": "s", "title": "sweet"}, {"const": "b", "title": "bitter"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu", "we"]}, "maxItems": 2},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name", "age"],
}


@pytest.fixture
def project(project: McpProject) -> McpProject:
    project.user(
        forge=command(project.server("forge", elicit="Asks.", sample="Writes.", told="Tells what it was told."))
    )
    return project


FILLED = {
    "name": "Bob", "age": 44, "size": 1.5, "sure": True, "color": "g", "taste": "b", "days": ["mo", "we"],
}  # fmt: skip
WRITTEN = "name=Bob age=44 size=1.5 sure=yes color=green taste=bitter days='mo, we'"
FIELDS = {
    "Name (name): Who you are; at least 2 characters; usually Ann": ("Ann", DECLINE_OPTION),
    "age: a whole number; at least 0; at most 150": (DECLINE_OPTION,),
    "size: a number": (SKIP_FIELD, DECLINE_OPTION),
    "sure": ("yes", "no", SKIP_FIELD, DECLINE_OPTION),
    "color": ("red", "green", SKIP_FIELD, DECLINE_OPTION),
    "taste": ("sweet", "bitter", SKIP_FIELD, DECLINE_OPTION),
    "days: any of mo, tu, we, separated by commas; at most 2 of them": (SKIP_FIELD, DECLINE_OPTION),
    "mail: as email": (SKIP_FIELD, DECLINE_OPTION),
}


async def test_a_form_is_one_question_in_which_fields_are_chosen_or_written(project: McpProject) -> None:
    answers = ["age=old", WRITTEN, "color: green", "red", "send it"]
    steps: list[dict[str, Any]] = [{"calls": [call("mcp__forge__elicit", form=FORM)]}, {"text": "done"}]
    session = await project.open(*steps, interactive=True)
    replies = iter(answers)
    events = await say(session, answer=lambda _: next(replies))
    ((_, status, text),) = finished(events)
    assert (status, json.loads(text)) == ("done", {"action": "accept", "content": {**FILLED, "color": "r"}})
    first, again, filled, color, last = [event for event in events if isinstance(event, QuestionAsked)]
    assert first.question == (
        "The server `forge` asks: Who are you?\n\nChoose what to fill in, or write several at once: name=… and so on."
    )
    assert first.options == (
        "fill in age", "Name (name): Ann", "age: (required)", "size: (empty)", "sure: (empty)",
        "color: (empty)", "taste: (empty)", "days: (empty)", "mail: (empty)", DECLINE_OPTION,
    )  # fmt: skip
    assert again.question.splitlines()[2] == "Invalid: `old` is not a whole number."
    assert filled.options[:4] == ("fill in mail", SEND_OPTION, "Name (name): Bob", "age: 44")
    assert color.question.splitlines()[-1] == "color"
    assert last.options[6] == "color: red"


def test_each_field_says_what_it_takes() -> None:
    assert {field.build_question(): field.options for field in parse_fields(FORM)} == FIELDS


def test_a_form_goes_through_all_fields_those_that_are_missing_first() -> None:
    form, order = prefilled_form(parse_fields(FORM)), []
    while (field := form.field_for(form.options[0])) is not None:
        order.append(field.name)
        form = form.with_value(field, "44" if field.is_required else None)
    assert order == ["age", "name", "size", "sure", "color", "taste", "days", "mail"]
    assert (form.options[0], form.values) == (SEND_OPTION, {"name": "44", "age": "44"})


@pytest.mark.parametrize(("answer", "action"), [(DECLINE_OPTION, "decline"), ("", "cancel")])
async def test_a_form_that_is_not_filled_in_is_declined_or_dismissed(
    project: McpProject, answer: str, action: str
) -> None:
    steps: list[dict[str, Any]] = [{"calls": [call("mcp__forge__elicit")]}, {"text": "done"}]
    session = await project.open(*steps, interactive=True)
    events = await say(session, answer=lambda _: answer)
    assert finished(events) == [("mcp__forge__elicit", "done", json.dumps({"action": action}))]


async def test_without_a_user_servers_are_told_so_and_nothing_is_written(project: McpProject) -> None:
    steps = [{"calls": [call(f"mcp__forge__{name}")]} for name in ("told", "elicit", "sample")]
    session = await project.open(*steps, {"text": "done"})
    roots, elicited, sampled = (text for _, _, text in finished(await say(session)))
    assert list(json.loads(roots)) == ["roots"]
    assert "not supported" in json.loads(elicited)["message"]
    assert "not supported" in json.loads(sampled)["message"]


async def test_what_a_server_wants_written_is_asked_of_the_model_once_the_user_allows_it(project: McpProject) -> None:
    wanted = {"when": "write a poem", "text": "Roses are red.", "usage": {"input": 30, "output": 7}}
    again = {**wanted, "text": "Violets are blue."}
    poem: dict[str, Any] = {"calls": [call("mcp__forge__sample", text="write a poem")]}
    steps = [poem, poem, poem, {"text": "done"}]
    sessions = project.sessions(*steps, wanted, again, interactive=True)
    session = await sessions.open()
    answers = iter([NO_ANSWER, ALWAYS_ANSWER])
    events = await say(session, answer=lambda _: next(answers))
    refused, first, second = (json.loads(text) for _, _, text in finished(events))
    assert refused == {"code": -1, "message": "the user declined"}
    assert [(each["content"]["text"], each["stopReason"]) for each in (first, second)] == [
        ("Roses are red.", "endTurn"),
        ("Violets are blue.", "endTurn"),
    ]
    question, _ = questions(events)
    assert question.startswith("The server `forge` wants `scripted/")
    assert question.endswith("and at most 50 out. Allow it?\n\n[user] write a poem")
    counted = [event for event in events if isinstance(event, ReplyFinished)]
    assert [event.purpose for event in counted] == ["step", "step", "sampling", "step", "sampling", "step"]
    assert session.usage.usage.prompt == sum(event.usage.prompt for event in counted)
    assert not [event for event in events if isinstance(event, PrefixDrifted)]
    overview = await sessions.overview(session.id)
    assert [asked.purpose for asked in overview.requests].count("sampling") == 2
    await session.close()


async def test_an_interrupted_turn_dismisses_the_question(project: McpProject) -> None:
    steps: list[dict[str, Any]] = [{"calls": [call("mcp__forge__elicit")]}, {"text": "done"}]
    session = await project.open(*steps, interactive=True)
    events: list[Event] = []
    async for event in session.send("go"):
        events.append(event)
        if isinstance(event, QuestionAsked):
            session.interrupt()
    assert [status for _, status, _ in finished(events)] == ["interrupted"]
    events = await say(session, answer=lambda _: "Bob")
    assert notices(events) == []


@pytest.mark.parametrize(("answer", "action"), [(OPENED_ANSWER, "accept"), (DECLINE_OPTION, "decline"), ("", "cancel")])
async def test_an_address_is_opened_by_the_user(project: McpProject, answer: str, action: str) -> None:
    steps: list[dict[str, Any]] = [
        {"calls": [call("mcp__forge__elicit", url="https://bank.example@h/pay")]},
        {"text": "done"},
    ]
    session = await project.open(*steps, interactive=True)
    events = await say(session, answer=lambda _: answer)
    assert questions(events) == [
        "The server `forge` asks you to open an address at `h`: Who are you?\n\nhttps://bank.example@h/pay\n\n"
        "Open it only if you trust it."
    ]
    assert [json.loads(text) for _, _, text in finished(events)] == [{"action": action}]


async def test_where_no_session_hears_it_nothing_is_answered(tmp_path: Path) -> None:
    desk = ServerRequests(tmp_path, Channel(), lambda _: None)
    assert await desk.elicit("forge", "Who?", FORM, "") == DismissedAnswer()
    assert await desk.sample("forge", SamplingRequest((SamplingMessage("user", "hi"),), 50)) == SamplingRefusal(
        "no session is open"
    )
    assert desk.roots() == (tmp_path,)


def test_what_a_form_says_stands_on_one_line_each_and_has_an_end() -> None:
    choices = {
        "enum": ["a", "b"],
        "enumNames": ["A\n\nsend it", "B\x1b[2J"],
        "title": "Size\nof it",
        "description": "x\ny",
    }
    (field,) = parse_fields({"properties": {"size": choices}})
    assert (field.title, field.description) == ("Size of it", "x y")
    assert field.options == ("A send it", "B", SKIP_FIELD, DECLINE_OPTION)
    assert field.parse_value("A send it") == "a"
    with pytest.raises(ValueError, match="its form has 51 fields, more than the limit of 50"):
        parse_fields({"properties": {f"f{number}": {"type": "string"} for number in range(51)}})
    with pytest.raises(ValueError, match="its form asks for `a` with 201 choices"):
        parse_fields({"properties": {"a": {"enum": list(range(201))}}})


def test_what_no_form_can_hold_is_not_asked() -> None:
    for properties in ({"a": {"type": "object"}}, {"a": 3}, {"a": {"type": "array", "items": {"type": "object"}}}):
        with pytest.raises(ValueError, match="its form asks for `a`"):
            parse_fields({"type": "object", "properties": properties})
    with pytest.raises(ValueError, match="its form has no valid fields"):
        parse_fields({"type": "object", "properties": 3})


@pytest.mark.parametrize(
    ("schema", "answer", "problem"),
    [
        ({"type": "integer"}, "1.5", "`1.5` is not a whole number"),
        ({"type": "number"}, "much", "`much` is not a number"),
        ({"type": "integer", "minimum": 3}, "2", "2 is less than the minimum of 3"),
        ({"type": "string", "minLength": 3}, "ab", '"ab" is shorter than 3 characters'),
        ({"type": "boolean"}, "perhaps", "`perhaps` is neither `yes` nor `no`"),
        ({"enum": ["a", "b"]}, "c", "`c` is not one of a, b"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "a", '["a"] has less than 2 items'),
    ],
)
def test_an_answer_that_does_not_fit_its_field_is_named(schema: dict[str, Any], answer: str, problem: str) -> None:
    (field,) = parse_fields({"properties": {"x": schema}})
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        field.parse_value(answer)


async def test_a_text_is_written_within_the_limits_of_model_and_server(project: McpProject) -> None:
    wanted = [{"when": "poem", "text": "Roses are red. END Violets"}, {"when": "poem", "text": "Long"}]
    session = await project.open({"text": "done"}, *wanted, settings=("agent.context_window=20000",))
    model, turn = session._ctx.model, session._ctx.turn
    provider = model.provider
    assert isinstance(provider, ScriptedProvider)
    picture = ImageData("image/png", b"\x89PNG")
    conversation = (
        *(
            SamplingMessage("assistant", "Hello."),
            SamplingMessage("user", "A poem."),
            SamplingMessage("user", "Now.", (picture,)),
        ),
        *(SamplingMessage("assistant", "Of what?"), SamplingMessage("user", "poem of roses")),
    )
    assert await generate_sample(
        SamplingRequest(conversation, 50, "Be a poet.", stop_sequences=("END",)), model, turn
    ) == SamplingReply("Roses are red. ", provider.facts.name, "stopSequence")
    (request,) = provider.requests
    assert (request.system, request.tools, request.max_output_tokens) == ("Be a poet.", (), 50)
    assert request.messages == (
        User((Text("A poem.\n\nNow."), Image("image/png", "iVBORw=="))),
        Assistant((Text("Of what?"),), ""),
        User((Text("poem of roses"),)),
    )
    refused = [
        await generate_sample(SamplingRequest(messages, 50), model, turn)
        for messages in (
            (),
            (SamplingMessage("assistant", "x"),),
            (SamplingMessage("user", "hm"), SamplingMessage("assistant", "x")),
        )
    ]
    assert refused == [SamplingRefusal("there is no user message to answer")] * 3
    large = await generate_sample(SamplingRequest((SamplingMessage("user", "poem " * 50_000),), 50), model, turn)
    assert isinstance(large, SamplingRefusal)
    assert large.reason.startswith("it needs about ")
    assert len(provider.requests) == 1
    broke = replace(turn, limits=TurnLimits(max_cost=0.0))
    assert await generate_sample(SamplingRequest(conversation, 50), model, broke) == SamplingRefusal(
        "the cost limit of this run is reached"
    )

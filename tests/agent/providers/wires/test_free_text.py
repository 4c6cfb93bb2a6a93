"""Tools that a model calls with a text as it stands: what OpenAI's newer models are sent, what they send, and how it
reads for others."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, with_config

from ebbtide.agent.events.session import ToolFinished
from ebbtide.agent.messages import Assistant, Image, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import CallChunk, Reply, Request
from ebbtide.agent.providers.wires.openai_responses import can_send_free_text
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.catalog import create_builtin_tools
from tests.agent.providers.wires.test_bodies import read_through
from tests.kit.adapters import (
    ADAPTERS,
    PIXEL,
    READ,
    WINDOW,
    Adapter,
    Library,
    collect,
    endpoint_of,
    hello,
)
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.session import Home, events_of
from tests.kit.strict_api import refusal

RESPONSES = ADAPTERS[1]
OLD = replace(RESPONSES, facts=replace(RESPONSES.facts, name="gpt-4.1"))
PATCH = ToolSpec("apply_patch", "Changes files.", {"type": "object", "properties": {"patch": {"type": "string"}}})
ADDED = "*** Begin Patch\n*** Add File: ü.txt\n+«ja»\n+\ttwo\n*** End Patch\n"


def talk(*messages: Message) -> Request:
    return replace(hello(), messages=(*hello().messages, *messages), tools=(READ, PATCH))


def patched(patch: str = ADDED, **fields: Any) -> tuple[Assistant, User]:
    """A call of the tool by some model, and its output."""
    call = ToolCall("c", "apply_patch", {"patch": patch}, json.dumps({"patch": patch}), **fields)
    return Assistant((Text("I change it."), call), "other/model"), User((ToolOutput("c", "done"),))


def checked(body: dict[str, Any]) -> dict[str, Any]:
    """The body, after the SDK's own types have agreed with it and the API would."""
    types: TypeAdapter[object] = TypeAdapter(with_config(ConfigDict(extra="forbid"))(ResponseCreateParamsStreaming))
    assert json.dumps(read_through(types.validate_python(body)), sort_keys=True) == json.dumps(body, sort_keys=True)
    assert refusal("responses", body) is None
    return body


def body_of(request: Request, adapter: Adapter = RESPONSES) -> dict[str, Any]:
    return checked(json.loads(json.dumps(adapter.body(request, adapter.facts))))


@pytest.mark.parametrize(
    ("name", "takes"),
    [("gpt-5", True), ("gpt-5.3-codex", True), ("gpt-6.1-sol", True), ("openai/gpt-5-mini", True), ("gpt-10", True),
     ("gpt-4.1", False), ("gpt-4o", False), ("gpt-oss-120b", False), ("o3", False), ("qwen3-coder", False)],
)  # fmt: skip
def test_models_of_openai_since_5_take_free_text(name: str, takes: bool) -> None:
    assert can_send_free_text(name) is takes


def test_the_definition_has_no_schema_and_older_models_get_one() -> None:
    custom = {"type": "custom", "name": "apply_patch", "description": "Changes files."}
    assert body_of(talk())["tools"][1] == custom
    assert [tool["type"] for tool in body_of(talk(), OLD)["tools"]] == ["function", "function"]


def test_a_tool_of_that_name_that_a_server_brought_keeps_its_schema() -> None:
    served = replace(PATCH, kind="mcp")
    assert body_of(replace(talk(), tools=(READ, served)))["tools"][1]["type"] == "function"


def test_calls_of_other_models_are_written_as_the_model_would_make_them() -> None:
    assert body_of(talk(*patched()))["input"][-2:] == [
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": ADDED},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "done"}]},
    ]
    older = body_of(talk(*patched()), OLD)["input"][-2:]
    assert [item["type"] for item in older] == ["function_call", "function_call_output"]
    assert json.loads(older[0]["arguments"]) == {"patch": ADDED}


def test_what_was_no_such_call_goes_back_as_it_was_written() -> None:
    """A command that hands a patch to a program, and arguments that are broken."""
    shell = ToolCall("a", "apply_patch", {"patch": ADDED}, '{"command": "apply_patch <<X"}', called="bash")
    broken = ToolCall("b", "apply_patch", {}, '{"patch": "*** Beg', problem="no JSON")
    shot = Image("image/png", PIXEL)
    outputs = User((ToolOutput("a", "done"), ToolOutput("b", "no JSON", "failed", images=(shot,))))
    items = body_of(talk(Assistant((shell, broken), RESPONSES.facts.id), outputs))["input"][-4:]
    assert [(item["type"], item.get("name"), item.get("arguments", item.get("input"))) for item in items] == [
        ("function_call", "bash", '{"command": "apply_patch <<X"}'),
        ("custom_tool_call", "apply_patch", '{"patch": "*** Beg'),
        ("function_call_output", None, None),
        ("custom_tool_call_output", None, None),
    ]


async def replied(turn: Turn, wire: Library = "http") -> tuple[list[CallChunk], tuple[ToolCall, ...]]:
    with FakeProvider([turn]) as server:
        provider = RESPONSES.make(RESPONSES.facts, WINDOW, endpoint_of(RESPONSES, server.url), wire)
        *chunks, reply = await collect(provider, talk())
        await provider.close()
    assert isinstance(reply, Reply)
    return [chunk for chunk in chunks if isinstance(chunk, CallChunk)], reply.message.calls


async def test_the_text_becomes_the_argument_and_its_size_is_shown_as_it_arrives(wire: Library) -> None:
    chunks, calls = await replied(Turn(calls=(Call("apply_patch", {"patch": ADDED}),)), wire)
    source = json.dumps({"patch": ADDED}, ensure_ascii=False)
    assert calls == (ToolCall("call_0_0", "apply_patch", {"patch": ADDED}, source),)
    assert (chunks[0], chunks[-1]) == (
        CallChunk(0, "apply_patch", 0, "call_0_0"), CallChunk(0, "apply_patch", len(ADDED), "call_0_0"),
    )  # fmt: skip


async def test_json_in_the_place_of_the_text_is_read_as_json() -> None:
    _, calls = await replied(Turn(calls=(Call("apply_patch", raw=json.dumps({"input": ADDED})),)))
    assert [call.arguments for call in calls] == [{"input": ADDED}]
    _, calls = await replied(Turn(calls=(Call("apply_patch", raw="{not JSON"),)))
    assert [(call.arguments, call.problem) for call in calls] == [({"patch": "{not JSON"}, "")]


def patches_in(value: Any) -> Iterator[str]:
    """The patches that a request holds, whatever its wire makes of a call."""
    match value:
        case {"type": "custom_tool_call", "input": text} | {"patch": str(text)}:
            yield text
        case {"arguments": str(text)}:
            yield json.loads(text)["patch"]
        case dict():
            for name in value.keys() & {"messages", "input", "content", "tool_calls", "function", "arguments"}:
                yield from patches_in(value[name])
        case list():
            for each in value:
                yield from patches_in(each)


async def test_a_session_patches_by_free_text_and_goes_on_with_any_other_model(wire: Library, home: Home) -> None:
    turns = [
        Turn(calls=(Call("apply_patch", {"patch": ADDED}),)),
        Turn(text="Added."),
    ]
    with FakeProvider(turns) as server:
        provider = RESPONSES.make(RESPONSES.facts, WINDOW, endpoint_of(RESPONSES, server.url), wire)
        session = await home.open(provider, tools=create_builtin_tools())
        events = await events_of(session)
        await session.close()
        await provider.close()
        first, second = (checked(request.body) for request in server.requests)
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["done"]
    assert (home.root / "ü.txt").read_text() == "«ja»\n\ttwo\n"
    assert second["input"][: len(first["input"])] == first["input"]
    assert second["input"][-2] == {
        "type": "custom_tool_call", "call_id": "call_0_0", "name": "apply_patch", "input": ADDED,
    }  # fmt: skip
    for adapter in ADAPTERS:
        with FakeProvider([Turn(text="And on.")]) as server:
            provider = adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, server.url), "http")
            session = await home.open(provider, tools=create_builtin_tools(), resume=True)
            await events_of(session, "and now?")
            history = session.history
            await session.close()
            await provider.close()
            assert list(patches_in(server.requests[0].body)) == [ADDED]
    calls = [call for message in history.messages if isinstance(message, Assistant) for call in message.calls]
    assert [(call.name, call.arguments) for call in calls] == [("apply_patch", {"patch": ADDED})]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported tool type: custom"),
        (400, "Invalid value: 'custom'. Supported values are: 'function', 'web_search'."),
        (500, "'type' of tool must be 'function'"),
        (422, "tools.3.type: Input should be 'function'"),
    ],
)
async def test_a_server_that_refuses_such_tools_is_sent_functions_from_then_on(status: int, message: str) -> None:
    refused = Turn(status=status, body={"error": {"message": message}})
    with FakeProvider([refused, Turn(text="fine"), Turn(text="fine")]) as server:
        provider = RESPONSES.make(RESPONSES.facts, WINDOW, endpoint_of(RESPONSES, server.url), "http")
        for _ in range(2):
            await collect(provider, talk(*patched()))
        await provider.close()
        kinds = [
            ([tool["type"] for tool in checked(request.body)["tools"]], request.body["input"][-1]["type"])
            for request in server.requests
        ]
    functions = (["function", "function"], "function_call_output")
    assert kinds == [(["function", "custom"], "custom_tool_call_output"), functions, functions]

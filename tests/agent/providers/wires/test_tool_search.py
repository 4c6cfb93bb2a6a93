"""Tools that are deferred: what the providers that search for them are sent, what they send, and what goes back."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, with_config

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.events.session import Noticed, ToolFinished
from ebbtide.agent.events.view import CacheBroken, PrefixDrifted
from ebbtide.agent.messages import Assistant, Message, ProviderItem, Reasoning, Text, ToolCall, ToolOutput, Usage, User
from ebbtide.agent.prompt.tool_selection import select_tools
from ebbtide.agent.providers.base import CallChunk, ModelFacts, Provider, Reply, Request
from ebbtide.agent.tool_specs import ToolGroup, ToolSpec
from tests.agent.providers.wires.test_bodies import read_through
from tests.kit.adapters import ADAPTERS, READ, Adapter, Library, collect, endpoint_of, hello, last
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.server_tools import served_tools
from tests.kit.session import USUAL_TOOLS, Home, events_of

ANTHROPIC = replace(ADAPTERS[0], facts=replace(ADAPTERS[0].facts, tool_search="plain"))
RESPONSES = replace(ADAPTERS[1], facts=replace(ADAPTERS[1].facts, tool_search="grouped"))
PARAMS: dict[str, type] = {"anthropic": MessageCreateParamsStreaming, "responses": ResponseCreateParamsStreaming}
ASK = ToolSpec("mcp__desk__ask", "Asks.", {"type": "object", "properties": {"what": {"type": "string"}}}, "mcp")
REPORT = ToolSpec("mcp__desk__tell", "Tells.", {"type": "object", "properties": {}}, "mcp")
DESK = ToolGroup("mcp__desk", "Tools of desk: ask, tell")
SERVED = served_tools()
BUILTIN = tuple(tool for tool in USUAL_TOOLS if tool.name not in ("edit_notebook", "web_fetch", "web_search"))
DEFERRED = "mcp__chat__delete_invoice"
"""One of the sixty tools that are held back."""


@pytest.fixture(params=[ANTHROPIC, RESPONSES], ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> Adapter:
    assert isinstance(request.param, Adapter)
    return request.param


def offer(adapter: Adapter, *deferred: str) -> tuple[ToolSpec, ...]:
    return select_tools((READ, ASK, REPORT), frozenset(deferred), adapter.facts.tool_search)


def body_of(adapter: Adapter, request: Request, facts: ModelFacts | None = None) -> dict[str, Any]:
    """The body, after the SDK's own types have agreed with it."""
    body: dict[str, Any] = json.loads(json.dumps(adapter.body(request, facts or adapter.facts)))
    types: TypeAdapter[object] = TypeAdapter(with_config(ConfigDict(extra="forbid"))(PARAMS[adapter.name]))
    checked = types.validate_python(body)
    assert json.dumps(read_through(checked), sort_keys=True) == json.dumps(body, sort_keys=True)
    return body


def conversation_in(body: dict[str, Any]) -> list[Any]:
    """What was said, as a flat list: blocks or items."""
    if "input" in body:
        return list(body["input"])
    return [block for message in body["messages"] for block in message["content"]]


async def searched(adapter: Adapter, wire: Library = "http") -> Assistant:
    """A reply in which the provider has found a tool, which is then called."""
    turn = Turn(reasoning="Hm.", text="I look.", found=(ASK.name,), calls=(Call(ASK.name, {"what": "why"}),))
    with FakeProvider([turn]) as server:
        provider = adapter.make(adapter.facts, Window(32_000, 4_000), endpoint_of(adapter, server.url), wire)
        reply = await last(provider, replace(hello(), tools=offer(adapter, ASK.name, REPORT.name)))
        await provider.close()
    assert reply.pass_count == 2
    return reply.message


def after(adapter: Adapter, reply: Message, *deferred: str) -> Request:
    """The request that follows on such a reply."""
    answer = User((ToolOutput("toolu_0_0" if adapter is ANTHROPIC else "call_0_0", "because"),))
    return replace(hello(), messages=(*hello().messages, reply, answer), tools=offer(adapter, *deferred))


def test_anthropic_is_sent_deferred_definitions_and_its_own_search() -> None:
    body = body_of(ANTHROPIC, replace(hello(), tools=offer(ANTHROPIC, ASK.name)))
    assert body["tools"] == [
        {"name": "read", "description": READ.description, "input_schema": READ.schema},
        {"name": ASK.name, "description": "Asks.", "input_schema": ASK.schema, "defer_loading": True},
        {"name": REPORT.name, "description": "Tells.", "input_schema": REPORT.schema},
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    ]


def test_openai_is_sent_deferred_definitions_in_namespaces_and_its_own_search() -> None:
    body = body_of(RESPONSES, replace(hello(), tools=offer(RESPONSES, ASK.name, REPORT.name)))
    common: dict[str, Any] = {"type": "function", "strict": False}
    deferred = [
        {**common, "name": spec.name, "description": spec.description, "parameters": spec.schema, "defer_loading": True}
        for spec in (ASK, REPORT)
    ]
    assert body["tools"] == [
        {**common, "name": "read", "description": READ.description, "parameters": READ.schema},
        {"type": "namespace", "name": DESK.name, "description": DESK.description, "tools": deferred},
        {"type": "tool_search"},
    ]


async def test_openai_is_sent_our_own_search_by_another_name() -> None:
    """It keeps the name for itself, and refuses functions that have it."""
    own = ToolSpec("tool_search", "Finds tools.", {"type": "object", "properties": {}})
    call, output = ToolCall("c", own.name, {"query": "x"}), User((ToolOutput("c", "found"),))
    request = replace(hello(), tools=(own, *offer(RESPONSES, ASK.name)))
    request = replace(request, messages=(*request.messages, Assistant((call,), RESPONSES.facts.id), output))
    body = body_of(RESPONSES, request)
    functions = [tool["name"] for tool in body["tools"] if tool["type"] == "function"]
    assert (functions[0], body["input"][1]["name"]) == ("search_tools", "search_tools")
    with FakeProvider([Turn(calls=(Call("search_tools", {"query": "x"}),))]) as server:
        provider = provider_at(RESPONSES, server, 32_000, "http")
        chunks = await collect(provider, request)
        await provider.close()
    names = {chunk.name for chunk in chunks if isinstance(chunk, CallChunk)}
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert (names, [call.name for call in reply.message.calls]) == ({"tool_search"}, ["tool_search"])


def test_a_deferred_tool_without_a_namespace_stands_by_itself() -> None:
    lone = replace(ASK, deferred_group=ToolGroup())
    body = body_of(RESPONSES, replace(hello(), tools=(READ, lone)))
    assert [tool.get("defer_loading") for tool in body["tools"]] == [None, True, None]


async def test_a_search_and_what_it_found_are_kept_as_they_came(adapter: Adapter, wire: Library) -> None:
    reply = await searched(adapter, wire)
    kinds = [type(part) for part in reply.parts]
    assert kinds == [Reasoning, Text, ProviderItem, ProviderItem, ToolCall]
    search, found = (part for part in reply.parts if isinstance(part, ProviderItem))
    if adapter.name == "anthropic":
        query = {"query": "a tool for this"}
        assert search.native == {
            "type": "server_tool_use", "id": "srvtoolu_0", "name": "tool_search_tool_bm25", "input": query,
        }  # fmt: skip
        assert (found.native["tool_use_id"], found.tools) == ("srvtoolu_0", (ASK.name,))
    else:
        common = {"execution": "server", "status": "completed"}
        paths = {"paths": ["mcp__desk"]}
        assert search.native == {"id": "tsc_0", "type": "tool_search_call", "arguments": paths, **common}
        assert (found.native["id"], found.tools, set(found.native) & {"created_by", "call_id"}) == ("tso_0", (), set())
    assert reply.calls[0].name == ASK.name


async def test_it_goes_back_verbatim_and_the_beginning_stays(adapter: Adapter) -> None:
    reply = await searched(adapter)
    first = body_of(adapter, replace(hello(), tools=offer(adapter, ASK.name, REPORT.name)))
    second = body_of(adapter, after(adapter, reply, ASK.name, REPORT.name))
    sent = conversation_in(second)
    for part in reply.parts:
        if isinstance(part, ProviderItem):
            assert dict(part.native) in sent
    assert json.dumps(first["tools"]) == json.dumps(second["tools"])
    assert sent[: len(conversation_in(first))] == conversation_in(first)
    call = next(item for item in sent if item.get("type") in ("tool_use", "function_call"))
    assert call.get("namespace") == (DESK.name if adapter is RESPONSES else None)


@pytest.mark.parametrize("deferred", [(), (REPORT.name,)], ids=["nothing is deferred", "another tool is deferred"])
async def test_what_does_not_hold_any_more_stays_here(adapter: Adapter, deferred: tuple[str, ...]) -> None:
    """After a rewrite other tools may be deferred: a reference to one that is not would be refused."""
    body = body_of(adapter, after(adapter, await searched(adapter), *deferred))
    text = json.dumps(body["messages"] if adapter is ANTHROPIC else body["input"])
    assert "tool_search" not in text
    assert ASK.name in text
    assert "namespace" not in text
    assert "because" in text


async def test_reasoning_before_a_search_goes_with_it() -> None:
    sealed = Reasoning("Hm.", RESPONSES.native)
    _, _, search, found, call = (await searched(RESPONSES)).parts
    reply = Assistant((sealed, search, found, call), RESPONSES.facts.id)
    items = conversation_in(body_of(RESPONSES, after(RESPONSES, reply, ASK.name, REPORT.name)))
    left = conversation_in(body_of(RESPONSES, after(RESPONSES, reply)))
    kinds = [item.get("type", "message") for item in items]
    assert kinds == ["message", "reasoning", "tool_search_call", "tool_search_output", "function_call",
                     "function_call_output"]  # fmt: skip
    assert [item.get("type", "message") for item in left] == ["message", "function_call", "function_call_output"]


async def test_no_other_model_is_sent_a_search(adapter: Adapter) -> None:
    reply = await searched(adapter)
    facts = replace(adapter.facts, name="another-5")
    text = json.dumps(conversation_in(body_of(adapter, after(adapter, reply, ASK.name, REPORT.name), facts)))
    assert "tool_search" not in text
    for other in ADAPTERS:
        if other.name != adapter.name:
            request = replace(after(adapter, reply), tools=(READ,))
            assert "tool_search" not in json.dumps(other.body(request, other.facts))


async def test_a_search_that_failed_is_kept_too() -> None:
    error = {"type": "tool_search_tool_result_error", "error_code": "unavailable"}
    result = {"type": "tool_search_tool_result", "tool_use_id": "s", "content": error}
    use = {"type": "server_tool_use", "id": "s", "name": "tool_search_tool_bm25", "input": {}}
    reply = Assistant((ProviderItem(use), ProviderItem(result), ToolCall("toolu_0_0", "read", {})), ANTHROPIC.facts.id)
    assert [use, result] == conversation_in(body_of(ANTHROPIC, after(ANTHROPIC, reply, ASK.name)))[1:3]


def provider_at(adapter: Adapter, server: FakeProvider, window: int, wire: Library) -> Provider:
    return adapter.make(adapter.facts, Window(window, 2_000), endpoint_of(adapter, server.url), wire)


async def test_in_a_session_what_was_found_is_called_by_its_name(adapter: Adapter, wire: Library, home: Home) -> None:
    """The array and the beginning of the requests stay the same, and only what the model is shown is counted."""
    doubled = Usage(input=9_000, cache_read=4_000, output=40)
    turns = [
        Turn(text="first", usage=Usage(input=4_000, cache_write=500, output=10)),
        Turn(found=(DEFERRED,), calls=(Call(DEFERRED, {"title": "May"}),), usage=doubled),
        Turn(calls=(Call(DEFERRED, {"title": "June"}),), usage=Usage(input=900, cache_read=4_500, output=10)),
        Turn(text="done", usage=Usage(input=100, cache_read=5_400, output=10)),
    ]
    with FakeProvider(turns) as server:
        provider = provider_at(adapter, server, 40_000, wire)
        session = await home.open(provider, tools=(*BUILTIN, *SERVED))
        events = [*await events_of(session), *await events_of(session, "and now?")]
        bodies = [request.body for request in server.requests]
        await session.close()
        await provider.close()
    done = [(event.name, event.status, event.text) for event in events if isinstance(event, ToolFinished)]
    assert done == [
        (DEFERRED, "done", f"{DEFERRED} was called with {{'title': '{title}'}}") for title in ("May", "June")
    ]
    assert len({json.dumps(body["tools"]) for body in bodies}) == 1
    text = json.dumps(bodies[0]["tools"])
    assert text.count('"defer_loading": true') == (56 if adapter is ANTHROPIC else 60)
    assert "call_tool" not in text
    for before, later in itertools.pairwise(bodies):
        assert conversation_without_marks(later)[: len(conversation_in(before))] == conversation_without_marks(before)
    assert not [event for event in events if isinstance(event, PrefixDrifted | CacheBroken | Noticed)]
    assert session.history.anchor == Usage(100, 5_400, output=10)


def conversation_without_marks(body: dict[str, Any]) -> list[Any]:
    return [
        {name: value for name, value in item.items() if name not in ("cache_control", "content")}
        | ({"content": without_marks(item["content"])} if "content" in item else {})
        for item in conversation_in(body)
    ]


def without_marks(content: Any) -> Any:
    marks = ("cache_control", "prompt_cache_breakpoint")
    if not isinstance(content, list):
        return content
    return [{name: value for name, value in block.items() if name not in marks} for block in content]

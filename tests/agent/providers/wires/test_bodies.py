"""Bodies of requests, without a socket: what each API wants, and that the SDKs' own types agree."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from ollama._client import _copy_messages, _copy_tools
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config

from ebbtide.agent.budget.prefix import Breakpoints
from ebbtide.agent.errors import BadRequest
from ebbtide.agent.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    Note,
    ProviderItem,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.providers.base import Endpoint, ModelFacts, Request
from ebbtide.agent.providers.wires import anthropic, ollama, openai_chat, openai_responses
from ebbtide.agent.providers.wires.decoder import build_call
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.long_texts import sendable_text
from tests.kit.adapters import ADAPTERS, PIXEL, WINDOW, Adapter, collect, endpoint_of, everything, hello
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.strict_api import Rules, refusal

ANTHROPIC, RESPONSES, CHAT, OLLAMA, *_ = ADAPTERS
BUDGET = ModelFacts("anthropic", "claude-sonnet-4-5", 200_000, 64_000, thinking="budget")


def talk(*messages: Message) -> Request:
    return replace(hello(), messages=messages)


def user(text: str) -> User:
    return User((Text(text),))


def said(*parts: AssistantPart, model: str = "") -> Assistant:
    return Assistant(parts, model)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_failed_output_may_come_with_a_picture(adapter: Adapter) -> None:
    shot = ToolOutput("c1", "the page is blank", "failed", images=(Image("image/png", PIXEL),))
    calls = said(ToolCall("c1", "read", {}), model=adapter.facts.id)
    assert refusal(adapter.name, adapter.body(talk(user("look"), calls, User((shot,))), adapter.facts)) is None


@pytest.mark.parametrize(
    ("adapter", "params"),
    [
        (ANTHROPIC, MessageCreateParamsStreaming),
        (RESPONSES, ResponseCreateParamsStreaming),
        (CHAT, CompletionCreateParamsStreaming),
    ],
    ids=["anthropic", "responses", "chat"],
)
def test_bodies_are_what_the_sdk_types_say(adapter: Any, params: type) -> None:
    body = json.loads(json.dumps(adapter.body(everything(adapter), adapter.facts)))
    if adapter is CHAT:  # an extension of compatible servers
        assert [message.pop("reasoning_content", "") for message in body["messages"]].count("Let me see.") == 2
    strict = with_config(ConfigDict(extra="forbid"))(params)
    types: TypeAdapter[object] = TypeAdapter(strict)  # kept while its lazy lists are read
    checked = types.validate_python(body)
    assert json.dumps(read_through(checked), sort_keys=True) == json.dumps(body, sort_keys=True)


def read_through(value: object) -> object:
    """The value with its lazily checked lists read, which is when they are checked."""
    if isinstance(value, BaseModel):  # what the API says may be said to it
        return read_through(value.model_dump(exclude_unset=True))
    if isinstance(value, dict):
        return {name: read_through(item) for name, item in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    assert isinstance(value, Iterable)
    return [read_through(item) for item in value]


def test_ollamas_body_is_what_its_sdk_would_send() -> None:
    body = OLLAMA.body(everything(OLLAMA), OLLAMA.facts)
    fields = dict(body)
    sent = ChatRequest(
        messages=list(_copy_messages(fields.pop("messages"))), tools=list(_copy_tools(fields.pop("tools"))), **fields
    )
    assert sent.model_dump(exclude_none=True) == body


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}, "required": []},
        {"properties": {"a": {"type": ["string", "null"], "enum": ["x", None], "default": None, "minLength": 1}}},
        {"properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "string"}], "default": None}}}},
        {"properties": {"a": {"$ref": "#/$defs/A"}, "b": {}}, "$defs": {"A": {"type": "string", "default": None}}},
        {"properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "either"}}},
    ],
)
def test_what_is_left_of_a_schema_is_what_the_sdk_leaves(schema: dict[str, Any]) -> None:
    function = {"name": "x", "description": "d", "parameters": schema}
    tools = list(_copy_tools([{"type": "function", "function": function}]))
    sent = ChatRequest(model="m", tools=tools).model_dump(exclude_none=True)
    assert ollama.reduce_schema(schema) == sent["tools"][0]["function"]["parameters"]


def test_blocks_are_marked_for_the_cache_where_the_request_says() -> None:
    turns = [message for number in range(5) for message in (user(f"ask {number}"), said(Text("answer")))]
    request = replace(talk(*turns, user("last")), breakpoints=Breakpoints((9,), (1, 4, 11)))
    body = anthropic.build_body(request, ANTHROPIC.facts)
    blocks = [block for message in body["messages"] for block in message["content"]]
    assert [index for index, block in enumerate(blocks, 1) if "cache_control" in block] == [1, 4, 11]
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert "cache_control" not in json.dumps(anthropic.build_body(talk(*turns), ANTHROPIC.facts))


def test_what_other_sessions_share_is_a_block_of_its_own() -> None:
    request = replace(hello(), shared_prefix_chars=2, breakpoints=Breakpoints((2,)))
    assert anthropic.build_body(request, ANTHROPIC.facts)["system"] == [
        {"type": "text", "text": "Be", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": " brief."},
    ]


def test_a_breakpoint_after_what_is_not_sent_marks_what_is() -> None:
    foreign = said(Reasoning("hm", {"type": "thinking"}), Text(" "), model="other/model")
    request = replace(talk(user("one"), foreign, user("two")), breakpoints=Breakpoints((), (1, 3)))
    marked = [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "two"}]
    assert anthropic.build_body(request, ANTHROPIC.facts)["messages"] == [{"role": "user", "content": marked}]
    unmarked = replace(talk(foreign, user("two")), breakpoints=Breakpoints((), (1,)))
    assert "cache_control" not in json.dumps(anthropic.build_body(unmarked, ANTHROPIC.facts))


def test_only_models_with_breakpoints_are_given_any() -> None:
    outputs = User((ToolOutput("c", "x"), ToolOutput("d", "y")))
    calls = said(ToolCall("c", "read", {}), ToolCall("d", "read", {}))
    request = replace(talk(user("go"), calls, outputs), breakpoints=Breakpoints((9,), (3, 4, 5)))
    marked = json.dumps(openai_responses.build_body(request, RESPONSES.facts))
    assert marked.count("prompt_cache_breakpoint") == 3
    assert "prompt_cache_breakpoint" not in json.dumps(
        openai_responses.build_body(request, RESPONSES.facts, frozenset({"breakpoints"}))
    )
    old = openai_responses.build_body(request, replace(RESPONSES.facts, name="gpt-5.5"))
    assert "prompt_cache_breakpoint" not in json.dumps(old)
    assert old["input"][-1]["output"] == "y"


def test_a_chat_server_gets_a_cache_key_where_it_is_known_to_take_one() -> None:
    assert "prompt_cache_key" not in openai_chat.build_body(hello(), CHAT.facts)
    assert openai_chat.build_body(hello(), CHAT.facts, openai_chat.OPENAI_QUIRKS)["prompt_cache_key"] == "session-1"


def test_what_is_added_to_a_message_comes_after_its_picture() -> None:
    """A user message grows when a turn failed before it was answered."""
    first = (Text("look"), Image("image/png", PIXEL))
    contents = [
        CHAT.body(talk(User((*first, *more))), CHAT.facts)["messages"][-1]["content"] for more in ((), (Text("again"),))
    ]
    assert contents[1] == [*contents[0], {"type": "text", "text": "again"}]


def test_a_note_is_a_message_of_its_own_where_outputs_are() -> None:
    messages = (user("go"), said(ToolCall("c", "read", {})), User((ToolOutput("c", "x"), Note("[told]"))))
    chat = openai_chat.build_body(talk(*messages), CHAT.facts)["messages"]
    assert chat[-2:] == [
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "user", "content": "[told]"},
    ]
    local = ollama.build_body(talk(*messages), OLLAMA.facts, 8_192)["messages"]
    assert local[-1] == {"role": "user", "content": "[told]"}
    items = openai_responses.build_body(talk(*messages), RESPONSES.facts)["input"]
    assert items[-1] == {"role": "user", "content": [{"type": "input_text", "text": "[told]"}]}
    blocks = anthropic.build_body(talk(*messages), ANTHROPIC.facts)["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]


def test_a_paused_reply_is_sent_back_last() -> None:
    thinking = Reasoning("hm", {"type": "thinking", "thinking": "hm", "signature": "s"})
    searches = ProviderItem({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    paused = talk(user("go"), said(Text("so far"), thinking, searches, model=ANTHROPIC.facts.id))
    body = anthropic.build_body(replace(paused, breakpoints=Breakpoints((), (3,))), ANTHROPIC.facts)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert "cache_control" in body["messages"][1]["content"][0]
    assert "cache_control" not in body["messages"][1]["content"][1]


def test_messages_that_say_nothing_are_left_out() -> None:
    foreign = said(Reasoning("hm", {"type": "thinking"}), Text(" "), model="other/model")
    body = anthropic.build_body(talk(user("one"), foreign, user("two"), User((Text(""),))), ANTHROPIC.facts)
    assert [[block["text"] for block in message["content"]] for message in body["messages"]] == [["one", "two"]]


def test_a_message_without_words_still_stands_behind_a_reply() -> None:
    own = said(Text("so far "), model=ANTHROPIC.facts.id)
    body = anthropic.build_body(talk(user("go"), own, User((Text(" "),))), ANTHROPIC.facts)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert refusal("anthropic", body) is None


@pytest.mark.parametrize("replies", [(), (said(Text("Yes?")), user("go"))], ids=["alone", "answered"])
def test_a_session_may_begin_with_a_message_without_words(replies: tuple[Message, ...]) -> None:
    """As after a switch from a model whose API takes blanks: the first message must be the user's, and there must be
    one."""
    body = anthropic.build_body(talk(user("  "), *replies), ANTHROPIC.facts)
    assert body["messages"][0]["role"] == "user"
    assert refusal("anthropic", body) is None


def test_ids_and_names_are_what_anthropic_takes() -> None:
    call = ToolCall("functions.read:0", "read file!", {})
    nameless = build_call("functions.read:1", "", "{}")
    outputs = User((ToolOutput("functions.read:0", "x"), ToolOutput("functions.read:1", "y", status="failed")))
    body = anthropic.build_body(talk(user("go"), said(call, nameless), outputs), ANTHROPIC.facts)
    uses, results = body["messages"][1]["content"], body["messages"][2]["content"]
    assert [(use["id"], use["name"]) for use in uses] == [
        ("functions_read_0", "read_file_"),
        ("functions_read_1", "unnamed"),
    ]
    assert [result["tool_use_id"] for result in results] == ["functions_read_0", "functions_read_1"]


@pytest.mark.parametrize(
    ("effort", "limit", "budget"),
    [(None, 64_000, 8_192), ("low", 64_000, 2_048), ("max", 64_000, 32_000), (None, 4_096, 2_048), (None, 2_000, None)],
)
def test_the_budget_for_thinking_leaves_half_for_the_answer(effort: str | None, limit: int, budget: int | None) -> None:
    body = anthropic.build_body(replace(hello(), effort=effort, max_output_tokens=limit), BUDGET)
    assert body.get("thinking") == (budget and {"type": "enabled", "budget_tokens": budget})


def test_thinking_with_a_budget_does_not_start_in_the_middle_of_a_turn() -> None:
    def thinks(*messages: Message) -> bool:
        return "thinking" in anthropic.build_body(replace(talk(*messages), max_output_tokens=8_000), BUDGET)

    call, output = ToolCall("c", "read", {}), User((ToolOutput("c", "x"),))
    thought = Reasoning("hm", {"type": "thinking", "thinking": "hm", "signature": "s"})
    assert not thinks(user("go"), said(call), output)
    assert thinks(user("go"), said(thought, call, model=BUDGET.id), output)
    assert not thinks(user("go"), said(call), output, user("wait"))
    assert thinks(user("go"), said(thought, call, model=BUDGET.id), output, user("wait"))
    assert thinks(user("go"), said(call), output, said(Text("done")), user("next"))
    assert thinks(user("go"), said(model=BUDGET.id), user("next"))  # interrupted before it said anything


def test_no_effort_is_no_thinking() -> None:
    quiet = replace(hello(), effort="none")
    assert "thinking" not in anthropic.build_body(quiet, ANTHROPIC.facts)
    assert "thinking" not in anthropic.build_body(quiet, BUDGET)
    assert openai_responses.build_body(quiet, RESPONSES.facts)["reasoning"] == {"effort": "none"}
    assert ollama.build_body(quiet, OLLAMA.facts, 8_192)["think"] is False
    assert "think" not in ollama.build_body(quiet, replace(OLLAMA.facts, thinking="none"), 8_192)


def test_reasoning_without_its_seal_is_not_sent() -> None:
    item = {"id": "rs_1", "type": "reasoning", "summary": []}
    body = openai_responses.build_body(
        talk(user("go"), said(Reasoning("", item), model=RESPONSES.facts.id)), RESPONSES.facts
    )
    assert len(body["input"]) == 1


def test_models_that_do_not_think_are_not_asked_for_reasoning() -> None:
    body = openai_responses.build_body(hello(), replace(RESPONSES.facts, thinking="none"))
    assert "include" not in body
    assert "reasoning" not in body
    assert body["store"] is False


def test_thoughts_go_back_to_a_chat_server_in_the_field_it_reads() -> None:
    def thought(text: str) -> Assistant:
        reasoning = Reasoning(text, {"reasoning_content": text})
        return said(reasoning, ToolCall(text, "read", {}), model=CHAT.facts.id)

    other = said(Reasoning("c", {"reasoning": "c"}), Text("x"), model=CHAT.facts.id)
    messages = (user("one"), thought("a"), User((ToolOutput("a", "x"),)), user("two"), thought("b"))
    body = openai_chat.build_body(talk(*messages, User((ToolOutput("b", "x"),)), other), CHAT.facts)
    thoughts = [m.get("reasoning_content") for m in body["messages"] if m["role"] == "assistant"]
    assert thoughts == ["a", "b", None]
    quiet = openai_chat.build_body(talk(*messages), CHAT.facts, frozenset({"no thoughts"}))
    assert "reasoning_content" not in json.dumps(quiet)


def test_a_chat_server_never_sees_broken_arguments() -> None:
    call = build_call("c", "read", '{"path": "a')
    body = openai_chat.build_body(talk(user("go"), said(call), User((ToolOutput("c", "x"),))), CHAT.facts)
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_a_field_that_a_server_refuses_is_left_out_from_then_on() -> None:
    refusal = Turn(status=400, error=("invalid_request_error", "Unrecognized request argument: stream_options"))
    with FakeProvider([refusal, Turn(text="one"), Turn(text="two")]) as server:
        provider = CHAT.make(CHAT.facts, WINDOW, endpoint_of(CHAT, server.url), "http")
        await collect(provider, hello())
        await collect(provider, hello())
        await provider.close()
        assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def test_a_field_is_left_out_once_and_no_more() -> None:
    refusal = Turn(status=400, error=("invalid_request_error", "Use 'max_completion_tokens' instead of 'max_tokens'"))
    with FakeProvider([refusal, refusal, refusal]) as server:
        provider = CHAT.make(CHAT.facts, WINDOW, endpoint_of(CHAT, server.url), "http")
        with pytest.raises(BadRequest):
            await collect(provider, hello())
        await provider.close()
        assert ["max_tokens" in request.body for request in server.requests] == [True, False]


JINJA = (
    "------------\nWhile executing CallExpression at line 189, column 32 in source:\n...== 0) %}{{- raise_exception("
    "'After the optional system message, con...\n ^\nError: Jinja Exception: After the optional system message, "
    "conversation roles must alternate user and assistant roles except for tool calls and results."
)


@pytest.mark.parametrize("status", [400, 500])
async def test_a_template_that_wants_roles_to_alternate_is_given_them(status: int) -> None:
    refused = Turn(status=status, error=("server_error", JINJA))
    calls = said(ToolCall("c", "read", {}), model=CHAT.facts.id)
    outputs = User((ToolOutput("c", "the file"), Note("[branch: main]"), Text("Go on."), Image("image/png", PIXEL)))
    messages = (user("one"), calls, outputs, said(Reasoning("hm", {}), model="other/model"), user("two"))
    with FakeProvider([refused, Turn(text="fine")]) as server:
        provider = CHAT.make(CHAT.facts, WINDOW, endpoint_of(CHAT, server.url), "http")
        await collect(provider, talk(*messages))
        await provider.close()
        first, second = (request.body for request in server.requests)
    assert "must alternate" in (refusal("chat", first, Rules(alternates=True)) or "")
    assert refusal("chat", second, Rules(alternates=True)) is None
    assert second["messages"][-1]["content"].startswith("the file\n\n[branch: main]\nGo on.\n[image omitted")
    assert second["messages"][-1]["content"].endswith("\n\ntwo")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("localhost", "http://localhost:11434"),
        ("localhost:1234", "http://localhost:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("http://10.0.0.1:1234/", "http://10.0.0.1:1234"),
        ("https://ollama.example", "https://ollama.example"),
        ("host/path", "http://host:11434/path"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("::1", "http://[::1]:11434"),
        ("fd00::7/ollama", "http://[fd00::7]:11434/ollama"),
    ],
)
def test_addresses_of_ollama(address: str, url: str) -> None:
    assert ollama.server_url(Endpoint(address)) == url


@pytest.mark.parametrize(
    "address", ["https://a.example", "https://a.example/", "https://a.example/v1", "https://a.example/v1/"]
)
def test_addresses_of_anthropic(address: str) -> None:
    assert anthropic.server_url(Endpoint(address)) == "https://a.example"


def test_arguments_of_every_kind() -> None:
    assert build_call("c", "t", "").arguments == {}
    assert build_call("c", "t", " \n").problem == ""
    assert build_call("c", "t", '{"a": "\\ud83d\\ude00"}').arguments == {"a": "\U0001f600"}
    assert build_call("c", "t", "[" * 100_000).problem
    assert build_call("c", "t", '{"a": ' + "9" * 5_000 + "}").problem


def test_text_that_can_be_sent_is_left_as_it_is() -> None:
    for text in ("plain", "東京 ✓", "\U0001f600"):
        assert sendable_text(text) is text


def test_a_tool_may_have_no_parameters() -> None:
    request = replace(hello(), tools=(ToolSpec("now", "Tells the time.", {"type": "object"}),))
    for adapter in ADAPTERS:
        assert "now" in json.dumps(adapter.body(request, adapter.facts)["tools"])
        assert not adapter.body(replace(request, tools=()), adapter.facts).get("tools")


@pytest.mark.parametrize("adapter", ADAPTERS[:3], ids=lambda adapter: adapter.name)
def test_long_ids_of_another_models_calls_are_cut_and_still_told_apart(adapter: Any) -> None:
    ids = ["call_" + "x" * 80 + end for end in ("a", "b")]
    calls = said(*(ToolCall(id, "read", {}) for id in ids), model="other/model")
    outputs = User(tuple(ToolOutput(id, "x") for id in ids))
    body = adapter.body(talk(user("go"), calls, outputs), adapter.facts)
    assert refusal(adapter.name, body) is None
    own = replace(calls, model=adapter.facts.id)
    assert ids[0] in json.dumps(adapter.body(talk(user("go"), own, outputs), adapter.facts))


def test_mistral_gets_ids_of_nine_letters_and_digits_for_the_calls_of_others() -> None:
    # opencode 1680: "Tool call id was toolu_01 but must be a-z, A-Z, 0-9, with a length of 9."
    ids = ["toolu_01ABC", "toolu_01ABD", "a1B2c3D4e"]
    calls = said(*(ToolCall(id, "read", {}) for id in ids), model="other/model")
    outputs = User(tuple(ToolOutput(id, "x") for id in ids))
    facts = ModelFacts("mistral", "devstral", 128_000, 32_000)
    bodies = [
        openai_chat.build_body(talk(user("go"), calls, outputs), facts, openai_chat.MISTRAL_QUIRKS) for _ in range(2)
    ]
    assert bodies[0] == bodies[1]
    sent = [call["id"] for message in bodies[0]["messages"] for call in message.get("tool_calls", ())]
    assert [message["tool_call_id"] for message in bodies[0]["messages"] if message["role"] == "tool"] == sent
    assert len({*sent}) == 3
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in sent)
    assert sent[2] == ids[2]


@pytest.mark.parametrize(("name", "is_signed"), [("gemini-3-pro", True), ("gemini-2.5-pro", False)])
def test_gemini_gets_a_signature_for_the_calls_of_others(name: str, is_signed: bool) -> None:
    # pipecat 5809: "Function call is missing a thought_signature in functionCall parts."
    facts = ModelFacts("gemini", name, 1_000_000, 65_000)
    signed = {"extra_content": {"google": {"thought_signature": "own"}}}
    own = said(ToolCall("b", "read", {}, native=signed), model=facts.id)
    messages = (user("go"), said(ToolCall("a", "read", {}), model="o/m"), User((ToolOutput("a", "x"),)), own)
    body = openai_chat.build_body(talk(*messages, User((ToolOutput("b", "x"),))), facts)
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    other = {"google": {"thought_signature": "skip_thought_signature_validator"}} if is_signed else None
    assert [call.get("extra_content") for call in calls] == [other, signed["extra_content"]]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_reply_that_ends_in_a_thought_goes_back_without_it(adapter: Any) -> None:
    reply = said(Text("Well."), Reasoning("Let me see.", adapter.native), model=adapter.facts.id)
    only = said(Reasoning("Let me see.", adapter.native), model=adapter.facts.id)
    for messages in ((user("one"), reply, user("two")), (user("one"), only, user("two"))):
        assert refusal(adapter.name, adapter.body(talk(*messages), adapter.facts)) is None


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_session_goes_on_without_the_tools_that_it_has_called(adapter: Any) -> None:
    asked = talk(user("go"), said(ToolCall("c", "read", {}, " ")), User((ToolOutput("c", "x"),)))
    assert refusal(adapter.name, adapter.body(replace(asked, tools=()), adapter.facts)) is None


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_one_servers_odd_schema_does_not_spoil_every_request(adapter: Any) -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "größe in px": {"type": "integer"}},
        "required": ["path", "größe in px"],
        "anyOf": [{"required": ["path"]}],
    }
    body = adapter.body(replace(hello(), tools=(ToolSpec("mcp__a__b", "Does it.", schema),)), adapter.facts)
    assert refusal(adapter.name, body) is None
    assert "path" in json.dumps(body["tools"])
    assert "anyOf" in schema


def test_a_paused_reply_goes_back_without_blanks_at_its_end() -> None:
    adapter = next(adapter for adapter in ADAPTERS if adapter.name == "anthropic")
    paused = Assistant((Text("so far \n"),), adapter.facts.id, is_paused=True)
    sent = adapter.body(talk(user("go"), paused), adapter.facts)
    assert sent["messages"][-1]["content"] == [{"type": "text", "text": "so far"}]

"""The checks that every request of the tests passes: what real servers refuse is refused, what they take is not."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

import pytest

from ebbtide.agent.messages import Usage
from tests.kit.adapters import ADAPTERS, PIXEL, Adapter, everything
from tests.kit.fake_frames import Json, WireName
from tests.kit.fake_provider import Call, FakeProvider, Turn
from tests.kit.request_outputs import SeenOutput, form_of, outputs_in
from tests.kit.strict_api import Rules, refusal

BY_NAME = {adapter.name: adapter for adapter in ADAPTERS}
BODIES: dict[WireName, Json] = {
    adapter.name: json.loads(json.dumps(adapter.body(everything(adapter), adapter.facts))) for adapter in ADAPTERS
}
Change: TypeAlias = Callable[[Any], object]


def content(body: Json, place: int) -> list[Json]:
    blocks: list[Json] = body["messages"][place]["content"]
    return blocks


def of_type(body: Json, kind: str) -> list[Json]:
    return [item for item in body["input"] if item.get("type") == kind]


def insert_text_before_results(body: Json) -> None:
    content(body, 2).insert(0, {"type": "text", "text": "wait"})


def end_with_thinking(body: Json) -> None:
    content(body, 3).append(content(body, 3)[0])


def mark(body: Json) -> None:
    content(body, 0)[0]["cache_control"] = content(body, 2)[0]["cache_control"] = {"type": "ephemeral"}
    content(body, 4)[0]["cache_control"] = {"type": "ephemeral"}


def reasoning_alone(body: Json) -> None:
    place = body["input"].index(of_type(body, "reasoning")[-1])
    body["input"].append(body["input"].pop(place))


def with_picture(kind: str, data: str) -> Change:
    def change(body: Json) -> None:
        content(body, 0)[1]["source"] |= {"media_type": kind, "data": data}

    return change


SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
SEARCHED: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CHANGES: list[tuple[WireName, str, Change]] = [
    ("anthropic", "without `tool_result`", lambda b: content(b, 4).pop(0)),
    ("anthropic", "unexpected `tool_use_id`", lambda b: content(b, 4).insert(0, content(b, 2)[0])),
    ("anthropic", "must come first", insert_text_before_results),
    ("anthropic", "single result", lambda b: content(b, 2).insert(0, content(b, 2)[0])),
    ("anthropic", "ids must be unique", lambda b: content(b, 3)[-1].update(id="call_2")),
    ("anthropic", "should match", lambda b: content(b, 1)[-1].update(id="call.1")),
    ("anthropic", "all content must be type 'text'", lambda b: content(b, 4)[0].update(is_error=True)),
    ("anthropic", "Invalid `signature`", lambda b: content(b, 3)[0].update(thinking="Let me see")),
    ("anthropic", "Invalid `signature`", lambda b: content(b, 3)[0].update(signature="")),
    ("anthropic", "cannot be `thinking`", end_with_thinking),
    ("anthropic", "cannot have cache_control", lambda b: content(b, 3)[0].update(cache_control={})),
    ("anthropic", "A maximum of 4 blocks", mark),
    ("anthropic", "non-whitespace text", lambda b: content(b, 0)[0].update(text=" \n")),
    ("anthropic", "non-empty content", lambda b: content(b, 0).clear()),
    ("anthropic", "trailing whitespace", lambda b: b["messages"].append(
        {"role": "assistant", "content": [{"type": "text", "text": "I think "}]})),
    ("anthropic", "must define tools", lambda b: b.pop("tools")),
    ("anthropic", "names must be unique", lambda b: b["tools"].append(b["tools"][0])),
    ("anthropic", "does not match", lambda b: b["tools"][0].update(name="re ad")),
    ("anthropic", "must be of type 'object'", lambda b: b["tools"][0].update(input_schema={})),
    ("anthropic", "at the top level", lambda b: b["tools"][0]["input_schema"].update(anyOf=[])),
    ("anthropic", "draft 2020-12", lambda b: b["tools"][0]["input_schema"].update(exclusiveMinimum=True)),
    ("anthropic", "the most for this model", lambda b: b.update(max_tokens=200_000)),
    ("anthropic", "first message", lambda b: b["messages"].pop(0)),
    ("anthropic", "at least one message", lambda b: b["messages"].clear()),
    ("anthropic", "must not be deferred", lambda b: [tool.update(defer_loading=True) for tool in b["tools"]]),
    ("anthropic", "found another block", lambda b: content(b, 5).pop(0) and b.update(
        thinking={"type": "enabled", "budget_tokens": 1024})),
    ("anthropic", "unsupported image media type", with_picture("image/bmp", "Qk0=")),
    ("anthropic", "invalid base64", with_picture("image/png", "no base64")),
    ("anthropic", "Could not process image", with_picture("image/png", "R0lGODlh")),
    ("anthropic", "image exceeds", with_picture("image/png", "iVBORw0K" + "A" * 6_000_000)),
    ("anthropic", "Tool names must be unique", lambda b: b["tools"].extend([SEARCH, SEARCH])),
    ("anthropic", "does not match any", lambda b: b["tools"].append(SEARCH | {"type": "web_search_preview"})),
    ("anthropic", "should be 'web_search'", lambda b: b["tools"].append(SEARCH | {"name": "search"})),
    ("anthropic", "max_uses", lambda b: b["tools"].append(SEARCH | {"max_uses": 0})),
    ("anthropic", "Extra inputs", lambda b: b["tools"].append(SEARCH | {"input_schema_": {}})),
    ("anthropic", "without a corresponding `web_search_tool_result`", lambda b: content(b, 1).insert(1, SEARCHED)),
    ("anthropic", "should be a valid dictionary", lambda b: content(b, 1).extend(
        [SEARCHED | {"caller": None}, FOUND])),
    ("anthropic", "encrypted_content: Field required", lambda b: content(b, 0).append({"type": "web_search_result"})),
    ("anthropic", "encrypted_index: Field required", lambda b: content(b, 0).append(
        {"type": "text", "text": "x", "citations": [{"type": "web_search_result_location", "url": "u"}]})),
    ("responses", "Invalid value: 'web_search_3'", lambda b: b["tools"].append({"type": "web_search_3"})),
    ("responses", "Unknown parameter", lambda b: b["tools"].append({"type": "web_search", "max_uses": 2})),
    ("responses", "'minimal': web_search", lambda b: b.update(
        tools=[{"type": "web_search"}], reasoning={"effort": "minimal"})),
    ("responses", "Supported values", lambda b: b.update(include=["web_search_call.sources"])),
    ("responses", "max_tool_calls", lambda b: b.update(max_tool_calls=0)),
    ("responses", "No tool output found", lambda b: b["input"].remove(of_type(b, "function_call_output")[0])),
    ("responses", "No tool call found", lambda b: b["input"].remove(of_type(b, "function_call")[0])),
    ("responses", "Duplicate call_id", lambda b: of_type(b, "function_call")[1].update(call_id="call_1")),
    ("responses", "Duplicate function_call_output", lambda b: b["input"].append(of_type(b, "function_call_output")[0])),
    ("responses", "could not be verified", lambda b: of_type(b, "reasoning")[0].update(summary=[])),
    ("responses", "without its required following item", reasoning_alone),
    ("responses", "too long", lambda b: of_type(b, "function_call")[0].update(call_id="c" * 65)),
    ("responses", "names must be unique", lambda b: b["tools"].append(b["tools"][0])),
    ("responses", "does not match", lambda b: of_type(b, "function_call")[0].update(name="a b")),
    ("responses", "must not be empty", lambda b: b["input"][0]["content"][0].update(text="")),
    ("responses", "below minimum", lambda b: b.update(max_output_tokens=4)),
    ("responses", "array too long", lambda b: b["tools"].extend(dict(b["tools"][0], name=f"t{n}") for n in range(127))),
    ("responses", "missing properties", lambda b: b["tools"][0]["parameters"].pop("properties")),
    ("responses", "missing items", lambda b: b["tools"][0]["parameters"]["properties"].update(a={"type": "array"})),
    ("responses", "not valid under", lambda b: b["tools"][0]["parameters"].update(minimum="three")),
    ("responses", "found for custom tool call output", lambda b: of_type(b, "function_call_output")[0].update(
        type="custom_tool_call_output")),
    ("responses", "No tool call found for function call output", lambda b: of_type(b, "function_call")[0].update(
        type="custom_tool_call", input="x") or of_type(b, "custom_tool_call")[0].pop("arguments")),
    ("responses", "Missing required", lambda b: of_type(b, "function_call")[0].update(type="custom_tool_call")),
    ("responses", "Unknown parameter", lambda b: b["tools"][0].update(type="custom")),
    ("chat", "at most 1024", lambda b: b["tools"][0]["function"].update(description="x" * 1025)),
    ("chat", "must be followed by tool messages", lambda b: b["messages"].pop(3)),
    ("chat", "preceding message with 'tool_calls'", lambda b: b["messages"].append(b["messages"][3])),
    ("chat", "duplicate tool call", lambda b: b["messages"][4]["tool_calls"][0].update(id="call_1")),
    ("chat", "System message", lambda b: b["messages"].append(b["messages"][0])),
    ("chat", "content must not be empty", lambda b: b["messages"][-1].update(content="")),
    ("chat", "must be a JSON object", lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments="{")),
    ("chat", "too long", lambda b: b["messages"][2]["tool_calls"][0].update(id="c" * 41)),
    ("chat", "too short", lambda b: b.update(tools=[])),
    ("chat", "only allowed for messages with role 'user'", lambda b: b["messages"][3].update(
        content=[{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}])),
    ("chat", "too short", lambda b: b["messages"].append({"role": "assistant", "content": "x", "tool_calls": []})),
    ("ollama", "cannot unmarshal", lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments="{}")),
    ("ollama", "calls without an answer", lambda b: b["messages"].pop(3)),
    ("ollama", "answers no call", lambda b: b["messages"][3].update(tool_name="other")),
    ("ollama", "names must be unique", lambda b: b["tools"].append(b["tools"][0])),
    ("ollama", "content must not be empty", lambda b: b["messages"].append({"role": "user"})),
]  # fmt: skip


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_request_with_everything_in_it_is_taken(adapter: Adapter) -> None:
    assert refusal(adapter.name, BODIES[adapter.name]) is None


def test_a_text_may_stand_where_blocks_may() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    assert refusal("anthropic", body) is None
    assert outputs_in("anthropic", body) == ()
    assert "non-whitespace" in (refusal("anthropic", body | {"messages": [{"role": "user", "content": " "}]}) or "")


@pytest.mark.parametrize(("wire", "says", "change"), CHANGES, ids=[f"{wire}: {says}" for wire, says, _ in CHANGES])
def test_what_the_real_server_refuses_is_refused(wire: WireName, says: str, change: Change) -> None:
    body = deepcopy(BODIES[wire])
    change(body)
    assert says in (refusal(wire, body) or "nothing")


def test_a_search_of_the_web_is_taken() -> None:
    """In the last message, one without results, too: it goes on there."""
    claude, gpt = deepcopy(BODIES["anthropic"]), deepcopy(BODIES["responses"])
    claude["tools"].append(SEARCH | {"max_uses": 2})
    content(claude, 1)[1:1] = [SEARCHED, FOUND]
    assert refusal("anthropic", claude) is None
    claude["messages"].append({"role": "assistant", "content": [SEARCHED | {"id": "srvtoolu_2"}]})
    assert refusal("anthropic", claude) is None
    gpt["tools"].append({"type": "web_search", "search_context_size": "low"})
    gpt["include"] = ["web_search_call.action.sources"]
    assert refusal("responses", gpt) is None


def test_roles_that_do_not_alternate_are_refused_where_a_template_demands_it() -> None:
    user, assistant = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    works = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    head = {"model": "m", "max_tokens": 9}
    good, bad = {**head, "messages": [user, *works, assistant, user]}, {**head, "messages": [user, *works, user]}
    assert refusal("chat", good, Rules(alternates=True)) is None
    assert refusal("chat", bad) is None
    assert "must alternate" in (refusal("chat", bad, Rules(alternates=True)) or "")


def post(server: FakeProvider, messages: list[Json]) -> tuple[int, Json]:
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    body = {"model": "m", "messages": messages, "tools": tools, "options": {"num_predict": 9}}
    request = urllib.request.Request(f"{server.url}/api/chat", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read().splitlines()[-1])
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


ASKS: Json = {"role": "user", "content": "Look."}
CALLS: Json = {"role": "assistant", "tool_calls": [{"function": {"name": "read", "arguments": {}}}]}
READS = Turn(calls=(Call("read"),))


def output(text: str) -> Json:
    return {"role": "tool", "tool_name": "read", "content": text}


def test_a_test_in_which_something_was_refused_fails_at_its_end() -> None:
    with pytest.raises(AssertionError, match="calls without an answer"), FakeProvider([READS]) as server:
        assert post(server, [ASKS, CALLS])[0] == 400
    with FakeProvider([READS], rules=None) as server:
        assert post(server, [ASKS, CALLS])[0] == 200


def test_what_each_request_showed_is_counted_and_blind_steps_are_named() -> None:
    cut = '[Tool result stored - 9 bytes]\nab\nUse the "read_result" tool with ref_id="r1" to read specific portions.'
    with FakeProvider([lambda _: READS]) as server:
        post(server, [ASKS])
        post(server, [ASKS, CALLS, output(cut)])
        post(server, [ASKS, CALLS, output("Viewed a.py – 5 lines [recall:r1]"), CALLS, output("all of it")])
        post(server, [ASKS, {"role": "assistant", "content": "What was that?"}, ASKS])
        assert [[shown.form for shown in request] for request in server.seen_outputs] == [
            [],
            ["cut"],
            ["stub", "whole"],
            [],
        ]
        assert server.seen_outputs[2][1] == SeenOutput("read", "all of it", "whole")
        assert server.blind == [3]
    assert form_of("all of it", "all of it, and more") == "cut"


def test_a_server_may_truncate_in_silence_and_may_miscount() -> None:
    long = {"role": "user", "content": "word " * 4000}
    usage = Usage(input=1, output=5)
    with FakeProvider([lambda _: Turn("ok", usage=usage)], reads=2_000) as cuts:
        short = post(cuts, [ASKS])[1]["prompt_eval_count"]
        assert post(cuts, [long])[1]["prompt_eval_count"] == 2_000
    with FakeProvider([lambda _: Turn("ok", usage=usage)], counts=1.4) as counts:
        assert post(counts, [ASKS])[1]["prompt_eval_count"] == round(short * 1.4)
        assert post(counts, [long])[1]["prompt_eval_count"] > 5_000

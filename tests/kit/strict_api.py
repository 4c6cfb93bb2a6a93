"""What real model servers refuse, told from the JSON body of a request: one function for all four wires. Pure.

    refusal("anthropic", body)                       # None, or the sentence of a 400
    refusal("chat", body, Rules(alternates=True))    # as the chat templates of many local models have it

Thoughts are signed by their text, so that any process can tell whether a server such as `fake_frames` has issued them.
"""

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jsonschema_rs

from tests.kit.fake_frames import Json, WireName, seal_of, signature_of

MOST_MARKS = 4
KEYS = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
IDS = re.compile(r"[a-zA-Z0-9_-]+")
NAMES: Mapping[WireName, re.Pattern[str]] = {
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "responses": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "chat": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "ollama": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}
LONGEST_ID: Mapping[WireName, int] = {"anthropic": 1_000, "responses": 64, "chat": 40, "ollama": 0}
PICTURES: Mapping[str, bytes] = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
MOST_TOOLS: Mapping[WireName, int] = {"responses": 128, "chat": 128}
LONGEST_DESCRIPTION: Mapping[WireName, int] = {"chat": 1024}
CALLS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
"""The items of the Responses API that are calls, and those that answer each of them."""
CUSTOM_KEYS = {"type", "name", "description", "format", "allowed_callers", "async", "defer_loading"}
NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
THOUGHTS = ("thinking", "redacted_thinking")
ANTHROPIC_SEARCHES = ("web_search_20250305", "web_search_20260209", "web_search_20260318")
WEB_SEARCH_KEYS = {
    "type", "name", "allowed_callers", "allowed_domains", "blocked_domains", "cache_control", "defer_loading",
    "max_uses", "response_inclusion", "strict", "user_location",
}  # fmt: skip
OPENAI_SEARCHES = ("web_search", "web_search_2025_08_26")
OPENAI_SEARCH_KEYS = {"type", "external_web_access", "filters", "search_context_size", "user_location"}
INCLUDABLE = {
    "code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
    "message.input_image.image_url", "message.output_text.logprobs", "reasoning.encrypted_content",
    "web_search_call.action.sources", "web_search_call.results",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between servers and models."""

    most_output: int = 128_000
    """Tokens that the model may write at most."""
    largest_picture: int = 5 * 1024 * 1024
    """Bytes of a picture in base64."""
    alternates: bool = False
    """Whether user and assistant must alternate, but for calls and their outputs."""
    checks_pictures: bool = True
    """Whether pictures must be ones. False where their bytes are made up."""


class Refused(Exception):
    """What the server says to a request that it does not take."""


def refusal(wire: WireName, body: Json, rules: Rules = Rules()) -> str | None:
    """What is wrong with a request, in the words of the API or near them, or None."""
    checks: dict[WireName, Callable[[Json, Rules], None]] = {
        "anthropic": _anthropic,
        "responses": _responses,
        "chat": _chat,
        "ollama": _ollama,
    }
    try:
        checks[wire](body, rules)
    except Refused as refused:
        return str(refused)
    return None


def _need(holds: object, sentence: str) -> None:
    if not holds:
        raise Refused(sentence)


def _anthropic(body: Json, rules: Rules) -> None:
    messages: list[Json] = [_in_blocks(message) for message in body["messages"]]
    tools = [tool for tool in body.get("tools", ()) if "input_schema" in tool]
    _check_tools("anthropic", [(tool["name"], tool.get("description", ""), tool["input_schema"]) for tool in tools])
    _need(not tools or not all(tool.get("defer_loading") for tool in tools), "at least one tool must not be deferred")
    _check_anthropic_search(body.get("tools", ()), messages)
    _check_output(body["max_tokens"], rules)
    _need(messages, "messages: at least one message is required")
    _need(messages[0]["role"] == "user", "messages: first message must use the `user` role")
    for place, message in enumerate(messages):
        _check_blocks(message, f"messages.{place}", body, rules)
    used = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    _need(len(set(used)) == len(used), "messages: `tool_use` ids must be unique")
    _need(tools or not used, "Requests which include `tool_use` or `tool_result` blocks must define tools")
    for place, (before, after) in enumerate(pairwise([{"role": "user", "content": []}, *messages, {"content": []}])):
        _check_results(before, after, f"messages.{place}")
    marks = sum(1 for block in _blocks(body) if "cache_control" in block)
    _need(marks <= MOST_MARKS, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    _check_thinking(body, messages)


def _check_anthropic_search(tools: Sequence[Json], messages: Sequence[Json]) -> None:
    """The search of the web is defined as the API knows it, beside no tool of its name. Each search has its result in
    the same message, unless that one is the last and goes on. What is encrypted comes back."""
    names = [tool["name"] for tool in tools if "name" in tool]
    _need(len(set(names)) == len(names), "tools: Tool names must be unique.")
    for tool in (tool for tool in tools if str(tool.get("type", "")).startswith("web_search")):
        _need(tool["type"] in ANTHROPIC_SEARCHES, f"tools: Input tag '{tool['type']}' does not match any expected tags")
        _need(tool.get("name") == "web_search", "tools.web_search.name: Input should be 'web_search'")
        _need(tool.get("max_uses", 1) >= 1, "tools.web_search.max_uses: Input should be greater than or equal to 1")
        odd = set(tool) - WEB_SEARCH_KEYS
        _need(not odd, f"tools.web_search.{min(odd, default='')}: Extra inputs are not permitted")
    for place, message in enumerate(messages[:-1]):
        found = {b["tool_use_id"] for b in message["content"] if b["type"] == "web_search_tool_result"}
        for block in message["content"]:
            is_search = block["type"] == "server_tool_use" and block["name"] == "web_search"
            _need(
                not is_search or block["id"] in found,
                f"messages.{place}: `web_search` tool use with id `{block.get('id')}` was found without a "
                "corresponding `web_search_tool_result` block",
            )
    for block in _blocks([message["content"] for message in messages]):
        is_server_block = block.get("type") in ("server_tool_use", "web_search_tool_result")
        _need(not is_server_block or block.get("caller", {}) is not None, "caller: Input should be a valid dictionary")
        for kind, sealed in (
            ("web_search_result", "encrypted_content"),
            ("web_search_result_location", "encrypted_index"),
        ):
            _need(block.get("type") != kind or block.get(sealed), f"{kind}.{sealed}: Field required")


def _in_blocks(message: Json) -> Json:
    """The message with its text as a block, which is another way to write it."""
    content = message["content"]
    return message | {"content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def _check_blocks(message: Json, where: str, body: Json, rules: Rules) -> None:
    _need(message["content"], f"{where}: all messages must have non-empty content")
    for block in _blocks(message["content"]):
        match block.get("type"):
            case "text":
                _need(block["text"].strip(), f"{where}: text content blocks must contain non-whitespace text")
            case "image":
                source = block["source"]
                _check_picture(source["media_type"], source["data"], where, rules)
            case "tool_use":
                _check_call("anthropic", block["id"], block["name"], where)
                _need(IDS.fullmatch(block["id"]), f"{where}: tool_use.id: String should match '{IDS.pattern}'")
                _need(isinstance(block["input"], dict), f"{where}: tool_use.input: Input should be a valid dictionary")
            case "tool_result" if block.get("is_error"):
                is_text = all(inner["type"] == "text" for inner in block["content"])
                _need(is_text, f"{where}.tool_result: all content must be type 'text' if 'is_error' is true")
            case "thinking":
                issued = block["signature"] == signature_of(block["thinking"])
                _need(issued, f"{where}: Invalid `signature` in `thinking` block")
            case "tool_reference":
                known = {tool["name"] for tool in body.get("tools", ()) if tool.get("defer_loading")}
                _need(
                    block["tool_name"] in known, f"Tool reference '{block['tool_name']}' not found in available tools"
                )
        marked = "cache_control" in block and block.get("type") in THOUGHTS
        _need(not marked, f"{where}: thinking blocks cannot have cache_control")
    if message["role"] == "assistant":
        last = message["content"][-1]
        _need(last["type"] not in THOUGHTS, f"{where}: The final block in an assistant message cannot be `thinking`.")


def _check_results(before: Json, after: Json, where: str) -> None:
    """Each call's result is in the next message, before anything else, and no other result."""
    calls = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
    leading = [block for block in after["content"][: len(results)] if block["type"] == "tool_result"]
    missing = [id for id in calls if id not in results]
    _need(not missing, f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}")
    foreign = [id for id in results if id not in calls]
    _need(not foreign, f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {foreign}")
    _need(len(set(results)) == len(results), f"{where}: each tool_use must have a single result")
    _need(len(leading) == len(results), f"{where}: `tool_result` blocks must come first in the message")


def _check_thinking(body: Json, messages: Sequence[Json]) -> None:
    """With a budget, the turn that goes on must have begun with thinking. And the last reply may not end in a blank."""
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        budget = thinking["budget_tokens"]
        _need(budget >= 1024, "thinking.budget_tokens: Input should be greater than or equal to 1024")
        _need(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`")
        last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
        goes_on = any(block["type"] == "tool_result" for block in messages[-1]["content"])
        begins = last is None or last["content"][0]["type"] in THOUGHTS
        _need(begins or not goes_on, "Expected `thinking` or `redacted_thinking`, but found another block")
    if messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        text = messages[-1]["content"][-1]["text"]
        _need(text == text.rstrip(), "messages: final assistant content cannot end with trailing whitespace")


def _responses(body: Json, rules: Rules) -> None:
    items: list[Json] = body["input"]
    tools = [tool for tool in _flat(body.get("tools", ())) if tool["type"] in ("function", "custom")]
    parameters = [tool["parameters"] if tool["type"] == "function" else NO_PARAMETERS for tool in tools]
    named = [(tool["name"], tool.get("description", ""), each) for tool, each in zip(tools, parameters, strict=True)]
    _check_tools("responses", named)
    for tool in tools:
        odd = set(tool) - CUSTOM_KEYS if tool["type"] == "custom" else ()
        _need(not odd, f"Unknown parameter: 'tools[{tools.index(tool)}].{min(odd, default='')}'.")
    _check_openai_search(body)
    _check_count("responses", body.get("tools", ()))
    _check_output(body["max_output_tokens"], rules)
    _need(body["max_output_tokens"] >= 16, "Invalid 'max_output_tokens': integer below minimum value")
    _need(items, "one of `input` or `previous_response_id` must be provided")
    called = [(item["call_id"], item["type"]) for item in items if item.get("type") in CALLS]
    answered = [item["call_id"] for item in items if item.get("type") in CALLS.values()]
    _need(len(dict(called)) == len(called), "Duplicate call_id found in input")
    _need(len(set(answered)) == len(answered), "Duplicate function_call_output found in input")
    for place, item in enumerate(items):
        _check_item(item, items, place, rules)
    for id, kind in called:
        _need(id in answered, f"No tool output found for {_in_words(kind)} {id}.")
    marks = sum(1 for block in _blocks(items) if "prompt_cache_breakpoint" in block)
    _need(marks <= MOST_MARKS, f"at most 4 prompt_cache_breakpoint may be set, found {marks}")


def _check_openai_search(body: Json) -> None:
    for place, tool in enumerate(body.get("tools", ())):
        if str(tool["type"]).startswith("web_search"):
            _need(tool["type"] in OPENAI_SEARCHES, f"Invalid value: '{tool['type']}'.")
            odd = set(tool) - OPENAI_SEARCH_KEYS
            _need(not odd, f"Unknown parameter: 'tools[{place}].{min(odd, default='')}'.")
            minimal = body.get("reasoning", {}).get("effort") == "minimal"
            _need(not minimal, "The following tools cannot be used with reasoning.effort 'minimal': web_search.")
    odd = set(body.get("include", ())) - INCLUDABLE
    _need(not odd, f"Invalid value: '{min(odd, default='')}'. Supported values are: {', '.join(sorted(INCLUDABLE))}.")
    _need(body.get("max_tool_calls", 1) >= 1, "Invalid 'max_tool_calls': integer below minimum value")


def _check_item(item: Json, items: Sequence[Json], place: int, rules: Rules) -> None:
    where = f"input[{place}]"
    match item.get("type", "message"):
        case "message":
            content = item["content"]
            _need(content, f"{where}.content: must not be empty")
            blocks = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            _check_parts(blocks, where, rules)
        case "function_call":
            _check_call("responses", item["call_id"], item["name"], where)
        case "custom_tool_call":
            _check_call("responses", item["call_id"], item["name"], where)
            _need(isinstance(item.get("input"), str), f"Missing required parameter: '{where}.input'.")
            _need("arguments" not in item, f"Unknown parameter: '{where}.arguments'.")
        case "function_call_output" | "custom_tool_call_output" as kind:
            earlier = {other.get("call_id") for other in items[:place] if CALLS.get(other.get("type", "")) == kind}
            _need(
                item["call_id"] in earlier,
                f"No tool call found for {_in_words(kind)} with call_id {item['call_id']}.",
            )
            _need(item["output"], f"{where}.output: must not be empty")
            _check_parts(item["output"] if isinstance(item["output"], list) else [], where, rules)
        case "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            issued = item.get("encrypted_content") == seal_of(text)
            _need(issued, f"The encrypted content for item {item['id']} could not be verified.")
            after = items[place + 1] if place + 1 < len(items) else {"role": "user"}
            follows = after.get("role") != "user" and after.get("type") not in CALLS.values()
            _need(follows, f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.")


def _in_words(kind: str) -> str:
    return kind.replace("_", " ")


def _check_parts(blocks: Iterable[Json], where: str, rules: Rules) -> None:
    for block in blocks:
        match block["type"]:
            case "input_text" | "output_text" | "text":
                _need(block["text"], f"{where}: a text must not be empty")
            case "input_image" | "image_url":
                url = block["image_url"]
                head, _, data = (url if isinstance(url, str) else url["url"]).partition(";base64,")
                _check_picture(head.removeprefix("data:"), data, where, rules)


def _chat(body: Json, rules: Rules) -> None:
    messages: list[Json] = body["messages"]
    tools = [tool["function"] for tool in body.get("tools", ())]
    _check_tools("chat", [(tool["name"], tool.get("description", ""), tool["parameters"]) for tool in tools])
    _check_count("chat", tools)
    _check_output(body.get("max_tokens") or body["max_completion_tokens"], rules)
    _need(any(message["role"] != "system" for message in messages), "messages: at least one message is required")
    _need(tools or "tools" not in body, "[] is too short - 'tools'")
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages.[{place}]"
        _need(message["role"] != "system" or place == 0, "System message must be at the beginning")
        if message["role"] == "tool":
            fits = message["tool_call_id"] in waiting
            _need(fits, f"{where}: 'tool' must be a response to a preceding message with 'tool_calls'")
            waiting.remove(message["tool_call_id"])
        else:
            _need(not waiting, f"{where}: 'tool_calls' must be followed by tool messages responding to each: {waiting}")
            waiting = [call["id"] for call in message.get("tool_calls", ())]
        _need(message["content"] or message.get("tool_calls"), f"{where}: content must not be empty")
        parts = message["content"] if isinstance(message["content"], list) else []
        _check_parts(parts, where, rules)
        is_words = all(part["type"] == "text" for part in parts)
        _need(
            is_words or message["role"] == "user", f"{where}: Image URLs are only allowed for messages with role 'user'"
        )
        _need(message.get("tool_calls") != [], f"[] is too short - '{where}.tool_calls'")
        for call in message.get("tool_calls", ()):
            _need(call["id"] not in seen, f"{where}: duplicate tool call id {call['id']}")
            seen.add(call["id"])
            _check_call("chat", call["id"], call["function"]["name"], where)
            _need(_is_object(call["function"]["arguments"]), f"{where}: arguments must be a JSON object")
    _need(not waiting, f"'tool_calls' must be followed by tool messages responding to each: {waiting}")
    if rules.alternates:
        _check_alternation(messages)


def _check_alternation(messages: Sequence[Json]) -> None:
    """As the templates of Mistral's models have it: calls and their outputs do not count."""
    turns = [m["role"] for m in messages if m["role"] in ("user", "assistant") and not m.get("tool_calls")]
    wanted = [("user", "assistant")[place % 2] for place in range(len(turns))]
    _need(
        turns == wanted, "conversation roles must alternate user and assistant roles except for tool calls and results."
    )


def _ollama(body: Json, rules: Rules) -> None:
    messages: list[Json] = body["messages"]
    tools = [tool["function"] for tool in body.get("tools", ())]
    _check_tools("ollama", [(tool["name"], tool.get("description", ""), tool["parameters"]) for tool in tools])
    _check_output(body["options"]["num_predict"], rules)
    _need(any(message["role"] != "system" for message in messages), "messages: at least one message is required")
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        _need(message["role"] != "system" or place == 0, "System message must be at the beginning")
        if message["role"] == "tool":
            _need(waiting[:1] == [message.get("tool_name")], f"{where}: a tool message that answers no call")
            waiting.pop(0)
        else:
            _need(not waiting, f"{where}: calls without an answer: {waiting}")
            waiting = [call["function"]["name"] for call in message.get("tool_calls", ())]
        filled = any(message.get(name) for name in ("content", "images", "tool_calls", "thinking"))
        _need(filled, f"{where}: content must not be empty")
        for name in waiting:
            _check_call("ollama", "", name, where)
        are_objects = all(isinstance(call["function"]["arguments"], dict) for call in message.get("tool_calls", ()))
        _need(
            are_objects, "json: cannot unmarshal string into Go struct field .arguments of type map[string]interface {}"
        )
        for picture in message.get("images", ()):
            _check_picture(None, picture, where, rules)
    _need(not waiting, f"calls without an answer: {waiting}")
    if rules.alternates:
        _check_alternation(messages)


def _check_count(wire: WireName, tools: Sequence[Json]) -> None:
    """What stands in the list: a namespace counts once, however many tools are in it."""
    most = MOST_TOOLS[wire]
    _need(
        len(tools) <= most, f"Invalid 'tools': array too long. Expected at most {most}, but got {len(tools)} instead."
    )


def _check_tools(wire: WireName, tools: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
    twice = [name for name, count in Counter(name for name, *_ in tools).items() if count > 1]
    _need(not twice, f"tools: Tool names must be unique: {twice}")
    for name, text, schema in tools:
        longest = LONGEST_DESCRIPTION.get(wire, len(text))
        _need(len(text) <= longest, f"tools.{name}.description: string too long, at most {longest}, got {len(text)}")
        _need(NAMES[wire].fullmatch(name), f"tools: the name {name!r} does not match '{NAMES[wire].pattern}'")
        _need(schema.get("type") == "object", f"tools.{name}: the schema must be of type 'object'")
        if wire == "anthropic":
            odd = [key for key in schema.get("properties", ()) if not KEYS.fullmatch(key)]
            _need(not odd, f"tools.{name}: Property keys should match '{KEYS.pattern}': {odd}")
        combined = {"oneOf", "anyOf", "allOf", "enum", "not"} & set(schema)
        _need(not combined, f"tools.{name}: the schema must not have {sorted(combined)} at the top level")
        _check_schema(wire, name, schema)


def _check_schema(wire: WireName, name: str, schema: Mapping[str, Any]) -> None:
    """Both want JSON Schema 2020-12; OpenAI wants to be told of parameters and of what is in lists, too."""
    if wire == "anthropic":
        _need(_is_standard(schema), f"tools.{name}.input_schema: JSON schema is invalid. It must match draft 2020-12")
    if wire in ("responses", "chat"):
        _need("properties" in schema, f"Invalid schema for function '{name}': object schema missing properties.")
        lists = [each for each in _schemas(schema) if "array" in _kinds(each)]
        _need(
            all("items" in each for each in lists), f"Invalid schema for function '{name}': array schema missing items"
        )
        _need(
            _is_standard(schema), f"Invalid schema for function '{name}': it is not valid under any of the given ones"
        )


def _is_standard(schema: Mapping[str, Any]) -> bool:
    valid: bool = jsonschema_rs.meta.is_valid({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
    return valid


def _kinds(schema: Mapping[str, Any]) -> Sequence[str]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else kinds


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all of those inside it."""
    if isinstance(schema, list):
        for each in schema:
            yield from _schemas(each)
    elif isinstance(schema, dict):
        yield schema
        for key, inner in schema.items():
            named = key in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
            data = key in ("enum", "const", "default", "examples")
            for each in inner.values() if named else () if data else (inner,):
                yield from _schemas(each)


def _check_call(wire: WireName, id: str, name: str, where: str) -> None:
    _need(NAMES[wire].fullmatch(name), f"{where}: the tool name {name!r} does not match '{NAMES[wire].pattern}'")
    if LONGEST_ID[wire]:
        _need(id, f"{where}: a call needs an id")
        _need(len(id) <= LONGEST_ID[wire], f"{where}: id: string too long, at most {LONGEST_ID[wire]}, got {len(id)}")


def _check_output(tokens: int, rules: Rules) -> None:
    _need(tokens >= 1, "max_tokens: Input should be greater than or equal to 1")
    _need(tokens <= rules.most_output, f"max_tokens: {tokens} > {rules.most_output}, the most for this model")


def _check_picture(media_type: str | None, data: str, where: str, rules: Rules) -> None:
    """A picture of a kind that is taken, as large as is taken, and what it says it is."""
    _need(media_type is None or media_type in PICTURES, f"{where}: unsupported image media type {media_type}")
    _need(
        len(data) <= rules.largest_picture, f"{where}: image exceeds {rules.largest_picture} bytes: {len(data)} bytes"
    )
    if not rules.checks_pictures:
        return
    try:
        raw = b64decode(data, validate=True)
    except NotBase64:
        raise Refused(f"{where}: invalid base64 data") from None
    kinds = PICTURES.values() if media_type is None else [PICTURES[media_type]]
    _need(raw.startswith(tuple(kinds)), f"{where}: Could not process image")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _flat(tools: Iterable[Json]) -> Iterator[Json]:
    """The tools, those of namespaces too."""
    for tool in tools:
        yield from tool["tools"] if tool["type"] == "namespace" else (tool,)


def _blocks(value: Any) -> Iterator[Json]:
    """Every object inside, but what calls are given as arguments and tools as schemas."""
    match value:
        case dict():
            yield value
            for name, inner in value.items():
                if name not in ("input", "input_schema", "parameters") or isinstance(inner, list):
                    yield from _blocks(inner)
        case list():
            for inner in value:
                yield from _blocks(inner)

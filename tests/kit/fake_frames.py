"""What a model server says on each wire, made from one neutral `Turn`. It knows formats, no socket and no adapter."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from ebbtide.agent.messages import StopReason, Usage

WireName: TypeAlias = Literal["anthropic", "responses", "chat", "ollama"]
Fault: TypeAlias = Literal["", "error", "malformed", "cut", "drop", "hang", "silent", "bytewise"]
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes."""

    name: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)
    raw: str | None = None
    """The argument text as sent, when it is not the JSON of `arguments`. (Ollama's are never text: it ignores this.)"""
    id: str | None = None
    """The call's id; None makes one that is unique in the script. (Ollama sends none.)"""

    @property
    def source(self) -> str:
        return self.raw if self.raw is not None else json.dumps(dict(self.arguments))


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the server, in words that hold for every wire."""

    text: str = ""
    reasoning: str = ""
    found: tuple[str, ...] = ()
    """Tools that the server's own search finds before the calls, as `mcp__SERVER__TOOL`. (Two wires have one.)"""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=lambda: Usage(input=10, output=5))
    stop: StopReason | None = None
    """Why the model stops; None is `calls` when there are calls, else `end`."""
    status: int = 200
    """Other than 200: an error answer before any stream, with `headers` and `body`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """The error answer as JSON value or text; None makes the wire's usual one from `error`."""
    whole: object = None
    """A JSON document sent with status 200 in the place of a stream."""
    raw: str | None = None
    """A stream as it is sent, in the place of one that is made of the rest."""
    error: tuple[str, str] = ("server_error", "the fake server fails as told")
    """Type (or code) and message of an error answer, or of the error frame of fault `error`."""
    fault: Fault = ""
    """What goes wrong after the content and before the end frame:
    error      an error frame
    malformed  a frame whose JSON is broken
    cut        the stream ends, politely
    drop       the connection breaks
    hang       nothing more until `FakeProvider.release()` or until the client goes away
    silent     like hang, but not even a status line is sent
    bytewise   nothing goes wrong, but every byte arrives alone
    """

    @property
    def stops(self) -> StopReason:
        return self.stop or ("calls" if self.calls else "end")


@dataclass(frozen=True, slots=True)
class Frames:
    """An answer in pieces as they are written to the socket."""

    content: list[str]
    end: list[str]
    error: str
    malformed: str
    media_type: str = "text/event-stream; charset=utf-8"


def frames(wire: WireName, turn: Turn, number: int, model: str, free_text: Collection[str] = frozenset()) -> Frames:
    """The turn on that wire. `number` counts the answers of a script, so that ids differ. `free_text`: the names of the
    tools that the request wants to be called with a text as it stands."""
    makers: dict[WireName, Callable[[Turn, int, str], Frames]] = {
        "anthropic": _anthropic,
        "responses": partial(_responses, free_text=free_text),
        "chat": _chat,
        "ollama": _ollama,
    }
    return makers[wire](turn, number, model)


def error_body(wire: WireName, turn: Turn) -> object:
    """The wire's usual JSON for an error answer."""
    kind, message = turn.error
    if wire == "ollama":
        return {"error": message}
    if wire == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def signature_of(thinking: str) -> str:
    """What Anthropic's API signs a thought with. It depends on the text alone, so that any server can check it."""
    return f"signed-{sha256(thinking.encode(errors='replace')).hexdigest()[:16]}"


def seal_of(thinking: str) -> str:
    """The encrypted content of a reasoning item, likewise."""
    return f"sealed-{sha256(thinking.encode(errors='replace')).hexdigest()[:16]}"


def pieces(text: str, size: int = 7) -> list[str]:
    """The text cut into deltas."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def named(event: Json) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def data(event: Json) -> str:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"


def line(event: Json) -> str:
    return json.dumps(event, ensure_ascii=False) + "\n"


def _anthropic(turn: Turn, number: int, model: str) -> Frames:
    usage: Json = {
        "input_tokens": turn.usage.input,
        "cache_creation_input_tokens": turn.usage.cache_write,
        "cache_read_input_tokens": turn.usage.cache_read,
        "output_tokens": 1,
    }
    message: Json = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    events: list[Json] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    blocks: list[tuple[Json, list[Json]]] = []
    if turn.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.reasoning)]
        signature = {"type": "signature_delta", "signature": signature_of(turn.reasoning)}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if turn.text:
        blocks.append(
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)])
        )
    if turn.found:
        blocks += _search_blocks(turn, f"srvtoolu_{number}")
    for index, call in enumerate(turn.calls):
        start = {"type": "tool_use", "id": call.id or f"toolu_{number}_{index}", "name": call.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(call.source)]]
        blocks.append((start, deltas))
    for index, (start, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reasons = {
        "end": "end_turn", "calls": "tool_use", "pause": "pause_turn", "overflow": "model_context_window_exceeded",
    }  # fmt: skip
    end: list[Json] = [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reasons.get(turn.stops, turn.stops), "stop_sequence": None},
            "usage": {"output_tokens": turn.usage.output},
        },
        {"type": "message_stop"},
    ]
    return Frames(
        [named(event) for event in events],
        [named(event) for event in end],
        named({"type": "error", "error": {"type": turn.error[0], "message": turn.error[1]}}),
        'event: content_block_delta\ndata: {"type": "content_block_delta", "ind\n\n',
    )


def _search_blocks(turn: Turn, id: str) -> list[tuple[Json, list[Json]]]:
    query = json.dumps({"query": "a tool for this"})
    call: Json = {"type": "server_tool_use", "id": id, "name": "tool_search_tool_bm25", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(query)]
    references = [{"type": "tool_reference", "tool_name": name} for name in turn.found]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return [(call, deltas), ({"type": "tool_search_tool_result", "tool_use_id": id, "content": content}, [])]


def _responses(turn: Turn, number: int, model: str, free_text: Collection[str]) -> Frames:
    usage: Json = {
        "input_tokens": turn.usage.prompt,
        "input_tokens_details": {"cached_tokens": turn.usage.cache_read, "cache_write_tokens": turn.usage.cache_write},
        "output_tokens": turn.usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": turn.usage.total,
    }
    response: Json = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": model, "status": "in_progress",
        "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "usage": None,
    }  # fmt: skip
    events: list[Json] = [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
    ]
    items: list[Json] = []
    if turn.reasoning:
        items.append(_reasoning_item(turn, number, events, len(items)))
    if turn.text:
        items.append(_message_item(turn, number, events, len(items)))
    if turn.found:
        items += _search_items(turn, number, events, len(items))
    for index, call in enumerate(turn.calls):
        if call.name in free_text:
            items.append(_free_text_item(call, f"{number}_{index}", events, len(items)))
        else:
            items.append(_call_item(call, f"{number}_{index}", events, len(items), turn.found))
    # A refusal ends as an ordinary completed response on this wire.
    reason = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(turn.stops)
    status = "incomplete" if reason else "completed"
    details = {"reason": reason} if reason else None
    finished = response | {"status": status, "output": items, "usage": usage, "incomplete_details": details}
    failed = response | {"status": "failed", "error": {"code": turn.error[0], "message": turn.error[1]}}
    numbered = [event | {"sequence_number": count} for count, event in enumerate(events)]
    last = {"sequence_number": len(numbered)}
    return Frames(
        [named(event) for event in numbered],
        [named({"type": f"response.{status}", "response": finished} | last)],
        named({"type": "response.failed", "response": failed} | last),
        'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "del\n\n',
    )


def _reasoning_item(turn: Turn, number: int, events: list[Json], index: int) -> Json:
    item: Json = {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": [],
        "encrypted_content": seal_of(turn.reasoning),
    }
    place: Json = {"item_id": item["id"], "output_index": index, "summary_index": 0}
    events.append({"type": "response.output_item.added", "output_index": index, "item": item})
    for piece in pieces(turn.reasoning):
        events.append({"type": "response.reasoning_summary_text.delta", "delta": piece} | place)
    whole = item | {"summary": [{"type": "summary_text", "text": turn.reasoning}]}
    events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
    return whole


def _message_item(turn: Turn, number: int, events: list[Json], index: int) -> Json:
    item: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place: Json = {"item_id": item["id"], "output_index": index, "content_index": 0}
    events.append({"type": "response.output_item.added", "output_index": index, "item": item})
    for piece in pieces(turn.text):
        events.append({"type": "response.output_text.delta", "delta": piece, "logprobs": []} | place)
    part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
    whole = item | {"status": "completed", "content": [part]}
    events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
    return whole


def _search_items(turn: Turn, number: int, events: list[Json], index: int) -> list[Json]:
    """The search and what it has loaded, as the server of the API sends them: with a null where it has no id."""
    common: Json = {"call_id": None, "execution": "server", "status": "completed"}
    spaces: dict[str, list[Json]] = {}
    for name in turn.found:
        function: Json = {"type": "function", "name": name, "description": "", "parameters": {}, "strict": False}
        spaces.setdefault(namespace_of(name), []).append(function | {"defer_loading": True})
    loaded = [{"type": "namespace", "name": name, "description": "", "tools": tools} for name, tools in spaces.items()]
    call: Json = {"id": f"tsc_{number}", "type": "tool_search_call", "arguments": {"paths": list(spaces)}} | common
    output: Json = {"id": f"tso_{number}", "type": "tool_search_output", "tools": loaded} | common
    items = [call, output | {"created_by": "server"}]
    for place, item in enumerate(items, index):
        started = item | {"status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": place, "item": started})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return items


def namespace_of(name: str) -> str:
    return name.rpartition("__")[0]


def _call_item(call: Call, suffix: str, events: list[Json], index: int, found: tuple[str, ...] = ()) -> Json:
    item: Json = {
        "id": f"fc_{suffix}", "type": "function_call", "call_id": call.id or f"call_{suffix}", "name": call.name,
        "arguments": "", "status": "in_progress",
    }  # fmt: skip
    if call.name in found:
        item["namespace"] = namespace_of(call.name)
    events.append({"type": "response.output_item.added", "output_index": index, "item": item})
    for piece in pieces(call.source):
        place = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.function_call_arguments.delta", "delta": piece} | place)
    whole = item | {"arguments": call.source, "status": "completed"}
    events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
    return whole


def _free_text_item(call: Call, suffix: str, events: list[Json], index: int) -> Json:
    """The call of a custom tool: its text is `raw`, or the one argument."""
    text = call.raw if call.raw is not None else "".join(map(str, call.arguments.values()))
    item: Json = {
        "id": f"ctc_{suffix}", "type": "custom_tool_call", "call_id": call.id or f"call_{suffix}", "name": call.name,
        "input": "", "status": "in_progress",
    }  # fmt: skip
    place: Json = {"item_id": item["id"], "output_index": index}
    events.append({"type": "response.output_item.added", "output_index": index, "item": item})
    for piece in pieces(text):
        events.append({"type": "response.custom_tool_call_input.delta", "delta": piece} | place)
    events.append({"type": "response.custom_tool_call_input.done", "input": text} | place)
    whole = item | {"input": text, "status": "completed"}
    events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
    return whole


def _chat(turn: Turn, number: int, model: str) -> Frames:
    head: Json = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": piece}) for piece in pieces(turn.reasoning)]
    events += [chunk({"content": piece}) for piece in pieces(turn.text)]
    for index, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        first = {"index": index, "id": call.id or f"call_{number}_{index}", "type": "function", "function": function}
        events.append(chunk({"tool_calls": [first]}))
        for piece in pieces(call.source):
            events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    reasons = {"end": "stop", "calls": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
    usage: Json = {
        "prompt_tokens": turn.usage.prompt,
        "completion_tokens": turn.usage.output,
        "total_tokens": turn.usage.total,
        "prompt_tokens_details": {
            "cached_tokens": turn.usage.cache_read,
            "cache_write_tokens": turn.usage.cache_write,
        },
    }
    end = [chunk({}, reasons.get(turn.stops, "stop")), head | {"choices": [], "usage": usage}]
    return Frames(
        [data(event) for event in events],
        [*(data(event) for event in end), "data: [DONE]\n\n"],
        data({"error": {"message": turn.error[1], "type": turn.error[0], "code": turn.error[0]}}),
        'data: {"id": "chatcmpl-1", "choi\n\n',
    )


def _ollama(turn: Turn, number: int, model: str) -> Frames:
    def part(done: bool = False, **message: object) -> Json:
        content = {"role": "assistant", "content": ""} | message
        return {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": content, "done": done}

    events = [part(thinking=piece) for piece in pieces(turn.reasoning)]
    events += [part(content=piece) for piece in pieces(turn.text)]
    for call in turn.calls:
        events.append(part(tool_calls=[{"function": {"name": call.name, "arguments": dict(call.arguments)}}]))
    last = part(done=True) | {
        "done_reason": "length" if turn.stops == "max_tokens" else "stop",
        "prompt_eval_count": turn.usage.prompt,
        "eval_count": turn.usage.output,
        "total_duration": 1,
    }
    return Frames(
        [line(event) for event in events],
        [line(last)],
        line({"error": turn.error[1]}),
        '{"model": "m", "mess\n',
        "application/x-ndjson",
    )

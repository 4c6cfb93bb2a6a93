"""Recorded streams, decoded without a socket: what each adapter makes of its provider's words."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ebbtide.agent.errors import BadRequest, ContextOverflow, Overloaded, RateLimited, StreamCut
from ebbtide.agent.messages import Assistant, AssistantPart, ProviderItem, Reasoning, StopReason, Text, ToolCall, Usage
from ebbtide.agent.providers.base import CallChunk, Chunk, Endpoint, ReasoningChunk, Reply, TextChunk
from ebbtide.agent.providers.wires import anthropic, ollama, openai_responses
from ebbtide.agent.providers.wires.chat_decoder import ChatDecoder
from ebbtide.agent.providers.wires.decoder import Decoder, decode
from ebbtide.agent.providers.wires.http import (
    STREAM_END,
    UNREADABLE_EVENT,
    EventReader,
    JsonObject,
    LineReader,
    NdjsonReader,
    SseReader,
    parse_event,
)
from ebbtide.agent.providers.wires.origin import Origin

STREAMS = Path(__file__).parent / "streams"
ORIGIN = Origin("p/m", Endpoint("http://127.0.0.1"))


def recorded(name: str, reader: EventReader, size: int) -> list[JsonObject]:
    raw = (STREAMS / name).read_bytes()
    texts = [text for at in range(0, len(raw), size) for text in reader.feed(raw[at : at + size])]
    return [parse_event(text) for text in [*texts, *reader.close()]]


def reply_of(events: Iterable[JsonObject], decoder: Decoder) -> Reply:
    reply = list(decode(events, decoder, ORIGIN))[-1]
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_recorded_anthropic_stream(size: int) -> None:
    chunks = list(decode(recorded("anthropic.sse", SseReader(), size), anthropic.AnthropicDecoder(ORIGIN), ORIGIN))
    thinking = {"type": "thinking", "thinking": "The file comes first.", "signature": "EqQBCg=="}
    citation = {
        "type": "char_location",
        "cited_text": "東京",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 2,
        "file_id": None,
    }
    text = "As the page says, it is 東京."
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tokyo"}}
    assert chunks == [
        ReasoningChunk("The file "),
        ReasoningChunk("comes first."),
        TextChunk("As the page says, "),
        TextChunk("it is 東京."),
        CallChunk(0, "read", 0, "toolu_01"),
        CallChunk(0, "read", 11, "toolu_01"),
        CallChunk(0, "read", 17, "toolu_01"),
        CallChunk(1, "list", 0, "toolu_02"),
        Reply(
            Assistant(
                (
                    Reasoning("The file comes first.", thinking),
                    Reasoning("", {"type": "redacted_thinking", "data": "EmwKAh=="}),
                    Text(text, {"type": "text", "text": text, "citations": [citation]}),
                    ProviderItem(search),
                    ToolCall("toolu_01", "read", {"path": "a.txt"}, '{"path": "a.txt"}'),
                    ToolCall("toolu_02", "list", {}),
                ),
                "p/m",
            ),
            Usage(input=12, cache_read=4000, cache_write=300, output=89),
            "calls",
        ),
    ]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_recorded_responses_stream(size: int) -> None:
    chunks = list(
        decode(recorded("responses.sse", SseReader(), size), openai_responses.ResponsesDecoder(ORIGIN), ORIGIN)
    )
    summary = [{"type": "summary_text", "text": "**Plan**"}, {"type": "summary_text", "text": "Read the file."}]
    content = [{"type": "output_text", "text": "I read it.", "annotations": [], "logprobs": []}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "commentary"}
    sealed = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "gAAAA"}
    assert chunks == [
        ReasoningChunk("**Plan**"),
        ReasoningChunk("\n\n"),
        ReasoningChunk("Read the file."),
        TextChunk("I read it."),
        CallChunk(0, "read", 0, "call_1"),
        CallChunk(0, "read", 8, "call_1"),
        CallChunk(0, "read", 16, "call_1"),
        Reply(
            Assistant(
                (
                    Reasoning("**Plan**\n\nRead the file.", sealed),
                    Text("I read it.", message | {"content": content}),
                    ToolCall("call_1", "read", {"path": "a.txt"}, '{"path":"a.txt"}'),
                    ProviderItem({"id": "cmp_1", "type": "compaction", "encrypted_content": "gBBBB"}),
                ),
                "p/m",
            ),
            Usage(input=12, cache_read=4000, cache_write=300, output=89, reasoning=64),
            "calls",
        ),
    ]


def test_a_responses_stream_without_places_in_the_output() -> None:
    """As llama.cpp sends it."""
    events = recorded("responses.sse", SseReader(), 100_000)
    bare = [{name: value for name, value in event.items() if name != "output_index"} for event in events]
    placed, unplaced = (list(decode(e, openai_responses.ResponsesDecoder(ORIGIN), ORIGIN)) for e in (events, bare))
    assert unplaced == placed


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_recorded_chat_stream(size: int) -> None:
    chunks = list(decode(recorded("chat.sse", SseReader(), size), ChatDecoder(ORIGIN), ORIGIN))
    assert chunks == [
        ReasoningChunk("The file "),
        ReasoningChunk("comes first."),
        TextChunk("I read "),
        TextChunk("it."),
        CallChunk(0, "read", 0, "call_1"),
        CallChunk(0, "read", 8, "call_1"),
        CallChunk(0, "read", 17, "call_1"),
        CallChunk(1, "list", 2, "call_2"),
        Reply(
            Assistant(
                (
                    Reasoning("The file comes first.", {"reasoning_content": "The file comes first."}),
                    Text("I read it."),
                    ToolCall("call_1", "read", {"path": "a.txt"}, '{"path": "a.txt"}'),
                    ToolCall("call_2", "list", {}, "{}"),
                ),
                "p/m",
            ),
            Usage(input=312, cache_read=4000, output=89),
            "calls",
        ),
    ]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_recorded_ollama_stream(size: int) -> None:
    ids = iter(["one", "two"])
    decoder = ollama.OllamaDecoder(ORIGIN, make_id=lambda: next(ids))
    chunks = list(decode(recorded("ollama.ndjson", NdjsonReader(), size), decoder, ORIGIN))
    assert chunks == [
        ReasoningChunk("The file "),
        ReasoningChunk("comes first."),
        TextChunk("I read "),
        TextChunk("it."),
        CallChunk(0, "read", 17, "one"),
        CallChunk(1, "list", 2, "two"),
        Reply(
            Assistant(
                (
                    Reasoning("The file comes first.", {"thinking": "The file comes first."}),
                    Text("I read it."),
                    ToolCall("one", "read", {"path": "a.txt"}, '{"path": "a.txt"}'),
                    ToolCall("two", "list", {}, "{}"),
                ),
                "p/m",
            ),
            Usage(input=4312, output=89),
            "calls",
        ),
    ]


def delta(*calls: JsonObject, **more: object) -> JsonObject:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls), **more}, "finish_reason": None}]}


def call(index: int | None, id: str | None, name: str | None, arguments: object) -> JsonObject:
    place = {} if index is None else {"index": index}
    return place | {"id": id, "function": {"name": name, "arguments": arguments}}


STOP: JsonObject = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([delta(call(None, "a", "x", "{}"), call(None, "b", "y", '{"n":1}'))], id="whole, without index"),
        pytest.param([delta(call(0, "a", "x", "{}")), delta(call(0, "b", "y", '{"n":1}'))], id="all at index 0"),
        pytest.param([delta(call(None, "a", "x", "{}")),
                      delta(call(None, "b", "y", '{"n"')),
                      delta(call(None, None, None, ":1}"))],
                     id="pieces without index"),
        pytest.param([delta(call(0, "a", "x", "{}")), delta(call(1, "b", "y", "")), delta(call(1, "b", "y", '{"n"')),
                      delta(call(1, "b", None, ":1}"))],
                     id="id and name in every piece"),
        pytest.param([delta(call(0, "a", "x", {})), delta(call(1, "b", "y", {"n": 1}))], id="arguments parsed"),
        pytest.param([delta(call(0, "a", "x", None)), delta(call(1, "b", "y", '{"n":1}'))], id="no arguments"),
    ],
)  # fmt: skip
def test_calls_of_chat_servers_that_differ(events: list[JsonObject]) -> None:
    calls = reply_of([*events, STOP], ChatDecoder(ORIGIN)).message.calls
    assert [(call.id, call.name, dict(call.arguments), call.problem) for call in calls] == [
        ("a", "x", {}, ""),
        ("b", "y", {"n": 1}, ""),
    ]


def test_calls_without_ids_get_ids_of_their_own() -> None:
    events = [delta(call(None, None, "x", "{}")), delta(call(None, None, "x", "{}")), STOP]
    ids = [call.id for call in reply_of(events, ChatDecoder(ORIGIN)).message.calls]
    assert len(set(ids)) == 2
    assert all(id.startswith("call_") for id in ids)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("length", "max_tokens"), ("content_filter", "refusal"), ("tool_calls", "end"), ("eos", "end")],
)
def test_reasons_to_finish_a_chat(finish: str, stop: StopReason) -> None:
    events = [{"choices": [{"delta": {"content": "x"}, "finish_reason": finish}]}]
    assert reply_of(events, ChatDecoder(ORIGIN)).stop_reason == stop


def test_a_chat_without_a_reason_or_a_last_frame_is_cut() -> None:
    events: list[JsonObject] = [{"choices": [{"delta": {"content": "x"}}]}]
    with pytest.raises(StreamCut):
        reply_of(events, ChatDecoder(ORIGIN))
    assert reply_of([*events, STREAM_END], ChatDecoder(ORIGIN)).message.text == "x"


def test_a_surrogate_pair_in_two_chunks_is_one_character() -> None:
    events: list[JsonObject] = [
        {"choices": [{"delta": {"content": "\ud83d"}}]},
        {"choices": [{"delta": {"content": "\ude00"}, "finish_reason": "stop"}]},
    ]
    assert reply_of(events, ChatDecoder(ORIGIN)).message.text == "\U0001f600"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "overflow"),
        ("pause_turn", "pause"),
        ("a reason of next year", "end"),
    ],
)
def test_reasons_to_stop_of_anthropic(reason: str, stop: StopReason) -> None:
    events: list[JsonObject] = [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]
    assert reply_of(events, anthropic.AnthropicDecoder(ORIGIN)).stop_reason == stop


def test_a_call_whose_input_comes_whole() -> None:
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}
    events: list[JsonObject] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_stop"},
    ]
    assert reply_of(events, anthropic.AnthropicDecoder(ORIGIN)).message.parts == (ToolCall("t", "read", {"path": "a"}),)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", Overloaded),
        ("rate_limit_exceeded", RateLimited),
        ("context_length_exceeded", ContextOverflow),
        ("invalid_prompt", BadRequest),
        ("image_too_large", BadRequest),
    ],
)
def test_a_response_that_failed(code: str, kind: type[Exception]) -> None:
    failed: JsonObject = {"type": "response.failed", "response": {"error": {"code": code, "message": "no"}}}
    error: JsonObject = {"type": "error", "code": code, "message": "no", "param": None, "sequence_number": 3}
    for event in (failed, error):
        with pytest.raises(kind):
            reply_of([event], openai_responses.ResponsesDecoder(ORIGIN))


@pytest.mark.parametrize(("reason", "stop"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal")])
def test_an_incomplete_response_keeps_what_it_has(reason: str, stop: StopReason) -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}
    response = {"output": [item], "incomplete_details": {"reason": reason}, "usage": None}
    reply = reply_of([{"type": "response.incomplete", "response": response}], openai_responses.ResponsesDecoder(ORIGIN))
    assert (reply.message.text, reply.stop_reason) == ("half", stop)


def test_a_refusal_is_a_text_and_a_reason() -> None:
    item: JsonObject = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I will not."}],
    }
    events: list[JsonObject] = [
        {"type": "response.refusal.delta", "delta": "I will not."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {}},
    ]
    chunks: list[Chunk] = list(decode(events, openai_responses.ResponsesDecoder(ORIGIN), ORIGIN))
    parts: tuple[AssistantPart, ...] = (Text("I will not.", item),)
    assert chunks == [TextChunk("I will not."), Reply(Assistant(parts, "p/m"), Usage(), "refusal")]


@pytest.mark.parametrize(
    ("decoder", "event"),
    [
        (
            anthropic.AnthropicDecoder(ORIGIN),
            {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta"}},
        ),
        (openai_responses.ResponsesDecoder(ORIGIN), {"type": "response.output_item.done"}),
        (ChatDecoder(ORIGIN), {"choices": [{"delta": "text"}]}),
        (ollama.OllamaDecoder(ORIGIN), {"message": {"tool_calls": [{}]}}),
    ],
    ids=["anthropic", "responses", "chat", "ollama"],
)
def test_an_event_of_a_strange_shape_is_a_cut_stream(decoder: Decoder, event: JsonObject) -> None:
    with pytest.raises(StreamCut):
        reply_of([event], decoder)


def test_lines_end_in_two_ways() -> None:
    reader = LineReader()
    assert reader.feed(b"one\r") + reader.feed(b"\ntw") + reader.feed(b"o\n\nth") + reader.close() == [
        "one",
        "two",
        "",
        "th",
    ]


def test_data_of_several_lines_is_one_event() -> None:
    reader = SseReader()
    raw = b': comment\nevent: x\ndata: {"a":\ndata:1}\nid: 7\n\n\n\ndata: last'
    assert [*reader.feed(raw), *reader.close()] == ['{"a":\n1}', "last"]


def test_a_frame_that_is_no_object_cannot_be_read() -> None:
    for text in ("[1]", "7", '{"a', "[" * 100_000, "", "null", "keep-alive"):
        assert parse_event(text) is UNREADABLE_EVENT


def test_half_a_character_in_a_native_item_is_mended() -> None:
    item: JsonObject = {
        "type": "message",
        "content": [{"type": "output_text", "text": "half \ud83d", "annotations": []}],
    }
    events: list[JsonObject] = [{"type": "response.completed", "response": {"output": [item]}}]
    part = reply_of(events, openai_responses.ResponsesDecoder(ORIGIN)).message.parts[0]
    mended = {"type": "output_text", "text": "half \ufffd", "annotations": []}
    assert part == Text("half \ufffd", {"type": "message", "content": [mended]})

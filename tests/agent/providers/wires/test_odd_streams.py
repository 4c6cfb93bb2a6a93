"""Streams as public reports describe them. Each case names the report that it comes from, or the server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple

import pytest

from ebbtide.agent.errors import (
    BadRequest,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StreamCut,
    TimedOut,
)
from ebbtide.agent.messages import Reasoning, StopReason, Text, ToolOutput, Usage, User
from ebbtide.agent.providers.base import Endpoint, ModelFacts, ReasoningChunk, Reply, Request, TextChunk
from ebbtide.agent.providers.wires.anthropic import AnthropicDecoder
from ebbtide.agent.providers.wires.chat_decoder import ChatDecoder
from ebbtide.agent.providers.wires.decoder import Decoder, decode, stream_chunks
from ebbtide.agent.providers.wires.http import NdjsonReader, SseReader, parse_event, parse_events
from ebbtide.agent.providers.wires.ollama import OllamaDecoder
from ebbtide.agent.providers.wires.openai_chat import build_body
from ebbtide.agent.providers.wires.openai_responses import ResponsesDecoder
from ebbtide.agent.providers.wires.origin import Origin

ORIGIN = Origin("p/m", Endpoint("http://127.0.0.1"))
DONE = "[DONE]"


def read(raw: str, decoder: Callable[[Origin], Decoder], size: int = 1 << 20) -> Reply:
    """The reply of a stream that arrives in pieces of `size` bytes."""
    reader, data = SseReader(), raw.encode()
    texts = [text for at in range(0, len(data), size) for text in reader.feed(data[at : at + size])]
    events = [event for text in [*texts, *reader.close()] for event in parse_events(text)]
    *_, reply = decode(events, decoder(ORIGIN), ORIGIN)
    assert isinstance(reply, Reply)
    return reply


def sse(*events: object) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def delta(finish: str | None = None, **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(index: int | None = None, id: str | None = None, name: str | None = None, arguments: object = None) -> Any:
    """A piece of a call, with only the fields that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    outer = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**outer, "type": "function", "function": function}


def calls(*pieces: object, finish: str = "tool_calls") -> str:
    """A stream with each piece in a delta of its own."""
    return sse(*(delta(tool_calls=[each]) for each in pieces), delta(finish), DONE)


class Case(NamedTuple):
    """A stream and what it says."""

    source: str
    raw: str
    text: str = ""
    calls: Sequence[tuple[str, dict[str, object]]] = ()
    stop: StopReason = "end"
    skipped: int = 0


HELLO = delta(content="Hello.")
PART = {"type": "text", "text": "Hi."}
LS: tuple[str, dict[str, object]] = ("ls", {"path": "a"})
PWD: tuple[str, dict[str, object]] = ("pwd", {})
ARGUMENTS = '{"path": "a"}'

CHAT = [
    Case("vllm-mlx 628, pi 8460: no finish reason", sse(HELLO, DONE), "Hello."),
    Case(
        "litellm 16272: content as a list", sse(delta("stop", content=[{"type": "text", "text": "Hi."}]), DONE), "Hi."
    ),
    Case("content as a part", sse(delta("stop", content=PART), DONE), "Hi."),
    Case("wave-agent 1326: empty data", sse("", HELLO, "", delta("stop"), DONE), "Hello.", skipped=2),
    Case(
        "openclaw 52679: frames that mean nothing",
        sse("null", "[]", "keep-alive", HELLO, delta("stop"), DONE),
        "Hello.",
        skipped=3,
    ),
    Case("pi 8430: a blank line between event and data", "event: x\n\n" + sse(HELLO, delta("stop"), DONE), "Hello."),
    Case(
        "events separated by one newline",
        sse(HELLO, delta(content=" Bye."), delta("stop"), DONE).replace("\n\n", "\n"),
        "Hello. Bye.",
    ),
    Case("lines that end with CR", sse(HELLO, delta("stop"), DONE).replace("\n", "\r"), "Hello."),
    Case("ollama 4357, litellm 376: an empty finish reason", sse(delta("", content="Hi."), DONE), "Hi."),
    Case("a null among the calls", calls(None, piece(0, "a", "ls", ARGUMENTS)), calls=[LS], stop="calls"),
    Case(
        "ollama 7881: no index",
        calls(piece(None, "a", "ls", ARGUMENTS), piece(None, "b", "pwd", "{}")),
        calls=[LS, PWD],
        stop="calls",
    ),
    Case(
        "maka 1976: two calls at one index",
        calls(piece(0, "a", "ls", ARGUMENTS), piece(0, "b", "pwd", "{}")),
        calls=[LS, PWD],
        stop="calls",
    ),
    Case(
        "agno 8880: the index restarts, without ids",
        calls(piece(0, None, "ls", ARGUMENTS), piece(0, None, "pwd", "{}")),
        calls=[LS, PWD],
        stop="calls",
    ),
    Case(
        "one id for two calls",
        calls(piece(0, "0", "ls", ARGUMENTS), piece(1, "0", "pwd", "{}")),
        calls=[LS, PWD],
        stop="calls",
    ),
    Case(
        "an id at index 0 whose arguments arrive at index 1",
        calls(piece(0, "a", "ls", ""), piece(1, None, None, ARGUMENTS)),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "arguments without an id",
        calls(piece(0, "a", "ls"), piece(None, None, None, '{"path":'), piece(None, None, None, '"a"}')),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "vercel/ai 15879: the arguments before the name",
        calls(piece(0, "a", None, ARGUMENTS), piece(0, "a", "ls")),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "continue 5849: a name in pieces",
        calls(piece(0, "a", "l"), piece(0, None, "s"), piece(0, None, None, ARGUMENTS)),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "a name repeated without index and id",
        calls(piece(None, None, "ls", '{"path":'), piece(None, None, "ls", '"a"}')),
        calls=[LS],
        stop="calls",
    ),
    Case("arguments as an object", calls(piece(0, "a", "ls", {"path": "a"})), calls=[LS], stop="calls"),
    Case(
        "nanobot 1555: Copilot's calls in the second choice",
        sse(
            {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]},
            {"choices": [{"index": 1, "delta": {"tool_calls": [piece(0, "a", "ls", ARGUMENTS)]}}]},
            {"choices": [{"index": 1, "delta": {}, "finish_reason": "tool_calls"}]},
            DONE,
        ),
        "Hello.",
        [LS],
        "calls",
    ),
    Case(
        "openai-node 188: the former function_call",
        sse(
            delta(function_call={"name": "ls", "arguments": '{"path":'}),
            delta(function_call={"arguments": '"a"}'}),
            delta("function_call"),
            DONE,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case("Z.ai: sensitive", sse(delta("sensitive", content="I"), DONE), "I", stop="refusal"),
    Case("Google: MAX_TOKENS", sse(delta("MAX_TOKENS", content="I"), DONE), "I", stop="max_tokens"),
    Case(
        "Anthropic's models behind gateways: the window is full",
        sse(delta("model_context_window_exceeded", content="I"), DONE),
        "I",
        stop="overflow",
    ),
    Case(
        "Mistral: thinking inside the content",
        sse(
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
            delta("stop", content=[{"type": "text", "text": "4"}]),
            DONE,
        ),
        "4",
    ),
    Case(
        "vllm 51697: all arguments once more at the end",
        calls(piece(0, "a", "ls", '{"path":'), piece(0, None, None, ' "a"}'), piece(0, None, None, ARGUMENTS)),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "vllm 51697: all arguments, spaced otherwise",
        calls(piece(0, "a", "ls", '{"path":"a"}'), piece(0, None, None, ARGUMENTS)),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "vllm 51697: all arguments after a part of them",
        calls(piece(0, "a", "ls", "{"), piece(0, None, None, ARGUMENTS)),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "an object inside the arguments is not all of them",
        calls(piece(0, "a", "ls", '{"path": "a", "at": '), piece(0, None, None, "{}"), piece(0, None, None, "}")),
        calls=[("ls", {"path": "a", "at": {}})],
        stop="calls",
    ),
    Case(
        "Rapid-MLX 181: a call that is sent again with the next one",
        calls(piece(0, "a", "ls", ARGUMENTS), piece(0, "b", "ls", ARGUMENTS), piece(1, "c", "pwd", "{}")),
        calls=[LS, PWD],
        stop="calls",
    ),
    Case(
        "vllm 44098, vllm-ascend 8327: name and id again, with the last arguments and the finish reason",
        sse(
            delta(tool_calls=[piece(0, "a", "ls", '{"path": ')]),
            delta("tool_calls", tool_calls=[piece(0, "a", "ls", '"a"}')]),
            DONE,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "poolside/pool 9: another id in each piece",
        calls(piece(0, "a", "ls", '{"pa'), piece(0, "b", None, 'th": '), piece(0, "c", "", '"a"}')),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "mlx-openai-server 216: another id, and the name, in each piece",
        calls(piece(0, "a", "ls", ""), piece(0, "b", "ls", '{"path": '), piece(0, "c", "ls", '"a"}')),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "zed 54872: DashScope's empty id and name",
        calls(piece(0, "a", "ls", ""), piece(0, "", "", '{"path": '), piece(0, "", "", '"a"}')),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "vllm 47907: everything in one delta",
        sse(
            delta("tool_calls", content="Hi.", tool_calls=[piece(0, "a", "ls", ARGUMENTS), piece(1, "b", "pwd", "{}")]),
            DONE,
        ),
        "Hi.",
        [LS, PWD],
        "calls",
    ),
    Case(
        "vllm-ascend 16941: a numeric stop_reason, twice",
        sse(HELLO, *[{"choices": [delta("stop", content="")["choices"][0] | {"stop_reason": 154829}]}] * 2, DONE),
        "Hello.",
    ),
    Case(
        "GLM-5 66, kilocode 9432: a frame that breaks off where the next one begins",
        sse(HELLO)
        + f'data: {{"id":"1","object":"chat.cdata: {json.dumps(delta(content=" Bye."))}\n\n'
        + sse(delta("stop"), DONE),
        "Hello. Bye.",
        skipped=1,
    ),
    Case(
        "MiniMax-M2 105: thinking in the content",
        sse(delta(content="<think>\nHm"), delta(content="m.\n</think>\n\nHi."), delta("stop"), DONE),
        "Hi.",
    ),
    Case(
        "mlx-openai-server 179, litellm 27483: thinking whose beginning is part of the prompt",
        sse(delta(content="Hm <b>m</b>.\n</thi"), delta(content="nk>\n\nHi."), delta("stop"), DONE),
        "Hi.",
    ),
    Case(
        "litellm 27483: thinking without an end",
        sse(delta("stop", content="<think>\nHm </th"), DONE),
        "<think>\nHm </th",
    ),
    Case(
        "an answer about tags",
        sse(delta(content="Write `</think>`, as in\n<think>\nx\n</think>\n"), delta("stop"), DONE),
        "Write `</think>`, as in\n<think>\nx\n</think>\n",
    ),
    Case("an answer that begins like a tag", sse(delta(content=" <th"), delta("stop", content="is>"), DONE), " <this>"),
    Case("an answer that ends like a tag", sse(delta("stop", content=" <think"), DONE), " <think"),
    Case(
        "hermes 21522: a whole completion",
        sse({"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Hello."}}]}),
        "Hello.",
    ),
]


@pytest.mark.parametrize("case", CHAT, ids=lambda case: case.source)
@pytest.mark.parametrize("size", [1, 1 << 20], ids=["bytewise", "whole"])
def test_an_odd_chat(case: Case, size: int) -> None:
    reply = read(case.raw, ChatDecoder, size)
    found = [(call.name, dict(call.arguments)) for call in reply.message.calls if not call.problem]
    assert (reply.message.text, found, reply.stop_reason, reply.skipped_frame_count) == (
        case.text,
        list(case.calls),
        case.stop,
        case.skipped,
    )


@pytest.mark.parametrize("pieces", [1, 4, 100])
@pytest.mark.parametrize("ending", ["</think>\n\nHi.", "</think>"])
def test_thinking_in_the_content_is_shown_as_such_and_goes_back(pieces: int, ending: str) -> None:
    """MiniMax's documents want it back in the content; the templates of other models remove it themselves."""
    content = f"\n<think>We <b>look</b> </thin.{ending}"
    size = -(-len(content) // pieces)
    texts = [content[at : at + size] for at in range(0, len(content), size)]
    raw = sse(*(delta(content=text) for text in texts), delta(tool_calls=[piece(0, "a", "ls", "{}")]), DONE)
    events = [event for text in SseReader().feed(raw.encode()) for event in parse_events(text)]
    *chunks, reply = decode(events, ChatDecoder(ORIGIN), ORIGIN)
    assert isinstance(reply, Reply)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk)) == "We <b>look</b> </thin."
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == reply.message.text
    thought = reply.message.parts[0]
    assert isinstance(thought, Reasoning)
    assert (thought.text, reply.message.text) == ("We <b>look</b> </thin.", ending.removeprefix("</think>").strip())
    output = ToolOutput("a", "ok", "done")
    request = Request("", (User((Text("Hi"),)), reply.message, User((output,))), (), 100, "s")
    sent = build_body(request, ModelFacts("p", "m", 9000, 900))["messages"][1]
    assert sent["content"] == content
    other = build_body(request, ModelFacts("p", "other", 9000, 900))["messages"][1]
    assert other["content"] == (reply.message.text or None)


def test_the_usage_of_a_choice_is_read() -> None:
    """pi 2017: Moonshot sends it in the last choice."""
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    last = {"choices": [delta("stop")["choices"][0] | {"usage": usage}]}
    assert read(sse(HELLO, last, DONE), ChatDecoder).usage == Usage(input=9, output=3)


@pytest.mark.parametrize("texts", [(), ("Half",)])
@pytest.mark.parametrize("reason", ["network_error", "error"])
def test_a_failure_behind_a_normal_finish_reason_is_an_error(texts: Sequence[str], reason: str) -> None:
    """hax 15: OpenRouter's provider failed, which only `native_finish_reason` says."""
    last = {"choices": [delta("stop", content="")["choices"][0] | {"native_finish_reason": reason}]}
    with pytest.raises(Overloaded, match=reason):
        read(sse(*(delta(content=text) for text in texts), last, DONE), ChatDecoder)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (1008, "insufficient balance", QuotaExceeded),
        (1002, "rate limit exceeded", RateLimited),
        (2013, "invalid params", BadRequest),
    ],
)
@pytest.mark.parametrize("choices", [None, []])
def test_an_error_of_minimax_with_status_200_is_an_error(
    code: int, message: str, kind: type[ProviderError], choices: object
) -> None:
    failed = {"choices": choices, "base_resp": {"status_code": code, "status_msg": message}}
    with pytest.raises(kind, match=message):
        read(sse(failed), ChatDecoder)
    fine = delta("stop", content="Hi.") | {"base_resp": {"status_code": 0, "status_msg": ""}}
    assert read(sse(fine), ChatDecoder).message.text == "Hi."


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource", "abort"])
def test_a_reply_that_the_server_could_not_complete_is_an_error(reason: str) -> None:
    """opencode 26170; DeepSeek, Z.ai, OpenRouter and vLLM."""
    with pytest.raises(ProviderError) as caught:
        read(sse(HELLO, delta(reason), DONE), ChatDecoder)
    assert caught.value.is_retryable


def test_an_error_inside_a_choice_is_an_error() -> None:
    """OpenRouter: the provider behind it failed in the middle of its reply."""
    failed = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "down"}}]
    }
    with pytest.raises(ProviderError, match="down"):
        read(sse(HELLO, failed, DONE), ChatDecoder)


def test_an_error_field_of_the_stream_is_an_error() -> None:
    """GPUStack sends a line `error: …` in place of data."""
    with pytest.raises(ProviderError, match="no worker"):
        read(sse(HELLO) + 'error: {"code": 500, "message": "no worker"}\n\n', ChatDecoder)


@pytest.mark.parametrize(
    ("error", "kind", "is_retryable"),
    [
        ({"code": 400, "message": "prompt is too long: 1284668 tokens > 1000000 maximum"}, ContextOverflow, False),
        ({"code": 502, "message": "Worker local total request limit reached (33/32)"}, ProviderError, True),
    ],
)
def test_an_error_beside_empty_choices_is_an_error(
    error: dict[str, object], kind: type[ProviderError], is_retryable: bool
) -> None:
    """jp 978, OmniRoute 8210: OpenRouter has begun its response when the provider rejects the request."""
    with pytest.raises(kind) as caught:
        read(sse({"choices": [], "error": error}), ChatDecoder)
    assert caught.value.is_retryable == is_retryable


def test_a_whole_completion_that_failed_is_an_error() -> None:
    """bifrost 5425: with null for its usage."""
    choice = {"index": 0, "message": {"content": '{"title": "part'}, "finish_reason": "error"}
    usage = {"prompt_tokens": None, "completion_tokens": None, "total_tokens": 0}
    with pytest.raises(Overloaded):
        read(sse({"choices": [choice], "usage": usage}), ChatDecoder)


def read_lines(*events: object, end: str = "\n") -> Reply:
    """The reply of Ollama's lines."""
    raw = "\n".join(json.dumps(event) for event in events) + end
    reader = NdjsonReader()
    lines = [parse_event(line) for line in [*reader.feed(raw.encode()), *reader.close()]]
    *_, reply = decode(lines, OllamaDecoder(ORIGIN), ORIGIN)
    assert isinstance(reply, Reply)
    return reply


def test_calls_in_the_last_line_of_ollama_are_read() -> None:
    """rig 1308."""
    call = {"id": "c", "function": {"index": 0, "name": "ls", "arguments": {"path": "a"}}}
    last = {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": True, "done_reason": "stop"}
    (found,) = read_lines(last).message.calls
    assert (found.name, found.arguments) == LS


def test_an_error_line_of_ollama_is_an_error() -> None:
    """agent-os 2214."""
    half = {"message": {"role": "assistant", "content": "Half"}, "done": False}
    with pytest.raises(ProviderError, match="an error was encountered"):
        read_lines(half, {"error": "an error was encountered while running the model"})


def test_the_last_line_of_ollama_needs_no_end() -> None:
    """Archon 1158."""
    half, last = {"message": {"content": "Hel"}, "done": False}, {"message": {"content": "lo."}, "done": True}
    assert read_lines(half, last, end="").message.text == "Hello."


def test_a_stream_that_breaks_off_is_cut() -> None:
    with pytest.raises(StreamCut):
        read(sse(HELLO), ChatDecoder)


def test_a_thought_signature_is_kept_with_its_call() -> None:
    """openhuman 3548, langchain 37347: Gemini rejects the next request without it. It may come in a later delta."""
    google = {"google": {"thought_signature": "sig"}}
    raw = calls(piece(0, "a", "ls", ARGUMENTS), {**piece(0), "extra_content": google})
    assert read(raw, ChatDecoder).message.calls[0].native == {"extra_content": google}


def test_the_details_of_thoughts_are_merged_by_type_and_index() -> None:
    """openrouter-examples 67."""
    text, signed = ({"type": "reasoning.text", "index": 0, "text": part} for part in ("We ", "look."))
    data = {"type": "reasoning.encrypted", "index": 1, "data": "x"}
    raw = sse(
        delta(reasoning_details=[text]),
        delta(reasoning_details=[signed | {"signature": "sig"}, data]),
        delta("stop", content="Hi."),
        DONE,
    )
    merged = {"type": "reasoning.text", "index": 0, "text": "We look.", "signature": "sig"}
    assert read(raw, ChatDecoder).message.parts[0] == Reasoning("We look.", {"reasoning_details": [merged, data]})


def test_xai_counts_reasoning_apart_from_the_output() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 26,
        "total_tokens": 271,
        "completion_tokens_details": {"reasoning_tokens": 235},
    }
    assert read(sse(HELLO, delta("stop") | {"usage": usage}, DONE), ChatDecoder).usage.output == 261


def test_the_addresses_of_citations_are_kept() -> None:
    """Perplexity's text says `[1]`; the list of addresses comes in every frame."""
    cited = delta("stop", content="It is [1].") | {"citations": ["https://example.org/"]}
    part = read(sse(cited, cited | {"choices": []}, DONE), ChatDecoder).message.parts[0]
    assert part == Text("It is [1].", {"citations": ["https://example.org/"]})


def test_a_growing_list_of_citations_keeps_its_numbers() -> None:
    """It may repeat an address (SaveMyPhind-conversation-exporter 251) before the last one arrives."""
    pages = ["https://a.example/", None, "https://a.example/", "https://b.example/"]
    frames = (delta("stop", content="[4]") | {"citations": pages[:count]} for count in (1, 3, 4, 2))
    assert read(sse(*frames, DONE), ChatDecoder).message.parts[0] == Text("[4]" * 4, {"citations": pages})


START = {"type": "message_start", "message": {"usage": {"input_tokens": 5}}}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
END = {"type": "message_stop"}


def begin(index: int = 0, **block: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def add(index: int = 0, **fields: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


HI = add(type="text_delta", text="Hi.")
USE = STOP | {"delta": {"stop_reason": "tool_use"}}

ANTHROPIC = [
    Case("litellm 28067: a text block without its text", sse(START, begin(type="text"), HI, STOP, END), "Hi."),
    Case("litellm 40689: null for the text", sse(START, begin(type="text", text=None), HI, STOP, END), "Hi."),
    Case("a delta without the start of its block", sse(START, HI, STOP, END), "Hi."),
    Case("a message_delta without a delta", sse(START, HI, {"type": "message_delta"}, STOP, END), "Hi."),
    Case("no message_stop after a stop reason", sse(START, HI, STOP), "Hi."),
    Case("a [DONE] at the end", sse(START, HI, STOP, DONE), "Hi."),
    Case(
        "litellm 37273: two ends of one block",
        sse(
            START,
            begin(type="tool_use", id="a", name="ls", input={}),
            add(type="input_json_delta", partial_json=ARGUMENTS),
            *[{"type": "content_block_stop", "index": 0}] * 2,
            USE,
            END,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "litellm 34692: an empty text first, and end_turn after a call",
        sse(
            START,
            begin(type="text", text=""),
            {"type": "content_block_stop", "index": 0},
            begin(1, type="tool_use", id="a", name="ls", input={}),
            add(1, type="input_json_delta", partial_json=ARGUMENTS),
            {"type": "content_block_stop", "index": 1},
            STOP,
            END,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "partial_json is null",
        sse(
            START,
            begin(type="tool_use", id="a", name="pwd", input={}),
            add(type="input_json_delta", partial_json=None),
            USE,
            END,
        ),
        calls=[PWD],
        stop="calls",
    ),
    Case(
        "the input as a text at the start of the block",
        sse(START, begin(type="tool_use", id="a", name="ls", input=ARGUMENTS), USE, END),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "the input as a list: no call runs",
        sse(START, begin(type="tool_use", id="a", name="ls", input=["a"]), USE, END),
        stop="calls",
    ),
    Case(
        "the input as a number: no call runs",
        sse(START, begin(type="tool_use", id="a", name="ls", input=7), USE, END),
        stop="calls",
    ),
    Case(
        "anthropic-sdk-kotlin 147: an index is used again",
        sse(START, begin(type="text", text="One. "), begin(type="text", text="Two."), STOP, END),
        "One. Two.",
    ),
    Case(
        "a relay asks again and sends both answers",
        sse(START, begin(type="tool_use", id="a", name="ls", input={}), START, begin(type="text"), HI, STOP, END),
        "Hi.",
    ),
    Case(
        "a whole message",
        sse({"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}),
        "Hi.",
    ),
]


@pytest.mark.parametrize("case", ANTHROPIC, ids=lambda case: case.source)
def test_an_odd_message(case: Case) -> None:
    reply = read(case.raw, AnthropicDecoder)
    found = [(call.name, dict(call.arguments)) for call in reply.message.calls if not call.problem]
    assert (reply.message.text, found, reply.stop_reason) == (case.text, list(case.calls), case.stop)


def test_a_thinking_block_that_starts_without_its_fields() -> None:
    raw = sse(
        START, begin(type="thinking"), add(type="thinking_delta", thinking="Hm."), begin(1, type="text"), STOP, END
    )
    thought = {"type": "thinking", "thinking": "Hm."}
    assert read(raw, AnthropicDecoder).message.parts == (Reasoning("Hm.", thought),)


def item(type: str = "message", **fields: object) -> dict[str, object]:
    return {"type": type, **fields}


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"type": f"response.{kind}", **fields}


MESSAGE = item(id="m", role="assistant", content=[{"type": "output_text", "text": "Hi."}])
CALL = item("function_call", id="f", call_id="c", name="ls", arguments="")
COMPLETED = event("completed", response={"status": "completed", "output": []})

RESPONSES = [
    Case(
        "hermes 106943, LM Studio: the item, then [DONE]",
        sse(event("output_item.done", output_index=0, item=MESSAGE), DONE),
        "Hi.",
    ),
    Case(
        "llm-rosetta 56: text only in deltas",
        sse(event("output_text.delta", output_index=0, delta="Hi."), COMPLETED),
        "Hi.",
    ),
    Case(
        "opencode 44862: arguments only in deltas",
        sse(
            event("output_item.added", output_index=0, item=CALL),
            event("function_call_arguments.delta", output_index=0, delta=ARGUMENTS),
            event("output_item.done", output_index=0, item=CALL),
            COMPLETED,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "litellm 27144: arguments only in arguments.done, and no output_item.done",
        sse(
            event("output_item.added", output_index=0, item=CALL),
            event("function_call_arguments.done", output_index=0, arguments=ARGUMENTS),
            COMPLETED,
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "arguments as an object",
        sse(event("output_item.done", output_index=0, item=CALL | {"arguments": {"path": "a"}}), COMPLETED),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "two items at one index",
        sse(
            event("output_item.done", output_index=0, item=MESSAGE),
            event("output_item.done", output_index=0, item=CALL | {"arguments": ARGUMENTS}),
            COMPLETED,
        ),
        "Hi.",
        [LS],
        "calls",
    ),
    Case(
        "Copilot: another id in each event",
        sse(
            event("output_item.added", output_index=0, item=item(id="1")),
            event("output_text.delta", output_index=0, item_id="2", delta="Hi."),
            event("output_item.done", output_index=0, item=MESSAGE),
            COMPLETED,
        ),
        "Hi.",
    ),
    Case(
        "vercel/ai 12706, openai-openapi 572: a search whose action is null or a text, before the answer",
        sse(
            event("output_item.done", output_index=0, item=item("web_search_call", action=None)),
            event("output_item.done", output_index=1, item=item("web_search_call", action="search")),
            event("output_item.done", output_index=2, item=MESSAGE),
            event("completed", response={"status": "completed", "output": [], "tool_usage": []}),
        ),
        "Hi.",
    ),
    Case(
        "null in place of an item, of its content and of a part of it",
        sse(
            event("output_item.added", output_index=0, item=None),
            event("output_item.done", output_index=0, item=None),
            event("output_item.done", output_index=1, item=item(role="assistant", content=None)),
            event("output_item.done", output_index=2, item={**MESSAGE, "content": [None, *MESSAGE["content"]]}),  # type: ignore[misc]  # it is a list
            COMPLETED,
        ),
        "Hi.",
    ),
    Case(
        "opencodex 989: Copilot's encrypted deltas, and other ids in each event",
        sse(
            {"type": "response.output_item.added", "output_index": 0, "item": CALL | {"id": "x1"}},
            {
                "type": "response.function_call_arguments.delta",
                "output_index": 0,
                "item_id": "x2",
                "delta": "9f3a",
                "obfuscation": "x",
            },
            {
                "type": "response.function_call_arguments.done",
                "output_index": 0,
                "item_id": "x3",
                "arguments": ARGUMENTS,
            },
            {"type": "response.completed", "response": {"id": "x4", "status": "completed", "output": []}},
        ),
        calls=[LS],
        stop="calls",
    ),
    Case(
        "a whole response",
        sse({"object": "response", "status": "completed", "error": None, "output": [MESSAGE]}),
        "Hi.",
    ),
]


@pytest.mark.parametrize("case", RESPONSES, ids=lambda case: case.source)
def test_an_odd_response(case: Case) -> None:
    reply = read(case.raw, ResponsesDecoder)
    found = [(call.name, dict(call.arguments)) for call in reply.message.calls if not call.problem]
    assert (reply.message.text, found, reply.stop_reason) == (case.text, list(case.calls), case.stop)


class BrokenWire:
    """A wire whose server sends events, and then nothing more or an error."""

    def __init__(self, *events: dict[str, Any], error: ProviderError | None) -> None:
        self._events, self._error = events, error

    async def events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        for each in self._events:
            yield each
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()

    async def prepare(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize("error", [StreamCut("the connection broke"), None], ids=["broken", "silent"])
async def test_a_complete_reply_is_kept_if_nothing_good_follows(error: ProviderError | None) -> None:
    origin = Origin("p/m", Endpoint("http://127.0.0.1", timeout=0.05))
    wire = BrokenWire(HELLO, delta("stop"), error=error)
    *_, reply = [chunk async for chunk in stream_chunks(wire, {}, ChatDecoder(origin), origin)]
    assert isinstance(reply, Reply)
    assert (reply.message.text, reply.stop_reason) == ("Hello.", "end")
    with pytest.raises(TimedOut if error is None else StreamCut):
        [chunk async for chunk in stream_chunks(BrokenWire(HELLO, error=error), {}, ChatDecoder(origin), origin)]

"""Recorded answers, replayed through the HTTP path. The committed ones are of our own making, one of each shape."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import bench.wires
from bench.wires.__main__ import compare_answers
from bench.wires.compare import reading_differences
from bench.wires.replay import read_row, replay_server
from bench.wires.rows import RecordedAnswer, WireName, recorded_answers
from ebbtide.agent.errors import ProviderError
from ebbtide.agent.providers.base import Endpoint, Reply
from ebbtide.agent.providers.wires.anthropic import AnthropicDecoder
from ebbtide.agent.providers.wires.chat_decoder import ChatDecoder
from ebbtide.agent.providers.wires.decoder import Decoder, decode
from ebbtide.agent.providers.wires.http import EventReader, NdjsonReader, SseReader, read_events
from ebbtide.agent.providers.wires.ollama import OllamaDecoder
from ebbtide.agent.providers.wires.openai_responses import ResponsesDecoder
from ebbtide.agent.providers.wires.origin import Origin

ORIGIN = Origin("p/m", Endpoint("http://127.0.0.1"))
SHAPES = Path(bench.wires.__file__).parent / "shapes"


async def test_every_shape_is_read_as_it_is_meant() -> None:
    found = {row.id: wrong async for row, wrong in compare_answers(SHAPES)}
    assert found == {row.id: [] for row in recorded_answers(SHAPES)}


async def test_what_is_read_differently_is_reported() -> None:
    row = next(row for row in recorded_answers(SHAPES) if row.id == "chat-details")
    wanted = json.loads(json.dumps(row.expected))
    wanted |= {"text": "Hello.", "tool_calls": [], "finish": "stop", "back": {"reasoning": "Other."}}
    wanted["usage"]["output"] = 9
    async with replay_server() as server:
        reading = await read_row(server, row)
    assert reading_differences(replace(row, expected=wanted), reading) == [
        "text '' instead of 'Hello.'",
        """calls '[["weather", {"city": "Paris"}]]' instead of '[]'""",
        "usage output 8 instead of 9",
        """not sent back: reasoning '["Other."]'""",
    ]


DECODERS: Mapping[WireName, tuple[Callable[[Origin], Decoder], type[EventReader]]] = {
    "anthropic": (AnthropicDecoder, SseReader),
    "responses": (ResponsesDecoder, SseReader),
    "chat": (ChatDecoder, SseReader),
    "ollama": (OllamaDecoder, NdjsonReader),
}


async def reply_of(row: RecordedAnswer, size: int) -> Reply:
    """The reply when the connection ends after `size` bytes."""
    make, reader = DECODERS[row.wire]

    async def chunks() -> AsyncIterator[bytes]:
        yield row.body[:size]

    events = [event async for event in read_events(row.headers, chunks(), reader(), ORIGIN)]
    *_, reply = decode(events, make(ORIGIN), ORIGIN)
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("row", [row for row in recorded_answers(SHAPES) if not row.is_error], ids=lambda row: row.id)
async def test_a_reply_is_whole_or_it_is_an_error_wherever_the_stream_ends(row: RecordedAnswer) -> None:
    whole = (await reply_of(row, len(row.body))).message
    calls = [(call.name, call.arguments, call.problem) for call in whole.calls]
    ends = []
    for size in range(1, len(row.body)):
        try:
            cut = (await reply_of(row, size)).message
        except ProviderError:
            ends.append("error")
            continue
        ends.append("whole")
        assert (cut.text, [(call.name, call.arguments, call.problem) for call in cut.calls]) == (whole.text, calls)
    assert ends == sorted(ends)  # once complete, a reply stays complete

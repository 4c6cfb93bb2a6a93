"""What every adapter does, on both of its wires, against a real socket."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StreamCut,
    TimedOut,
    UnknownModel,
    Unreachable,
)
from ebbtide.agent.messages import Assistant, Image, Reasoning, Text, ToolOutput, Usage, User
from ebbtide.agent.providers.base import CallChunk, ReasoningChunk, Reply, TextChunk
from tests.kit.adapters import (
    KEY,
    PIXEL,
    WINDOW,
    Adapter,
    Library,
    collect,
    connected,
    endpoint_of,
    everything,
    hello,
    last,
)
from tests.kit.fake_provider import Call, FakeProvider, Turn

BODIES = Path(__file__).parent / "bodies"


async def fails(adapter: Adapter, wire: Library, turn: Turn) -> ProviderError:
    """The error that the turn ends in."""
    with FakeProvider([turn]) as server:
        async with connected(adapter, wire, server.url) as provider:
            with pytest.raises(ProviderError) as caught:
                await collect(provider, hello())
    return caught.value


async def test_text_arrives_in_pieces_and_whole(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="Grüße aus 東京 — fertig ✓")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            chunks = await collect(provider, hello())
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)) == "Grüße aus 東京 — fertig ✓"
    assert isinstance(chunks[-1], Reply)
    assert chunks[-1].message.text == "Grüße aus 東京 — fertig ✓"
    assert chunks[-1].message.model == adapter.facts.id
    assert chunks[-1].stop_reason == "end"


async def test_one_connection_serves_all_requests(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="one"), Turn(text="two")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            assert (await last(provider, hello())).message.text == "one"
            assert (await last(provider, hello())).message.text == "two"
        assert [request.path for request in server.requests] == [adapter.path] * 2
        assert server.connections == 1


async def test_bytes_may_arrive_one_at_a_time(adapter: Adapter, wire: Library) -> None:
    turn = Turn(text="東京 ✓", reasoning="hm…", calls=(Call("read", {"path": "ä"}),), fault="bytewise")
    with FakeProvider([turn]) as server:
        async with connected(adapter, wire, server.url) as provider:
            reply = await last(provider, hello())
    assert reply.message.text == "東京 ✓"
    assert reply.message.calls[0].arguments == {"path": "ä"}


async def test_reasoning_comes_first_and_goes_back_as_it_came(adapter: Adapter, wire: Library) -> None:
    turn = Turn(reasoning="First look, then act.", calls=(Call("read", {"path": "a"}),))
    with FakeProvider([turn, Turn(text="done")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            chunks = await collect(provider, hello())
            reply = chunks[-1]
            assert isinstance(reply, Reply)
            output = User((ToolOutput(reply.message.calls[0].id, "content"),))
            await collect(provider, replace(hello(), messages=(*hello().messages, reply.message, output)))
        sent = json.dumps(server.requests[1].body)
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk)) == "First look, then act."
    reasoning = reply.message.parts[0]
    assert isinstance(reasoning, Reasoning)
    assert reasoning.text == "First look, then act."
    assert "First look, then act." in sent
    if adapter.name in ("anthropic", "responses"):
        assert json.dumps(reasoning.native) in sent


async def test_reasoning_of_another_model_stays_here(adapter: Adapter, wire: Library) -> None:
    foreign = Assistant((Reasoning("secret thought", adapter.native | {"text": "secret thought"}), Text("yes")), "a/b")
    request = replace(hello(), messages=(*hello().messages, foreign, User((Text("why?"),))))
    with FakeProvider([Turn(text="so")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            await collect(provider, request)
        assert "secret thought" not in json.dumps(server.requests[0].body)
        assert "Let me see." not in json.dumps(server.requests[0].body)


async def test_several_calls_keep_their_order(adapter: Adapter, wire: Library) -> None:
    calls = (Call("read", {"path": "a.txt"}), Call("shell", {"command": "ls -l"}), Call("read"))
    with FakeProvider([Turn(text="I look.", calls=calls)]) as server:
        async with connected(adapter, wire, server.url) as provider:
            chunks = await collect(provider, hello())
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert [(call.name, call.arguments, call.problem) for call in reply.message.calls] == [
        ("read", {"path": "a.txt"}, ""),
        ("shell", {"command": "ls -l"}, ""),
        ("read", {}, ""),
    ]
    assert reply.stop_reason == "calls"
    assert len({call.id for call in reply.message.calls}) == 3
    seen = [chunk for chunk in chunks if isinstance(chunk, CallChunk)]
    named = {(index, call.name, call.id) for index, call in enumerate(reply.message.calls)}
    assert {(chunk.index, chunk.name, chunk.id) for chunk in seen} == named
    assert max(chunk.argument_chars for chunk in seen if chunk.index == 1) == len('{"command": "ls -l"}')


@pytest.mark.parametrize("raw", ['{"path": "a', "[1]", '"text"', '{"n": NaN}', '{"s": "\\ud83d"}'])
async def test_arguments_that_cannot_be_read_are_the_calls_problem(adapter: Adapter, wire: Library, raw: str) -> None:
    if not adapter.has_ids:
        pytest.skip("Ollama's server parses the arguments")
    with FakeProvider([Turn(calls=(Call("read", raw=raw), Call("shell", {"command": "ls"})))]) as server:
        async with connected(adapter, wire, server.url) as provider:
            broken, whole = (await last(provider, hello())).message.calls
    assert broken.problem
    assert broken.arguments == {}
    assert broken.source == raw
    assert not whole.problem


async def test_ids_that_come_twice_are_told_apart(adapter: Adapter, wire: Library) -> None:
    calls = (Call("read", {"path": "a"}, id="same"), Call("read", {"path": "b"}, id="same"))
    with FakeProvider([Turn(calls=calls)]) as server:
        async with connected(adapter, wire, server.url) as provider:
            ids = [call.id for call in (await last(provider, hello())).message.calls]
    assert ids == ["same", "same-2"] if adapter.has_ids else len(set(ids)) == 2


async def test_a_call_without_a_name_is_a_problem(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(calls=(Call("", {"path": "a"}),))]) as server:
        async with connected(adapter, wire, server.url) as provider:
            assert "names no tool" in (await last(provider, hello())).message.calls[0].problem


@pytest.mark.parametrize("fault", ["cut", "drop"])
async def test_an_answer_without_its_end_is_cut(adapter: Adapter, wire: Library, fault: str) -> None:
    error = await fails(adapter, wire, Turn(text="half", fault=fault))  # type: ignore[arg-type]  # a parameter is text
    assert type(error) is StreamCut
    assert adapter.facts.id in str(error)


async def test_a_frame_that_cannot_be_read_is_left_out(adapter: Adapter, wire: Library) -> None:
    if (adapter.name, wire) == ("ollama", "sdk"):
        assert type(await fails(adapter, wire, Turn(text="whole", fault="malformed"))) is StreamCut  # as the SDK does
        return
    with FakeProvider([Turn(text="whole", fault="malformed")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            reply = await last(provider, hello())
    assert (reply.message.text, reply.skipped_frame_count, len(server.requests)) == ("whole", 1, 1)


async def test_an_error_in_the_stream_is_told_by_its_kind(adapter: Adapter, wire: Library) -> None:
    error = await fails(adapter, wire, Turn(text="half", fault="error", error=("overloaded_error", "Overloaded")))
    assert type(error) is Overloaded


async def test_an_overflow_in_the_stream_is_an_overflow(adapter: Adapter, wire: Library) -> None:
    error = ("context_length_exceeded", "Your input exceeds the context window of this model.")
    assert type(await fails(adapter, wire, Turn(fault="error", error=error))) is ContextOverflow


@pytest.mark.parametrize(
    ("status", "told", "kind"),
    [
        (401, ("authentication_error", f"invalid key {KEY}"), AuthFailed),
        (403, ("permission_error", "not for you"), AuthFailed),
        (402, ("billing_error", "no credit"), QuotaExceeded),
        (404, ("not_found_error", "model: nothing-5"), UnknownModel),
        (429, ("rate_limit_error", "slow down"), RateLimited),
        (429, ("insufficient_quota", "check your plan and billing details"), QuotaExceeded),
        (400, ("invalid_request_error", "temperature: not supported"), BadRequest),
        (400, ("invalid_request_error", "prompt is too long: 213 tokens > 200 maximum"), ContextOverflow),
        (500, ("api_error", "oops"), Overloaded),
        (529, ("overloaded_error", "Overloaded"), Overloaded),
    ],
)
async def test_an_error_answer_is_told_by_its_status(
    adapter: Adapter, wire: Library, status: int, told: tuple[str, str], kind: type[ProviderError]
) -> None:
    error = await fails(adapter, wire, Turn(status=status, error=told, headers={"retry-after": "7"}))
    assert type(error) is kind
    assert error.status == status
    assert adapter.facts.id in str(error)
    assert KEY not in str(error)
    if isinstance(error, RateLimited):
        assert error.retry_after == 7
    if isinstance(error, ContextOverflow):
        assert (error.size, error.limit) == (213, 200)


async def test_a_redirect_is_not_followed(adapter: Adapter, wire: Library) -> None:
    error = await fails(adapter, wire, Turn(status=307, headers={"location": "http://127.0.0.1:9/x"}, body={}))
    assert type(error) is BadRequest


async def test_a_server_that_is_not_there_cannot_be_reached(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([]) as server:
        url = server.url
    async with connected(adapter, wire, url) as provider:
        with pytest.raises(Unreachable, match=url.removeprefix("http://")):
            await collect(provider, hello())


@pytest.mark.parametrize("fault", ["silent", "hang"])
async def test_silence_is_a_time_out(adapter: Adapter, wire: Library, fault: str) -> None:
    with FakeProvider([Turn(text="half", fault=fault)]) as server:  # type: ignore[arg-type]  # a parameter is text
        async with connected(adapter, wire, server.url, timeout=0.2) as provider:
            with pytest.raises(TimedOut):
                await collect(provider, hello())


async def test_an_empty_answer_is_an_empty_message(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn()]) as server:
        async with connected(adapter, wire, server.url) as provider:
            reply = await last(provider, hello())
    assert reply == Reply(Assistant((), adapter.facts.id), Usage(input=10, output=5), "end")


async def test_the_output_limit_is_told(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="and then", stop="max_tokens")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            assert (await last(provider, hello())).stop_reason == "max_tokens"


async def test_usage_never_overlaps(adapter: Adapter, wire: Library) -> None:
    usage = Usage(input=100, cache_read=20, cache_write=3, output=40)
    with FakeProvider([Turn(text="x", usage=usage)]) as server:
        async with connected(adapter, wire, server.url) as provider:
            counted = (await last(provider, hello())).usage
    assert counted == (usage if adapter.has_cache else Usage(input=123, output=40))


async def test_counts_that_no_window_holds_are_none(adapter: Adapter, wire: Library) -> None:
    usage = Usage(input=10**30, output=10**30)
    with FakeProvider([Turn(text="x", usage=usage)]) as server:
        async with connected(adapter, wire, server.url) as provider:
            assert (await last(provider, hello())).usage == Usage()


async def test_a_cancelled_stream_closes_its_connection(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="half of it", fault="hang")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            started = asyncio.Event()

            async def listen() -> None:
                async for chunk in provider.stream(hello()):
                    assert isinstance(chunk, TextChunk)
                    started.set()

            task = asyncio.create_task(listen())
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.wait_gone)


async def test_images_go_out_whole(adapter: Adapter, wire: Library) -> None:
    picture = Image("image/png", PIXEL)
    request = replace(hello(), messages=(User((Text("look"), picture)),))
    with FakeProvider([Turn(text="a pixel")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            await collect(provider, request)
        assert PIXEL in json.dumps(server.requests[0].body)


async def test_no_image_goes_to_a_model_that_takes_none(adapter: Adapter, wire: Library) -> None:
    picture = Image("image/png", PIXEL)
    request = replace(hello(), messages=(User((Text("look"), picture)),))
    blind = replace(adapter, facts=replace(adapter.facts, images=False))
    with FakeProvider([Turn(text="at what?")]) as server:
        async with connected(blind, wire, server.url) as provider:
            await collect(provider, request)
        assert PIXEL not in json.dumps(server.requests[0].body)
        assert "image omitted" in json.dumps(server.requests[0].body)


async def test_text_that_cannot_be_encoded_is_mended(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="ok")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            await collect(provider, hello("half \ud83d and \ud83d\ude00"))
        assert "half \ufffd and \U0001f600" in json.dumps(server.requests[0].body, ensure_ascii=False)


async def test_the_key_is_sent_when_there_is_one(
    adapter: Adapter, wire: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, "sk-of-another-server")
    with FakeProvider([Turn(text="ok"), Turn(text="ok")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            await collect(provider, hello())
        keyless = adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, server.url, key=None), wire)
        await collect(keyless, hello())
        await keyless.close()
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert "sk-of-another-server" not in json.dumps([dict(request.headers) for request in server.requests])
        assert "authorization" not in server.requests[1].headers


async def test_the_body_is_the_stored_one_on_both_wires(adapter: Adapter, wire: Library) -> None:
    """Delete a file under bodies/ to have it written anew, and read the change."""
    stored = BODIES / f"{adapter.name}.json"
    with FakeProvider([Turn(text="ok")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            await collect(provider, everything(adapter))
        received = server.requests[0].body
    if not stored.exists():
        stored.write_text(json.dumps(dict(sorted(received.items())), indent=1, ensure_ascii=False) + "\n")
        pytest.fail(f"{stored.name} is new: look at it and run again")
    expected = json.loads(stored.read_text())
    assert ordered(received) == ordered(expected)
    assert ordered(adapter.body(everything(adapter), adapter.facts)) == ordered(expected)


def ordered(body: dict[str, object]) -> dict[str, str]:
    """The body as texts, which keep the order of keys; at the top level the order is free."""
    return {name: json.dumps(value) for name, value in body.items()}


async def test_an_error_in_the_place_of_a_stream(adapter: Adapter, wire: Library) -> None:
    """Some servers answer 200 and say in the body that it is not."""
    error = await fails(adapter, wire, Turn(whole={"error": "prompt is too long: 213 tokens > 200 maximum"}))
    assert isinstance(error, ContextOverflow)
    assert error.size == 213


async def test_a_stream_may_be_left_at_any_point(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(text="half of it", fault="hang")]) as server:
        async with connected(adapter, wire, server.url) as provider:
            stream = provider.stream(hello())
            assert isinstance(await anext(stream), TextChunk)
            assert isinstance(stream, AsyncGenerator)
            await stream.aclose()
            assert await asyncio.to_thread(server.wait_gone)


@pytest.mark.parametrize("key", ["sk-ä", "sk-a\n", " sk-a", "sk-a\x00b"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(adapter: Adapter, wire: Library, key: str) -> None:
    with pytest.raises(AuthFailed) as caught:
        adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, "http://127.0.0.1", key=key), wire)
    assert key.strip() not in str(caught.value)


class ChangingKeys:
    """Keys of which each is replaced when the server rejects it, until none is left."""

    renewal_statuses = frozenset({401, 403})

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)

    async def get_key(self) -> str:
        return self.keys[0]

    async def renew_key(self, rejected: str) -> str:
        if self.keys[0] == rejected and len(self.keys) > 1:
            self.keys.pop(0)
        return self.keys[0]


def keys_of(server: FakeProvider) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_key_is_replaced_once_by_a_newer_one(adapter: Adapter, wire: Library, status: int) -> None:
    rejection, keys = Turn(status=status, error=("authentication_error", "invalid key")), ChangingKeys(KEY, "b", "c")
    with FakeProvider([rejection, Turn(text="one"), Turn(text="two"), rejection, rejection]) as server:
        async with connected(adapter, wire, server.url, keys=keys) as provider:
            assert [(await last(provider, hello())).message.text for _ in range(2)] == ["one", "two"]
            with pytest.raises(AuthFailed):
                await collect(provider, hello())
        assert keys_of(server) == [KEY, "b", "b", "b", "c"]


async def test_without_a_newer_key_no_request_is_repeated(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(status=401, error=("authentication_error", f"no such key: {KEY}"))]) as server:
        async with connected(adapter, wire, server.url, keys=ChangingKeys(KEY)) as provider:
            with pytest.raises(AuthFailed) as caught:
                await collect(provider, hello())
        assert (keys_of(server), KEY in str(caught.value)) == ([KEY], False)


async def test_a_reply_under_way_survives_a_new_key(adapter: Adapter, wire: Library) -> None:
    keys = ChangingKeys(KEY, "b")
    with FakeProvider([Turn(text="half of it", fault="hang"), Turn(text="two")]) as server:
        async with connected(adapter, wire, server.url, keys=keys) as provider:
            stream = provider.stream(hello())
            assert isinstance(await anext(stream), TextChunk)
            await keys.renew_key(KEY)
            assert (await last(provider, hello())).message.text == "two"
            server.release()
            assert isinstance([chunk async for chunk in stream][-1], Reply)
        assert keys_of(server) == [KEY, "b"]

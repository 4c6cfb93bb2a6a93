"""What servers of Chat Completions tell of their models: what is asked, of whom, and what follows from the answers."""

import asyncio
import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.registry import find_registry_facts
from ebbtide.agent.providers.wires import server_facts
from ebbtide.agent.providers.wires.server_facts import (
    add_server_facts,
    is_local_server,
    parse_llama_cpp_window,
    window_from_models,
)
from tests.kit.fake_provider import FakeProvider

LLAMA = {"default_generation_settings": {"id": 0, "n_ctx": 8192}, "total_slots": 4}
TRAINED = {"object": "list", "data": [{"id": "qwen.gguf", "meta": {"n_ctx_train": 32_768, "n_params": 5}}]}
STUDIO = {
    "data": [
        {"id": "a", "state": "not-loaded", "max_context_length": 131_072},
        {"id": "m", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 16_384},
    ]
}
UNKNOWN = find_registry_facts("openai-chat", "m")


@pytest.mark.parametrize(
    ("pages", "window"),
    [
        ({"/props": LLAMA, "/v1/models": TRAINED}, 8192),
        ({"/v1/models": TRAINED}, 32_768),
        ({"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 32_768}}]}}, 4096),
        ({"/api/v0/models": STUDIO, "/v1/models": {"data": [{"id": "m"}]}}, 16_384),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": 40_960}, {"id": "n", "max_model_len": 9}]}}, 40_960),
        ({"/v1/models": {"data": [{"id": "m", "context_length": 65_536}]}}, 65_536),
    ],
)
async def test_the_window_is_what_the_server_gives_the_model(pages: dict[str, Any], window: int) -> None:
    with FakeProvider([], pages=pages) as server:
        facts = await add_server_facts(Endpoint(f"{server.url}/v1"), UNKNOWN)
    assert (facts.context_window, facts.is_known, dict(facts.sources)["context_window"]) == (window, True, "live")


@pytest.mark.parametrize(
    "page",
    [
        "no JSON",
        "[" * 100_000,
        [],
        {"data": None},
        {"data": [None, 5]},
        {"data": [{"id": "other", "context_length": 8192}, {"id": "another"}]},
        {"data": [{"id": "m", "context_length": "8192"}]},
        {"data": [{"id": "m", "context_length": True, "meta": []}]},
        {"data": [{"id": "m", "context_length": -1}]},
        {"default_generation_settings": None},
    ],
)
async def test_a_server_that_does_not_say_changes_nothing(page: object) -> None:
    with FakeProvider([], pages=dict.fromkeys(("/props", "/api/v0/models", "/v1/models"), page)) as server:
        assert await add_server_facts(Endpoint(f"{server.url}/v1"), UNKNOWN) == UNKNOWN
    assert (parse_llama_cpp_window(page), window_from_models(page, "m")) == (None, None)


async def test_a_window_that_is_set_stays_and_nobody_is_asked_about_one_that_is_known() -> None:
    with FakeProvider([], pages={"/props": LLAMA}) as server:
        facts = find_registry_facts("openai-chat", "gpt-5.5")
        assert await add_server_facts(Endpoint(f"{server.url}/v1"), facts) == facts
        assert server.looked_at == []
        facts = find_registry_facts("openai-chat", "m", {"context_window": 5000})
        assert await add_server_facts(Endpoint(f"{server.url}/v1"), facts) == facts
        assert is_local_server(Endpoint(server.url))
        assert not is_local_server(Endpoint("https://models.example/v1"))


def llama(temperature: float, weights: object) -> dict[str, Any]:
    """The pages of a llama.cpp that draws with a temperature, and has a model with so many weights."""
    props = {"default_generation_settings": {"n_ctx": 8192, "params": {"temperature": temperature}}}
    return {"/props": props, "/v1/models": {"data": [{"id": "q.gguf", "meta": {"n_params": weights}}]}}


@pytest.mark.parametrize(
    ("temperature", "weights", "parameters", "stated"),
    [
        (0.800000011920929, 1_777_088_000, 1.777088e9, 0.2),
        (0.7, 1_777_088_000, 1.777088e9, None),
        (0.800000011920929, 7_615_616_512, 7.615616512e9, None),
        (0.800000011920929, None, None, None),
        (0.800000011920929, True, None, None),
        (0.800000011920929, "2", None, None),
    ],
)
async def test_a_small_model_is_asked_to_be_steady_where_nobody_has_chosen_how_it_draws(
    temperature: float, weights: object, parameters: float | None, stated: float | None
) -> None:
    with FakeProvider([], pages=llama(temperature, weights)) as server:
        facts = await add_server_facts(Endpoint(f"{server.url}/v1"), UNKNOWN)
        assert (facts.parameter_count, facts.temperature, facts.context_window) == (parameters, stated, 8192)
        set_by_user = replace(UNKNOWN, temperature=1.0)
        facts = await add_server_facts(Endpoint(f"{server.url}/v1"), set_by_user)
        assert facts.temperature == 1.0
        thinks = replace(UNKNOWN, thinking="effort")
        assert (await add_server_facts(Endpoint(f"{server.url}/v1"), thinks)).temperature is None


async def test_a_server_that_is_not_there_or_says_nothing_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_facts, "LOCAL_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        assert await add_server_facts(endpoint, UNKNOWN) == UNKNOWN
    assert await add_server_facts(endpoint, UNKNOWN) == UNKNOWN


async def test_what_a_server_answers_counts_where_it_is_silent_about_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_facts, "LOCAL_TIMEOUT_S", 1.0)
    closing = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if asked.startswith(b"GET /props "):
            body = json.dumps(LLAMA).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
        await closing.wait()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        facts = await add_server_facts(Endpoint(f"http://127.0.0.1:{port}/v1"), UNKNOWN)
        closing.set()
    assert (facts.context_window, facts.parameter_count) == (8192, None)

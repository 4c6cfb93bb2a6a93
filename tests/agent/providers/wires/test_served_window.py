"""Windows that servers of Chat Completions tell: what is asked, of whom, and what follows from the answers."""

import socket
from typing import Any

import pytest

from agent.providers.base import Endpoint
from agent.providers.registry import facts_for
from agent.providers.wires import served_window
from agent.providers.wires.served_window import of_models, of_props, with_served_window
from tests.fake_provider import FakeProvider

LLAMA = {"default_generation_settings": {"id": 0, "n_ctx": 8192}, "total_slots": 4}
TRAINED = {"object": "list", "data": [{"id": "qwen.gguf", "meta": {"n_ctx_train": 32_768, "n_params": 5}}]}
STUDIO = {
    "data": [
        {"id": "a", "state": "not-loaded", "max_context_length": 131_072},
        {"id": "m", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 16_384},
    ]
}
UNKNOWN = facts_for("openai-chat", "m")


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
        facts = await with_served_window(Endpoint(f"{server.url}/v1"), UNKNOWN)
    assert (facts.context_window, facts.known, dict(facts.sources)["context_window"]) == (window, True, "live")


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
        assert await with_served_window(Endpoint(f"{server.url}/v1"), UNKNOWN) == UNKNOWN
    assert (of_props(page), of_models(page, "m")) == (None, None)


async def test_nobody_is_asked_about_a_window_that_is_set_or_known() -> None:
    with FakeProvider([], pages={"/props": LLAMA}) as server:
        for facts in (facts_for("openai-chat", "m", {"context_window": 5000}), facts_for("openai-chat", "gpt-5.5")):
            assert await with_served_window(Endpoint(f"{server.url}/v1"), facts) == facts
        assert server.looked_at == []


async def test_a_server_that_is_not_there_or_says_nothing_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served_window, "PATIENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        assert await with_served_window(endpoint, UNKNOWN) == UNKNOWN
    assert await with_served_window(endpoint, UNKNOWN) == UNKNOWN

"""Providers that are reached through OpenAI's chat API with a key and nothing else."""

from dataclasses import replace

import pytest

from ebbtide.agent.config.chat_hosts import CHAT_HOSTS
from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.setup import find_endpoint
from tests.kit.adapters import collect, hello
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.session import CONFIG


@pytest.mark.parametrize("name", CHAT_HOSTS)
def test_a_key_is_all_that_a_provider_needs(name: str) -> None:
    host = CHAT_HOSTS[name]
    endpoint = find_endpoint(name, ProviderConfig(), {host.key_variable: "the-key"})
    assert (endpoint.base_url, endpoint.key) == (host.base_url, "the-key")
    with pytest.raises(AuthFailed, match=f"ebb key set {name}.*{host.key_variable}"):
        find_endpoint(name, ProviderConfig(), {})


@pytest.mark.parametrize("name", CHAT_HOSTS)
async def test_a_provider_is_asked_in_openais_chat_form(name: str) -> None:
    with FakeProvider([Turn(text="Hi.")]) as server:
        config = replace(CONFIG, providers={name: ProviderConfig(base_url=f"{server.url}/v1")})
        provider = await build_provider(config, f"{name}/some-model", {CHAT_HOSTS[name].key_variable: "the-key"})
        await collect(provider, hello())
        await provider.close()
    asked = server.requests[-1]
    assert (asked.path, asked.headers["authorization"], asked.body["model"]) == (
        "/v1/chat/completions",
        "Bearer the-key",
        "some-model",
    )

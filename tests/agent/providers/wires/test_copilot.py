"""Models of a GitHub Copilot subscription: which API each has, their limits, and what GitHub wants to know of a
request."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.config.values import ProviderConfig
from ebbtide.agent.messages import Assistant, Image, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.factory import build_provider
from ebbtide.agent.providers.wires import anthropic, openai_chat, openai_responses
from ebbtide.agent.providers.wires.copilot import build_request_headers
from tests.kit.adapters import PIXEL, READ, hello, last
from tests.kit.session import CONFIG
from tests.kit.sign_in_server import SignInServer, sign_in_server

CALL = Assistant((ToolCall("call_1", "read", {"path": "a"}, source='{"path": "a"}'),), model="copilot/x")
DONE = Assistant((Text("done"),), model="copilot/x")
OUTPUT = User((ToolOutput("call_1", "text"),))
PICTURE = Image("image/png", PIXEL)
FACTS = ModelFacts("copilot", "x", 100_000, 1_000, images=True)


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server(valid_tokens={"t"}) as running:
        yield running


async def ask(
    server: SignInServer, model: str, path: str = "/copilot", **settings: Any
) -> tuple[ModelFacts, str, dict[str, str], dict[str, Any]]:
    """The facts of a model, and where and with what it was asked."""
    provider_settings = ProviderConfig(base_url=f"{server.url}{path}", **settings)
    config = replace(CONFIG, providers={"copilot": provider_settings})
    provider = await build_provider(config, f"copilot/{model}", {"COPILOT_GITHUB_TOKEN": "t"})
    try:
        assert (await last(provider, hello())).message.text == "hi"
        return provider.facts, *server.requests[-1]
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("model", "path", "window", "input_tokens", "thinking", "images"),
    [
        ("gpt-5.2", "/copilot/responses", 400_000, 272_000, "effort", True),
        ("claude-sonnet-4.6", "/copilot/v1/messages", 200_000, 128_000, "adaptive", True),
        ("gpt-4.1", "/copilot/chat/completions", 128_000, None, "none", False),
    ],
)
async def test_the_list_of_models_decides(
    server: SignInServer, model: str, path: str, window: int, input_tokens: int | None, thinking: str, images: bool
) -> None:
    facts, asked, headers, body = await ask(server, model)
    assert asked == path
    assert (facts.context_window, facts.max_input_tokens, facts.thinking, facts.images) == (
        window, input_tokens, thinking, images,
    )  # fmt: skip
    assert dict(facts.sources)["context_window"] == "live"
    assert (facts.is_known, facts.prices) == (True, None)
    assert body["model"] == model
    assert headers["x-initiator"] == "user"
    assert "copilot-vision-request" not in headers
    assert server.paths() == ["/copilot/models", path]


async def test_only_published_headers_are_sent(server: SignInServer) -> None:
    """The program does not pretend to be another one."""
    _, _, headers, body = await ask(server, "gpt-5.2")
    assert headers["user-agent"] == "ebbtide"
    assert not {"editor-version", "editor-plugin-version", "copilot-integration-id"} & headers.keys()
    assert "max_output_tokens" not in body


async def test_settings_take_precedence(server: SignInServer) -> None:
    facts, *_ = await ask(server, "gpt-5.2", models={"gpt-5.2": {"images": False, "thinking": "none"}})
    assert (facts.images, facts.thinking, facts.max_output_tokens) == (False, "none", 64_000)


@pytest.mark.parametrize(
    ("model", "path"), [("gpt-5.2-codex", "responses"), ("gpt-5-mini", "chat/completions"), ("o3", "chat/completions")]
)
async def test_without_a_list_the_name_decides(
    server: SignInServer, monkeypatch: pytest.MonkeyPatch, model: str, path: str
) -> None:
    monkeypatch.setattr("tests.kit.sign_in_server.COPILOT_MODELS", ["of another kind", {"id": "other"}])
    facts, asked, _, _ = await ask(server, model)
    assert asked == f"/copilot/{path}"
    assert not facts.is_known


def bodies(*messages: User | Assistant) -> list[Mapping[str, Any]]:
    request = Request("Be brief.", messages, (READ,), 1_000, "session-1")
    return [
        anthropic.build_body(request, FACTS),
        openai_responses.build_body(request, FACTS),
        openai_chat.build_body(request, FACTS),
    ]


@pytest.mark.parametrize(
    ("messages", "initiator"),
    [
        ((User((Text("hi"),)),), "user"),
        ((User((Text("hi"),)), CALL, OUTPUT), "agent"),
        ((User((Text("hi"),)), CALL, User((*OUTPUT.parts, Text("by the way")))), "agent"),
        ((User((Text("hi"),)), CALL, OUTPUT, DONE, User((Text("go"),))), "user"),
    ],
)  # fmt: skip
def test_a_step_of_the_agent_is_not_counted_as_the_users(
    messages: tuple[User | Assistant, ...], initiator: str
) -> None:
    for body in bodies(*messages):
        assert build_request_headers(dict(body)) == {"x-initiator": initiator}


@pytest.mark.parametrize(
    "message", [User((Text("look"), PICTURE)), User((ToolOutput("call_1", "text", images=(PICTURE,)),))]
)
def test_images_are_announced(message: User) -> None:
    for body in bodies(User((Text("hi"),)), CALL, message):
        assert build_request_headers(dict(body))["copilot-vision-request"] == "true"

"""Models of a ChatGPT plan: the requests that OpenAI documents for it, and the limits from the list of models."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.errors import AuthFailed, QuotaExceeded
from ebbtide.agent.messages import Assistant, Reasoning, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.base import Endpoint, ModelFacts, Request
from ebbtide.agent.providers.wires import chatgpt
from ebbtide.agent.providers.wires.adapter import WireProvider
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache
from ebbtide.agent.providers.wires.response_errors import classify_error
from tests.kit.adapters import READ, SHELL, WINDOW, last
from tests.kit.sign_in_server import SignInServer, sign_in_server

FACTS = ModelFacts("chatgpt", "gpt-6-sol", 131_072, 8_192, sources=(("context_window", "default"),))
CALL = ToolCall("call_1", "read", {"path": "a"}, source='{"path": "a"}')
THOUGHT = Reasoning("Hm.", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"})
REQUEST = Request(
    "Be brief.",
    (
        User((Text("hi"),)),
        Assistant((THOUGHT, CALL), model="chatgpt/gpt-6-sol"),
        User((ToolOutput("call_1", "text"),)),
    ),
    (READ, SHELL),
    1_000,
    "session-1",
)


@pytest.fixture
def server() -> Iterator[SignInServer]:
    with sign_in_server(valid_tokens={"t"}) as running:
        yield running


def endpoint_of(server: SignInServer) -> Endpoint:
    return Endpoint(f"{server.url}/plan", "t")


def body_of(request: Request, facts: ModelFacts) -> dict[str, Any]:
    written = RequestEncodingCache[Any](chatgpt.ADAPTER.create_encoder)
    return chatgpt.build_body(request, facts, WINDOW, frozenset(), written)


async def test_a_conversation_with_calls_is_accepted(server: SignInServer) -> None:
    facts = await chatgpt.add_plan_facts(endpoint_of(server), FACTS)
    provider = WireProvider(chatgpt.ADAPTER, facts, WINDOW, endpoint_of(server))
    reply = await last(provider, REQUEST)
    await provider.close()
    assert reply.message.text == "hi"
    path, headers, body = server.requests[-1]
    assert (path, headers["authorization"]) == ("/plan/responses", "Bearer t")
    assert (body["instructions"], body["prompt_cache_key"]) == ("Be brief.", "session-1")
    assert body["include"] == ["reasoning.encrypted_content"]
    assert [item.get("type") for item in body["input"]] == [None, "reasoning", "function_call", "function_call_output"]


def test_all_tools_are_functions_of_one_namespace() -> None:
    body = body_of(REQUEST, FACTS)
    (namespace,) = body["tools"]
    assert (namespace["type"], namespace["name"]) == ("namespace", "ebbtide")
    assert [(tool["type"], tool["name"]) for tool in namespace["tools"]] == [
        ("function", "read"),
        ("function", "shell"),
    ]
    assert "tools" not in body_of(replace(REQUEST, tools=()), FACTS)


@pytest.mark.parametrize(
    ("model", "window", "source", "images", "thinking"),
    [
        ("gpt-6-sol", 353_000, "live", True, "effort"),
        ("gpt-6-luna", 272_000, "registry", False, "effort"),
        ("o-other", 272_000, "registry", False, "none"),
    ],
)
async def test_limits_come_from_the_list_of_models(
    server: SignInServer, model: str, window: int, source: str, images: bool, thinking: str
) -> None:
    facts = await chatgpt.add_plan_facts(endpoint_of(server), replace(FACTS, name=model))
    assert (facts.context_window, facts.images, facts.thinking) == (window, images, thinking)
    assert (dict(facts.sources)["context_window"], facts.is_known) == (source, True)


async def test_settings_take_precedence(server: SignInServer) -> None:
    given = replace(FACTS, context_window=64_000, sources=(("context_window", "config"),))
    facts = await chatgpt.add_plan_facts(endpoint_of(server), given)
    assert (facts.context_window, facts.max_output_tokens) == (64_000, 128_000)


def error_of(status: int, body: Mapping[str, object]) -> Exception:
    return classify_error(status, {}, json.dumps(body), "chatgpt/gpt-6-sol")


def test_errors_that_openai_documents() -> None:
    limit = {
        "error": {"code": "subscription_sharing_usage_limit_exceeded", "message": "Limit.", "type": "request_error"}
    }
    for status in (429, 200):
        assert isinstance(error_of(status, limit), QuotaExceeded)
    expired = error_of(401, {"detail": {"error_code": "invalid_token"}})
    assert isinstance(expired, AuthFailed)
    assert (expired.cause, expired.todo) == ("sign_in", "Run `ebb key sign-in chatgpt` again.")
    other = error_of(403, {"error": {"code": "subscription_sharing_user_not_eligible", "message": "Not eligible."}})
    assert isinstance(other, AuthFailed)
    assert (other.cause, str(other)) == (
        "plan",
        "your plan has no access to chatgpt/gpt-6-sol (403): Not eligible. Check the plan, or use another model.",
    )

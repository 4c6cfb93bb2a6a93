"""Models of a GitHub Copilot subscription. Copilot offers three APIs at one address; its model list states which APIs
each model supports, and the model's limits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.providers.base import Endpoint, ModelFacts, Request
from ebbtide.agent.providers.wires import anthropic, openai_chat, openai_responses
from ebbtide.agent.providers.wires.adapter import Adapter
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject, bearer_headers
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.server_facts import fetch_model_list, plausible_window

_RESPONSES_MODEL = re.compile(r"gpt-(?:[5-9]|\d\d)(?!-mini$)")
"""Matches models that need the Responses API. Used only if the model list is missing."""
_IMAGE_TYPES = ("image", "image_url", "input_image")


async def copilot_adapter(endpoint: Endpoint, facts: ModelFacts) -> tuple[Adapter, ModelFacts]:
    """Choose the adapter for a model, and add the facts from the model list. Facts set in the configuration are not
    changed."""
    rows = await _fetch_rows(endpoint, facts.id)
    row = rows.get(facts.name, {})
    known = {name: value for name, value in _row_facts(row).items() if dict(facts.sources).get(name) != "config"}
    sources = {**dict(facts.sources), **dict.fromkeys(known, "live")}
    facts = replace(facts, is_known=bool(row) or facts.is_known, sources=tuple(sources.items()), **known)
    return _adapter_for(facts.name, row), facts


async def fetch_models(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """Fetch the models that the user can use with tools, and their facts. Empty if the server sends no list."""
    rows = await _fetch_rows(endpoint, "copilot")
    return {name: _row_facts(row) for name, row in rows.items() if _is_usable(row)}


def _is_usable(row: Mapping[str, Any]) -> bool:
    has_tools = bool(_table(row, "capabilities", "supports").get("tool_calls"))
    return has_tools and _table(row, "policy").get("state") != "disabled"


async def _fetch_rows(endpoint: Endpoint, model: str) -> dict[str, Mapping[str, Any]]:
    models = await fetch_model_list(Origin(model, endpoint), _build_headers(endpoint))
    rows = models.get("data") if isinstance(models, Mapping) else None
    valid_rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {row["id"]: row for row in valid_rows if isinstance(row.get("id"), str)}


def _build_headers(endpoint: Endpoint) -> dict[str, str]:
    return {**bearer_headers(endpoint), "openai-intent": "conversation-edits"}


def _adapter_for(name: str, row: Mapping[str, Any]) -> Adapter:
    """Return the adapter for the most capable API that a model supports. Models without `supported_endpoints` support
    only Chat Completions."""
    endpoints = row.get("supported_endpoints")
    if isinstance(endpoints, list):
        adapters = (("/v1/messages", _MESSAGES), ("/responses", _RESPONSES), ("/chat/completions", _CHAT))
        return next((adapter for path, adapter in adapters if path in endpoints), _CHAT)
    return _RESPONSES if not row and _RESPONSES_MODEL.match(name) else _CHAT


def _row_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the facts in a model's entry in the list."""
    limits, supports = _table(row, "capabilities", "limits"), _table(row, "capabilities", "supports")
    stated = {
        "context_window": plausible_window(limits.get("max_context_window_tokens"))
        or plausible_window(limits.get("max_prompt_tokens")),
        "max_input_tokens": plausible_window(limits.get("max_prompt_tokens")),
        "max_output_tokens": plausible_window(limits.get("max_output_tokens")),
        "images": supports.get("vision") if isinstance(supports.get("vision"), bool) else None,
        "thinking": _thinking(supports) if supports else None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _table(row: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    table: Any = row
    for name in names:
        table = table.get(name)
        if not isinstance(table, Mapping):
            return {}
    return table  # type: ignore[no-any-return]  # checked above


def _thinking(supports: Mapping[str, Any]) -> str:
    if supports.get("adaptive_thinking"):
        return "adaptive"
    if supports.get("reasoning_effort"):
        return "effort"
    return "budget" if supports.get("max_thinking_budget") else "none"


def build_request_headers(body: JsonObject) -> dict[str, str]:
    """Build the request headers: one tells GitHub whether the user or the agent initiated the request, and another is
    needed for images."""
    items: Sequence[Mapping[str, Any]] = body.get("messages") or body.get("input") or ()
    headers = {"x-initiator": "agent" if _continues_calls(items) else "user"}
    return headers | {"copilot-vision-request": "true"} if any(map(_has_image, items)) else headers


def _continues_calls(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are call outputs after the model's last items."""
    for item in reversed(items):
        if item.get("role") == "tool" or str(item.get("type", "")).endswith("_output"):
            return True
        if any(part.get("type") == "tool_result" for part in _parts(item)):
            return True
        if item.get("role") != "user":
            return False
    return False


def _has_image(item: Mapping[str, Any]) -> bool:
    return any(
        part.get("type") in _IMAGE_TYPES or any(nested.get("type") in _IMAGE_TYPES for nested in _parts(part))
        for part in _parts(item)
    )


def _parts(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("content", "output"):
        content = item.get(name)
        if isinstance(content, list):
            yield from (part for part in content if isinstance(part, Mapping))


def _responses_body(
    request: Request,
    facts: ModelFacts,
    _window: Window,
    quirks: frozenset[str],
    encoding_cache: RequestEncodingCache[Any],
) -> JsonObject:
    """Build a request body without cache breakpoints and without an output limit, as Copilot's own clients do."""
    body = openai_responses.build_body(request, facts, quirks | {"breakpoints"}, encoding_cache)
    del body["max_output_tokens"]
    return body


_MESSAGES = replace(
    anthropic.ADAPTER,
    build_headers=lambda endpoint: {"anthropic-version": anthropic.API_VERSION, **_build_headers(endpoint)},
    build_request_headers=build_request_headers,
)
_RESPONSES = replace(
    openai_responses.ADAPTER,
    build_body=_responses_body,
    build_headers=_build_headers,
    build_request_headers=build_request_headers,
)
_CHAT = replace(openai_chat.ADAPTER, build_headers=_build_headers, build_request_headers=build_request_headers)

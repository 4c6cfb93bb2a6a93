"""Models of a ChatGPT plan, through the Responses API. OpenAI documents what plans do not support:
developers.openai.com/siwc/token-sharing-open-source/preview-limitations."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.providers.base import Endpoint, ModelFacts, Request
from ebbtide.agent.providers.wires import openai_responses
from ebbtide.agent.providers.wires.encoding import RequestEncodingCache
from ebbtide.agent.providers.wires.http import JsonObject, bearer_headers
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.server_facts import fetch_model_list, plausible_window

PLAN_WINDOW_TOKENS, PLAN_OUTPUT_TOKENS = 272_000, 128_000
"""Default context window and output limit for a plan's models, in tokens. Used if the model list does not state
them."""
NAMESPACE = "ebbtide"
"""The namespace that contains all tools, because OpenAI asks for namespaces."""


async def add_plan_facts(endpoint: Endpoint, facts: ModelFacts) -> ModelFacts:
    """Add the facts from the plan's model list. Facts set in the configuration are not changed."""
    row = (await _fetch_rows(endpoint, facts.id)).get(facts.name, {})
    live, defaults = _row_facts(row), _default_facts(facts.name)
    sources = dict(facts.sources)
    known = {name: value for name, value in live.items() if sources.get(name) != "config"}
    known |= {
        name: value
        for name, value in defaults.items()
        if name not in known and sources.get(name, "default") == "default"
    }
    sources |= {name: "live" if name in live else "registry" for name in known}
    return replace(facts, is_known=True, sources=tuple(sources.items()), **known)


async def fetch_models(endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """Fetch the plan's models and their facts. Empty if the server sends no list."""
    rows = await _fetch_rows(endpoint, "chatgpt")
    listed = {name: row for name, row in rows.items() if row.get("visibility", "list") == "list"}
    return {name: _default_facts(name) | _row_facts(row) for name, row in listed.items()}


def _default_facts(name: str) -> dict[str, Any]:
    """Return the facts assumed for a plan's model if the model list does not state them."""
    thinking = "effort" if openai_responses.can_send_free_text(name) else "none"
    return {"context_window": PLAN_WINDOW_TOKENS, "max_output_tokens": PLAN_OUTPUT_TOKENS, "thinking": thinking}


async def _fetch_rows(endpoint: Endpoint, model: str) -> dict[str, Mapping[str, Any]]:
    models = await fetch_model_list(Origin(model, endpoint), bearer_headers(endpoint))
    rows = models.get("models") if isinstance(models, Mapping) else None
    valid_rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {row["slug"]: row for row in valid_rows if isinstance(row.get("slug"), str)}


def _row_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the facts in a model's entry in the list."""
    modalities, levels = row.get("input_modalities"), row.get("supported_reasoning_levels")
    stated = {
        "context_window": plausible_window(row.get("context_window")),
        "images": "image" in modalities if isinstance(modalities, list) else None,
        "thinking": ("effort" if levels else "none") if isinstance(levels, list) else None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def build_body(
    request: Request,
    facts: ModelFacts,
    _window: Window,
    quirks: frozenset[str],
    encoding_cache: RequestEncodingCache[Any],
) -> JsonObject:
    """Build a request body without the fields that plans reject, and with the tools in a namespace."""
    quirks |= {"breakpoints", "free_text"}
    body = openai_responses.build_body(request, facts, quirks, encoding_cache, namespace=NAMESPACE)
    del body["max_output_tokens"]
    if "tools" in body:
        tools = {
            "type": "namespace",
            "name": NAMESPACE,
            "description": "Tools of this session.",
            "tools": body["tools"],
        }
        body["tools"] = [tools]
    return body


ADAPTER = replace(openai_responses.ADAPTER, build_body=build_body)

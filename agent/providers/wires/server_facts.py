"""Facts that a Chat Completions server reports about a model: its window (llama.cpp, LM Studio, vLLM and others), its
number of parameters, and its default sampling (llama.cpp)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ebbtide.agent.errors import ProviderError
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.registry import with_parameter_count
from ebbtide.agent.providers.setup import is_loopback
from ebbtide.agent.providers.wires.http import Client, bearer_headers, open_client, translate_errors, unzip_chunks
from ebbtide.agent.providers.wires.origin import Origin

LIST_TIMEOUT_S = 5.0
REMOTE_TIMEOUT_S, LOCAL_TIMEOUT_S = 1.0, 5.0
"""Timeouts for remote and local servers, in seconds. They delay the start of a session. A server on this machine
normally answers within milliseconds but can take seconds while it is busy. It is given more time, because a session
with an unknown context window may fail later."""
MAX_RESPONSE_BYTES = 8 << 20
"""Maximum number of bytes read from a response."""
PLAUSIBLE_WINDOWS = range(256, 100_000_000)
"""Plausible window sizes, in tokens."""
LLAMA_CPP_TEMPERATURE = 0.8
"""llama.cpp's default temperature."""
_WINDOW_FIELDS = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


async def add_server_facts(endpoint: Endpoint, facts: ModelFacts) -> ModelFacts:
    """Add the facts that the server reports. A request is sent only if the context window is still the default, or if
    it is set in the configuration and the server is local. Facts set in the configuration are not changed. If the
    server does not respond, the facts stay unchanged."""
    sources = dict(facts.sources)
    window_source = sources.get("context_window")
    should_ask = window_source == "default" or (window_source == "config" and is_local_server(endpoint))
    responses = await _fetch_responses(Origin(facts.id, endpoint)) if should_ask else None
    if responses is None:
        return facts
    llama_cpp_properties, lm_studio_models, models = responses
    facts = with_parameter_count(
        facts,
        parse_parameter_count(models, facts.name),
        has_default_temperature=has_default_sampling(llama_cpp_properties),
    )
    window = (
        parse_llama_cpp_window(llama_cpp_properties)
        or window_from_models(lm_studio_models, facts.name)
        or window_from_models(models, facts.name)
    )
    if window is None or window_source != "default":
        return facts
    return replace(
        facts, context_window=window, is_known=True, sources=tuple({**sources, "context_window": "live"}.items())
    )


def is_local_server(endpoint: Endpoint) -> bool:
    """Whether a server is on this machine."""
    return is_loopback(urlsplit(endpoint.base_url).hostname or "")


async def _fetch_responses(origin: Origin) -> tuple[object, object, object] | None:
    """Fetch facts from llama.cpp's endpoint, LM Studio's endpoint and the common one. Each result is None if its
    endpoint does not respond in time. The whole result is None if no client can be created."""
    base_url = origin.endpoint.base_url.rstrip("/")
    root_url = base_url.removesuffix("/v1")
    with suppress(ProviderError):
        async with aclosing(open_client(origin)) as client:
            pending_responses = (
                _get_json(client, origin, url, bearer_headers(origin.endpoint))
                for url in (f"{root_url}/props", f"{root_url}/api/v0/models", f"{base_url}/models")
            )
            llama_cpp_properties, lm_studio_models, models = await asyncio.gather(*pending_responses)
        return llama_cpp_properties, lm_studio_models, models
    return None


async def fetch_model_list(origin: Origin, headers: Mapping[str, str]) -> object:
    """Fetch the server's model list as JSON. None if it does not arrive in time. The timeout is long, because some
    servers' models cannot be used without the list."""
    with suppress(ProviderError):
        async with aclosing(open_client(origin)) as client:
            url = f"{origin.endpoint.base_url.rstrip('/')}/models"
            return await _get_json(client, origin, url, headers, LIST_TIMEOUT_S)
    return None


async def _get_json(
    client: Client, origin: Origin, url: str, headers: Mapping[str, str], timeout: float | None = None
) -> object:
    """Fetch JSON. None if no response arrives in time."""
    timeout = timeout or (LOCAL_TIMEOUT_S if is_local_server(origin.endpoint) else REMOTE_TIMEOUT_S)
    with suppress(ProviderError, ValueError, RecursionError, TimeoutError), translate_errors(origin):
        async with (
            asyncio.timeout(timeout),
            client.stream("GET", url, headers=dict(headers)) as response,
        ):
            content = bytearray()
            async for chunk in unzip_chunks(response.aiter_bytes()):
                content += chunk
                if len(content) > MAX_RESPONSE_BYTES:
                    return None
            return json.loads(content) if response.status_code == 200 else None
    return None


def parse_llama_cpp_window(llama_cpp_properties: object) -> int | None:
    """Find the context window of a llama.cpp slot. It may be smaller than the window that the server was started
    with."""
    return plausible_window(_generation_settings(llama_cpp_properties).get("n_ctx"))


def has_default_sampling(llama_cpp_properties: object) -> bool:
    """Whether llama.cpp reports its built-in default temperature, which means that neither the model file nor the
    command line sets a temperature."""
    sampling_parameters = _generation_settings(llama_cpp_properties).get("params")
    stated = sampling_parameters.get("temperature") if isinstance(sampling_parameters, Mapping) else None
    return isinstance(stated, float) and abs(stated - LLAMA_CPP_TEMPERATURE) < 1e-6


def _generation_settings(llama_cpp_properties: object) -> Mapping[str, Any]:
    settings = (
        llama_cpp_properties.get("default_generation_settings") if isinstance(llama_cpp_properties, Mapping) else None
    )
    return settings if isinstance(settings, Mapping) else {}


def window_from_models(model_list: object, model: str) -> int | None:
    """Find a model's window in a list of models. If only one model is listed, its window is used. The window in use
    takes precedence over the window used in training."""
    row, file_metadata = _model_entry(model_list, model)
    values: Sequence[Any] = [
        *(row.get(name) for name in _WINDOW_FIELDS),
        file_metadata.get("n_ctx"),
        file_metadata.get("n_ctx_train"),
    ]
    return next((window for value in values if (window := plausible_window(value)) is not None), None)


def parse_parameter_count(model_list: object, model: str) -> object:
    """Find a model's number of parameters in a list of models. If only one model is listed, its number is used."""
    return _model_entry(model_list, model)[1].get("n_params")


def _model_entry(model_list: object, model: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Find a model's entry, or the only entry, in a list of models. Also return the model file's metadata."""
    rows = model_list.get("data") if isinstance(model_list, Mapping) else None
    valid_rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    matching_rows = [row for row in valid_rows if row.get("id") == model]
    row = next(iter(matching_rows[:1] or (valid_rows if len(valid_rows) == 1 else [])), {})
    file_metadata = row.get("meta")
    return row, file_metadata if isinstance(file_metadata, Mapping) else {}


def plausible_window(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in PLAUSIBLE_WINDOWS else None

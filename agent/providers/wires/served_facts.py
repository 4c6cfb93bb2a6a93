"""Facts about a model from a Chat Completions server: its window (llama.cpp, LM Studio, vLLM, and others that list
it), its number of parameters and its sampling (llama.cpp)."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ebbtide.agent.errors import ProviderError
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.registry import with_parameters
from ebbtide.agent.providers.setup import is_loopback
from ebbtide.agent.providers.wires.http import bearer, open_client, translate_errors
from ebbtide.agent.providers.wires.origin import Origin

if TYPE_CHECKING:
    import httpx2

REMOTE_TIMEOUT_S, LOCAL_TIMEOUT_S = 1.0, 5.0
"""Timeouts in seconds; the session starts after the response. A server on this machine takes milliseconds, but
seconds while it is busy, and a session that does not know its window fails later."""
MAX_ANSWER_BYTES = 8 << 20
"""Largest response that is read, in bytes."""
LIKELY = range(256, 100_000_000)
"""Plausible window sizes, in tokens."""
LLAMA_CPP_TEMPERATURE = 0.8
"""llama.cpp's default temperature."""
_WINDOW_FIELDS = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


async def with_served_facts(endpoint: Endpoint, facts: ModelFacts) -> ModelFacts:
    """The facts updated with what the server reports. No request is sent if the window is known, or is set for a
    remote server. Settings are not overridden, and a server that does not respond changes nothing."""
    sources = dict(facts.sources)
    window_source = sources.get("context_window")
    is_asked = window_source == "default" or (window_source == "config" and is_here(endpoint))
    pages = await _pages(Origin(facts.id, endpoint)) if is_asked else None
    if pages is None:
        return facts
    props, studio, models = pages
    facts = with_parameters(facts, parameters_of(models, facts.name), has_usual_sampling=has_default_sampling(props))
    found = of_props(props) or of_models(studio, facts.name) or of_models(models, facts.name)
    if found is None or window_source != "default":
        return facts
    return replace(
        facts, context_window=found, known=True, sources=tuple({**sources, "context_window": "live"}.items())
    )


def is_here(endpoint: Endpoint) -> bool:
    """Whether a server is on this machine."""
    return is_loopback(urlsplit(endpoint.base_url).hostname or "")


async def _pages(origin: Origin) -> tuple[object, object, object] | None:
    """The responses of llama.cpp's, LM Studio's and the common endpoint; None for each that does not respond in
    time."""
    base = origin.endpoint.base_url.rstrip("/")
    root = base.removesuffix("/v1")
    with suppress(ProviderError):
        async with open_client(origin) as client:
            asked = (_get(client, origin, url) for url in (f"{root}/props", f"{root}/api/v0/models", f"{base}/models"))
            props, studio, models = await asyncio.gather(*asked)
        return props, studio, models
    return None


async def _get(client: "httpx2.AsyncClient", origin: Origin, url: str) -> object:
    """The response as JSON; None if there is none in time."""
    patience = LOCAL_TIMEOUT_S if is_here(origin.endpoint) else REMOTE_TIMEOUT_S
    with suppress(ProviderError, ValueError, RecursionError, TimeoutError), translate_errors(origin):
        async with asyncio.timeout(patience), client.stream("GET", url, headers=bearer(origin.endpoint)) as response:
            read = bytearray()
            async for chunk in response.aiter_bytes():
                read += chunk
                if len(read) > MAX_ANSWER_BYTES:
                    return None
            return json.loads(read) if response.status_code == 200 else None
    return None


def of_props(props: object) -> int | None:
    """The window of each llama.cpp slot, which is less than the one the server was started with."""
    return _tokens(_settings(props).get("n_ctx"))


def has_default_sampling(props: object) -> bool:
    """Whether llama.cpp reports its default temperature, so that neither the model file nor the command line has set
    one."""
    params = _settings(props).get("params")
    stated = params.get("temperature") if isinstance(params, Mapping) else None
    return isinstance(stated, float) and abs(stated - LLAMA_CPP_TEMPERATURE) < 1e-6


def _settings(props: object) -> Mapping[str, Any]:
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def of_models(listed: object, model: str) -> int | None:
    """The window that a list of models states for a model, or for its only one. The served window takes precedence
    over the trained one."""
    row, meta = _row(listed, model)
    values: Sequence[Any] = [*(row.get(name) for name in _WINDOW_FIELDS), meta.get("n_ctx"), meta.get("n_ctx_train")]
    return next((found for value in values if (found := _tokens(value)) is not None), None)


def parameters_of(listed: object, model: str) -> object:
    """The number of parameters that a list of models states for a model, or for its only one."""
    return _row(listed, model)[1].get("n_params")


def _row(listed: object, model: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The entry of a model, or of the only one, in a list of models, and the metadata of its file."""
    rows = listed.get("data") if isinstance(listed, Mapping) else None
    known = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    named = [row for row in known if row.get("id") == model]
    row = next(iter(named[:1] or (known if len(known) == 1 else [])), {})
    meta = row.get("meta")
    return row, meta if isinstance(meta, Mapping) else {}


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in LIKELY else None

"""What a server of Chat Completions says of its model, where it does: the window that it gives it (llama.cpp, LM
Studio, vLLM and all that name it in their lists), how many weights it has and how its words are drawn (llama.cpp)."""

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
"""Seconds for an answer: the session begins after it. A server on this machine takes a few milliseconds, but seconds
while it works on something else; a session that begins without knowing its window goes wrong later."""
MAX_ANSWER_BYTES = 8 << 20
"""Bytes of an answer that are read."""
LIKELY = range(256, 100_000_000)
"""Tokens that a window may have."""
LLAMA_CPP_TEMPERATURE = 0.8
"""The temperature of llama.cpp where nobody has chosen one."""
_WINDOW_FIELDS = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


async def with_served_facts(endpoint: Endpoint, facts: ModelFacts) -> ModelFacts:
    """The facts with what the server tells. Nobody is asked about a model whose window is known, or set for a server
    that is not on this machine; what is set stays as it is, and a server that does not say changes nothing."""
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
    """What llama.cpp, LM Studio and all of them tell, as far as they answer in time."""
    base = origin.endpoint.base_url.rstrip("/")
    root = base.removesuffix("/v1")
    with suppress(ProviderError):
        async with open_client(origin) as client:
            asked = (_get(client, origin, url) for url in (f"{root}/props", f"{root}/api/v0/models", f"{base}/models"))
            props, studio, models = await asyncio.gather(*asked)
        return props, studio, models
    return None


async def _get(client: "httpx2.AsyncClient", origin: Origin, url: str) -> object:
    """What the server answers in time, as JSON; None where it has nothing to say there."""
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
    """What llama.cpp gives each of its slots, which is less than what it was started with."""
    return _tokens(_settings(props).get("n_ctx"))


def has_default_sampling(props: object) -> bool:
    """Whether llama.cpp says that it draws words as it does where neither the model's file nor whoever started it has
    chosen a temperature."""
    params = _settings(props).get("params")
    stated = params.get("temperature") if isinstance(params, Mapping) else None
    return isinstance(stated, float) and abs(stated - LLAMA_CPP_TEMPERATURE) < 1e-6


def _settings(props: object) -> Mapping[str, Any]:
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    return settings if isinstance(settings, Mapping) else {}


def of_models(listed: object, model: str) -> int | None:
    """What a list of models says of one of them, or of the only one: what it is served with goes before what it was
    trained with."""
    row, meta = _row(listed, model)
    values: Sequence[Any] = [*(row.get(name) for name in _WINDOW_FIELDS), meta.get("n_ctx"), meta.get("n_ctx_train")]
    return next((found for value in values if (found := _tokens(value)) is not None), None)


def parameters_of(listed: object, model: str) -> object:
    """How many weights a list of models says that one of them, or the only one, has."""
    return _row(listed, model)[1].get("n_params")


def _row(listed: object, model: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a list says of one of its models, or of the only one, and what of that is said of its file."""
    rows = listed.get("data") if isinstance(listed, Mapping) else None
    known = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    named = [row for row in known if row.get("id") == model]
    row = next(iter(named[:1] or (known if len(known) == 1 else [])), {})
    meta = row.get("meta")
    return row, meta if isinstance(meta, Mapping) else {}


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in LIKELY else None

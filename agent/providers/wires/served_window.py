"""The window that a server of Chat Completions gives its model, where it says so: llama.cpp, LM Studio, vLLM and all
that name it in their lists."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.errors import ProviderError
from agent.providers.base import Endpoint, ModelFacts
from agent.providers.wires.http import bearer, open_client, translated
from agent.providers.wires.origin import Origin

if TYPE_CHECKING:
    import httpx2

PATIENCE = 1.0
"""Seconds for all that is asked: the session begins after it. Servers on this machine take a few milliseconds."""
LONGEST = 8 << 20
"""Bytes of an answer that are read."""
LIKELY = range(256, 100_000_000)
"""Tokens that a window may have."""
_LOADED = ("loaded_context_length", "max_model_len", "context_length", "max_context_length", "context_window")


async def with_served_window(endpoint: Endpoint, facts: ModelFacts) -> ModelFacts:
    """The facts with the window that the server tells. Nobody is asked about one that is known or set, and a server
    that does not say changes nothing."""
    sources = dict(facts.sources)
    if sources.get("context_window") != "default":
        return facts
    found = await _asked(Origin(facts.id, endpoint), facts.name)
    if found is None:
        return facts
    return replace(
        facts, context_window=found, known=True, sources=tuple({**sources, "context_window": "live"}.items())
    )


async def _asked(origin: Origin, model: str) -> int | None:
    base = origin.endpoint.base_url.rstrip("/")
    root = base.removesuffix("/v1")
    with suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(PATIENCE), open_client(origin) as client:
            asked = (_get(client, origin, url) for url in (f"{root}/props", f"{root}/api/v0/models", f"{base}/models"))
            props, studio, models = await asyncio.gather(*asked)
        return of_props(props) or of_models(studio, model) or of_models(models, model)
    return None


async def _get(client: "httpx2.AsyncClient", origin: Origin, url: str) -> object:
    """What the server answers, as JSON; None where it has nothing to say there."""
    with suppress(ProviderError, ValueError, RecursionError), translated(origin):
        async with client.stream("GET", url, headers=bearer(origin.endpoint)) as response:
            read = bytearray()
            async for chunk in response.aiter_bytes():
                read += chunk
                if len(read) > LONGEST:
                    return None
            return json.loads(read) if response.status_code == 200 else None
    return None


def of_props(props: object) -> int | None:
    """What llama.cpp gives each of its slots, which is less than what it was started with."""
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    return _tokens(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


def of_models(listed: object, model: str) -> int | None:
    """What a list of models says of one of them, or of the only one: what it is served with goes before what it was
    trained with."""
    rows = listed.get("data") if isinstance(listed, Mapping) else None
    known = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    named = [row for row in known if row.get("id") == model]
    chosen = named[:1] or (known if len(known) == 1 else [])
    for row in chosen:
        meta = row.get("meta")
        values: Sequence[Any] = [row.get(name) for name in _LOADED]
        if isinstance(meta, Mapping):
            values = [*values, meta.get("n_ctx"), meta.get("n_ctx_train")]
        return next((found for value in values if (found := _tokens(value)) is not None), None)
    return None


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in LIKELY else None

"""Checks whether a server responds, by requesting its list of models, which is free."""

import time
from collections.abc import Mapping

from ebbtide.agent.errors import ProviderError
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.wires.http import bearer, open_client, translate_errors
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.tools.lazy import dataclass

_LISTS = {"anthropic": "/v1/models", "ollama": "/api/tags"}


@dataclass(frozen=True, slots=True)
class ReachableServer:
    """A server that responded, with any status."""

    host: str
    status: int
    milliseconds: float


async def reach(provider: str, endpoint: Endpoint) -> ReachableServer:
    """Send one request with the key. Raises `ProviderError` if there is no response, or the key is rejected."""
    origin = Origin(provider, endpoint)
    url = endpoint.base_url.rstrip("/") + _LISTS.get(provider, "/models")
    with translate_errors(origin):
        async with open_client(origin) as client:
            began = time.perf_counter()
            async with client.stream("GET", url, headers=_headers(provider, endpoint)) as response:
                milliseconds = (time.perf_counter() - began) * 1000
                if response.status_code in (401, 403, 407):
                    raise origin.failure(response.status_code, response.headers, await response.aread())
                return ReachableServer(origin.host, response.status_code, milliseconds)
    raise ProviderError(f"{origin.host} gave no answer")


def _headers(provider: str, endpoint: Endpoint) -> Mapping[str, str]:
    if provider != "anthropic":
        return bearer(endpoint)
    from ebbtide.agent.providers.wires.anthropic import headers  # noqa: PLC0415  # deferred: one provider is asked at a time

    return headers(endpoint)

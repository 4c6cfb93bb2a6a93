"""Checks whether a server responds, by requesting its list of models, which is free."""

import time
from collections.abc import Mapping
from contextlib import aclosing

from ebbtide.agent.config.clouds import CLOUDS
from ebbtide.agent.errors import ProviderError
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.wires.http import bearer_headers, open_client, translate_errors
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.tools.lazy import dataclass

_MODEL_LIST_PATHS = {"anthropic": "/v1/models", "ollama": "/api/tags"}


@dataclass(frozen=True, slots=True)
class ReachableServer:
    """A server that responded, with any status."""

    host: str
    status: int
    milliseconds: float


async def check_server(provider: str, endpoint: Endpoint) -> ReachableServer:
    """Send one request with the key. Raises `ProviderError` if the server does not respond or rejects the key."""
    origin = Origin(provider, endpoint)
    is_cloud = provider in CLOUDS  # a cloud lists no models at this address, so any response will do
    url = endpoint.base_url if is_cloud else endpoint.base_url.rstrip("/") + _MODEL_LIST_PATHS.get(provider, "/models")
    with translate_errors(origin):
        async with aclosing(open_client(origin)) as client:
            start = time.perf_counter()
            async with client.stream("GET", url, headers={} if is_cloud else _headers(provider, endpoint)) as response:
                milliseconds = (time.perf_counter() - start) * 1000
                if response.status_code == 407 or (response.status_code in (401, 403) and not is_cloud):
                    raise origin.response_error(response.status_code, response.headers, await response.aread())
                return ReachableServer(origin.host, response.status_code, milliseconds)
    raise ProviderError(f"{origin.host} did not respond")


def _headers(provider: str, endpoint: Endpoint) -> Mapping[str, str]:
    if provider != "anthropic":
        return bearer_headers(endpoint)
    return wires.anthropic.build_headers(endpoint)

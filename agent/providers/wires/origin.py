"""A request's server and model, for error messages, and errors for incomplete replies."""

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from ebbtide.agent.errors import AuthFailed, ProviderError, StreamCut, TimedOut
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import Endpoint
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """A request's server and model, for error messages."""

    model: str
    """`provider/name`."""
    endpoint: Endpoint

    def __post_init__(self) -> None:
        key = self.endpoint.key or ""
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise AuthFailed(f"the key for {self.model} contains invalid characters. Check where it is set.")

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint.base_url).netloc.rpartition("@")[2] or self.endpoint.base_url

    def response_error(self, status: int, headers: Mapping[str, str], body: object) -> ProviderError:
        """Build the error for a server's response."""
        return wires.response_errors.classify_error(status, headers, body, self.model, self.endpoint.key, time.time())


def timeout_error(origin: Origin) -> TimedOut:
    return TimedOut(f"{origin.model} did not respond for {origin.endpoint.timeout:g} s. Try again, or raise `timeout`.")


def stream_cut_error(origin: Origin) -> StreamCut:
    return StreamCut(f"the reply of {origin.model} was cut off. Try again.")

"""Converts exceptions of network libraries into provider errors. This module is imported when the first error
occurs."""

import ssl
from types import ModuleType

import httpx2

from ebbtide.agent.errors import AuthFailed, BadRequest, ProviderError
from ebbtide.agent.providers.wires.connection_errors import (
    connect_timeout_error,
    no_http_error,
    proxy_error,
    refused_error,
    tls_error,
    unreachable_error,
)
from ebbtide.agent.providers.wires.error_responses import sanitise_message
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error, timeout_error


def translate_error(error: Exception, origin: Origin, *, has_response_started: bool = True) -> ProviderError:
    """Convert an exception of httpx2, or of a library below it, to a provider error."""
    match error:
        case httpx2.ConnectTimeout():
            return connect_timeout_error(origin)
        case httpx2.TimeoutException():
            return timeout_error(origin)
        case httpx2.ProxyError():
            return proxy_error(origin, str(error))
        case httpx2.ConnectError() if (problem := _tls_cause(error)) is not None:
            return tls_error(origin, problem)
        case httpx2.ConnectError():
            return refused_error(origin, str(error) or type(error).__name__, error)
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return unreachable_error(origin, str(error) or type(error).__name__)
        case httpx2.LocalProtocolError():
            reason = sanitise_message(str(error), origin.endpoint.key)
            return BadRequest(f"the request to {origin.model} cannot be sent: {reason}. Check `base_url`.")
        case httpx2.RemoteProtocolError() if "illegal status line" in str(error).lower():
            return no_http_error(origin)
        case ssl.SSLError():
            return tls_error(origin, error)
        case _ if type(error).__module__.startswith("socksio"):
            return proxy_error(origin, "it does not speak SOCKS")
        case httpx2.TransportError() if not has_response_started:
            return unreachable_error(origin, "the connection was closed before a response")
        case _:
            return stream_cut_error(origin)


def translate_sdk_error(error: Exception, sdk: ModuleType, origin: Origin) -> ProviderError:
    """Convert an exception of the `anthropic` or `openai` SDK to a provider error."""
    if isinstance(error, sdk.APIStatusError):
        return origin.response_error(error.status_code, error.response.headers, error.response.content)
    if isinstance(error, sdk.APIConnectionError) and isinstance(error.__cause__, Exception):
        return translate_error(error.__cause__, origin, has_response_started=False)
    if isinstance(error, sdk.APIError):  # an invalid response
        return stream_cut_error(origin)
    reason = sanitise_message(str(error), origin.endpoint.key)
    return AuthFailed(f"no credentials for {origin.model}: {reason}. Set an API key.")


def _tls_cause(error: BaseException | None) -> ssl.SSLError | None:
    """Find the TLS error that caused another error. None if there is none."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error

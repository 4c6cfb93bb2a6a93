"""Errors for servers that cannot be reached. This module is imported when the first error occurs."""

import ipaddress
import os
import re
import ssl
from urllib.parse import urlsplit

from ebbtide.agent.errors import ProviderError, RouteFailed, Unreachable
from ebbtide.agent.providers.setup import LOCAL_CHAT_SERVERS, is_loopback
from ebbtide.agent.providers.wires import proxies
from ebbtide.agent.providers.wires.error_responses import sanitise_message
from ebbtide.agent.providers.wires.origin import Origin


def connect_error(origin: Origin, error: Exception) -> ProviderError:
    """Return the error for a connection that could not be established."""
    match error:
        case TimeoutError():
            return connect_timeout_error(origin)
        case ssl.SSLError():
            return tls_error(origin, error)
        case OSError(errno=int(number)) if number > 0:
            return refused_error(origin, os.strerror(number), error)
        case OSError(errno=int()):  # an error of the name lookup
            return refused_error(origin, error.strerror or str(error), error)
        case OSError():
            return refused_error(origin, "All connection attempts failed", error)
        case _:
            return unreachable_error(origin, str(error))


def connect_timeout_error(origin: Origin) -> Unreachable:
    return unreachable_error(origin, f"no connection within {origin.endpoint.connect_timeout:g} s")


def refused_error(origin: Origin, reason: str, error: Exception) -> Unreachable:
    """Return the error for a server that accepts no connection. If it is a local model server, it is not running."""
    advice = _start_advice(origin, error)
    if not advice:
        return unreachable_error(origin, reason)
    return Unreachable(
        f"no server is running at `{origin.host}` for {origin.model}. {advice}, then try again.", cause="not_running"
    )


def tls_error(origin: Origin, error: ssl.SSLError) -> ProviderError:
    """Return the error for a failed TLS handshake: an untrusted certificate, or a server without TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it cannot be verified"
        return RouteFailed(
            f"the certificate of `{origin.host}` for {origin.model} is not trusted: {reason}. If your company uses its "
            "own certificates, set `SSL_CERT_FILE` to their file.",
            cause="certificate",
        )
    if re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG", str(error)):
        return RouteFailed(
            f"`{origin.host}` for {origin.model} responds without TLS. Write `http://` in `base_url` if that is "
            "intended.",
            cause="tls",
        )
    return unreachable_error(origin, f"TLS failed: {error}")


def no_http_error(origin: Origin) -> RouteFailed:
    hint = "" if origin.endpoint.base_url.lower().startswith("https:") else ", or write `https://` if it uses TLS"
    return RouteFailed(
        f"the server at `{origin.host}` for {origin.model} does not speak HTTP. Check `base_url`{hint}.", cause="tls"
    )


def proxy_error(origin: Origin, reason: str) -> ProviderError:
    """Build the error for a failed proxy. If the proxy refused, the error is permanent; if it could not reach the
    server, the error may be temporary."""
    proxy = proxies.find_proxy(origin.endpoint.base_url)
    proxy_text = proxy.description if proxy is not None else "the proxy"
    reason_text = sanitise_message(reason, origin.endpoint.key) or "no reason given"
    text = f"{proxy_text} blocks {origin.model}: {reason_text}. Check the proxy, or unset its variable."
    if re.match(r"5\d\d\b", reason_text) or re.search("could not connect|ttl expired", reason_text, re.I):
        return Unreachable(text, cause="proxy")
    return RouteFailed(text, cause="proxy")


def _start_advice(origin: Origin, error: Exception) -> str:
    """Say how to start the model server that refused the connection; empty if it is not known to be a local one, or is
    behind a proxy. It is recognised by its host's name, or by its port if it is in this network."""
    url = urlsplit(origin.endpoint.base_url)
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    is_here = is_loopback(host)
    if proxies.find_proxy(origin.endpoint.base_url) is not None or not (is_here or _is_refusal(error)):
        return ""
    name, command = _local_server(origin, host, port, is_near=is_here or _is_private(host))
    if not name:
        return ""
    place = "" if is_here else f" on `{host}`"
    button = "press Start Server in its window, or run " if name == "LM Studio" else ""
    return f"Start {name}{place}: {button}`{command}`"


def _local_server(origin: Origin, host: str, port: int, *, is_near: bool) -> tuple[str, str]:
    """Return the name of the local model server at an address, and the command that starts it; empty if unknown."""
    host_name = re.sub("[^a-z]", "", host)
    if origin.model.startswith("ollama/") or "ollama" in host_name or (is_near and port == _OLLAMA_PORT):
        variable = "" if port == _OLLAMA_PORT else f"OLLAMA_HOST=127.0.0.1:{port} "
        return "Ollama", f"{variable}ollama serve"
    for name, default_url, command in LOCAL_CHAT_SERVERS:
        if re.sub("[^a-z]", "", name.lower()) in host_name or (is_near and urlsplit(default_url).port == port):
            return name, command.format(port)
    return "", ""


_OLLAMA_PORT = 11434


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a connection failed because nothing listens on the port."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_private(host: str) -> bool:
    """Whether a host is in a private network: its name has no dots, or its address is private."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".local")


def unreachable_error(origin: Origin, reason: str) -> Unreachable:
    reason_text = sanitise_message(reason, origin.endpoint.key)
    proxy = proxies.find_proxy(origin.endpoint.base_url)
    route = f" through {proxy.description}" if proxy is not None else ""
    check_subject = "the proxy" if proxy is not None else "the network"
    return Unreachable(
        f"cannot reach `{origin.host}` for {origin.model}{route}: {reason_text}. Check {check_subject} and `base_url`.",
        cause="proxy" if proxy is not None else "",
    )

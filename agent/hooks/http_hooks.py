"""HTTP hooks: they receive the event as a POST request, and their response is parsed like a program's output."""

import asyncio
import os
import re
import ssl
from collections.abc import Collection, Mapping

import httpx2

from ebbtide.agent.config.hook_tables import HttpAction
from ebbtide.tools.process.child import ChildResult

_VARIABLE_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


async def post_hook(target: HttpAction, payload: bytes, timeout: float, max_bytes: int) -> ChildResult:
    """Send a hook's input and return the server's response, limited to `max_bytes` bytes. Redirects are not followed.
    Raises `ConnectionError` if the server cannot be reached or rejects the request, `ValueError` for invalid headers.
    """
    headers = {name: _expand_header(value, target.variables) for name, value in target.headers}
    try:
        async with asyncio.timeout(timeout):
            body = await _post(target.url, {"Content-Type": "application/json", **headers}, payload, max_bytes)
    except TimeoutError:
        return ChildResult(None, b"", b"")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    return ChildResult(0, body, b"")


async def _post(url: str, headers: Mapping[str, str], body: bytes, max_bytes: int) -> bytes:
    # Loading certificates takes time, and a server without TLS needs none.
    verify = True if url.lower().startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    received = bytearray()
    async with (
        httpx2.AsyncClient(follow_redirects=False, timeout=None, verify=verify) as client,
        client.stream("POST", url, content=body, headers=dict(headers)) as response,
    ):
        if not response.is_success:
            raise ConnectionError(f"it answered with {response.status_code}")
        async for chunk in response.aiter_bytes():
            received += chunk[: max_bytes - len(received)]
            if len(received) == max_bytes:
                break
    return bytes(received)


def _expand_header(value: str, allowed_variables: Collection[str]) -> str:
    """Expand the variables in a header value. Variables that the configuration does not list expand to an empty
    string."""
    return _VARIABLE_REFERENCE.sub(lambda match: _variable_value(match[1] or match[2], allowed_variables), value)


def _variable_value(name: str, allowed_variables: Collection[str]) -> str:
    return os.environ.get(name, "") if name in allowed_variables else ""

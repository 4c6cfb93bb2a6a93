"""A single POST request, with a limit on the size of the answer."""

import ssl
from collections.abc import Mapping

import httpx2


async def post(url: str, headers: Mapping[str, str], body: bytes, most: int) -> bytes:
    """Return up to `most` bytes of the server's answer. Redirects are not followed, and there is no time limit for the
    answer. Raises `ConnectionError` if the server cannot be reached or rejects the request, `ValueError` for invalid
    headers."""
    # No certificates are loaded for a server without TLS.
    verify = True if url.lower().startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    said = bytearray()
    try:
        async with (
            httpx2.AsyncClient(follow_redirects=False, timeout=None, verify=verify) as client,
            client.stream("POST", url, content=body, headers=dict(headers)) as response,
        ):
            if not response.is_success:
                raise ConnectionError(f"it answered with {response.status_code}")
            async for chunk in response.aiter_bytes():
                said += chunk[: most - len(said)]
                if len(said) == most:
                    break
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    return bytes(said)

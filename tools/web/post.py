"""One request that hands a server something and reads what it answers, within bounds."""

import ssl
from collections.abc import Mapping

import httpx2


async def post(url: str, headers: Mapping[str, str], body: bytes, most: int) -> bytes:
    """What the server answers, at most so many bytes of it. It is followed to no other address, and may take its time.
    Raises `ConnectionError` where it cannot be reached or does not accept it, `ValueError` for headers that cannot be
    sent."""
    # No certificates are read for a server without TLS.
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

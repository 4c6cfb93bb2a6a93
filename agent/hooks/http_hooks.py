"""HTTP hooks: the event is sent as a POST request, and the response is read like a program's output."""

import asyncio
import os
import re
from collections.abc import Collection

from ebbtide.agent.config.hook_tables import HttpTarget
from ebbtide.tools.process.child import Exit

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


async def post_hook(target: HttpTarget, told: bytes, seconds: float, most: int) -> Exit:
    """Return the server's response, limited to `most` bytes. Raises `OSError` or `ValueError` if the request fails or
    is rejected."""
    from ebbtide.tools.web.post import post  # noqa: PLC0415  # deferred: few hooks are servers

    headers = {name: _expand_header(value, target.variables) for name, value in target.headers}
    try:
        async with asyncio.timeout(seconds):
            said = await post(target.url, {"Content-Type": "application/json", **headers}, told, most)
    except TimeoutError:
        return Exit(None, b"", b"")
    return Exit(0, said, b"")


def _expand_header(value: str, named: Collection[str]) -> str:
    """Expand variables in a header value. Variables that the configuration does not list expand to nothing."""
    return _REFERENCE.sub(lambda found: _value(found[1] or found[2], named), value)


def _value(name: str, named: Collection[str]) -> str:
    return os.environ.get(name, "") if name in named else ""

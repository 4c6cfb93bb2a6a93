"""Hooks that are servers: what happens is posted to them, and what they answer is read as what a program prints."""

import asyncio
import os
import re
from collections.abc import Collection

from ebbtide.agent.config.hook_tables import HttpTarget
from ebbtide.tools.process.child import Exit

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


async def post_hook(target: HttpTarget, told: bytes, seconds: float, most: int) -> Exit:
    """What the server answers, at most so many bytes of it. Raises `OSError` or `ValueError` where it gives no answer,
    or none that accepts what it is told."""
    from ebbtide.tools.web.post import post  # noqa: PLC0415  # deferred: few hooks are servers

    headers = {name: _expand_header(value, target.variables) for name, value in target.headers}
    try:
        async with asyncio.timeout(seconds):
            said = await post(target.url, {"Content-Type": "application/json", **headers}, told, most)
    except TimeoutError:
        return Exit(None, b"", b"")
    return Exit(0, said, b"")


def _expand_header(value: str, named: Collection[str]) -> str:
    """The value of a header. Variables that were not named beforehand are empty."""
    return _REFERENCE.sub(lambda found: _value(found[1] or found[2], named), value)


def _value(name: str, named: Collection[str]) -> str:
    return os.environ.get(name, "") if name in named else ""

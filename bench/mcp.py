"""Measures the overhead of an MCP tool call over the SDK's own client, with pipes: `python -m bench.mcp`.

Both clients call the same program alternately, one call at a time. Each round gives the difference of the medians."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ebbtide.tools.base import no_progress
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import ServerSpec

ROUNDS = 10
CALLS_PER_ROUND = 100
MAX_OVERHEAD_MS = 3.0
"""Limit in milliseconds."""
SERVER_COMMAND = (
    sys.executable,
    "-I",
    "-S",
    str(Path(__file__).parents[1] / "tests" / "tools" / "mcp" / "raw.py"),
    "well",
)
TEXT_SIZES = {"a word": 5, "100 kB": 100_000, "10 MB": 10_000_000}


async def median_call_time(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Return the median time of a call in milliseconds."""
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "sdk.log").open("w") as errors:
        ours = McpServer(
            ServerSpec("ours", SERVER_COMMAND), ClientHandlers(), Path(folder) / "ours.log", Path(folder) / "login"
        )
        ours.start()
        await ours.wait_until_started()
        parameters = StdioServerParameters(command=SERVER_COMMAND[0], args=list(SERVER_COMMAND[1:]))
        try:
            async with Client(stdio_client(parameters, errlog=errors)) as sdk:
                return max([await _compare_calls(ours, sdk, name, size) for name, size in TEXT_SIZES.items()])
        finally:
            await ours.close()


async def _compare_calls(ours: McpServer, sdk: Client, name: str, size: int) -> int:
    calls = max(CALLS_PER_ROUND * 10_000 // (10_000 + size), 3)
    text = {"text": "x" * size}
    pairs = [
        (
            await median_call_time(lambda: sdk.call_tool("echo", text), calls),
            await median_call_time(lambda: ours.call("echo", text, no_progress), calls),
        )
        for _ in range(ROUNDS)
    ]
    theirs, mine = (statistics.median(times) for times in zip(*pairs, strict=True))
    overhead = statistics.median(mine - theirs for theirs, mine in pairs)
    print(f"{name}: SDK {theirs:.2f} ms, here {mine:.2f} ms, {overhead:+.2f} ms ({mine / theirs:.2f}×)")
    return int(overhead > MAX_OVERHEAD_MS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

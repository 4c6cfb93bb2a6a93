"""A server with a bit of everything, built with the SDK's own server side. `python -m tests.tools.mcp.serving` speaks
over its pipes; with a port, over streamable HTTP on the loopback."""

import asyncio
import base64
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = MCPServer("everything", version="1.2", instructions="Ask me anything.")


@server.tool(description="Says it again.")
def echo(text: str) -> str:
    return text


@server.tool(description="Adds two numbers.")
def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


@server.tool(description="A small picture.")
def picture() -> Image:
    return Image(data=PIXEL, format="png")


@server.tool(description="Always fails.")
def fail() -> str:
    raise ValueError("there is nothing to be had")


@server.tool(description="Says how far it is.")
async def steps(count: int, context: Context) -> str:
    for step in range(count):
        await context.report_progress(step + 1, count, f"step {step + 1}")
    return f"{count} steps"


@server.tool(description="Never answers.")
async def hang(context: Context) -> str:
    await context.report_progress(0)
    await asyncio.Event().wait()
    return "never"


def main() -> None:
    if sys.argv[1:] == ["http"]:
        asyncio.run(over_http())
    else:
        server.run("stdio")


async def over_http() -> None:
    """Serves on a free port, which is the first line that it prints."""
    app = server.streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listening])


if __name__ == "__main__":
    main()

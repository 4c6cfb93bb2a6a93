"""A server with a bit of everything, built with the SDK's own server side.
`python -m tests.tools.integrations.mcp.serving` speaks over its pipes;
with a port, over streamable HTTP on the loopback."""

import asyncio
import base64
import socket
import sys
from typing import Annotated

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import TextResource
from mcp.server.mcpserver.utilities.types import Image
from pydantic import BaseModel, Field
from starlette.applications import Starlette

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = MCPServer("everything", version="1.2")


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


class Name(BaseModel):
    name: str = Field(description="Yours")


def ask_name() -> Elicit[Name]:
    return Elicit("Who are you?\x1b[2J", Name)


def ask_model() -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Tell a joke."))
    return Sample([message], max_tokens=50, system_prompt="Be funny.")


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(description="Asks the user.")
def greet(asked: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    return f"Hello {asked.data.name}" if asked.action == "accept" else asked.action


@server.tool(description="Asks a model.")
def joke(sampled: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    return f"{sampled.model}: {sampled.content.text if isinstance(sampled.content, types.TextContent) else ''}"


@server.tool(description="Asks for the folders.")
def folders(found: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.tool(description="Adds a tool, a resource and a prompt.")
async def grow(context: Context) -> str:
    server.add_tool(echo, name="grown")
    server.add_resource(TextResource(uri="memo://grown", name="grown", text="I grew."))
    server.add_prompt(Prompt.from_function(review, name="grown"))
    await context.notify_tools_changed()
    await context.notify_resources_changed()
    await context.notify_prompts_changed()
    return "grown"


@server.resource("memo://today", description="What is due.\x1b[31m", mime_type="text/plain")
def today() -> str:
    return "Nothing is due."


@server.resource("memo://picture", mime_type="image/png")
def painting() -> bytes:
    return PIXEL


@server.resource("memo://day/{day}")
def day(day: str) -> str:
    return f"Nothing is due on {day}."


@server.prompt(description="Reviews a file.")
def review(path: str, tone: str = "kind") -> str:
    return f"Review {path} and be {tone}."


def main() -> None:
    if sys.argv[1:] == ["http"]:
        asyncio.run(listen(server.streamable_http_app()))
    elif sys.argv[1:] == ["sse"]:
        asyncio.run(listen(server.sse_app()))
    else:
        server.run("stdio")


async def listen(app: Starlette) -> None:
    """Serves on a free port, which is the first line that it prints."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listening])


if __name__ == "__main__":
    main()

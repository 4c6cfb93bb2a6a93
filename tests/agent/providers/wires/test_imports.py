"""What a program loads to talk to a model over plain HTTP."""

import subprocess
import sys

from tests.kit.fake_provider import FakeProvider, Turn

PROGRAM = """
import asyncio, sys
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.wires import anthropic
from ebbtide.agent.providers.wires.adapter import WireProvider
from ebbtide.agent.providers.base import Endpoint, Request
from ebbtide.agent.providers.registry import find_registry_facts

async def main(url):
    facts = find_registry_facts("anthropic", "claude-opus-4-5")
    provider = WireProvider(anthropic.ADAPTER, facts, Window(200_000, 8_192), Endpoint(url, "key"), "http")
    request = Request("", (User((Text("hi"),)),), (), 100, "s")
    chunks = [chunk async for chunk in provider.stream(request)]
    await provider.close()
    return chunks[-1].message.text

print(asyncio.run(main(sys.argv[1])))
sdks = {"anthropic", "openai", "ollama", "httpx", "httpx2", "httpcore2", "anyio", "http.client", "pydantic"}
print(sorted(sdks & set(sys.modules)))
"""


def test_the_http_wire_loads_no_sdk_and_no_http_client() -> None:
    with FakeProvider([Turn(text="hi there")]) as server:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.url], capture_output=True, text=True, timeout=60, check=False
        )
    assert (ran.stdout, ran.stderr) == ("hi there\n[]\n", "")

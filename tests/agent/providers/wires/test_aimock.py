"""The adapters against a model server that others wrote: aimock, which is checked against the real APIs.

`make check` installs it where there is Node; EBB_AIMOCK names another `llmock`.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.errors import Overloaded
from ebbtide.agent.messages import Reasoning, ToolOutput, User
from ebbtide.agent.providers.factory import build_provider
from tests.kit.adapters import ADAPTERS, WINDOW, Adapter, Library, collect, endpoint_of, hello, last
from tests.kit.commands import ROOT
from tests.kit.session import CONFIG

FIXTURES = {
    "fixtures": [{"match": {"userMessage": "boom"}, "response": {"error": {"message": "Overloaded"}, "status": 529}},
                 {"match": {"hasToolResult": True}, "response": {"content": "It says: grüezi ✓"}},
                 {"match": {"userMessage": "read it"},
                  "response": {"content": "I look.",
                               "reasoning": "The file comes first.",
                               "toolCalls": [{"name": "read", "arguments": '{"path":"a.txt"}'},
                                             {"name": "shell", "arguments": '{"command":"ls"}'}]}},
                 {"match": {"userMessage": "hello"}, "response": {"content": "Hello yourself."}}],
}  # fmt: skip


def command() -> list[str] | None:
    """How aimock is started here, or None."""
    installed = ROOT / ".venv" / "aimock" / "node_modules" / ".bin" / "llmock"
    named = os.environ.get("EBB_AIMOCK") or (str(installed) if installed.exists() and shutil.which("node") else None)
    return [named] if named else None


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    start = command()
    if start is None:
        pytest.skip("aimock is not installed: there is no Node here, or no npm registry")
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = Path(fixtures.parent / "log")
    with log.open("w") as sink:
        server = subprocess.Popen([*start, "-p", str(port), "-f", str(fixtures)], stdout=sink, stderr=sink)
        try:
            wait_for(port, server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when the server takes connections; it gives no other sign that a test could wait for."""
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)  # between two looks at the port
    pytest.fail(f"aimock did not start: {log.read_text()}")


@pytest.mark.parametrize("wire", ["http", "sdk"])
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
async def test_a_turn_with_calls(url: str, adapter: Adapter, wire: Library) -> None:
    provider = adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, url), wire)
    try:
        reply = await last(provider, hello("read it"))
        assert reply.message.text == "I look."
        assert [(call.name, call.arguments) for call in reply.message.calls] == [
            ("read", {"path": "a.txt"}),
            ("shell", {"command": "ls"}),
        ]
        assert reply.stop_reason == "calls"
        thoughts = [part.text for part in reply.message.parts if isinstance(part, Reasoning)]
        # To Ollama's clients aimock 1.43 sends reasoning under a name that Ollama does not use.
        assert thoughts == ([] if adapter.name == "ollama" else ["The file comes first."])

        outputs = User(tuple(ToolOutput(call.id, "grüezi ✓") for call in reply.message.calls))
        request = hello("read it")
        answer = await last(provider, replace(request, messages=(*request.messages, reply.message, outputs)))
        assert answer.message.text == "It says: grüezi ✓"
        assert not answer.message.calls
        assert answer.stop_reason == "end"

        with pytest.raises(Overloaded):
            await collect(provider, hello("boom"))
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("model", "environment"),
    [
        ("bedrock/anthropic.claude-sonnet-5-5", {"AWS_BEARER_TOKEN_BEDROCK": "k", "ANTHROPIC_BEDROCK_BASE_URL": ""}),
        ("foundry/claude-sonnet-5-5", {"ANTHROPIC_FOUNDRY_API_KEY": "k", "ANTHROPIC_FOUNDRY_BASE_URL": ""}),
        ("azure/gpt-5-mini", {"AZURE_OPENAI_API_KEY": "k", "OPENAI_API_VERSION": "2024-10-21"}),
    ],
)
async def test_a_turn_with_calls_at_a_cloud(
    url: str, model: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    addresses = {name: url for name in environment if name.endswith("_BASE_URL")}
    provider = await build_provider(CONFIG, model, {"AZURE_OPENAI_ENDPOINT": url, **environment, **addresses})
    try:
        reply = await last(provider, hello("read it"))
        assert reply.message.text == "I look."
        assert [(call.name, call.arguments) for call in reply.message.calls] == [
            ("read", {"path": "a.txt"}),
            ("shell", {"command": "ls"}),
        ]
        outputs = User(tuple(ToolOutput(call.id, "grüezi ✓") for call in reply.message.calls))
        request = hello("read it")
        answer = await last(provider, replace(request, messages=(*request.messages, reply.message, outputs)))
        assert answer.message.text == "It says: grüezi ✓"
        with pytest.raises(Overloaded):
            await collect(provider, hello("boom"))
    finally:
        await provider.close()

"""The adapters against two servers that others wrote and people use: LiteLLM's proxy in front of a provider, and
llama.cpp's server with a small model.

`make servers` installs them and runs this; without them it is skipped.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.errors import Overloaded
from ebbtide.agent.messages import ToolOutput, User
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.wires.server_facts import add_server_facts
from tests.kit.adapters import ADAPTERS, WINDOW, Adapter, collect, endpoint_of, hello, last
from tests.kit.commands import ROOT
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn

SERVERS = ROOT / ".venv" / "servers" / "bin"
THREE = [adapter for adapter in ADAPTERS if adapter.name in ("anthropic", "responses", "chat")]
MODELS = {"anthropic": "claude-haiku-4-5", "responses": "gpt-5-mini", "chat": "gpt-5-mini"}

pytestmark = pytest.mark.skipif(
    not (SERVERS / "ready").exists(), reason="`make servers` has not installed LiteLLM and llama.cpp"
)


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with log.open("w") as sink:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def answered(recorded: Recorded) -> Turn:
    """What the provider behind the proxy answers."""
    asked = json.dumps(recorded.body)
    if "boom" in asked:
        return Turn(status=529, error=("overloaded_error", "Overloaded"))
    if "the output" in asked:
        return Turn(text="It says: grüezi ✓")
    return Turn(text="I look.", calls=(Call("read", {"path": "a.txt"}), Call("shell", {"command": "ls"})))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("proxy")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with FakeProvider([answered], rules=None) as upstream:
        models = [("anthropic", "claude-haiku-4-5", upstream.url), ("openai", "gpt-5-mini", f"{upstream.url}/v1")]
        rows = [
            {
                "model_name": name,
                "litellm_params": {"model": f"{provider}/{name}", "api_base": url, "api_key": "k", "max_retries": 0},
            }
            for provider, name, url in models
        ]
        (folder / "config.yaml").write_text(json.dumps({"model_list": rows, "router_settings": {"num_retries": 0}}))
        command = [str(SERVERS / "litellm"), "--config", str(folder / "config.yaml"), "--port", str(port)]
        with running([*command, "--host", "127.0.0.1"], folder / "log") as process:
            wait_for(port, process, folder / "log")
            yield f"http://127.0.0.1:{port}"


def wait_for(port: int, server: subprocess.Popen[str], log: Path) -> None:
    """Returns when the server takes connections; it gives no other sign that a test could wait for."""
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.1)  # between two looks at the port
    pytest.fail(f"the proxy did not start: {log.read_text()}")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("llama") / "log"
    command = [str(SERVERS / "python"), str(ROOT / "tests" / "kit" / "llama_server.py")]
    with running(command, log) as process:
        assert process.stdout is not None
        address = next((line.strip() for line in process.stdout if line.startswith("http")), "")
        assert address, log.read_text()
        yield address


@pytest.mark.parametrize("adapter", THREE, ids=lambda adapter: adapter.name)
async def test_a_turn_with_calls_through_a_proxy(proxy: str, adapter: Adapter) -> None:
    facts = replace(adapter.facts, name=MODELS[adapter.name])
    provider = adapter.make(facts, WINDOW, endpoint_of(adapter, proxy), "http")
    request = hello("read it")
    try:
        reply = await last(provider, request)
        assert reply.message.text == "I look."
        calls = [(call.name, call.arguments) for call in reply.message.calls]
        assert calls == [("read", {"path": "a.txt"}), ("shell", {"command": "ls"})]
        assert (reply.stop_reason, reply.usage.prompt, reply.usage.output) == ("calls", 10, 5)
        outputs = User(tuple(ToolOutput(call.id, "the output") for call in reply.message.calls))
        answer = await last(provider, replace(request, messages=(*request.messages, reply.message, outputs)))
        assert (answer.message.text, answer.message.calls, answer.stop_reason) == ("It says: grüezi ✓", (), "end")
        with pytest.raises(Overloaded):
            await collect(provider, hello("boom"))
    finally:
        await provider.close()


@pytest.mark.parametrize("adapter", THREE, ids=lambda adapter: adapter.name)
async def test_a_reply_of_a_model_at_llama_cpp(llama: str, adapter: Adapter) -> None:
    facts = ModelFacts(adapter.facts.provider, "smollm2", 8192, 64)
    provider = adapter.make(facts, WINDOW, endpoint_of(adapter, llama), "http")
    try:
        reply = await last(provider, replace(hello("Say hello."), tools=(), max_output_tokens=16))
    finally:
        await provider.close()
    assert reply.message.text.strip()
    assert reply.stop_reason in ("end", "max_tokens")
    assert reply.usage.prompt > 5, reply.usage
    assert 0 < reply.usage.output <= 16


async def test_llama_cpp_is_asked_for_its_window(llama: str) -> None:
    unknown = replace(ModelFacts("openai-chat", "smollm2", 131_072, 8192), sources=(("context_window", "default"),))
    facts = await add_server_facts(Endpoint(f"{llama}/v1", None, 30.0), unknown)
    assert (facts.context_window, dict(facts.sources)["context_window"]) == (8192, "live")

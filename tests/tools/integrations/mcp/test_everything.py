"""The client against a server that others wrote to show all of the protocol: server-everything, in Node. `make check`
installs it. Where there is no Node, these tests are skipped."""

import gzip
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from ebbtide.tools.base import Result, no_progress
from ebbtide.tools.integrations.mcp.client_handlers import AcceptedAnswer, SamplingReply
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from tests.kit.polling import until
from tests.tools.integrations.mcp.conftest import ROOT, Starts
from tests.tools.integrations.mcp.desks import RecordingDesk

PACKED = ("application/gzip", b"hello")
TEXT = "demo://resource/dynamic/text/1"
CALLS: dict[str, tuple[dict[str, object], Callable[[Result], bool]]] = {
    "echo": ({"message": "hi"}, lambda result: result == Result("Echo: hi")),
    "get-annotated-message": (
        {"messageType": "error", "includeImage": True},
        lambda result: result.text == "Error: Operation failed" and _pictures(result) == ["image/png"],
    ),
    "get-env": ({}, lambda result: "PATH" in json.loads(result.text)),
    "get-resource-links": ({"count": 2}, lambda result: result.text.count("[a link to `demo://resource/") == 2),
    "get-resource-reference": ({"resourceType": "Text", "resourceId": 1}, lambda result: f"[`{TEXT}`:]" in result.text),
    "get-structured-content": (
        {"location": "New York"},
        # Said as text and as structured content, and shown once.
        lambda result: json.loads(result.text) == {"temperature": 33, "conditions": "Cloudy", "humidity": 82},
    ),
    "get-sum": ({"a": 1, "b": 2}, lambda result: result == Result("The sum of 1 and 2 is 3.")),
    "get-tiny-image": ({}, lambda result: _pictures(result) == ["image/png"]),
    "gzip-file-as-resource": (
        {"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"},
        lambda result: [(each.media_type, gzip.decompress(each.data)) for each in result.files] == [PACKED],
    ),
    "toggle-simulated-logging": ({}, lambda result: result.text.startswith("Started simulated")),
    "toggle-subscriber-updates": ({}, lambda result: result.text.startswith("Started simulated")),
    "trigger-long-running-operation": (
        {"duration": 0.4, "steps": 2},
        lambda result: result.text == "Long running operation completed. Duration: 0.4 seconds, Steps: 2.",
    ),
    "get-roots-list": ({}, lambda result: f"URI: {ROOT.as_uri()}" in result.text),
    "trigger-elicitation-request": ({}, lambda result: "- Name: Ann" in result.text),
    "trigger-url-elicitation": (
        {"url": "https://example.com/in", "message": "Log in"},
        lambda result: "User completed the URL elicitation flow" in result.text,
    ),
    "trigger-sampling-request": ({"prompt": "hello", "maxTokens": 10}, lambda result: '"Knock knock."' in result.text),
}  # fmt: skip


def _pictures(result: Result) -> list[str]:
    return [picture.media_type for picture in result.images]


@pytest.fixture(scope="module")
def program() -> str:
    """How server-everything is started here."""
    installed = ROOT / ".venv" / "everything" / "node_modules" / ".bin" / "mcp-server-everything"
    is_there = installed.exists() and shutil.which("node")
    found = os.environ.get("EBB_EVERYTHING") or (str(installed) if is_there else None)
    if found is None:
        pytest.skip("server-everything is not installed: there is no Node here, or no npm registry")
    return found


@pytest.fixture(scope="module")
def served(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command, environment = [program, "streamableHttp"], {**os.environ, "PORT": str(port)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            while f"listening on port {port}" not in process.stderr.readline():
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@pytest.fixture(params=["pipes", "http"])
def spec(request: pytest.FixtureRequest, program: str) -> ServerSpec:
    if request.param == "http":
        return ServerSpec("everything", url=request.getfixturevalue("served"))
    return ServerSpec("everything", (program, "stdio"))


async def test_everything_that_the_server_can_do(spec: ServerSpec, start: Starts) -> None:
    handlers = RecordingDesk(AcceptedAnswer({"name": "Ann"}), SamplingReply("Knock knock.", "some-model"), (ROOT,))
    server: McpServer = start(spec, handlers)
    state = await server.wait_until_started()
    assert (state.phase, state.detail, state.name) == ("ready", "", "Everything Reference Server")
    # Tools for what a client says it can do are added once it has said so, and told of.
    await until(lambda: {tool.original_name for tool in server.state.tools} == set(CALLS))
    assert server.state.notes == ("`simulate-research-query` is skipped: it runs only as an asynchronous task",)
    progress: list[str] = []
    results = {name: await server.call(name, arguments, progress.append) for name, (arguments, _) in CALLS.items()}
    assert [name for name, (_, is_right) in CALLS.items() if not is_right(results[name])] == []
    assert progress[0] == "1 of 2\n"
    # The packed file is a resource of its own from then on.
    await until(lambda: "demo://resource/session/a.gz" in [each.uri for each in server.state.resources])
    assert (await server.read_resource(TEXT)).text.startswith("Resource 1: This is a plaintext resource")
    (message,) = await server.get_prompt("args-prompt", {"city": "Rome"})
    assert message.text == "What's weather in Rome?"
    assert await server.call("echo", {"message": "still there"}, no_progress) == Result("Echo: still there")

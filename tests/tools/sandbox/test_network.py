"""What commands in a real sandbox reach of the network, and of each other's servers. It needs bubblewrap."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.tools.base import Result, Workspace
from ebbtide.tools.bash import Bash
from ebbtide.tools.network import tunnel
from ebbtide.tools.network.destinations import NetworkDestination
from ebbtide.tools.network.proxy import UpstreamConnection
from ebbtide.tools.sandbox.network import SessionNetwork
from ebbtide.tools.sandbox.network_namespace import namespace_problem
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, landlock_problem
from tests.kit.commands import ROOT
from tests.kit.polling import soon
from tests.tools.sandbox import probes

WHY_NOT = namespace_problem()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"the network of a sandbox is not tried: {WHY_NOT}")
PYTHON = os.path.realpath(sys.executable)
LANDLOCK = NoSandbox("") if landlock_problem() else SandboxProgram("landlock", ())


class Rules:
    """Open example.org."""

    def __init__(self) -> None:
        self.asked, self.closed = list[str](), 0
        self.answer: asyncio.Event | None = None
        self.allows_all_hosts, self.answer_wait_seconds = False, 0.0

    async def refusal_reason(self, place: NetworkDestination) -> str:
        self.asked.append(str(place))
        if self.answer is not None:
            await self.answer.wait()
        return "" if place.host == "example.org" else f"no rule allows network access to `{place}`"

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is not in /tmp, which is another one in a sandbox."""
    cache = ROOT / ".pytest_cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path.home() if cache.is_relative_to("/tmp") else cache) as place:
        monkeypatch.setenv("HOME", place)
        yield Path(place).resolve()


@pytest.fixture
async def boxed(root: Path) -> AsyncIterator[Workspace]:
    """A working folder whose commands reach a server of the test by the name of example.org."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        async def connect(place: NetworkDestination, is_tunnel: bool) -> UpstreamConnection:
            return UpstreamConnection(*await asyncio.open_connection("127.0.0.1", port))

        network = SessionNetwork((), connect)
        sandbox = Sandbox(root, root / "out" / "tmp", has_network=False, network=network)
        made = Workspace(root, root / "out", sandbox=sandbox, network_policy=Rules())
        yield made
        await made.jobs.close()
        await network.close()


async def bash(workspace: Workspace, command: str, **more: object) -> Result:
    return await Bash().run({"command": command, **more}, workspace)


def rules(workspace: Workspace) -> Rules:
    assert isinstance(workspace.network_policy, Rules)
    return workspace.network_policy


async def test_commands_reach_what_rules_open_by_the_proxy_of_their_environment(boxed: Workspace) -> None:
    result = await bash(boxed, "curl -sS http://example.org/a; curl -sS -p http://example.org:8080/b")
    assert result.text == "hi\nhi\nexit code 0"
    assert (rules(boxed).asked, rules(boxed).closed) == (["example.org", "example.org:8080"], 1)


async def test_what_was_refused_is_told_to_the_model_and_not_asked_about_again(boxed: Workspace) -> None:
    result = await bash(boxed, "git clone -q https://other.net/a /tmp/a; curl -sS http://other.net/; false")
    assert result.text.splitlines()[-2:] == [
        "exit code 1",
        "`other.net` was not reached: no rule allows network access to `other.net`",
    ]
    assert "no rule allows network access to `other.net`\n" in result.text
    assert "CONNECT tunnel failed, response 403" in result.text
    assert result.sandbox_block == ""


async def test_a_refusal_of_the_proxy_is_not_taken_for_one_of_a_registry(boxed: Workspace) -> None:
    """npm says `E403` of both."""
    (Path.home() / ".npmrc").write_text("//registry.other.net/:_authToken=0123456789abcdef\n")
    command = "curl -sS http://other.net/ ; echo npm error code E403; false"
    assert (await bash(boxed, command)).sandbox_block == ""
    alone = await bash(boxed, "echo npm error code E403; false")
    assert alone.sandbox_block == f"it sees `{Path.home()}/.npmrc` without the passwords or tokens in it"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
async def test_npm_goes_by_the_proxy_of_the_sandbox_though_its_settings_name_another(boxed: Workspace) -> None:
    """Behind a company's proxy, npm's manual has it in `~/.npmrc`."""
    settings = "proxy=http://127.0.0.1:9/\nhttps-proxy=http://127.0.0.1:9/\nnoproxy=example.org\nfetch-retries=0\n"
    (Path.home() / ".npmrc").write_text(settings)
    await bash(boxed, "npm view left --registry http://example.org/")
    assert rules(boxed).asked == ["example.org"]
    serve = f"{PYTHON} -m http.server 8123 --bind 127.0.0.1"
    job = await bash(boxed, serve, background=True)
    assert job.program is not None
    await asyncio.sleep(1)
    result = await bash(boxed, "npm view left --registry http://127.0.0.1:8123/ 2>&1 | grep -o E404 | head -n 1")
    assert result.text == "E404\nexit code 0"
    assert rules(boxed).asked == ["example.org"]


async def test_curl_goes_by_the_proxy_of_the_sandbox_though_its_settings_name_another(boxed: Workspace) -> None:
    (Path.home() / ".curlrc").write_text("proxy = http://127.0.0.1:9/\n")
    assert (await bash(boxed, "curl -sS http://example.org/")).text == "hi\nexit code 0"
    (Path.home() / ".curlrc").write_text("silent\n")
    assert (await bash(boxed, "cat ~/.curlrc")).text == "silent\nexit code 0"


async def test_settings_for_git_that_a_hook_has_spoilt_harm_no_command(boxed: Workspace) -> None:
    assert boxed.sandbox is not None
    boxed.sandbox.variables["GIT_CONFIG_COUNT"] = "many"
    result = await bash(boxed, "echo $GIT_CONFIG_COUNT $GIT_CONFIG_KEY_0; git config http.proxy | cut -c-12")
    assert result.text == "1 http.proxy\nhttp://127.7\nexit code 0"


async def test_git_reaches_by_ssh_what_a_rule_opens_at_that_port(boxed: Workspace) -> None:
    result = await bash(boxed, "git ls-remote ssh://git@other.net/a.git")
    assert result.text.endswith("`other.net:22` was not reached: no rule allows network access to `other.net:22`")
    direct = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {PYTHON} -I -S {tunnel.__file__} example.org 22"
    assert (await bash(boxed, f"{direct} | tail -1")).text == "hi\nexit code 0"
    assert rules(boxed).asked == ["other.net:22", "example.org:22"]


async def test_past_the_proxy_there_is_nothing(boxed: Workspace) -> None:
    result = await bash(boxed, "curl -sS --noproxy '*' http://example.org/")
    assert result.sandbox_block == "only programs that use `HTTPS_PROXY` have network"
    assert rules(boxed).asked == []


async def test_a_server_of_this_machine_that_is_not_seen_is_told_so(boxed: Workspace) -> None:
    result = await bash(boxed, "curl -sS http://localhost:8124/")
    assert (
        result.sandbox_block == "it can reach only those servers on this machine that commands of this session started"
    )


async def test_servers_of_a_job_are_reached_by_later_commands(boxed: Workspace) -> None:
    (boxed.root / "index.html").write_text("served\n")
    await bash(boxed, f"{PYTHON} -m http.server --bind 127.0.0.1 8123", background=True)
    waits = "for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/8123) 2>&- && break; sleep 0.02; done"
    result = await bash(boxed, f"{waits}; curl -sS http://127.0.0.1:8123/ http://localhost:8123/")
    assert result.text.startswith("served\nserved\n")
    assert rules(boxed).asked == []


async def test_the_time_of_a_command_rests_while_the_user_is_asked(boxed: Workspace) -> None:
    asked = rules(boxed)
    asked.answer = asyncio.Event()
    running = asyncio.create_task(bash(boxed, "curl -sS http://example.org/", timeout=1))
    await soon(lambda: asked.asked == ["example.org"])
    asked.answer_wait_seconds = 1.5
    await asyncio.wait({running}, timeout=1.2)
    assert not running.done()
    asked.answer.set()
    assert (await running).text == "hi\nexit code 0"


async def test_a_command_that_is_ended_leaves_no_question(boxed: Workspace) -> None:
    asked = rules(boxed)
    asked.answer = asyncio.Event()
    running = asyncio.create_task(bash(boxed, "curl -sS http://example.org/"))
    await soon(lambda: asked.asked == ["example.org"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asked.closed == 1


async def test_hostile_programs_reach_nothing_but_the_proxy(boxed: Workspace) -> None:
    script = boxed.root / "probes.py"
    shutil.copy(probes.__file__, script)
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    outside = {
        "tcp": listening.sockets[0].getsockname()[1],
        "udp": 53,
        "abstract": "x",
        "named": "/tmp/x",
        "agent": "/x",
    }
    wanted = [
        "reach a server here", "send a datagram", "reach a socket without a file", "reach the world", "use raw sockets",
        "join a namespace", "make namespaces", "use the namespaces that it was left",
    ]  # fmt: skip
    only = f"{PYTHON} probes.py '{json.dumps(outside | {'only': wanted})}'"
    result = await bash(boxed, only)
    assert {name: report.startswith("no: ") for name, report in json.loads(result.text.splitlines()[0]).items()} == (
        dict.fromkeys(wanted, True)
    )
    listening.close()


async def test_commands_that_may_only_look_have_no_network(boxed: Workspace) -> None:
    assert boxed.sandbox is not None
    boundary = boxed.sandbox.boundary(may_write=False)
    assert boundary.network == "none"


@pytest.mark.skipif(isinstance(LANDLOCK, NoSandbox), reason="the kernel has no Landlock that could be tried")
async def test_where_places_cannot_be_told_apart_all_are_closed_unless_all_are_open(
    boxed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert boxed.sandbox is not None
    monkeypatch.setattr("ebbtide.tools.sandbox.sandbox.detect_sandbox", lambda: LANDLOCK)
    alone = replace(boxed, sandbox=replace(boxed.sandbox, network=None))
    opens = f"{PYTHON} -c 'import socket; socket.socket(socket.AF_INET); print(1)'"
    assert "PermissionError" in (await bash(alone, opens)).text
    rules(boxed).allows_all_hosts = True
    assert (await bash(alone, opens)).text == "1\nexit code 0"

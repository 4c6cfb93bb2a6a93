"""`ebb mcp serve` as another agent starts it: a process of its own, asked by the protocol's own client, and by one that
knows no manners."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.kit.commands import ROOT, command, environment
from tests.kit.polling import is_alive, soon
from tests.kit.session import bash, calls
from tests.kit.user import User

HANG = "echo $$ > pid; sleep 600"
AUTO = ("--permission-mode", "auto")


@asynccontextmanager
async def served(user: User, *replies: object, flags: tuple[str, ...] = (), **env: str) -> AsyncIterator[Client]:
    """A client of a server in the user's project whose tasks are done by a scripted model."""
    program, *words = command("mcp", "serve", "-C", str(user.project), "-m", user.script(*replies), *flags)
    target = StdioServerParameters(command=program, args=words, env=environment(user.home, env), cwd=str(ROOT))
    with (user.home / "err").open("w") as err:
        async with Client(stdio_client(target, errlog=err)) as client:
            yield client


async def asked(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says; `! ` begins what it could not do."""
    answer = await client.call_tool(tool, arguments)
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return f"! {content.text}" if answer.is_error else content.text


def pid_in(user: User) -> int:
    path = user.project / "pid"
    return int(path.read_text() or 0) if path.exists() else 0


async def test_what_sessions_said_is_found_and_read(user: User) -> None:
    session = str(
        user.ask(calls(bash("seq 30000; echo tide")), {"text": "The tide is out."}, flags=AUTO).result["session"]
    )
    other = str(user.ask({"text": "Nothing here."}).result["session"])
    user.ebb("sessions", "tag", session, "sea")
    async with served(user) as client:
        assert client.server_info is not None
        assert client.server_info.name == "ebbtide"
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["recall", "read_result", "sessions_search", "task"]
        assert [tool.annotations.read_only_hint for tool in listed if tool.annotations] == [True, True, True, False]
        found = await client.call_tool("sessions_search", {"query": "tide"})
        assert [one["id"] for one in (found.structured_content or {})["sessions"]] == [session]
        everything = await client.call_tool("sessions_search", {})
        assert [one["id"] for one in (everything.structured_content or {})["sessions"]] == [other, session]
        assert session in await asked(client, "sessions_search", tags=["sea"])
        assert await asked(client, "sessions_search", tags=["none"]) == (
            "no session found; try other words or fewer filters"
        )
        ref = f"ebb://app/{session[:8]}/r1"
        assert f"[recall:{ref}] output of bash" in await asked(client, "recall", query="tide", kind="output")
        assert await asked(client, "read_result", ref_id=ref, lines="2-3") == "2\t2\n3\t3\n(lines 2-3 of 30,002)"
        assert "30001:tide" in await asked(client, "recall", ref_id=ref, search="tide")


async def test_what_is_wrong_is_said_and_ends_nothing(user: User) -> None:
    user.ask({"text": "hello"})
    async with served(user) as client:
        for tool, arguments, message in (
            ("recall", {"ref_id": "r1"}, "! `r1` names no session; use a reference from `recall`"),
            ("recall", {"ref_id": "ebb://x/deadbeef/r1"}, "! there is no session `deadbeef` in project `x`"),
            ("recall", {"query": 5}, "! invalid arguments: `query`: 5 is not of type"),
            ("read_result", {}, '! invalid arguments: "ref_id" is a required property'),
            ("sessions_search", {"scope": "all"}, "! `scope` cannot be `all`"),
            ("sessions_search", {"tags": ["two words"]}, "! `two words` is not a valid tag"),
            ("task", {"prompt": ""}, "! invalid arguments"),
            ("task", {"prompt": "x", "session": "ffff"}, "! there is no session `ffff`"),
            ("task", {"prompt": "x", "mode": "root"}, "! invalid arguments"),
            ("task", {"prompt": "x", "sudo": True}, "! invalid arguments"),
        ):
            assert (await asked(client, tool, **arguments)).startswith(message), arguments
        with pytest.raises(MCPError, match="unknown tool `rm`; available: recall, read_result"):
            await client.call_tool("rm", {})
        assert "hello" in await asked(client, "recall", query="hello")


async def test_what_the_user_lets_nobody_recall_is_not_told(user: User) -> None:
    user.ask({"text": "hello"})
    async with served(user, flags=("--config", "recall.scope=session", "--no-task")) as client:
        assert "task" not in [tool.name for tool in (await client.list_tools()).tools]
        for tool, arguments in (("recall", {"query": "hello"}), ("sessions_search", {})):
            assert (await asked(client, tool, **arguments)).startswith(
                "! the user limits `recall` to the current session"
            )


async def test_a_task_is_done_told_of_and_gone_on_with(user: User) -> None:
    told = list[tuple[float, str | None]]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with served(
        user, calls(bash("echo ebb > made.txt")), {"text": "Made it."}, {"text": "Again."}, flags=AUTO
    ) as client:
        done = await client.call_tool("task", {"prompt": "make it"}, progress_callback=on_progress)
        result = done.structured_content or {}
        assert (result["result"], result["stop_reason"], result["steps"]) == ("Made it.", "answered", 2)
        assert (user.project / "made.txt").read_text() == "ebb\n"
        assert [count for count, _ in told] == sorted({count for count, _ in told})
        assert "bash  echo ebb > made.txt" in [message for _, message in told]
        assert f"\n\n[answered; session {result['session']}; 2 steps" in text_of(done)
        # The model of a script begins anew, and has no more to say than before.
        again = await client.call_tool("task", {"prompt": "more", "session": result["session"][:6], "max_turns": 1})
        assert (again.structured_content or {})["session"] == result["session"]
        assert (again.is_error, (again.structured_content or {})["stop_reason"]) == (True, "step_limit")


def text_of(answer: types.CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return content.text


@pytest.mark.parametrize(
    ("configured", "asked_for", "runs"),
    [("auto", None, True), ("auto", "plan", False), ("ask", "auto", False), ("auto", "ask", False)],
)
async def test_a_task_may_do_what_its_user_configured_and_never_more_than_was_asked(
    user: User, configured: str, asked_for: str | None, runs: bool
) -> None:
    script = (calls(bash("touch made")), {"text": "ok"})
    async with served(user, *script, flags=("--permission-mode", configured)) as client:
        done = await client.call_tool("task", {"prompt": "go", **({"mode": asked_for} if asked_for else {})})
        assert (user.project / "made").exists() is runs
        assert bool((done.structured_content or {})["denied"]) is not runs
        assert ("denied: bash (" in text_of(done)) is not runs


async def test_a_task_that_is_cancelled_ends_with_its_commands_and_the_server_goes_on(user: User) -> None:
    async with served(user, calls(bash(HANG)), {"text": "ok"}, flags=AUTO) as client:
        task = asyncio.create_task(client.call_tool("task", {"prompt": "hang"}))
        await soon(lambda: pid_in(user) > 0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        pid = pid_in(user)
        await soon(lambda: not is_alive(pid))
        assert "hang" in await asked(client, "sessions_search")
        limited = await client.call_tool("task", {"prompt": "again", "max_seconds": 0.5})
        assert (limited.is_error, (limited.structured_content or {})["stop_reason"]) == (True, "time_limit")
        pid = pid_in(user)
        await soon(lambda: not is_alive(pid))


async def test_no_more_tasks_run_at_once_than_are_borne(user: User) -> None:
    script = (calls(bash("touch $$.here; while [ ! -e go ]; do sleep 0.05; done")), {"text": "ok"})
    async with served(user, *script, flags=AUTO) as client:
        tasks = [asyncio.create_task(client.call_tool("task", {"prompt": "wait"})) for _ in range(4)]
        await soon(lambda: len([*user.project.glob("*.here")]) == 4)
        assert (await asked(client, "task", prompt="one more")).startswith("! at most 4 tasks can run at once")
        (user.project / "go").touch()
        ended = await asyncio.gather(*tasks)
        assert [one.is_error for one in ended] == [False] * 4


async def test_a_task_does_not_have_tasks_done(user: User) -> None:
    async with served(user, calls(bash("echo depth $EBB_TASK_DEPTH > depth")), {"text": "ok"}, flags=AUTO) as client:
        await client.call_tool("task", {"prompt": "go"})
    assert (user.project / "depth").read_text() == "depth 1\n"
    async with served(user, EBB_TASK_DEPTH="1") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["recall", "read_result", "sessions_search"]
        with pytest.raises(MCPError, match="unknown tool `task`"):
            await client.call_tool("task", {"prompt": "go"})


class Raw:
    """A client that writes lines."""

    def __init__(self, user: User, *replies: object) -> None:
        words = command("mcp", "serve", "-C", str(user.project), "-m", user.script(*replies), *AUTO)
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment(user.home), cwd=ROOT,
        )  # fmt: skip

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    def say(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")
        self.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def ask(self, id: int, method: str, **params: Any) -> dict[str, Any]:
        self.say(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        return self.hear()

    def begin(self, version: str) -> dict[str, Any]:
        answer = self.ask(
            0, "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "x", "version": "1"}
        )
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def end(self) -> int:
        with self.process:
            self.stdin.close()
            return self.process.wait(60)


@pytest.mark.parametrize(
    ("wanted", "spoken"), [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]
)
def test_older_versions_of_the_protocol_are_spoken(user: User, wanted: str, spoken: str) -> None:
    client = Raw(user)
    try:
        assert client.begin(wanted)["result"]["protocolVersion"] == spoken
        assert len(client.ask(1, "tools/list")["result"]["tools"]) == 4
    finally:
        assert client.end() == 0


def test_lines_that_mean_nothing_are_answered_and_the_next_one_is_heard(user: User) -> None:
    client = Raw(user)
    try:
        client.begin("2025-06-18")
        for line, code in (
            (b"{broken", -32700),
            (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600),
            (b'{"jsonrpc":"2.0","id":8,"method":5}', -32600),
            (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"' + b"x" * 100_000_000 + b'"}}', -32600),
        ):
            client.say(line)
            answer = client.hear()
            assert answer["error"]["code"] == code, line[:80]
        assert answer["id"] == 9
        assert "larger than 32 MB was ignored" in answer["error"]["message"]
        assert client.ask(10, "no/such")["error"]["code"] == -32601
        assert client.ask(11, "tools/call", name="recall")["result"]["isError"] is False
        status = Path(f"/proc/{client.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 300_000, "kB: a long line is not held"
    finally:
        assert client.end() == 0


@pytest.mark.parametrize("ending", ["closed", "terminated"])
async def test_a_client_that_goes_in_the_middle_of_a_task_ends_it_with_its_commands(user: User, ending: str) -> None:
    client = Raw(user, calls(bash(HANG)), {"text": "ok"})
    client.begin("2025-06-18")
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "task", "arguments": {"prompt": "hang"}},
    }
    client.say(json.dumps(call).encode())
    await soon(lambda: pid_in(user) > 0)
    pid = pid_in(user)
    assert is_alive(pid)
    if ending == "terminated":
        client.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(client.process.wait, 60)
    assert await asyncio.to_thread(client.end) == (0 if ending == "closed" else 143)
    await soon(lambda: not is_alive(pid))
    (row,) = user.query("select count(*) from messages")
    assert row == (3,), "the call that ran is answered: interrupted"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "is started by another agent and talks to it over pipes; see docs/mcp.md"),
        (("hello",), "accepts only settings; tasks come from the other agent"),
    ],
)
def test_somebody_who_is_no_agent_is_told_so(user: User, words: tuple[str, ...], message: str) -> None:
    run = user.ebb("mcp", "serve", *words)
    assert (run.code, run.out, run.err) == (2, "", f"ebb: `ebb mcp serve` {message}\n")

"""Servers of whole sessions: what they bring, and what becomes of the turn when something is wrong with one."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Noticed, TurnFailed
from ebbtide.agent.events.view import PrefixDrifted, PrefixRenewed
from ebbtide.agent.integrations.mcp.running_servers import RunningServers
from ebbtide.agent.messages import Note, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.tools.catalog import create_builtin_tools
from tests.kit.mcp_project import McpProject, command, notices, say
from tests.kit.polling import is_there, until
from tests.kit.session import ASKED, call, finished

SELDOM = ("edit_notebook", "web_search", "ask_user")
"""Those that are not offered here: there are no notebooks, nothing to search with, and nobody to ask."""
OWN = tuple(tool.name for tool in create_builtin_tools() if tool.name not in SELDOM)


async def test_a_turn_calls_a_servers_tool(project: McpProject) -> None:
    project.user(forge=command(project.server("forge")))
    replies = {"calls": [call("mcp__forge__echo", text="hi")]}, {"text": "done"}
    session = await project.open(*replies)
    events = await say(session)
    assert finished(events) == [("mcp__forge__echo", "done", "hi")]
    assert notices(events) == []


async def test_what_is_wrong_with_a_server_is_one_line_and_the_turn_goes_on_with_the_others(
    project: McpProject,
) -> None:
    project.user(
        forge=command(project.server("forge")),
        broken={"command": "/no/such/program"},
        unset={"command": "x", "args": ["${EBB_NO_SUCH_TOKEN}"]},
        off={"command": "x", "enabled": False},
    )
    session = await project.open({"calls": [call("mcp__forge__echo", text="hi")]}, {"text": "done"})
    events = await say(session)
    assert finished(events) == [("mcp__forge__echo", "done", "hi")]
    source = project.home / "config" / "config.toml"
    unset = "`EBB_NO_SUCH_TOKEN` is not set in the environment; set it, or write `${EBB_NO_SUCH_TOKEN:-…}`"
    first, second = notices(events)
    assert first == f"the server `unset` of `{source}` was skipped: {unset}"
    assert second.startswith("the server `broken` cannot be used: ")
    assert "\n" not in second
    assert notices(await say(session)) == []


async def test_the_first_request_waits_no_longer_than_it_was_told(project: McpProject) -> None:
    project.user(slow=command(project.server("slow")))
    project.approval("slow")
    session = await project.open({"text": "done"}, settings=("mcp.wait=0.05",))
    assert notices(await say(session)) == [
        "the server `slow` was not ready within 0.05 s; its tools will be added later"
    ]


async def test_without_a_server_that_is_required_nothing_is_sent(project: McpProject) -> None:
    project.user(
        broken={"command": "/no/such/program", "required": True},
        forge={**command(project.server("forge")), "required": True},
    )
    session = await project.open({"text": "sent"}, settings=("mcp.wait=0",))
    requests = Requests(session)
    events = await say(session)
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert notices(events) == []  # a script is told once
    why = "`/no/such/program`: No such file or directory"
    assert (failed.code, failed.exit_code) == ("server", 3)
    assert failed.message == f"the server `broken` is `required` and cannot be used: {why}"
    assert requests.offered() == []


async def test_a_server_that_is_required_is_waited_for_and_has_to_be_approved(project: McpProject) -> None:
    project.user(slow={**command(project.server("slow")), "required": True})
    session = await project.open(
        {"calls": [call("mcp__slow__echo", text="hi")]}, {"text": "done"}, settings=("mcp.wait=0",)
    )
    assert finished(await say(session)) == [("mcp__slow__echo", "done", "hi")]
    project.user()
    project.declares(ours={**command(project.server("ours")), "required": True})
    (failed,) = [event for event in await say(await project.open({"text": "no"})) if isinstance(event, TurnFailed)]
    assert failed.message == "the server `ours` is `required` and cannot be used: not approved"


async def test_two_servers_that_come_late_are_found_and_join_when_the_view_is_rewritten(project: McpProject) -> None:
    project.user(**{name: command(project.server(name)) for name in ("forge", "chat", "office")})
    gates = [project.approval(name) for name in ("chat", "office")]
    steps: list[dict[str, Any]] = [
        {"text": "one"},
        {"calls": [call("tool_search", query="mcp__office__echo")]},
        {"calls": [call("call_tool", name="mcp__chat__echo", arguments={"text": "late"})]},
        *[{"calls": [call("bash", command=f"printf '%.0s{text} ' $(seq 2500)")]} for text in "ab"],
        {"text": "two"},
        {"when": ASKED, "text": "<summary>we worked</summary>"},
        {"calls": [call("mcp__office__echo", text="joined")]},
        {"text": "three"},
    ]
    small = ("agent.tail_tokens=200", "agent.result_offload_threshold=1000000", "agent.protect_tokens=200")
    session = await project.open(*steps, settings=("mcp.wait=0.05", *small))
    requests = Requests(session)
    await until(lambda: phase(session, "forge") == "ready")
    await say(session)
    for approval in gates:
        await opened(approval)
    await until(lambda: len(session._ctx.window.tools.server_tools.added_tools) == 2)
    events = await say(session)
    found, called = finished(events)[:2]
    assert found[2].startswith("## mcp__office__echo\nSays it again.")
    assert called == ("mcp__chat__echo", "done", "late")
    assert (await session.compact()).strategies == ("summary",)
    assert finished(await say(session)) == [("mcp__office__echo", "done", "joined")]
    before, after = (*OWN, "mcp__forge__echo"), (*OWN, "mcp__forge__echo", "mcp__chat__echo", "mcp__office__echo")
    assert requests.offered() == [*[before] * 7, *[after] * 2]
    assert requests.told() == [
        "[The tools of MCP servers have changed since your list was made: 1 tool of mcp__chat and 1 of mcp__office are "
        "new: tool_search finds, call_tool calls them.]"
    ]


async def test_a_session_that_goes_on_in_the_cache_keeps_its_tools_where_a_server_was_too_late_before(
    project: McpProject,
) -> None:
    project.user(slow=command(project.server("slow")))
    approval = project.approval("slow")
    steps: list[dict[str, Any]] = [
        {"calls": [call("call_tool", name="mcp__slow__echo", arguments={"text": "found"})]},
        {"text": "two"},
    ]
    first = await project.open({"text": "one"}, settings=("mcp.wait=0.05",))
    before = Requests(first)
    await say(first)
    await first.close()
    approval.unlink()
    session = await project.open(*steps, resume=first.id)
    requests = Requests(session)
    events = await say(session)
    assert (before.offered(), requests.offered()) == ([OWN], [OWN] * 2)
    assert finished(events) == [("mcp__slow__echo", "done", "found")]
    assert [event for event in events if isinstance(event, PrefixRenewed)] == []
    (note,) = requests.told()
    assert note.endswith("1 tool of mcp__slow is new: tool_search finds, call_tool calls them.]")


async def test_a_server_that_is_killed_is_started_again_and_the_turn_goes_on(project: McpProject) -> None:
    project.user(forge=command(project.server("forge", echo="Says it.", die="Dies.")))
    steps: list[dict[str, Any]] = [
        {"calls": [call("mcp__forge__die")]},
        {"calls": [call("mcp__forge__echo", text="again")]},
        {"text": "done"},
    ]
    session = await project.open(*steps)
    events = await say(session)
    (_, failed, why), again = finished(events)
    assert (failed, again) == ("failed", ("mcp__forge__echo", "done", "again"))
    assert "forge" in why
    (line,) = notices(events)
    assert line.startswith("the server `forge` crashed: ")
    assert line.endswith("restarting (1 of 5)")


async def test_a_server_killed_from_outside_between_two_turns_is_told_of_with_the_next(project: McpProject) -> None:
    project.user(forge=command(project.server("forge")))
    steps: list[dict[str, Any]] = [
        {"text": "one"},
        {"calls": [call("mcp__forge__echo", text="again")]},
        {"text": "two"},
    ]
    session = await project.open(*steps)
    await say(session)
    os.kill(int((project.folder / "forge" / "pid").read_text()), signal.SIGKILL)
    await until(lambda: phase(session, "forge") == "starting")
    events = await say(session)
    assert finished(events) == [("mcp__forge__echo", "done", "again")]
    assert [line.partition(":")[0] for line in notices(events)] == ["the server `forge` crashed"]


async def test_tools_that_come_and_go_leave_the_list_as_it_is(project: McpProject) -> None:
    project.user(forge=command(project.server("forge", echo="Says it.", grow="Grows.")))
    tools = json.dumps({"grow": "Grows.", "shrink": "Shrinks."})
    steps: list[dict[str, Any]] = [
        {"calls": [call("mcp__forge__grow", text=tools)]},
        {"text": "one"},
        {"calls": [call("mcp__forge__echo", text="x"), call("mcp__forge__shrink", text="y")]},
        {"text": "two"},
    ]
    session = await project.open(*steps)
    requests = Requests(session)
    await say(session)
    await until(lambda: bool(session._ctx.window.tools.server_tools.added_tools))
    gone, new = finished(await say(session))
    assert gone == (
        "mcp__forge__echo",
        "failed",
        "`mcp__forge__echo` cannot be called: its server is gone or no longer offers it",
    )
    assert new == ("mcp__forge__shrink", "done", "y")
    assert set(requests.offered()) == {(*OWN, "mcp__forge__echo", "mcp__forge__grow")}
    assert requests.told() == [
        "[The tools of MCP servers have changed since your list was made: 1 tool of mcp__forge is new: tool_search "
        "finds, call_tool calls them; 1 tool of mcp__forge is gone.]"
    ]


async def test_a_session_that_goes_on_has_its_servers_again(project: McpProject) -> None:
    project.user(forge=command(project.server("forge")))
    steps: list[dict[str, Any]] = [{"calls": [call("mcp__forge__echo", text="one")]}, {"text": "done"}]
    for resume in (None, ""):
        session = await project.open(*steps, resume=resume)
        requests = Requests(session)
        events = await say(session)
        assert finished(events) == [("mcp__forge__echo", "done", "one")]
        assert not [event for event in events if isinstance(event, PrefixRenewed | PrefixDrifted | Noticed)]
        assert set(requests.offered()) == {(*OWN, "mcp__forge__echo")}
        await session.close()


async def test_all_servers_are_gone_when_the_session_is_closed(project: McpProject) -> None:
    project.user(**{name: command(project.server(name)) for name in ("forge", "chat")})
    session = await project.open({"text": "done"})
    await say(session)
    pids = [int((project.folder / name / "pid").read_text()) for name in ("forge", "chat")]
    await session.close()
    assert [is_there(pid) for pid in pids] == [False, False]


async def test_a_session_that_cannot_be_opened_leaves_no_server_behind(
    project: McpProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.user(forge=command(project.server("forge")))
    sessions = project.sessions({"text": "done"})

    def fails(*_: object) -> None:
        raise ConfigError("no")

    with monkeypatch.context() as patched:
        patched.setattr("ebbtide.agent.session.begin_session", fails)  # what comes last
        with pytest.raises(ConfigError):
            await sessions.open()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "what starts a server has ended"
    pid = project.folder / "forge" / "pid"
    assert not pid.exists() or not is_there(int(pid.read_text()))


async def test_the_context_shows_what_servers_tools_take(project: McpProject) -> None:
    project.user(forge=command(project.server("forge")))
    sessions = project.sessions({"text": "done"})
    session = await sessions.open()
    tools = [await tools_in(sessions, session)]
    await say(session)
    tools.append(await tools_in(sessions, session))
    assert tools[0] < tools[1]
    await session.close()


async def tools_in(sessions: ProjectSessions, session: Session) -> int:
    overview = await sessions.overview(session.id)
    return next(part.tokens for part in overview.components if part.name == "tools")


def phase(session: Session, server: str) -> str:
    servers = session.servers
    assert isinstance(servers, RunningServers)
    return servers.entries[server].state.phase


async def opened(approval: Path) -> None:
    """Lets a server be ready that waits at its gate."""
    await asyncio.to_thread(lambda: approval.open("w").close())


class Requests:
    """What a session's scripted model is asked."""

    def __init__(self, session: Session) -> None:
        provider = session._ctx.model.provider
        assert isinstance(provider, ScriptedProvider)
        self._provider = provider

    def offered(self) -> list[tuple[str, ...]]:
        return [tuple(spec.name for spec in request.tools) for request in self._provider.requests]

    def told(self) -> list[str]:
        """The notes on servers that were ever sent."""
        messages = [m for request in self._provider.requests for m in request.messages if isinstance(m, User)]
        notes = [part.text for m in messages for part in m.parts if isinstance(part, Note)]
        return list(dict.fromkeys(text for text in notes if "servers" in text))

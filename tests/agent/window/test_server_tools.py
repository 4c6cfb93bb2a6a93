"""Tools that come and go with their servers, in whole sessions."""

from dataclasses import dataclass, field
from typing import Any

from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.events.view import PrefixDrifted
from ebbtide.agent.messages import User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.agent.window.deferral import ToolDeferral, create_specs
from ebbtide.agent.window.server_tools import ServerTools
from tests.kit.server_tools import Served as ServedTool
from tests.kit.session import ASKED, USUAL_TOOLS, Home, call, events_of, finished, notes_in, offered, prints

OWN = tuple(tool.name for tool in USUAL_TOOLS)
FORGE = tuple(ServedTool(f"mcp__forge__{deed}", f"{deed} an issue") for deed in ("open", "close"))
CHAT = (ServedTool("mcp__chat__say", "Says something in a channel"),)
SUMMARY = {"when": ASKED, "text": "<summary>we worked</summary>"}


@dataclass
class Bringing:
    """Brings tools when turns begin: the first of the lists with the first turn, and so on."""

    served: ServerTools
    lists: list[tuple[ServedTool, ...]]
    firsts: list[bool] = field(default_factory=list)

    async def expand_mentions(self, message: User) -> User:
        return message

    async def prepare_turn(self, *, is_first: bool) -> None:
        self.firsts.append(is_first)
        if self.lists:
            self.served.offer(self.lists.pop(0))


async def open_with(
    home: Home, provider: ScriptedProvider, *lists: tuple[ServedTool, ...], **changes: Any
) -> tuple[Session, Bringing]:
    served = ServerTools()
    servers = Bringing(served, list(lists))
    given = {"deferral": ToolDeferral(offers_search=True), **changes}
    return await home.open(provider, served=served, servers=servers, **given), servers


def names(tools: tuple[ServedTool, ...]) -> tuple[str, ...]:
    return tuple(tool.name for tool in tools)


async def test_what_is_there_before_the_first_request_is_offered_and_nothing_is_said(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"calls": [call("mcp__forge__open", title="a")]}, {"text": "done"}, {"text": "on"}
    )
    session, servers = await open_with(home, provider, FORGE)
    events = [*await events_of(session), *await events_of(session, "on")]
    assert [offered(request) for request in provider.requests] == [(*OWN, *names(FORGE))] * 3
    assert finished(events) == [("mcp__forge__open", "done", "mcp__forge__open was called with {'title': 'a'}")]
    assert (notes_in(provider.requests[-1], "servers", "deferred"), servers.firsts) == ([], [True, False])


async def test_what_comes_later_is_found_by_a_search_until_the_view_is_rewritten(home: Home) -> None:
    late = call("call_tool", name="mcp__chat__say", arguments={"title": "hi"})
    steps = [{"calls": [call("tool_search", query="say something in a channel")]}, {"calls": [late]}]
    provider = ScriptedProvider.from_replies(
        {"text": "one"}, *steps, prints("a"), prints("b"), {"text": "two"}, SUMMARY, {"text": "three"}
    )
    session, _ = await open_with(home, provider, FORGE, (*FORGE, *CHAT))
    events = [*await events_of(session), *await events_of(session, "say hi")]
    before = (*OWN, *names(FORGE))
    assert {offered(request) for request in provider.requests} == {before}
    (found, answer, *_) = finished(events)
    assert found[2].startswith("## mcp__chat__say\nSays something in a channel")
    assert answer == ("mcp__chat__say", "done", "mcp__chat__say was called with {'title': 'hi'}")
    note = "[The tools of MCP servers have changed since your list was made: 1 tool of mcp__chat is new: tool_search "
    assert notes_in(provider.requests[-1], "servers", "deferred") == [f"{note}finds, call_tool calls them.]"]
    assert (await session.compact()).strategies == ("summary",)
    events = await events_of(session, "go on")
    assert offered(provider.requests[-1]) == (*OWN, *names((*FORGE, *CHAT)))
    assert notes_in(provider.requests[-1], "servers", "deferred") == []
    assert not [event for event in events if isinstance(event, PrefixDrifted | Noticed)]


async def test_a_tool_that_is_gone_stays_in_the_list_and_says_so(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "one"}, {"calls": [call("mcp__forge__open", title="a")]}, {"text": "two"}
    )
    session, _ = await open_with(home, provider, (*FORGE, *CHAT), CHAT, policy=Policy(str(home.root), "auto"))
    events = [*await events_of(session), *await events_of(session, "go on")]
    assert {offered(request) for request in provider.requests} == {(*OWN, *names(FORGE), *names(CHAT))}
    assert finished(events) == [
        (
            "mcp__forge__open",
            "failed",
            "`mcp__forge__open` cannot be called: its server is gone or no longer offers it",
        )
    ]
    assert notes_in(provider.requests[-1], "servers", "deferred") == [
        "[The tools of MCP servers have changed since your list was made: 2 tools of mcp__forge are gone.]"
    ]


async def test_what_has_come_back_is_told(home: Home) -> None:
    provider = ScriptedProvider.from_replies(*[{"text": "on"}] * 3)
    session, _ = await open_with(home, provider, FORGE, (), FORGE)
    for _ in range(3):
        await events_of(session)
    assert notes_in(provider.requests[-1], "servers", "deferred")[1:] == [
        "[The tools of MCP servers match your list again.]"
    ]


def test_news_are_told_in_words() -> None:
    served = ServerTools()
    served.offer(FORGE)
    assert served.change_summary() == "2 tools of mcp__forge are new: tool_search finds, call_tool calls them"
    served.update_listed()
    assert (served.change_summary(), served.added_tools, served.removed_tools) == ("", (), ())
    changed = ServedTool("mcp__forge__open", "opens two issues")
    served.offer((changed, *CHAT))
    assert (served.added_tools, served.removed_tools) == ((changed, *CHAT), (FORGE[1],))
    assert served.change_summary() == (
        "1 tool of mcp__forge and 1 of mcp__chat are new: tool_search finds, call_tool calls them; "
        "1 tool of mcp__forge is gone"
    )
    assert served.callable_tools["mcp__forge__open"] is changed
    assert served.findable_tools(set(names(FORGE))) == (changed, *CHAT)


async def test_a_session_that_goes_on_is_told_that_tools_are_back(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"text": "one"}, {"text": "two"})
    session, _ = await open_with(home, provider, FORGE, ())
    await events_of(session)
    await events_of(session, "go on")
    gone = "[The tools of MCP servers have changed since your list was made: 2 tools of mcp__forge are gone.]"
    assert notes_in(provider.requests[-1], "servers", "deferred") == [gone]
    await session.close()
    second = ScriptedProvider.from_replies({"text": "three"}, {"text": "four"})
    session, _ = await open_with(home, second, FORGE, resume=True)
    await events_of(session, "go on")
    await events_of(session, "go on")
    assert offered(second.requests[-1]) == (*OWN, *names(FORGE))
    assert notes_in(second.requests[-1], "servers", "deferred") == [
        gone,
        "[The tools of MCP servers match your list again.]",
    ]


async def test_of_tools_that_came_late_the_one_that_was_used_is_shown_first(home: Home) -> None:
    late = tuple(ServedTool(f"mcp__chat__say_{number}", "Says something") for number in range(4))
    use = call("call_tool", name=late[-1].name, arguments={"title": "hi"})
    provider = ScriptedProvider.from_replies({"text": "one"}, {"calls": [use]}, {"text": "two"})
    deferral = ToolDeferral(1.0, offers_search=True)
    session, servers = await open_with(home, provider, (), late, deferral=deferral)
    await events_of(session)
    await events_of(session, "say hi")
    servers.served.update_listed()
    specs = (*create_specs(USUAL_TOOLS), *servers.served.listed_specs)
    deferral.choose_tools(specs, 1, lambda spec: int(spec.kind == "mcp"), lambda event: None)
    assert deferral.deferred_names == {tool.name for tool in late[:-1]}
    assert list(await session._ctx.records.recorder.last_tool_uses()) == [late[-1].name]

"""Tools that wait outside the window, in whole sessions with sixty tools of servers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.calls.policy import Policy, parse_rule
from ebbtide.agent.events.permissions import Decision, PermissionAsked
from ebbtide.agent.events.session import Event, ModelSwitched, Noticed, ToolStarted, TurnFinished
from ebbtide.agent.events.view import ContextCompacted, PrefixDrifted
from ebbtide.agent.messages import Text, Usage, User
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.tool_selection import select_tools
from ebbtide.agent.providers.base import ModelFacts, Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.tokens.estimate import estimate_tools
from ebbtide.agent.tool_specs import CALL_TOOL, SEARCH_TOOL, HostedSearch, ToolSpec
from ebbtide.agent.window.deferral import ToolDeferral, create_specs
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.tools.catalog import create_builtin_tools
from tests.agent.providers.test_fallbacks import Models
from tests.kit.project import Project
from tests.kit.server_tools import served_tools
from tests.kit.session import ASKED, Home, call, events_of, finished, first_turn, notes_in, offered, prints

SERVED = served_tools()
BUILTIN = tuple(
    tool for tool in create_builtin_tools() if tool.name not in ("edit_notebook", "web_fetch", "web_search")
)
"""Those that stand in requests whatever is configured."""
OWN = tuple(tool.name for tool in BUILTIN)
TOOLS = (*BUILTIN, *SERVED)
TOOLS_OFFERED = select_tools(create_specs(TOOLS))
"""Where nothing is held back."""
WINDOW = 30_000
DEFERRED = "mcp__chat__delete_invoice"
NOTE = "[60 tools deferred to save context. Use tool_search to find them.]"


def script(*replies: dict[str, Any], window: int = WINDOW) -> ScriptedProvider:
    return ScriptedProvider.from_replies(*replies, context_window=window)


async def test_a_tool_is_searched_and_called_while_the_array_stays_the_same(home: Home) -> None:
    provider = script(
        {"calls": [call("tool_search", query="delete an invoice")]},
        {"calls": [call("call_tool", name=DEFERRED, arguments={"title": "May"})]},
        {"calls": [call(DEFERRED, title="June")]},
        {"text": "done"},
        {"text": "again"},
    )
    session = await home.open(provider, tools=TOOLS)
    events = [*await events_of(session), *await events_of(session, "and?")]
    assert {offered(request) for request in provider.requests} == {OWN}
    assert [len(notes_in(request, "deferred")) for request in provider.requests] == [1] * 5
    assert notes_in(provider.requests[0], "deferred") == [NOTE]
    found, first, second = finished(events)
    assert found[:2] == ("tool_search", "done")
    assert found[2].startswith(f"## {DEFERRED}\nDeletes one invoice on the server")
    assert first == (DEFERRED, "done", f"{DEFERRED} was called with {{'title': 'May'}}")
    assert second == (DEFERRED, "done", f"{DEFERRED} was called with {{'title': 'June'}}")
    answer = session.history.messages[4]
    assert isinstance(answer, User)
    assert [output.call_id for output in answer.outputs] == [session.history.messages[3].calls[0].id]  # type: ignore[union-attr]  # it is the reply with the call
    assert not [event for event in events if isinstance(event, PrefixDrifted | Noticed)]


async def test_permission_is_asked_for_the_tool_that_is_meant(home: Home) -> None:
    provider = script({"calls": [call("call_tool", name=DEFERRED, arguments={"title": "May"})]}, {"text": "done"})
    session = await home.open(provider, tools=TOOLS, policy=Policy(str(home.root)), interactive=True)
    events: list[Event] = []
    async for event in session.send("go"):
        events.append(event)
        if isinstance(event, PermissionAsked):
            session.answer(event.id, Decision("deny", note="not this one"))
    asked = next(event for event in events if isinstance(event, PermissionAsked))
    started = next(event for event in events if isinstance(event, ToolStarted))
    assert (asked.name, asked.arguments, asked.call_id) == (DEFERRED, {"title": "May"}, started.call_id)
    assert (started.name, started.arguments) == (DEFERRED, {"title": "May"})
    ((name, status, text),) = finished(events)
    assert (name, status) == (DEFERRED, "denied")
    assert "not this one" in text


async def test_a_rule_against_a_tool_holds_through_another(home: Home) -> None:
    provider = script({"calls": [call("call_tool", name=DEFERRED, arguments={"title": "May"})]}, {"text": "done"})
    policy = Policy(str(home.root), "auto", deny_rules=(parse_rule("mcp__chat__*"),))
    session = await home.open(provider, tools=TOOLS, policy=policy)
    ((name, status, text),) = finished(await events_of(session))
    assert (name, status) == (DEFERRED, "denied")
    assert text.startswith("denied: deny rule mcp__chat__*")


async def test_a_wrong_name_and_wrong_arguments_are_answered_with_what_helps(home: Home) -> None:
    wrong = [
        call("call_tool", name="mcp__chat__delet_invoices", arguments={}),
        call("call_tool", name=DEFERRED, arguments={"name": "May"}),
        call("call_tool", name="bash", arguments={"command": "true"}),
    ]
    session = await home.open(script({"calls": wrong}, {"text": "done"}), tools=TOOLS)
    unknown, misfit, own = finished(await events_of(session))
    assert f"`{DEFERRED}`" in unknown[2]
    assert 'Its schema is {"type": "object", "properties": {"title"' in misfit[2]
    assert own == ("bash", "done", "no output\nexit code 0")


async def test_the_overview_says_what_is_held_back_and_the_next_session_knows_what_was_used(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.agent.compose.session_tools.select_session_tools", lambda *given, **more: TOOLS)
    model = f"scripted/{project.script({'calls': [call(DEFERRED, title='May')]}, {'text': 'Done.'})}"
    flags: dict[str, Any] = {"model": model, "permission_mode": "auto", "context_window": 60_000}
    counts, sizes = list[int](), list[int]()
    for share in (0.99, 0.01):
        sessions = project.sessions(**flags, tool_deferral_threshold=share)
        session = await sessions.open()
        await events_of(session)
        overview = await sessions.overview(session.id)
        counts.append(overview.deferred.tools)
        sizes += [overview.deferred.tokens, *(part.tokens for part in overview.components if part.name == "tools")]
        await session.close()
    assert counts == [0, 60]
    assert sizes == pytest.approx(
        [0, estimate_tools(TOOLS_OFFERED), estimate_tools(create_specs(SERVED)), 2066], rel=0.5
    )
    session = await project.sessions(**flags).open()
    names = [
        tool.name for tool in session._ctx.calls.runner.workspace.get_deferred_tools()
    ]  # what the model can only search for
    assert 0 < len(names) < 60
    assert DEFERRED not in names


async def test_without_the_table_of_uses_a_session_goes_on(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.agent.compose.session_tools.select_session_tools", lambda *given, **more: TOOLS)
    model = f"scripted/{project.script({'calls': [call(DEFERRED, title='May')]}, {'text': 'Done.'})}"
    flags: dict[str, Any] = {"model": model, "permission_mode": "auto", "context_window": WINDOW}
    for _ in range(2):
        session = await project.sessions(**flags).open()
        events = await events_of(session)
        assert events[-1] == TurnFinished("answered", "Done.")
        assert [found[:2] for found in finished(events)] == [(DEFERRED, "done")]
        await session.close()
        project.sql("drop table if exists tool_uses")


async def test_where_all_tools_fit_all_are_offered_and_nothing_is_said(home: Home) -> None:
    provider = script({"calls": [call("tool_search", query="x")]}, {"text": "done"}, window=200_000)
    events = await events_of(await home.open(provider, tools=TOOLS))
    every = (*OWN[:-2], *(tool.name for tool in SERVED))
    assert [offered(request) for request in provider.requests] == [every] * 2
    assert notes_in(provider.requests[-1], "deferred") == []
    assert finished(events) == [("tool_search", "done", "no tools are deferred: all of them are in your list")]


async def test_the_definitions_take_at_most_their_share(home: Home) -> None:
    provider = script({"text": "done"}, window=60_000)
    await events_of(await home.open(provider, tools=TOOLS))
    (request,) = provider.requests
    assert OWN < offered(request) < (*OWN, *(tool.name for tool in SERVED))
    assert estimate_tools(request.tools) <= 0.10 * provider.window.available_tokens


async def test_after_a_rewrite_what_was_used_meanwhile_is_offered(home: Home) -> None:
    ask = {"calls": [call("call_tool", name=DEFERRED, arguments={"title": "May"})]}
    summary = {"when": ASKED, "text": "<summary>we worked</summary>"}
    provider = script(
        ask, prints("a"), prints("b"), {"text": "done"}, summary, {"text": "on"}, {"text": "on"}, window=60_000
    )
    session, _ = await first_turn(home.open(provider, tools=TOOLS))
    assert DEFERRED not in offered(provider.requests[0])
    assert (await session.compact()).strategies == ("summary",)
    events = [*await events_of(session, "go on"), *await events_of(session, "and on")]
    before, (first, second) = provider.requests[-3], provider.requests[-2:]
    assert offered(before) == offered(provider.requests[0])  # the request for a summary is read from the cache
    assert DEFERRED in offered(first)
    assert offered(second) == offered(first)
    assert [len(notes_in(request, "deferred")) for request in (first, second)] == [1, 1]
    assert not [event for event in events if isinstance(event, PrefixDrifted)]


@pytest.mark.parametrize("end", [{"text": "done"}, {"error": "auth"}])
async def test_the_next_session_of_the_project_knows_what_was_used(home: Home, end: dict[str, Any]) -> None:
    """Also when the turn failed in the end."""
    first = script({"calls": [call(DEFERRED, title="May")]}, end, window=60_000)
    session, _ = await first_turn(home.open(first, tools=TOOLS))
    await session.close()
    recorder = session._ctx.records.recorder  # a new session of the project would have one like it
    second = script({"text": "done"}, window=60_000)
    uses = await recorder.last_tool_uses()
    assert list(uses) == [DEFERRED]
    await events_of(await home.open(second, resume=True, tools=TOOLS, deferral=ToolDeferral(last_uses=uses)))
    assert [DEFERRED in offered(provider.requests[0]) for provider in (first, second)] == [False, True]


async def test_a_session_that_goes_on_is_told_once_of_what_is_held_back(home: Home) -> None:
    session, _ = await first_turn(home.open(script({"text": "done"}), tools=TOOLS))
    await session.close()
    same, none = script({"text": "done"}), script({"text": "done"}, window=200_000)
    for provider in (same, none):
        session, _ = await first_turn(home.open(provider, resume=True, tools=TOOLS), "go on")
        await session.close()
    assert notes_in(same.requests[-1], "deferred") == [NOTE]
    assert notes_in(none.requests[-1], "deferred") == [NOTE, "[No tools are deferred any more.]"]


async def test_a_count_with_other_tools_is_not_taken_over_by_a_session_that_goes_on(home: Home) -> None:
    first = script({"text": "done", "usage": {"input": 9000, "output": 5}}, window=200_000)
    session, _ = await first_turn(home.open(first, tools=TOOLS))
    await session.close()
    second = script({"text": "done", "usage": {"input": 2300, "output": 5}}, window=200_000)
    again, events = await first_turn(home.open(second, resume=True, tools=TOOLS, deferral=ToolDeferral(0.01)), "go on")
    assert (len(offered(first.requests[0])), offered(second.requests[0])) == (len(OWN) + 58, OWN)
    assert not [event for event in events if isinstance(event, Noticed)]
    assert again.history.anchor == Usage(2300, output=5)


class Searching(ScriptedProvider):
    """A model whose provider searches for tools."""

    search: HostedSearch = "plain"

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, tool_search=self.search)


def searching(*replies: dict[str, Any], window: int, search: HostedSearch = "plain") -> Searching:
    provider = Searching.from_replies(*replies, context_window=window)
    assert isinstance(provider, Searching)
    provider.search = search
    return provider


def deferred_in(request: Request) -> int:
    return sum(spec.deferred_group is not None for spec in request.tools)


@pytest.mark.parametrize(
    ("search", "window", "deferred", "finders"),
    [
        ("plain", 30_000, 60, ()),
        ("plain", 60_000, 50, ()),
        ("plain", 200_000, 0, ()),
        ("grouped", 50_000, 60, ()),
        ("grouped", 30_000, 0, (SEARCH_TOOL, CALL_TOOL)),
    ],
)
async def test_the_provider_searches_while_what_it_shows_fits(
    home: Home, search: HostedSearch, window: int, deferred: int, finders: tuple[str, ...]
) -> None:
    """In the smallest window the names of the groups take too much, and our own tools take their place."""
    provider = searching({"calls": [call(DEFERRED, title="May")]}, {"text": "done"}, window=window, search=search)
    events = await events_of(await home.open(provider, tools=TOOLS))
    assert [deferred_in(request) for request in provider.requests] == [deferred] * 2
    assert all(before is later for before, later in zip(*(request.tools for request in provider.requests), strict=True))
    assert tuple(name for name in offered(provider.requests[0]) if name in (SEARCH_TOOL, CALL_TOOL)) == finders
    assert finished(events) == [(DEFERRED, "done", f"{DEFERRED} was called with {{'title': 'May'}}")]
    note = [f"[{deferred} tools deferred to save context. Search for them, and call the tools you find by name.]"]
    assert notes_in(provider.requests[0], "deferred") == (note if deferred else [NOTE] if finders else [])
    assert not [event for event in events if isinstance(event, PrefixDrifted | Noticed)]


async def test_a_model_that_takes_over_searches_as_it_can(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ebbtide.agent.prompt.attachments.FULL_TEXT_DIVISOR", 1
    )  # only the larger model has room for what is said
    first, second = searching({"text": "hello"}, window=30_000), script({"text": "on"}, window=60_000)
    models = Models(second)
    session = await home.open(models.after(first), tools=TOOLS)
    events = [*await events_of(session), *await events_of(session, "y" * 60_000)]
    assert [type(event) for event in events if isinstance(event, ModelSwitched)] == [ModelSwitched]
    assert (deferred_in(first.requests[0]), deferred_in(second.requests[0])) == (60, 0)
    assert {SEARCH_TOOL, CALL_TOOL} <= set(offered(second.requests[0]))


async def test_when_the_choice_fails_all_tools_are_offered(home: Home) -> None:
    used: Any = {SERVED[0].name: "yesterday"}
    provider = script({"text": "done"})
    events = await events_of(await home.open(provider, tools=TOOLS, deferral=ToolDeferral(last_uses=used)))
    assert [event.text.partition(":")[0] for event in events if isinstance(event, Noticed)] == [
        "choosing the tools to defer failed, so all of them are offered"
    ]
    assert isinstance(events[-1], TurnFinished)
    assert len(offered(provider.requests[0])) == len(OWN) - 2 + 60


async def test_tools_that_leave_too_little_room_are_held_back_in_a_compaction(home: Home) -> None:
    steps = [prints(text) for text in "abc"]
    provider = script(*steps, {"text": "done"}, {"text": "on"}, {"text": "on"}, window=20_000)
    session, events = await first_turn(home.open(provider, tools=TOOLS, deferral=ToolDeferral(0.9)))
    arrays = [offered(request) for request in provider.requests]
    every = (*OWN[:-2], *(tool.name for tool in SERVED))
    before = arrays.index(OWN)
    assert arrays == [*[every] * before, *[OWN] * (len(arrays) - before)]
    (compaction,) = [event for event in events if isinstance(event, ContextCompacted)]
    assert (compaction.cause, compaction.strategies[0]) == ("full", "tools")
    deferred = next(item for item in compaction.receipt if item.fate == "deferred")
    assert compaction.before_tokens - compaction.after_tokens >= deferred.tokens > 6000
    assert not [event for event in events if isinstance(event, PrefixDrifted | Noticed)]
    assert isinstance(events[-1], TurnFinished)
    later = [*await events_of(session, "on"), *await events_of(session, "on")]
    assert {offered(request) for request in provider.requests[before:]} == {OWN}
    assert notes_in(provider.requests[-1], "deferred") == [NOTE]
    assert not [event for event in later if isinstance(event, PrefixDrifted)]


async def test_what_cannot_be_held_back_is_named(home: Home) -> None:
    provider = script(prints("a"), {"text": "done"}, window=9000)
    events = await events_of(await home.open(provider, instructions=Instructions("Be brief. " * 2000), tools=TOOLS))
    (problem,) = [event.text for event in events if isinstance(event, Noticed)]
    assert "most of it the system prompt" in problem


def test_other_tools_without_a_rewrite_are_a_mistake() -> None:
    events: list[Event] = []
    watch, request = PrefixWatch(events.append), Request("system", (User((Text("hi"),)),), (), 100, "s")
    facts = ModelFacts("p", "m", 1000, 100)
    changed = replace(request, tools=(ToolSpec("x", "", {}),))
    watch.record_request(request, facts)
    watch.allow_rewrite()
    watch.allow_tool_change()
    watch.record_request(changed, facts)
    assert events == []
    watch.allow_tool_change()
    watch.record_request(request, facts)
    watch.allow_rewrite()
    watch.record_request(changed, facts)
    assert events == [PrefixDrifted("tools"), PrefixDrifted("tools")]


@pytest.mark.parametrize(("is_led", "finders"), [(True, ()), (False, (SEARCH_TOOL, CALL_TOOL))])
def test_a_small_model_is_offered_no_search_for_tools_that_it_is_to_do_without(
    is_led: bool, finders: tuple[str, ...]
) -> None:
    rare = [ToolSpec(name, "Asks servers. " * 40, {"type": "object"}, "rare") for name in ("diagnostics", "symbols")]
    deferral, specs = ToolDeferral(reduces_tools=True), (*create_specs(BUILTIN), *rare)
    deferral.choose_tools(specs, 100_000, lambda spec: len(spec.description), lambda event: None, is_small_model=is_led)
    found = [spec.name for spec in deferral.offered_tools(specs)]
    assert tuple(name for name in found if name in (SEARCH_TOOL, CALL_TOOL)) == finders
    assert deferral.deferred_state == (2 if finders else 0, False)
    served = (*specs, *create_specs(SERVED))
    deferral.choose_tools(served, 3_000, lambda spec: len(spec.description), lambda event: None, is_small_model=is_led)
    assert {SEARCH_TOOL, CALL_TOOL} <= {spec.name for spec in deferral.offered_tools(served)}


@pytest.mark.parametrize(("listed", "available"), [(60, 60), (60, 20), (60, 0), (20, 60), (0, 0)])
def test_the_room_that_deferral_would_free_counts_what_servers_offer_by_then(listed: int, available: int) -> None:
    """A rewrite lists what servers offer now, so tools that are gone make as much room as deferred ones. If they were
    not counted, an output that fits would be cut to a line."""
    before, after = (create_specs((*BUILTIN, *SERVED[:count])) for count in (listed, available))

    def count_tokens(spec: ToolSpec) -> int:
        return estimate_tools((spec,))

    def offered_tokens(specs: Sequence[ToolSpec]) -> int:
        return sum(map(count_tokens, deferral.offered_tools(specs)))

    deferral, notices = ToolDeferral(), list[Event]()
    deferral.choose_tools(before, 10**6, count_tokens, notices.append)
    tokens = offered_tokens(before)
    share = deferral.deferrable_share(before, after, WINDOW, count_tokens)
    deferral.defer_all()
    deferral.choose_tools(after, WINDOW, count_tokens, notices.append)
    assert share == pytest.approx(1 - offered_tokens(after) / tokens)
    assert not notices

"""What the user does to the view by hand, in real sessions: real files, a real store, a scripted model with prices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.agent.compaction.apply_edits import EditOutcome, EditPreview, apply_edit, preview_edit
from ebbtide.agent.compaction.edit_cost import ViewEditPlan
from ebbtide.agent.compaction.undo import preview_rewrite_undo, undo_rewrite
from ebbtide.agent.compaction.view_edits import EditRequest, Refusal
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Act, BroughtBack, PrefixDrifted, ViewChanged
from ebbtide.agent.integrations.export.session_export import export_session, import_session
from ebbtide.agent.messages import CarriedPart, Text, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.session import Session
from ebbtide.agent.view.visible import visible_messages
from ebbtide.agent.window.measure import measure_budget
from tests.agent.integrations.mcp.test_running import phase
from tests.kit.mcp_project import McpProject
from tests.kit.polling import until
from tests.kit.project import Project
from tests.kit.session import PricedHome, events_of, reads

ROWS = "".join(f"row {number} of a long file\n" for number in range(1, 400))


INSTRUCTIONS = Instructions("Be brief.")


ANSWERS = [{"text": "done"}] * 5
WORK = [*reads("ab"), {"text": "I have read both."}]


@pytest.fixture(autouse=True)
def files(project: Project) -> None:
    for name in "ab":
        (project.root / f"{name}.txt").write_text(ROWS)


async def opened(project: Project, *replies: dict[str, Any], resume: str | None = None) -> Session:
    return await project.session(*replies, *ANSWERS, resume=resume, interactive=True)


async def turn(session: Session, text: str = "go") -> list[Event]:
    events = await events_of(session, text)
    assert not [event for event in events if isinstance(event, PrefixDrifted)]
    return events


async def act(session: Session, name: Act, key: str = "") -> Event:
    acted: EditOutcome = await session.change_conversation(apply_edit, EditRequest(name, key))
    (event,) = acted.events
    return event


async def price(session: Session, name: Act, key: str = "") -> EditPreview:
    return await session.change_conversation(preview_edit, EditRequest(name, key))


async def why(session: Session, name: Act, key: str = "") -> str:
    with pytest.raises(AgentError) as raised:
        await act(session, name, key)
    return str(raised.value)


def output(session: Session, number: int) -> str:
    outputs = [
        output
        for message in visible_messages(session.history)
        if isinstance(message, User)
        for output in message.outputs
    ]
    return outputs[number - 1].text


def pins_in(session: Session) -> list[str]:
    return [one.key for one in session.history.summary.pinned]


async def test_an_evicted_output_is_a_line_until_it_is_brought_back_or_undone(project: Project) -> None:
    session = await opened(project, *WORK)
    await turn(session)
    before = session.history
    priced = await price(session, "evict", "r1")
    assert session.history == before
    assert isinstance(priced.plan, ViewEditPlan)

    event = await act(session, "evict", "r1")

    assert isinstance(event, ViewChanged)
    assert event.before_tokens - event.after_tokens == priced.plan.freed_tokens > 2_000
    assert event.price is not None
    assert (event.price.removed, event.price.behind) == (priced.plan.freed_tokens, priced.plan.cache_write_tokens)
    assert output(session, 1) == "Viewed a.txt – 399 lines [recall:r1]"
    assert session.history.messages == before.messages
    undone = (await session.change_conversation(undo_rewrite)).event
    assert undone.written == 0
    assert build_prompt(session.history, INSTRUCTIONS) == build_prompt(before, INSTRUCTIONS)
    await act(session, "evict", "r1")
    await turn(session, "go on")
    assert isinstance(await session.bring_back("r1"), BroughtBack)
    rewrites = await session._ctx.records.recorder.log.rewrites()
    assert [(one.reason, one.strategies) for one in rewrites] == [
        ("by hand", ("evict(r1)",)),
        ("undone", ("undo",)),
        ("by hand", ("evict(r1)",)),
    ]


async def test_what_stays_behind_is_paid_for_once_and_costs_nothing_when_nothing_is_cached(priced: PricedHome) -> None:
    for name in "ab":
        (priced.root / f"{name}.txt").write_text(ROWS)
    session = await priced.opened(*reads("ab"), {"text": "done"}, {"text": "again"})
    await priced.say(session)
    first, second = [(await price(session, "evict", key)).plan for key in ("r1", "r2")]
    assert isinstance(first, ViewEditPlan)
    assert isinstance(second, ViewEditPlan)
    assert first.cache_write_tokens > second.cache_write_tokens > 0
    assert first.cost == pytest.approx(first.cache_write_tokens * (3.75 - 0.3) / 3)
    assert (await price(session, "evict", "r1")).dollars_per_token == pytest.approx(3e-6)
    await act(session, "evict", "r1")
    after_first = (await price(session, "evict", "r2")).plan
    assert isinstance(after_first, ViewEditPlan)
    assert after_first.cost == 0  # what stands there has to be written again anyway
    await priced.say(session)
    assert (await session.change_conversation(preview_rewrite_undo)).event.written > 0
    warm = (await price(session, "evict", "r2")).plan
    priced.now += 10_000
    cold = (await price(session, "evict", "r2")).plan
    assert isinstance(warm, ViewEditPlan)
    assert isinstance(cold, ViewEditPlan)
    assert warm.cost > cold.cost == 0


async def test_the_request_shrinks_as_the_plan_has_said(project: Project) -> None:
    session = await opened(project, *WORK)
    await turn(session)
    sizes = []
    for name, key in (("offload", "r1"), ("evict", "r2")):
        plan = (await price(session, name, key)).plan  # type: ignore[arg-type]  # an act
        assert isinstance(plan, ViewEditPlan)
        before = measure_budget(replace(session.history, anchor=None, anchored=0), session._ctx.window).used
        await act(session, name, key)  # type: ignore[arg-type]  # an act
        after = measure_budget(session.history, session._ctx.window).used
        sizes.append((before - after, plan.freed_tokens))
    for found, expected in sizes:
        assert found == pytest.approx(expected, rel=0.1)
    assert 'ref_id="r1"' in output(session, 1)


async def test_pins_survive_a_new_start_a_compaction_and_another_machine(project: Project) -> None:
    session = await opened(project, *WORK)
    await turn(session)
    event = await act(session, "pin", "r1")
    assert isinstance(event, ViewChanged)
    assert (event.price, event.before_tokens - event.after_tokens) == (None, 0)
    assert "is pinned: unpin it first" in await why(session, "evict", "r1")
    id, shown = session.id, output(session, 1)
    await session.close()

    session = await opened(project, resume=id)
    assert session.history.pinned == {"r1"}
    summary = {"text": "<retain>rows</retain><summary>Two files of rows were read.</summary>"}
    await session.close()
    session = await opened(project, {"text": "once"}, {"text": "twice"}, summary, {"text": "and on"}, resume=id)
    for text in ("more", "and more"):
        await turn(session, text)
    assert (await session.compact()).strategies
    (pinned,) = session.history.summary.pinned
    assert pinned == CarriedPart("r1", "Viewed a.txt – 399 lines", "r1", (Text(shown),))
    await turn(session, "go on")
    history = session.history
    await session.close()

    elsewhere, file = Project(project.folder, "elsewhere"), project.folder / "away.zip"
    export_session(project.config(), id, file)
    imported = import_session(elsewhere.config(), file)
    session = await opened(elsewhere, resume=imported.session)
    assert session.history.pinned == {"r1"}
    assert session.history.summary == history.summary
    await act(session, "unpin", "r1")
    assert pins_in(session) == ["r1"]
    await act(session, "evict", "r1")
    assert pins_in(session) == []
    await elsewhere.close()


async def test_a_model_sums_up_one_output_and_everything_up_to_one(project: Project) -> None:
    summary = {"text": "<retain>b.txt</retain><summary>Two files of rows were read.</summary>"}
    more = [{"text": "It is rows."}, summary]
    session = await opened(project, *WORK, {"text": "well"}, *more)
    await turn(session)
    await turn(session, "and?")
    plan = (await price(session, "summarise", "r1")).plan
    assert isinstance(plan, ViewEditPlan)
    assert plan.asks_model
    event = await act(session, "summarise", "r1")
    assert isinstance(event, ViewChanged)
    assert output(session, 1).startswith("Read by a model for this call:\nIt is rows.\n[A summary of r1 by a model")
    assert (await session._ctx.records.recorder.log.request_usages())[-1].purpose == "reading"
    before = session.history
    await act(session, "summarise_before", "r2")
    assert session.history.messages == before.messages[5:]
    assert session.history.summary.summary == "Two files of rows were read."
    await session.change_conversation(undo_rewrite)
    assert build_prompt(session.history, INSTRUCTIONS) == build_prompt(before, INSTRUCTIONS)
    await turn(session, "go on")


async def test_where_no_model_sums_it_up_nothing_has_changed(project: Project) -> None:
    session = await opened(project, *WORK, {"error": "auth"}, {"error": "auth"})
    await turn(session)
    before = session.history
    assert "nothing has changed" in await why(session, "summarise", "r1")
    assert "newest step" in await why(session, "summarise_before", "m5")
    assert session.history == before


async def test_nothing_is_done_to_a_view_of_nothing_or_while_a_turn_runs(project: Project) -> None:
    session = await opened(project, *WORK)
    assert "no messages yet" in await why(session, "evict", "r1")
    events = session.send("go")
    await anext(events)
    assert "while a turn is running" in await why(session, "evict", "r1")
    async for _ in events:
        pass
    assert "is not in view" in await why(session, "evict", "r9")


async def test_tools_are_kept_out_of_requests_and_found_by_search(tmp_path: Path) -> None:
    mcp_project = McpProject(tmp_path)
    words = mcp_project.server("forge", **{f"tool_{n}": "does a thing " * 60 for n in range(6)})
    mcp_project.user(forge={"command": words[0], "args": words[1:]})
    sessions = mcp_project.sessions(*[{"text": "done"}] * 6, settings=("agent.tool_deferral_threshold=1.0",))
    session = await sessions.open()
    await until(lambda: phase(session, "forge") == "ready")
    await turn(session)
    names = {spec.name for spec in session._ctx.window.tools.offered_specs}
    assert {"mcp__forge__tool_1", "mcp__forge__tool_2"} <= names
    plan = (await price(session, "defer", "forge")).plan
    assert isinstance(plan, ViewEditPlan)
    assert plan.freed_tokens > 500
    event = await act(session, "defer", "forge")
    assert isinstance(event, ViewChanged)
    assert not [spec.name for spec in session._ctx.window.tools.offered_specs if spec.name.startswith("mcp__forge")]
    assert {tool.name for tool in session._ctx.calls.runner.workspace.get_deferred_tools()} >= {
        "mcp__forge__tool_1",
        "mcp__forge__tool_2",
    }
    assert "already disabled" in await why(session, "defer", "mcp__forge__tool_1")
    assert "no tool or server" in await why(session, "defer", "read")
    await turn(session, "go on")
    id = session.id
    await session.close()
    session = await sessions.open(id_prefix=id)
    assert session.history.excluded_tools == {f"mcp__forge__tool_{n}" for n in range(6)}
    await turn(session, "go on")
    assert not [spec.name for spec in session._ctx.window.tools.offered_specs if spec.name.startswith("mcp__forge")]
    await act(session, "offer", "mcp__forge__tool_1")
    assert [spec.name for spec in session._ctx.window.tools.offered_specs if spec.name.startswith("mcp__forge")] == [
        "mcp__forge__tool_1"
    ]
    await session.change_conversation(undo_rewrite)
    assert not [spec.name for spec in session._ctx.window.tools.offered_specs if spec.name.startswith("mcp__forge")]
    await turn(session, "go on")
    await session.close()
    await mcp_project.close()


async def test_what_left_the_view_by_hand_is_still_found(project: Project) -> None:
    session = await opened(project, *WORK)
    await turn(session, "please look at this text\n" + "some words of mine " * 400 + "to the end")
    (message,) = [m for m in session.history.messages if isinstance(m, User) and m.text]
    await act(session, "evict", "m0")
    assert visible_messages(session.history)[0] != message
    trace = await session.trace_text("mine to the end")
    assert [place.fate for place in trace.occurrences] == ["stored"]
    assert (await session._ctx.records.archive.recall.fetch(trace.occurrences[0].ref)).content.size > 7_000  # type: ignore[union-attr]  # there
    await act(session, "offload", "r1")
    entries = {entry.ref: entry.state for entry in await session.archive_listing.items(session.history)}
    assert (entries["r1"], entries["r2"]) == ("preview", "visible")
    assert [place.fate for place in (await session.trace_text("row 200 of")).occurrences] == ["stored", "visible"]


async def test_a_recorder_of_an_earlier_version_finds_nothing_pinned(project: Project) -> None:
    session = await opened(project, *WORK)
    await turn(session)
    await act(session, "pin", "r1")
    recorder = session._ctx.records.recorder
    again = Recorder(recorder._thread, recorder._store, recorder._row, is_new=False)
    assert await again.read_conversation() == session.history
    assert isinstance((await price(session, "pin", "r1")).plan, Refusal)

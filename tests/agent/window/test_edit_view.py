"""What the user does to the view by hand, in real sessions: real files, a real store, a scripted model with prices."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.archive.export import export_session, import_session
from agent.config.values import Config
from agent.context.edit_cost import ViewEditPlan
from agent.context.mask import as_shown
from agent.context.prompt import Instructions, build_prompt
from agent.context.view_edits import EditRequest, Refusal
from agent.errors import AgentError
from agent.events import Event
from agent.messages import Kept, Text, ToolOutput, User
from agent.records.recorder import Recorder
from agent.records.store_thread import StoreThread
from agent.session import Session
from agent.sessions import Sessions
from agent.view_events import Act, BroughtBack, PrefixDrifted, ViewChanged
from agent.window.edit_view import Acted, Priced, do_act, price_act
from agent.window.measure import budget_of
from agent.window.undo import offer_undo, undo
from store.sessions import SessionStore
from tests.agent.mcp.serving import House
from tests.agent.mcp.test_running import phase
from tests.agent.scripted import scripted_config, scripted_sessions
from tests.agent.window.test_rewrite import Desk, reads
from tests.waiting import until

ROWS = "".join(f"row {number} of a long file\n" for number in range(1, 400))


INSTRUCTIONS = Instructions("Be brief.")


def read(name: str) -> dict[str, Any]:
    return {"calls": [{"name": "read", "arguments": {"path": name}}]}


ANSWERS = [{"text": "done"}] * 5
WORK = [read("a.txt"), read("b.txt"), {"text": "I have read both."}]


class Home:
    """A project with two files, and sessions of a scripted model in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir()
        for name in "ab":
            (self.project / f"{name}.txt").write_text(ROWS)
        self.opened: list[Sessions] = []

    def config(self, *replies: dict[str, Any], **changes: Any) -> Config:
        return scripted_config(self.folder, *replies, *ANSWERS, **{"window": 200_000, **changes})

    async def open(self, *replies: dict[str, Any], resume: str | None = None, **changes: Any) -> Session:
        sessions = scripted_sessions(self.folder, *replies, *ANSWERS, **{"window": 200_000, **changes})
        self.opened.append(sessions)
        return await sessions.open(resume)

    async def close(self) -> None:
        for sessions in self.opened:
            await sessions.close()


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    made = Home(tmp_path)
    yield made
    await made.close()


async def turn(session: Session, text: str = "go") -> list[Event]:
    events = [event async for event in session.send(text)]
    assert not [event for event in events if isinstance(event, PrefixDrifted)]
    return events


async def act(session: Session, name: Act, key: str = "") -> Event:
    acted: Acted = await session.change(do_act, EditRequest(name, key))
    (event,) = acted.events
    return event


async def price(session: Session, name: Act, key: str = "") -> Priced:
    return await session.change(price_act, EditRequest(name, key))


async def why(session: Session, name: Act, key: str = "") -> str:
    with pytest.raises(AgentError) as raised:
        await act(session, name, key)
    return str(raised.value)


def output(session: Session, number: int) -> str:
    shown = [o for m in as_shown(session.history) if isinstance(m, User) for o in m.outputs]
    found: ToolOutput = shown[number - 1]
    return found.text


def pins_in(session: Session) -> list[str]:
    return [one.key for one in session.history.summary.kept]


async def test_an_evicted_output_is_a_line_until_it_is_brought_back_or_undone(home: Home) -> None:
    session = await home.open(*WORK)
    await turn(session)
    before = session.history
    priced = await price(session, "evict", "r1")
    assert session.history == before
    assert isinstance(priced.plan, ViewEditPlan)

    event = await act(session, "evict", "r1")

    assert isinstance(event, ViewChanged)
    assert event.before_tokens - event.after_tokens == priced.plan.freed > 2_000
    assert event.price is not None
    assert (event.price.removed, event.price.behind) == (priced.plan.freed, priced.plan.behind)
    assert output(session, 1) == "Viewed a.txt – 399 lines [recall:r1]"
    assert session.history.messages == before.messages
    undone = (await session.change(undo)).event
    assert undone.written == 0
    assert build_prompt(session.history, INSTRUCTIONS) == build_prompt(before, INSTRUCTIONS)
    await act(session, "evict", "r1")
    await turn(session, "go on")
    assert isinstance(await session.bring("r1"), BroughtBack)
    rewrites = await session._env.recorder.log.rewrites()
    assert [(one.reason, one.strategies) for one in rewrites] == [
        ("by hand", ("evict(r1)",)),
        ("undone", ("undo",)),
        ("by hand", ("evict(r1)",)),
    ]
    await session.close()


async def test_what_stays_behind_is_paid_for_once_and_costs_nothing_when_nothing_is_cached(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(ROWS)
    desk = Desk(tmp_path, StoreThread(lambda: SessionStore(tmp_path / "sessions.db")))
    session = await desk.open(*reads("ab"), {"text": "done"}, {"text": "again"})
    await desk.say(session)
    first, second = [(await price(session, "evict", key)).plan for key in ("r1", "r2")]
    assert isinstance(first, ViewEditPlan)
    assert isinstance(second, ViewEditPlan)
    assert first.behind > second.behind > 0
    assert first.cost == pytest.approx(first.behind * (3.75 - 0.3) / 3)
    assert (await price(session, "evict", "r1")).dollars == pytest.approx(3e-6)
    await act(session, "evict", "r1")
    after_first = (await price(session, "evict", "r2")).plan
    assert isinstance(after_first, ViewEditPlan)
    assert after_first.cost == 0  # what stands there has to be written again anyway
    await desk.say(session)
    assert (await session.change(offer_undo)).event.written > 0
    warm = (await price(session, "evict", "r2")).plan
    desk.now += 10_000
    cold = (await price(session, "evict", "r2")).plan
    assert isinstance(warm, ViewEditPlan)
    assert isinstance(cold, ViewEditPlan)
    assert warm.cost > cold.cost == 0
    await session.close()
    await desk.thread.close()


async def test_the_request_shrinks_as_the_plan_has_said(home: Home) -> None:
    session = await home.open(*WORK)
    await turn(session)
    sizes = []
    for name, key in (("offload", "r1"), ("evict", "r2")):
        plan = (await price(session, name, key)).plan  # type: ignore[arg-type]  # an act
        assert isinstance(plan, ViewEditPlan)
        before = budget_of(replace(session.history, anchor=None, anchored=0), session._env).used
        await act(session, name, key)  # type: ignore[arg-type]  # an act
        after = budget_of(session.history, session._env).used
        sizes.append((before - after, plan.freed))
    for found, told in sizes:
        assert found == pytest.approx(told, rel=0.1)
    assert 'ref_id="r1"' in output(session, 1)
    await session.close()


async def test_pins_survive_a_new_start_a_compaction_and_another_machine(home: Home) -> None:
    session = await home.open(*WORK)
    await turn(session)
    event = await act(session, "pin", "r1")
    assert isinstance(event, ViewChanged)
    assert (event.price, event.before_tokens - event.after_tokens) == (None, 0)
    assert "is pinned: unpin it first" in await why(session, "evict", "r1")
    id, shown = session.id, output(session, 1)
    await session.close()

    session = await home.open(resume=id)
    assert session.history.pinned == {"r1"}
    summary = {"text": "<retain>rows</retain><summary>Two files of rows were read.</summary>"}
    await session.close()
    session = await home.open({"text": "once"}, {"text": "twice"}, summary, {"text": "and on"}, resume=id)
    for text in ("more", "and more"):
        await turn(session, text)
    assert (await session.compact()).strategies
    (kept,) = session.history.summary.kept
    assert kept == Kept("r1", "Viewed a.txt – 399 lines", "r1", (Text(shown),))
    await turn(session, "go on")
    history = session.history
    await session.close()

    export_session(home.config(), id, home.folder / "away.zip")
    imported = import_session(home.config(home="elsewhere"), home.folder / "away.zip")
    session = await home.open(resume=imported.session, home="elsewhere")
    assert session.history.pinned == {"r1"}
    assert session.history.summary == history.summary
    await act(session, "unpin", "r1")
    assert pins_in(session) == ["r1"]
    await act(session, "evict", "r1")
    assert pins_in(session) == []
    await session.close()


async def test_a_model_sums_up_one_output_and_everything_up_to_one(home: Home) -> None:
    summary = {"text": "<retain>b.txt</retain><summary>Two files of rows were read.</summary>"}
    more = [{"text": "It is rows."}, summary]
    session = await home.open(*WORK, {"text": "well"}, *more)
    await turn(session)
    await turn(session, "and?")
    plan = (await price(session, "summarise", "r1")).plan
    assert isinstance(plan, ViewEditPlan)
    assert plan.asks
    event = await act(session, "summarise", "r1")
    assert isinstance(event, ViewChanged)
    assert output(session, 1).startswith("Read by a model for this call:\nIt is rows.\n[A summary of r1 by a model")
    assert (await session._env.recorder.log.requests())[-1].purpose == "reading"
    before = session.history
    await act(session, "summarise_before", "r2")
    assert session.history.messages == before.messages[5:]
    assert session.history.summary.summary == "Two files of rows were read."
    await session.change(undo)
    assert build_prompt(session.history, INSTRUCTIONS) == build_prompt(before, INSTRUCTIONS)
    await turn(session, "go on")
    await session.close()


async def test_where_no_model_sums_it_up_nothing_has_changed(home: Home) -> None:
    session = await home.open(*WORK, {"error": "auth"}, {"error": "auth"})
    await turn(session)
    before = session.history
    assert "nothing has changed" in await why(session, "summarise", "r1")
    assert "newest step" in await why(session, "summarise_before", "m5")
    assert session.history == before
    await session.close()


async def test_nothing_is_done_to_a_view_of_nothing_or_while_a_turn_runs(home: Home) -> None:
    session = await home.open(*WORK)
    assert "nothing was said yet" in await why(session, "evict", "r1")
    events = session.send("go")
    await anext(events)
    assert "while a turn is running" in await why(session, "evict", "r1")
    async for _ in events:
        pass
    assert "is not in view" in await why(session, "evict", "r9")
    await session.close()


async def test_tools_are_kept_out_of_requests_and_found_by_search(tmp_path: Path) -> None:
    house = House(tmp_path)
    words = house.server("forge", **{f"tool_{n}": "does a thing " * 60 for n in range(6)})
    house.user(forge={"command": words[0], "args": words[1:]})
    sessions = house.sessions(*[{"text": "done"}] * 6, settings=("agent.tool_deferral_threshold=1.0",))
    session = await sessions.open()
    await until(lambda: phase(session, "forge") == "ready")
    await turn(session)
    names = {spec.name for spec in session._env.offered}
    assert {"mcp__forge__tool_1", "mcp__forge__tool_2"} <= names
    plan = (await price(session, "defer", "forge")).plan
    assert isinstance(plan, ViewEditPlan)
    assert plan.freed > 500
    event = await act(session, "defer", "forge")
    assert isinstance(event, ViewChanged)
    assert not [spec.name for spec in session._env.offered if spec.name.startswith("mcp__forge")]
    assert {tool.name for tool in session._env.call_runner.workspace.held_back()} >= {
        "mcp__forge__tool_1",
        "mcp__forge__tool_2",
    }
    assert "kept out of requests already" in await why(session, "defer", "mcp__forge__tool_1")
    assert "no tool or server" in await why(session, "defer", "read")
    await turn(session, "go on")
    id = session.id
    await session.close()
    session = await sessions.open(resume=id)
    assert session.history.held_back == {f"mcp__forge__tool_{n}" for n in range(6)}
    await turn(session, "go on")
    assert not [spec.name for spec in session._env.offered if spec.name.startswith("mcp__forge")]
    await act(session, "offer", "mcp__forge__tool_1")
    assert [spec.name for spec in session._env.offered if spec.name.startswith("mcp__forge")] == ["mcp__forge__tool_1"]
    await session.change(undo)
    assert not [spec.name for spec in session._env.offered if spec.name.startswith("mcp__forge")]
    await turn(session, "go on")
    await session.close()
    await house.close()


async def test_what_left_the_view_by_hand_is_still_found(home: Home) -> None:
    session = await home.open(*WORK)
    await turn(session, "please look at this text\n" + "some words of mine " * 400 + "to the end")
    (message,) = [m for m in session.history.messages if isinstance(m, User) and m.text]
    await act(session, "evict", "m0")
    assert as_shown(session.history)[0] != message
    trace = await session.why("mine to the end")
    assert [place.fate for place in trace.places] == ["stored"]
    assert (await session._env.archive.recall.fetch(trace.places[0].ref)).content.size > 7_000  # type: ignore[union-attr]  # there
    await act(session, "offload", "r1")
    entries = {entry.ref: entry.state for entry in await session.listing.entries(session.history)}
    assert (entries["r1"], entries["r2"]) == ("preview", "visible")
    assert [place.fate for place in (await session.why("row 200 of")).places] == ["stored", "visible"]
    await session.close()


async def test_a_recorder_of_an_earlier_version_finds_nothing_pinned(home: Home) -> None:
    session = await home.open(*WORK)
    await turn(session)
    await act(session, "pin", "r1")
    recorder = session._env.recorder
    again = Recorder(recorder._thread, recorder._store, recorder._row, is_new=False)
    assert await again.read() == session.history
    assert isinstance((await price(session, "pin", "r1")).plan, Refusal)
    await session.close()

"""Agents that a session has sent off: their blocks while they work, the list of them, and how one is stopped."""

import pytest

from ebbtide.agent.events.session import (
    AgentActivity,
    Event,
    ReplyFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.messages import Usage
from ebbtide.agent.window.session_context import SubAgents
from ebbtide.tui.app import EbbApp
from ebbtide.tui.slash_commands import Invocation, command_by_name
from ebbtide.tui.view.blocks import Call
from tests.kit.app_pilot import list_on, started
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions, Hold, session_info
from tests.kit.pictures import SIZES, Picture

DONE = "[Agent review answered: 3 requests, 41,200 tokens, $0.0312]\nNothing is wrong."
PROMPTS = {
    "c1": ("explore", "Find every place where the parser is called, and what each hands to it"),
    "c2": ("review", "Judge the diff of the last commit"),
    "c3": ("explore", "Which settings does the export read?"),
}


class FakeAgents(SubAgents):
    def __init__(self) -> None:
        self.stopped: list[str] = []

    @property
    def running(self) -> tuple[RunningAgent, ...]:
        explore, third = (RunningAgent(id, *PROMPTS[id]) for id in ("c1", "c3"))
        at_work = RunningAgent("c1", explore.name, explore.prompt, "e1", 14.0, 18_400)
        return tuple(one for one in (at_work, third) if one.call_id not in self.stopped)

    @property
    def descriptions(self) -> dict[str, str]:
        return {"explore": "read-only search", "review": "read-only judge of code or a diff"}

    def stop(self, call: str, /) -> None:
        self.stopped.append(call)

    def set_watcher(self, changed: object, /) -> None:
        """Nothing changes by itself."""


def does(call: str, seconds: float, event: Event) -> AgentActivity:
    return AgentActivity("e1", call, PROMPTS[call][0], seconds, event)


def turn() -> list[Event | Hold]:
    begun = [ToolStarted(id, "task", {"agent": name, "prompt": prompt}) for id, (name, prompt) in PROMPTS.items()]
    reply = ReplyFinished("openai/gpt", "calls", Usage(9_000, 200), 0.01)
    return [
        TextDelta("I have them looked at."),
        *begun,
        does("c1", 1.0, reply),
        does("c1", 1.2, ToolStarted("1", "grep", {"pattern": "Parser\\("})),
        does("c1", 2.0, ToolFinished("1", "grep", "done", "42 lines")),
        does("c1", 6.0, reply),
        does("c1", 6.1, ToolStarted("1", "read", {"path": "src/export/table.py"})),
        ToolFinished("c2", "task", "done", DONE),
        ToolProgress("c3", "waiting for another agent to finish\n"),
        Hold(),
        TurnFinished("answered", "x"),
    ]


def at_work() -> tuple[FakeSessions, FakeAgents]:
    agents = FakeAgents()
    done = tuple(
        session_info(f"d{n}", PROMPTS["c2"][1], updated_at=9e9, owner="abc123", agent="review", messages=7)
        for n in (1, 2)
    )
    library = FakeLibrary((session_info("abc123", "look at it", agents=done),))
    session = FakeSession([turn()], agents=agents)
    return FakeSessions([session], listing=library), agents


def waits(app: EbbApp) -> bool:
    calls = [block for block in app.controller.view.turn_blocks if isinstance(block, Call)]
    return len(calls) == 3 and calls[-1].output_tail != ""


@SIZES
@pytest.mark.usefixtures("no_time_passes")
@pytest.mark.parametrize("has_list", [False, True], ids=["blocks", "list"])
def test_what_agents_do(picture: Picture, *, has_list: bool) -> None:
    app = EbbApp(at_work()[0], guard_s=0.0)

    def begin() -> None:
        app.jobs.handle_input("look at it")

    def lists() -> bool:
        if waits(app) and not list_on(app, "agents"):
            app.jobs.invoke(Invocation(command_by_name("agents"), ""))
        return list_on(app, "agents")

    assert picture(app, *([lists] if has_list else [lambda: waits(app)]), start=begin)


async def test_one_is_stopped_in_its_block_in_the_list_and_by_name() -> None:
    sessions, agents = at_work()
    async with started(sessions, (80, 24)) as t:
        await t.type("look at it", shows="waiting for another agent to finish")
        await t.pilot.press("ctrl+t", "s")
        await t.until(lambda: agents.stopped == ["c3"])
        t.prompt.focus()
        await t.opens("/agents")
        await t.pilot.press("s")
        await t.until(lambda: agents.stopped == ["c3", "c1"])
        await t.pilot.press("escape")
        agents.stopped.clear()
        await t.type("/agents stop explore", shows="2 agents match")
        await t.type("/agents stop e1")
        await t.until(lambda: agents.stopped == ["c1"])

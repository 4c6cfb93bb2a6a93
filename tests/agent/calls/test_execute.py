"""Calls run with tools made for the test."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.preflight import ToolBudget
from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.execute import CallPosition, CallRunner, run_calls
from ebbtide.agent.calls.output_budget import OutputBudget
from ebbtide.agent.calls.output_intake import OutputArchiver
from ebbtide.agent.calls.policy import Policy
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.events.session import Event, ToolFinished
from ebbtide.agent.messages import ToolCall, User
from ebbtide.agent.tokens.estimate import estimate_message
from ebbtide.tools.base import Arguments, Effect, Result, Tool, Workspace
from ebbtide.tools.edit import Edit


@dataclass(slots=True)
class Endless:
    """A tool that only reads, for ever, unless it is told to fail."""

    ended: list[str] = field(default_factory=list)
    name: str = "endless"
    description: str = ""
    effect: Effect = "read"
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if arguments:
            raise ZeroDivisionError("a bug")
        try:
            await asyncio.sleep(600)
        finally:
            self.ended.append("endless")
        return Result("")


def call_runner(tool: Tool, root: Path, events: list[Event]) -> CallRunner:
    policy = Policy(str(root), "auto")
    return CallRunner(
        {tool.name: tool}, Workspace(root, root), Approver(policy), Interrupt(), events.append, OutputArchiver()
    )


def room(tokens: int = 10_000) -> OutputBudget:
    return OutputBudget(ToolBudget(tokens, 0), lambda output: estimate_message(User((output,))))


async def test_no_call_runs_on_when_one_beside_it_fails_with_a_bug(tmp_path: Path) -> None:
    tool = Endless()
    calls = (ToolCall("c1", "endless", {}), ToolCall("c2", "endless", {"fail": True}))
    with pytest.raises(ZeroDivisionError):
        await run_calls(calls, call_runner(tool, tmp_path, []), room(), CallPosition())
    assert tool.ended == ["endless"]


async def test_what_an_unasked_call_changed_is_told_to_somebody_who_looks_on_with_its_place_in_the_file(
    tmp_path: Path,
) -> None:
    diffs: dict[bool, str] = {}
    for looks_on in (True, False):
        (tmp_path / "a.py").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
        events: list[Event] = []
        runner = replace(call_runner(Edit(), tmp_path, events), emits_diffs=looks_on)
        call = ToolCall("c1", "edit", {"path": "a.py", "old": "six", "new": "6"})
        await run_calls((call,), runner, room(), CallPosition())
        diffs[looks_on] = next(event.diff for event in events if isinstance(event, ToolFinished))
    assert diffs == {True: "--- a/a.py\n+++ b/a.py\n@@ -3,4 +3,4 @@\n three\n four\n five\n-six\n+6", False: ""}

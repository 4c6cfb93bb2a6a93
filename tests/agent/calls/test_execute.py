"""Calls run with tools made for the test."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.calls.approval import Approval
from agent.calls.execute import CallPosition, CallRunner, run_calls
from agent.calls.output_room import OutputRoom
from agent.calls.output_view import Ingest
from agent.calls.policy import Policy
from agent.channel import Interrupt
from agent.context.estimate import estimate_message
from agent.context.preflight import ToolBudget
from agent.events import Event
from agent.messages import ToolCall, User
from tools.base import Arguments, Effect, Result, Workspace


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


def call_runner(tool: Endless, root: Path, events: list[Event]) -> CallRunner:
    policy = Policy(str(root), "auto")
    return CallRunner({tool.name: tool}, Workspace(root, root), Approval(policy), Interrupt(), events.append, Ingest())


def room(tokens: int = 10_000) -> OutputRoom:
    return OutputRoom(ToolBudget(tokens, 0), lambda output: estimate_message(User((output,))))


async def test_no_call_runs_on_when_one_beside_it_fails_with_a_bug(tmp_path: Path) -> None:
    tool = Endless()
    calls = (ToolCall("c1", "endless", {}), ToolCall("c2", "endless", {"fail": True}))
    with pytest.raises(ZeroDivisionError):
        await run_calls(calls, call_runner(tool, tmp_path, []), room(), CallPosition())
    assert tool.ended == ["endless"]

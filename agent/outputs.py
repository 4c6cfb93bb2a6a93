"""The room that the window has for the outputs of one step. It is taken in the order of the calls, from what the model
is shown of each output, whatever form that has."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from agent.context.guard import ToolBudget, can_execute_tool, preview_tool_output, reserve_tool_output
from agent.context.offload import cut_to_fit
from agent.messages import ToolOutput

FILLED = (
    "not run: an earlier output of this step has filled the context window. Room is made before your next step: make "
    "this call again then if it is still needed, and ask for less at a time"
)

SHORT = 100
"""Tokens of an output that is shown as it is also where there is no room: a note of what is left out takes as much."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An output of which all is kept, and how the model gets to it."""

    output: ToolOutput
    how: str = ""
    """Empty when there is no other way to it than the call."""


Keep: TypeAlias = Callable[[ToolOutput], Awaitable[Kept]]


class OutputRoom:
    """One for each step. After an output that does not fit no further call is run."""

    def __init__(self, budget: ToolBudget, count: Callable[[ToolOutput], int], refusal: str = FILLED) -> None:
        """`count`: tokens of an output. `refusal`: what the model is told of a call that is not run."""
        self._budget = budget
        self._count = count
        self.refusal = refusal

    @property
    def budget(self) -> ToolBudget:
        return self._budget

    @property
    def is_open(self) -> bool:
        """Whether another call may be run."""
        return can_execute_tool(self._budget)

    async def take(self, output: ToolOutput, keep: Keep) -> ToolOutput:
        """The output as it is shown: as it is where it fits, otherwise the part of it that takes half of what is left,
        after `keep` has kept all of it."""
        # What ran beside an output that did not fit is taken, too.
        room = replace(self._budget, exceeded=False)
        size = self._count(output)
        fits = preview_tool_output(room, size).fits
        shown = output if fits or size <= SHORT else await self._cut(output, size, keep)
        taken = reserve_tool_output(room, size if fits else min(self._count(shown), room.remaining))
        self._budget = replace(taken.budget, exceeded=self._budget.exceeded or not fits)
        return shown

    async def _cut(self, output: ToolOutput, size: int, keep: Keep) -> ToolOutput:
        kept = await keep(output)
        return cut_to_fit(kept.output, self._budget.remaining // 2, size, self._count, kept.how)

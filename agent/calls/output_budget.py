"""The room that the window has for the outputs of one step. It is shared among them from what the model is shown of
each, whatever form that has: small ones stand whole, and large ones leave each other the same part."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.context.budget import shares
from ebbtide.agent.context.offload import cut_output
from ebbtide.agent.context.preflight import ToolBudget, can_execute_tool, preview_tool_output, reserve_tool_output
from ebbtide.agent.messages import ToolOutput
from ebbtide.tools.lazy import dataclass

WINDOW_FULL_NOTE = (
    "not run: an earlier output of this step has filled the context window. Make this call again if it is still "
    "needed, and ask for less at a time"
)

SHORT = 100
"""Tokens of an output that is shown as it is also where there is no room: a note of what is left out takes as much."""

MIN_PREVIEW_TOKENS = 200
"""Tokens of each that are shown at first where more room is made: what is left out here is out of reach then."""


@dataclass(frozen=True, slots=True)
class ArchivedOutput:
    """An output of which all is kept, and how the model gets to it."""

    output: ToolOutput
    how: str = ""
    """Empty when there is no other way to it than the call."""


StoreOutput: TypeAlias = Callable[[ToolOutput], Awaitable[ArchivedOutput]]


class OutputBudget:
    """One for each step."""

    def __init__(
        self,
        budget: ToolBudget,
        count: Callable[[ToolOutput], int],
        refusal: str = WINDOW_FULL_NOTE,
        spare: Callable[[], int] | None = None,
    ) -> None:
        """`count`: tokens of an output. `spare`: what outputs may take together that do not fit, when more room is made
        before the next request; every call is run then. Without it no further call is run after an output that does
        not fit, and `refusal` is what the model is told of one."""
        self._budget = budget
        self._count = count
        self._spare = spare
        self.refusal = refusal

    @property
    def budget(self) -> ToolBudget:
        return self._budget

    @property
    def is_open(self) -> bool:
        """Whether another call may be run."""
        return self._spare is not None or can_execute_tool(self._budget)

    def take(self, outputs: Sequence[ToolOutput]) -> None:
        """Takes the room of outputs in the order of their calls, as much of it as there is."""
        for output in outputs:
            # What ran beside an output that did not fit is taken, too.
            room, size = replace(self._budget, exceeded=False), self._count(output)
            fits = preview_tool_output(room, size).fits
            taken = reserve_tool_output(room, size if fits else room.remaining)
            self._budget = replace(taken.budget, exceeded=self._budget.exceeded or not fits)

    async def share(self, outputs: Sequence[ToolOutput], keep: Sequence[StoreOutput]) -> tuple[ToolOutput, ...]:
        """The outputs as they are shown: as they are where they fit together, otherwise each with its part of half of
        what was left, or of what is spared for them, after `keep` has kept all of it."""
        sizes = [self._count(output) for output in outputs]
        left = replace(self._budget, reserved=0).remaining
        if sum(sizes) <= left:
            return tuple(outputs)
        room = max(left // 2, self._spare() if self._spare is not None else 0)
        least = MIN_PREVIEW_TOKENS if self._spare is not None else 0
        cut = zip(outputs, sizes, shares(sizes, room), keep, strict=True)
        return tuple([await self._fit_output(output, size, max(part, least), kept) for output, size, part, kept in cut])

    async def _fit_output(self, output: ToolOutput, size: int, part: int, keep: StoreOutput) -> ToolOutput:
        if size <= max(part, SHORT):
            return output
        kept = await keep(output)
        return cut_output(kept.output, part, size, self._count, kept.how)

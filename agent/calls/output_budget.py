"""Shares the window's room among the outputs of one step, by what is shown of each: small outputs stay whole, and
large ones get equal parts."""

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
"""Tokens of an output that is shown even without room: the note about its removal would be as long."""

MIN_PREVIEW_TOKENS = 200
"""Least tokens of each output if room is freed before the next request: what is cut here cannot be restored then."""


@dataclass(frozen=True, slots=True)
class ArchivedOutput:
    """An output that is stored in full, and how the model can read it."""

    output: ToolOutput
    how: str = ""
    """Empty if the only way is to repeat the call."""


StoreOutput: TypeAlias = Callable[[ToolOutput], Awaitable[ArchivedOutput]]


class OutputBudget:
    """The output budget of one step."""

    def __init__(
        self,
        budget: ToolBudget,
        count: Callable[[ToolOutput], int],
        refusal: str = WINDOW_FULL_NOTE,
        spare: Callable[[], int] | None = None,
    ) -> None:
        """`count`: returns the tokens of an output. `spare`: returns how many tokens outputs may exceed the room by,
        if room is freed before the next request; every call then runs. Without it, no further call runs after an
        output that does not fit, and `refusal` is its output."""
        self._budget = budget
        self._count = count
        self._spare = spare
        self.refusal = refusal

    @property
    def budget(self) -> ToolBudget:
        return self._budget

    @property
    def is_open(self) -> bool:
        """Whether another call may run."""
        return self._spare is not None or can_execute_tool(self._budget)

    def take(self, outputs: Sequence[ToolOutput]) -> None:
        """Reserve the room of outputs in call order, as far as there is any."""
        for output in outputs:
            # Outputs that ran beside one that did not fit still count.
            room, size = replace(self._budget, exceeded=False), self._count(output)
            fits = preview_tool_output(room, size).fits
            taken = reserve_tool_output(room, size if fits else room.remaining)
            self._budget = replace(taken.budget, exceeded=self._budget.exceeded or not fits)

    async def share(self, outputs: Sequence[ToolOutput], keep: Sequence[StoreOutput]) -> tuple[ToolOutput, ...]:
        """The outputs as shown: unchanged if they fit together, else each cut to its part of half the remaining
        room, or of `spare`, after `keep` has stored it in full."""
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

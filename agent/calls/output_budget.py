"""Divides the remaining room in the context window among the outputs of one step: small outputs stay whole, and large
ones get equal shares. Only the visible form of an output counts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.budget.preflight import ToolBudget, can_execute_tool, check_output_fit, reserve_tool_output
from ebbtide.agent.budget.request_budget import divide_room
from ebbtide.agent.messages import ToolOutput
from ebbtide.agent.view.previews import cut_output
from ebbtide.tools.lazy import dataclass

WINDOW_FULL_NOTE = (
    "not run: an earlier output of this step has filled the context window. Make this call again if it is still "
    "needed, and ask for less at a time"
)

SHORT_OUTPUT_TOKENS = 100
"""Outputs of at most this many tokens are always shown: a note about their removal would be as long."""

MIN_PREVIEW_TOKENS = 200
"""Minimum number of tokens to show of each output if room will be freed before the next request. Text that is cut now
cannot be added back when there is room again."""


@dataclass(frozen=True, slots=True)
class ArchivedOutput:
    """An output that is stored in full, and how the model can read it."""

    output: ToolOutput
    reading_advice: str = ""
    """How the model can read it; empty if only repeating the call shows it again."""


StoreOutput: TypeAlias = Callable[[ToolOutput], Awaitable[ArchivedOutput]]


class OutputBudget:
    """The output budget of one step."""

    def __init__(
        self,
        budget: ToolBudget,
        count_tokens: Callable[[ToolOutput], int],
        refusal: str = WINDOW_FULL_NOTE,
        count_freeable_tokens: Callable[[], int] | None = None,
    ) -> None:
        """`count_tokens`: returns the size of an output in tokens. `count_freeable_tokens`: returns how many tokens
        will be freed before the next request. Outputs may exceed the room by that much, and every call runs. Without
        this function, an output that does not fit prevents further calls, and `refusal` becomes their output."""
        self._budget = budget
        self._count_tokens = count_tokens
        self._count_freeable_tokens = count_freeable_tokens
        self.refusal = refusal

    @property
    def budget(self) -> ToolBudget:
        return self._budget

    @property
    def allows_calls(self) -> bool:
        """Whether another call may run."""
        return self._count_freeable_tokens is not None or can_execute_tool(self._budget)

    def reserve(self, outputs: Sequence[ToolOutput]) -> None:
        """Reserve room for outputs in call order, up to the remaining room."""
        for output in outputs:
            # Count the outputs of all concurrent calls, even after one that does not fit.
            available, token_count = replace(self._budget, is_exceeded=False), self._count_tokens(output)
            fits = check_output_fit(available, token_count).fits
            reservation = reserve_tool_output(available, token_count if fits else available.remaining)
            self._budget = replace(reservation.budget, is_exceeded=self._budget.is_exceeded or not fits)

    async def fit_outputs(
        self, outputs: Sequence[ToolOutput], store_functions: Sequence[StoreOutput]
    ) -> tuple[ToolOutput, ...]:
        """Fit the outputs into the remaining room. If they all fit, they stay unchanged. Otherwise, each output that
        exceeds its share is stored in full with its function in `store_functions` and then cut. The outputs share half
        of the remaining room or, if that is more, the tokens that can be freed."""
        token_counts = [self._count_tokens(output) for output in outputs]
        available = replace(self._budget, reserved=0).remaining
        if sum(token_counts) <= available:
            return tuple(outputs)
        room = max(available // 2, self._count_freeable_tokens() if self._count_freeable_tokens is not None else 0)
        min_tokens = MIN_PREVIEW_TOKENS if self._count_freeable_tokens is not None else 0
        rows = zip(outputs, token_counts, divide_room(token_counts, room), store_functions, strict=True)
        return tuple(
            [
                await self._fit_output(output, token_count, max(share, min_tokens), store)
                for output, token_count, share, store in rows
            ]
        )

    async def _fit_output(
        self, output: ToolOutput, token_count: int, allowed_tokens: int, store_output: StoreOutput
    ) -> ToolOutput:
        if token_count <= max(allowed_tokens, SHORT_OUTPUT_TOKENS):
            return output
        archived = await store_output(output)
        return cut_output(archived.output, allowed_tokens, token_count, self._count_tokens, archived.reading_advice)

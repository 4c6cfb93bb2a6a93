"""The room that the window has for the outputs of one step. It is taken in the order of the calls, from what the model
is shown of each output, whatever form that has."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from agent.context.guard import ToolBudget, can_execute_tool, preview_tool_output, reserve_tool_output
from agent.context.offload import preview
from agent.messages import ToolOutput

FILLED = (
    "not run: an earlier output of this step has filled the context window. Room is made before your next step: make "
    "this call again then if it is still needed, and ask for less at a time"
)

SHORT = 100
"""Tokens of an output that is shown as it is also where there is no room: a note of what is left out takes as much."""


class OutputRoom:
    """One for each step. After an output that does not fit no further call is run."""

    def __init__(
        self, budget: ToolBudget, count: Callable[[ToolOutput], int], folder: Path, refusal: str = FILLED
    ) -> None:
        """`count`: tokens of an output. `folder`: where an output is kept that is shown in part and kept nowhere else.
        `refusal`: what the model is told of a call that is not run."""
        self._budget = budget
        self._count = count
        self._folder = folder
        self.refusal = refusal

    @property
    def budget(self) -> ToolBudget:
        return self._budget

    @property
    def is_open(self) -> bool:
        """Whether another call may be run."""
        return can_execute_tool(self._budget)

    async def take(self, output: ToolOutput) -> ToolOutput:
        """The output as it is shown: as it is where it fits, otherwise the part of it that takes half of what is left.
        All of it is on disk then."""
        # What ran beside an output that did not fit is taken, too.
        room = replace(self._budget, exceeded=False)
        size = self._count(output)
        fits = preview_tool_output(room, size).fits
        shown = output if fits or size <= SHORT else await self._cut(output, size)
        taken = reserve_tool_output(room, size if fits else min(self._count(shown), room.remaining))
        self._budget = replace(taken.budget, exceeded=self._budget.exceeded or not fits)
        return shown

    async def _cut(self, output: ToolOutput, size: int) -> ToolOutput:
        kept = output if output.whole else replace(output, whole=await self._keep(output))
        return preview(kept, self._budget.remaining // 2, size, self._count)

    async def _keep(self, output: ToolOutput) -> str | None:
        """Where the text of an output is now, or None when it could not be written."""
        try:
            return await asyncio.to_thread(_write, self._folder, output.text)
        except OSError:
            return None  # the output is shown in part all the same, and says that there is no more of it


def _write(folder: Path, text: str) -> str:
    """The file that holds a text now. It is named after the content, since some servers use the id of a call again."""
    raw = text.encode("utf-8", "surrogatepass")
    path = folder / f"output-{sha256(raw).hexdigest()[:16]}.txt"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
    return str(path)

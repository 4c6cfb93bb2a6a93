"""How much of a step's outputs the model is shown. Pure: outputs in, outputs out."""

from collections.abc import Sequence
from dataclasses import replace

from agent.context.budget import ContextBudget
from agent.context.estimate import estimate_text
from agent.messages import ToolOutput

SHARE = 0.5
"""Of the room that is left, what the outputs of one step may take together."""


def offload(outputs: Sequence[ToolOutput], budget: ContextBudget) -> tuple[ToolOutput, ...]:
    """The outputs as they are shown. They stay whole unless together they would take more than half of the room left in
    the window; then each of them is cut in its middle to an equal part of that half."""
    room = int(max(budget.remaining, 0) * SHARE)
    sizes = [estimate_text(output.text) for output in outputs]
    if sum(sizes) <= room:
        return tuple(outputs)
    part = max(room // len(outputs), 200)
    return tuple(
        output if size <= part else _cut(output, part / size) for output, size in zip(outputs, sizes, strict=True)
    )


def _cut(output: ToolOutput, share: float) -> ToolOutput:
    keep = int(len(output.text) * share / 2)
    left_out = len(output.text) - 2 * keep
    where = f"; all of it is in {output.whole}" if output.whole else "; ask for less at a time to see it"
    note = f"\n[… {left_out} characters left out: the context window is nearly full{where} …]\n"
    return replace(output, text=output.text[:keep] + note + output.text[len(output.text) - keep :])

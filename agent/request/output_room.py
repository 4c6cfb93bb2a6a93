"""Reserves room for the outputs of calls before they run."""

from collections.abc import Sequence

from ebbtide.agent import compaction
from ebbtide.agent.budget.preflight import create_tool_budget
from ebbtide.agent.calls.execute import CallPosition, CallRunner, run_calls
from ebbtide.agent.calls.output_budget import WINDOW_FULL_NOTE, OutputBudget
from ebbtide.agent.control_calls import NOT_RUN_WINDOW_FULL
from ebbtide.agent.messages import Conversation, ToolCall, ToolOutput, User
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import WindowContext

NOTE_RESERVE_TOKENS, REFUSAL_RESERVE_TOKENS = 800, 60
"""Tokens reserved for notes in the next step, such as the request for a summary or report, and for the refusal of each
call that is not run."""


async def run_calls_within_budget(
    calls: Sequence[ToolCall], conversation: Conversation, runner: CallRunner, window: WindowContext
) -> tuple[ToolOutput, ...]:
    """Run the calls and return one output per call. If the next step can free space, all calls are run, and their
    outputs share that space. Otherwise, no more calls are run after an output that does not fit."""
    position = first_call_position(conversation, window)
    output_budget = create_output_budget(conversation, window)
    runner.progress.begin_step(calls)
    outputs = await run_calls(calls, runner, output_budget, position)
    window.model.meter.is_output_truncated = not output_budget.allows_calls
    return outputs


def create_output_budget(conversation: Conversation, window: WindowContext) -> OutputBudget:
    """Determine how much room there is for the outputs of the conversation's last calls."""
    model = window.model
    budget = measure_budget(conversation, window)
    note_tokens = NOTE_RESERVE_TOKENS + REFUSAL_RESERVE_TOKENS * len(conversation.unanswered_calls)
    reserved_tokens = min(note_tokens, max(budget.remaining, 0) // 2)
    tool_budget = create_tool_budget(model.meter.counters, budget.window, reserved_tokens)

    def count_freeable_tokens() -> int:
        return compaction.room.output_share_tokens(conversation, budget)

    def count_tokens(output: ToolOutput) -> int:
        return model.meter.estimate_message(User((output,)))

    if window.compaction_settings.on_full == "final":
        return OutputBudget(tool_budget, count_tokens, NOT_RUN_WINDOW_FULL)
    return OutputBudget(
        tool_budget,
        count_tokens,
        WINDOW_FULL_NOTE,
        count_freeable_tokens if window.compaction_settings.is_automatic else None,
    )


def first_call_position(conversation: Conversation, window: WindowContext) -> CallPosition:
    """Return the position of the first of the conversation's last calls."""
    prompt = window.view_cache.last_user_text(conversation)
    reply = conversation.messages[-1].text if conversation.messages else ""
    return CallPosition(window.view_cache.count_outputs(conversation) + 1, f"{prompt}\n\n{reply}".strip())

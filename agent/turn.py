"""A turn: the user's message, then steps until the model has answered. This module controls the order of the steps;
other modules implement them."""

import itertools
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.calls.execute import run_calls
from ebbtide.agent.calls.loop_guard import should_stop_turn
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compaction.rewrite import compact_if_requested
from ebbtide.agent.control_calls import (
    NOT_RUN_STEP_LIMIT,
    NOT_RUN_WINDOW_FULL,
    skipped_call_outputs,
    submitted_report,
    todo_state,
)
from ebbtide.agent.events.session import StepStarted, TurnEnd
from ebbtide.agent.input.message import (
    add_hook_context,
    continue_after_answer,
    expand_mentions,
    sync_server_tools,
    take_pending_messages,
    take_pending_notes,
)
from ebbtide.agent.messages import Assistant, Conversation, ToolOutput, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.records.call_progress import can_run, output_for_open_call
from ebbtide.agent.records.session_state import with_todos
from ebbtide.agent.request.fit import FinalTurnState, announce_final_turn, begin_turn, make_room
from ebbtide.agent.request.output_room import create_output_budget, first_call_position, run_calls_within_budget
from ebbtide.agent.request.send import send_request
from ebbtide.agent.request.turn_model import switch_to_requested_model
from ebbtide.agent.view.recalls import add_outputs
from ebbtide.agent.window.measure import last_request_record, measure_budget
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.lazy import dataclass

StepEnd: TypeAlias = Literal["answered", "interrupted", "context_limit", "repeated_text"] | None
"""How the turn ended in this step. None if the turn continues because the model must see its calls' outputs."""


@dataclass(frozen=True, slots=True)
class Step:
    conversation: Conversation
    answer: str
    """The report that the model submitted or, if there is none, the reply's text."""
    ending: StepEnd


async def take_step(conversation: Conversation, ctx: SessionContext, *, is_last: bool = False) -> Step:
    """Send the conversation to the model, run the calls in its reply, and record the outcome. Calls are not run in the
    last allowed step, or when the turn ends with a report."""
    conversation, budget = await make_room(conversation, ctx)
    conversation, final_turn_state = await announce_final_turn(conversation, budget, ctx.window, ctx.turn)

    conversation, reply = await send_request(conversation, budget, ctx)
    await ctx.records.recorder.record_reply(reply.message)

    outputs = await answer_calls(reply.message, conversation, final_turn_state, is_last, ctx)
    output_message = add_due_notes(User(outputs), conversation, ctx)
    conversation = add_outputs(conversation, output_message)
    await ctx.records.recorder.record_snapshot(conversation, output_message, last_request_record(ctx.window))
    report = submitted_report(reply.message, outputs, plan_ends_turn=ctx.calls.plan_ends_turn)
    return Step(
        conversation, report or reply.message.text, step_end(reply, report, final_turn_state, ctx.turn.interrupt)
    )


async def run_turn(message: User, conversation: Conversation, ctx: SessionContext) -> tuple[Conversation, TurnEnd, str]:
    """Run a turn. Return the conversation, how the turn ended, and the answer. If the message is empty, continue the
    turn that ended at an open question."""
    turn = ctx.turn
    conversation = await sync_server_tools(conversation, ctx)
    conversation = await answer_open_calls(conversation, ctx)
    if message.parts:
        conversation = await accept_message(message, conversation, ctx)
    elif turn.interrupt.is_requested():
        return conversation, "interrupted", last_reply_text(conversation)
    turn.allowance.begin_turn(turn.limits, lambda: turn.cost_so_far)
    for step_number in itertools.count(1):
        if turn.allowance.is_cost_limit_reached:
            return conversation, "cost_limit", last_reply_text(conversation)
        conversation = await compact_if_requested(conversation, ctx.window, turn)
        conversation = await take_pending_messages(conversation, ctx)
        turn.emit(StepStarted(step_number))
        turn.allowance.count_step()
        step = await take_step(conversation, ctx, is_last=turn.allowance.is_at_last_step)
        conversation = step.conversation
        if (
            step.ending == "answered"
            and (continued := await continue_after_answer(conversation, step.answer, ctx.model, turn)) is not None
        ):
            conversation, step = continued, replace(step, ending=None)
        if step.ending is not None:
            return conversation, step.ending, step.answer
        if turn.allowance.is_at_last_step:
            return conversation, "step_limit", step.answer
        if await should_stop_turn(ctx.calls.runner.loop_guard, ctx.calls.runner.workspace.ask, turn.interrupt):
            return conversation, "repeated_calls", step.answer
    raise AssertionError("the count never ends")


async def answer_open_calls(conversation: Conversation, ctx: SessionContext) -> Conversation:
    """Finish the calls that were left open when the session was closed during a question, and return the conversation
    with their outputs."""
    if not conversation.unanswered_calls:
        return conversation
    outputs = add_due_notes(User(await finish_calls(conversation, ctx)), conversation, ctx)
    conversation = add_outputs(conversation, outputs)
    await ctx.records.recorder.record_snapshot(conversation, outputs, last_request_record(ctx.window))
    return conversation


async def accept_message(message: User, conversation: Conversation, ctx: SessionContext) -> Conversation:
    """Add the user's message to the conversation, with the content of the files that it mentions."""
    message = await add_hook_context(await expand_mentions(message, ctx), ctx.turn)
    begin_turn(message, ctx.calls, ctx.window)
    message = add_due_notes(message, conversation, ctx)
    await ctx.records.recorder.record_user_message(message)
    return await switch_to_requested_model(conversation.plus(message), ctx.window, ctx.turn)


async def answer_calls(
    reply: Assistant,
    conversation: Conversation,
    final_turn_state: FinalTurnState,
    is_last_step: bool,
    ctx: SessionContext,
) -> tuple[ToolOutput, ...]:
    """Return one output per call. If it is too late to run calls, each output is a message that says so."""
    if final_turn_state != "none" or is_last_step:
        reason = NOT_RUN_WINDOW_FULL if final_turn_state != "none" else NOT_RUN_STEP_LIMIT
        return skipped_call_outputs(reply, reason, plan_ends_turn=ctx.calls.plan_ends_turn)
    return await run_calls_within_budget(reply.calls, conversation, ctx.calls.runner, ctx.window)


def add_due_notes(message: User, conversation: Conversation, ctx: SessionContext) -> User:
    """Add the notes for the model that are due now."""
    window = ctx.window
    if window.instruction_updates is not None:
        message = window.instruction_updates.add_instructions(message, conversation, ctx.calls.runner, window)
    if message.parts:
        message = replace(message, parts=(*message.parts, *take_pending_notes(ctx.calls, ctx.turn)))
    new_conversation = conversation.plus(message)
    budget = measure_budget(new_conversation, window)
    # A request that does not fit is compacted before it is sent, so a note about its size would be wrong.
    used_percent = 100 * budget.used / budget.window.available_tokens if budget.verdict == "fits" else 0.0
    state = with_todos(ctx.records.recorder.session_state, todo_state(new_conversation.messages[-2:]))
    return window.reminders.add_notes(message, state, used_percent, window.prefix_watch.rewrite_count)


def step_end(reply: Reply, report: str | None, final_turn_state: FinalTurnState, interrupt: Interrupt) -> StepEnd:
    if interrupt.is_requested() or reply.stop_reason == "interrupted":
        return "interrupted"
    is_waiting = (reply.message.calls and report is None) or reply.stop_reason == "pause"
    if is_waiting:
        return "context_limit" if final_turn_state == "overdue" else None
    return "repeated_text" if reply.stop_reason == "repetition" else "answered"


def last_reply_text(conversation: Conversation) -> str:
    """Return the text of the last reply, which is the answer if a turn ends early."""
    for message in reversed(conversation.messages):
        if isinstance(message, Assistant):
            return message.text
    return ""


async def finish_calls(conversation: Conversation, ctx: SessionContext) -> tuple[ToolOutput, ...]:
    """Run the open calls and return one output per call, in order. Calls that had already begun are not run again."""
    calls, states = conversation.unanswered_calls, ctx.records.recorder.open_call_states
    ctx.calls.runner.progress.resume_step(
        {
            call.id: states[call.id] if can_run(states.get(call.id)) else output_for_open_call(call, states)
            for call in calls
        }
    )
    return await run_calls(
        calls,
        ctx.calls.runner,
        create_output_budget(conversation, ctx.window),
        first_call_position(conversation, ctx.window),
    )

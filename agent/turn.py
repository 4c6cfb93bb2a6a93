"""A turn: the user's message, then steps until the model has answered. This module orders the steps; others implement
them."""

import itertools
from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.calls.execute import run_calls
from ebbtide.agent.calls.loop_guard import should_stop_looping
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.control_calls import FULL, LAST, not_run, report_in, todo_state
from ebbtide.agent.context.recalls import with_outputs
from ebbtide.agent.events.session import StepStarted, TurnEnd
from ebbtide.agent.input.message import (
    continuation_after_answer,
    expand_mentions,
    pending_notes,
    sync_server_tools,
    take_pending_messages,
    with_hooks,
)
from ebbtide.agent.messages import Assistant, Conversation, ToolOutput, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.records.call_progress import may_begin, output_left
from ebbtide.agent.records.session_state import with_todos
from ebbtide.agent.window.fit import ask, make_room
from ebbtide.agent.window.measure import budget_of, request_mark
from ebbtide.agent.window.model_choice import (
    TurnEnding,
    announce_final_turn,
    begin_turn,
    call_position,
    room_for_outputs,
    run_calls_within_budget,
)
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.triggers import compact_if_asked
from ebbtide.agent.window.turn_model import with_requested_model
from ebbtide.tools.lazy import dataclass

StepEnd: TypeAlias = Literal["answered", "interrupted", "context_limit", "repeated_text"] | None
"""How the turn ended with this step, or None if the model waits for the outputs of its calls."""


@dataclass(frozen=True, slots=True)
class Step:
    conversation: Conversation
    answer: str
    """The report that the model submitted, or else its text."""
    end: StepEnd


async def take_step(conversation: Conversation, env: SessionContext, *, last: bool = False) -> Step:
    """Show the model the conversation, run its calls, and record the outcome. In the last allowed step, and when the
    turn ends in a report, calls are not run."""
    conversation, budget = await make_room(conversation, env)
    conversation, ending = await announce_final_turn(conversation, budget, env)

    conversation, reply = await ask(conversation, budget, env.offered_tools, env)
    await env.recorder.record_reply(reply.message)

    outputs = await answer_calls(reply.message, conversation, ending, last, env)
    shown = with_notes(User(outputs), conversation, env)
    conversation = with_outputs(conversation, shown)
    await env.recorder.snapshot(conversation, shown, request_mark(env))
    report = report_in(reply.message, outputs, takes_plans=env.call_runner.approval.takes_plans)
    return Step(conversation, report or reply.message.text, end_of(reply, report, ending, env.interrupt))


async def run_turn(said: User, conversation: Conversation, env: SessionContext) -> tuple[Conversation, TurnEnd, str]:
    """Run a turn and return the conversation, how the turn ended, and the answer. With an empty message, continue the
    turn that was left at a question."""
    conversation = await sync_server_tools(conversation, env)
    conversation = await answer_open_calls(conversation, env)
    if said.parts:
        conversation = await accept_message(said, conversation, env)
    elif env.interrupt.is_requested():
        return conversation, "interrupted", last_reply_text(conversation)
    env.allowance.begin(env.limits, lambda: env.cost_so_far)
    for number in itertools.count(1):
        if env.allowance.is_spent:
            return conversation, "cost_limit", last_reply_text(conversation)
        conversation = await compact_if_asked(conversation, env)
        conversation = await take_pending_messages(conversation, env)
        env.emit(StepStarted(number))
        env.allowance.take_step()
        step = await take_step(conversation, env, last=env.allowance.is_at_last_step)
        conversation = step.conversation
        if (
            step.end == "answered"
            and (longer := await continuation_after_answer(conversation, step.answer, env)) is not None
        ):
            conversation, step = longer, replace(step, end=None)
        if step.end is not None:
            return conversation, step.end, step.answer
        if env.allowance.is_at_last_step:
            return conversation, "step_limit", step.answer
        if await should_stop_looping(env.call_runner.loop_guard, env.call_runner.workspace.ask, env.interrupt):
            return conversation, "repeated_calls", step.answer
    raise AssertionError("the count never ends")


async def answer_open_calls(conversation: Conversation, env: SessionContext) -> Conversation:
    """Return the conversation with outputs for the calls that were left open when the session ended at a question."""
    if not conversation.unanswered_calls:
        return conversation
    outputs = with_notes(User(await finish_calls(conversation, env)), conversation, env)
    conversation = with_outputs(conversation, outputs)
    await env.recorder.snapshot(conversation, outputs, request_mark(env))
    return conversation


async def accept_message(said: User, conversation: Conversation, env: SessionContext) -> Conversation:
    """Add the user's message, with the content of its mentions, to the conversation."""
    said = await with_hooks(await expand_mentions(said, env), env)
    begin_turn(said, env)
    said = with_notes(said, conversation, env)
    await env.recorder.record_user_message(said)
    return await with_requested_model(conversation.plus(said), env)


async def answer_calls(
    reply: Assistant, conversation: Conversation, ending: TurnEnding, last: bool, env: SessionContext
) -> tuple[ToolOutput, ...]:
    """Return one output per call: of the calls that are run, or of calls that come too late."""
    if ending != "none" or last:
        why = FULL if ending != "none" else LAST
        return not_run(reply, why, takes_plans=env.call_runner.approval.takes_plans)
    return await run_calls_within_budget(reply.calls, conversation, env)


def with_notes(message: User, conversation: Conversation, env: SessionContext) -> User:
    """Add the notes that are due at the moment the message is recorded."""
    if env.instruction_updates is not None:
        message = env.instruction_updates.add_to(message, conversation, env)
    message = replace(message, parts=(*message.parts, *pending_notes(env))) if message.parts else message
    after = conversation.plus(message)
    budget = budget_of(after, env)
    # A request that does not fit is compacted before it is sent, so a note on its size would be wrong.
    used = 100 * budget.used / budget.window.effective if budget.verdict == "fits" else 0.0
    situation = with_todos(env.recorder.situation, todo_state(after.messages[-2:]))
    return env.reminders.add_to(message, situation, used, env.watch.epoch)


def end_of(reply: Reply, report: str | None, ending: TurnEnding, interrupt: Interrupt) -> StepEnd:
    if interrupt.is_requested() or reply.stop_reason == "interrupted":
        return "interrupted"
    is_waiting = (reply.message.calls and report is None) or reply.stop_reason == "pause"
    if is_waiting:
        return "context_limit" if ending == "overdue" else None
    return "repeated_text" if reply.stop_reason == "repetition" else "answered"


def last_reply_text(conversation: Conversation) -> str:
    """Return the text of the last reply, which is the answer if a turn ends early."""
    for message in reversed(conversation.messages):
        if isinstance(message, Assistant):
            return message.text
    return ""


async def finish_calls(conversation: Conversation, env: SessionContext) -> tuple[ToolOutput, ...]:
    """Return one output per open call, in order. Calls that had begun are not run again."""
    calls, states = conversation.unanswered_calls, env.recorder.left_open
    env.call_runner.progress.resume(
        {call.id: states[call.id] if may_begin(states.get(call.id)) else output_left(call, states) for call in calls}
    )
    return await run_calls(
        calls, env.call_runner, room_for_outputs(conversation, env), call_position(conversation, env)
    )

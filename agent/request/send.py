"""Sends a request. If the provider rejects it as too large, shrinks and resends it. If that fails, tries the next
model."""

import itertools
from dataclasses import replace

from ebbtide.agent import compaction
from ebbtide.agent.budget.request_budget import (
    INFERRED_FROM_COUNTS,
    REPORTED_BY_SERVER,
    ContextBudget,
    Window,
    window_after_overflow,
)
from ebbtide.agent.budget.server_truncation import window_restored_notice
from ebbtide.agent.calls.call_resolution import resolve_calls
from ebbtide.agent.compaction.rewrite import compact_and_measure, force_strategy
from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.errors import ContextExhausted, ContextOverflow, EmptyAnswer, ImageRejected, ProviderError
from ebbtide.agent.events.session import CallsRead, Noticed, TextDelta, WindowLearned
from ebbtide.agent.messages import Assistant, Conversation, Image, Text, ToolOutput, Usage, User
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.prompt.empty_reply import build_answer_request, work_summary
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.request.fit import NEW_SESSION_HINT, switch_to_fallback
from ebbtide.agent.request.reply_reader import reply_reader_for
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.message_text import with_unique_ids
from ebbtide.agent.view.visible import messages_in_view
from ebbtide.agent.window.measure import MeasuredConversation, create_request, measure_budget
from ebbtide.agent.window.session_context import ModelContext, SessionContext, TurnContext, WindowContext

MAX_RECOVERIES = 3
"""Maximum number of attempts to shrink and resend a request that the provider rejected as too large."""


async def send_request(
    conversation: Conversation, budget: ContextBudget, ctx: SessionContext
) -> tuple[Conversation, Reply]:
    """Send the request, and return the conversation with the reply. If the provider rejects the request as too large,
    shrink and resend it up to `MAX_RECOVERIES` times; if that fails, send it to the next model. The tools may change
    each time. A request that the server has silently truncated is also shrunk and resent. Raises `ContextExhausted`."""
    window, model, turn = ctx.window, ctx.model, ctx.turn
    previous_learned_window, first_reply = model.learned_limits.window, None
    retry: MeasuredConversation | None
    for attempt in itertools.count(1):
        tools = window.tools.offered_specs
        prompt = window.view_cache.build_prompt(conversation, window.instructions, supports_images=model.facts.images)
        window.debug.log("context-guard/build-metrics", **model.meter.counters.debug_fields())
        request = window.prefix_watch.record_request(create_request(prompt, tools, window), model.facts)
        try:
            has_fallback = model.retries.limits.fallback_after is not None and bool(model.models.fallbacks)
            reply = await stream_reply(
                model.provider, request, turn.interrupt, turn.emit, budget, model.retries, has_fallback=has_fallback
            )
        except EmptyAnswer as error:
            answer_request, summary_line = None, ""
            if error.is_silence:
                answer_request = build_answer_request(conversation, is_small_model=model.facts.is_small)
                summary_line = work_summary(conversation)
            if answer_request is None and not summary_line:
                raise
            if answer_request is None:
                turn.emit(TextDelta(summary_line))
                reply = Reply(Assistant((Text(summary_line),), model.facts.id), Usage(), "end")
                return conversation.plus(reply.message), reply
            # Record it, so that the next request begins with this one.
            await turn.recorder.record_user_message(answer_request)
            turn.emit(Noticed(f"`{model.facts.id}` returned an empty answer, so it is asked for a sentence"))
            conversation = conversation.plus(answer_request)
            retry = conversation, measure_budget(conversation, window)
        except ImageRejected as error:
            retry = await remove_rejected_images(conversation, budget, error, window, turn)
            if retry is None:
                raise
        except ContextOverflow as error:
            retry = await recover_overflow(conversation, budget, window, turn, attempt, error.size, error.limit)
            if retry is None:
                raise exhausted_error(str(error).rstrip("."), previous_learned_window, model) from error
        except ProviderError as error:
            can_switch = has_fallback and error.is_retryable
            retry = await switch_to_fallback(conversation, budget, window, turn, str(error)) if can_switch else None
            if retry is None and first_reply is None:
                raise
            if retry is None:
                assert first_reply is not None
                turn.emit(Noticed(f"the first answer is used, because asking again failed: {error}"))
                turn.emit(TextDelta(first_reply.message.text))  # the interface discarded it for the second attempt
                return conversation.plus(first_reply.message), first_reply
        else:
            model.learned_limits.requests_since_summary += 1
            window.prefix_watch.record_reply(reply.single_pass_usage)
            log_estimate(budget, reply, window)
            reply = with_resolved_calls(reply, conversation, prompt, tools, ctx)
            if reply.stop_reason == "overflow":
                size, is_empty = reply.single_pass_usage.total or None, not reply.message.parts
                retry = await recover_overflow(
                    conversation, budget, window, turn, attempt, size, None, may_switch_model=is_empty
                )
                if retry is None and is_empty:
                    raise exhausted_error(
                        f"`{model.facts.id}` rejects the request as too large", previous_learned_window, model
                    )
                answered = conversation if retry else model.meter.add_reply(conversation, reply, budget, turn.emit)
            else:
                answered = model.meter.add_reply(conversation, reply, budget, turn.emit)
                retry, first_reply = await recover_truncated(conversation, reply, budget, window, turn, attempt), reply
            if retry is None:
                return answered, reply
        conversation, budget = retry
    raise AssertionError("the count never ends")


def exhausted_error(problem: str, previous_learned_window: Window | None, model: ModelContext) -> ContextExhausted:
    """Build the error for a request that is too large for every model. The learned window is reset to
    `previous_learned_window`, so that the next turn asks the provider again."""
    model.learned_limits.window = previous_learned_window
    return ContextExhausted(f"{problem}, even after compaction; {NEW_SESSION_HINT}")


async def recover_overflow(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    attempt: int,
    request_tokens: int | None,
    limit: int | None,
    *,
    may_switch_model: bool = True,
) -> MeasuredConversation | None:
    """Shrink a conversation that the provider rejected as too large, or switch to the next model. None if neither is
    possible."""
    shrunk = await shrink_request(
        conversation, budget, window, turn, attempt, request_tokens, limit, REPORTED_BY_SERVER
    )
    if shrunk is not None or not may_switch_model:
        return shrunk
    return await switch_to_fallback(conversation, replace(budget, window=window.model.known_window), window, turn)


async def shrink_request(
    conversation: Conversation,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    attempt: int,
    request_tokens: int | None,
    limit: int | None,
    source: str,
) -> MeasuredConversation | None:
    """Shrink a conversation that the provider rejected as too large, and record the actual window size that the
    rejection reveals. None if there are no attempts left or nothing can be shrunk."""
    if attempt > MAX_RECOVERIES:
        return None
    learned_window = window_after_overflow(budget.window, request_tokens or budget.used, limit, source)
    window.model.learned_limits.window = learned_window
    budget = replace(budget, window=learned_window)
    turn.emit(WindowLearned(learned_window.size, learned_window.available_tokens, attempt, MAX_RECOVERIES))
    if attempt > 1:
        # The request should have fitted. The most uncertain part of the estimate is how a provider counts images, so
        # they are removed first.
        without_images, measured = await compact_and_measure(
            conversation, budget, window, turn, "overflow", force_strategy("pictures"), request_tokens
        )
        if without_images.result.strategies:
            return without_images.conversation, measured
    compacted, budget = await compact_and_measure(
        conversation, budget, window, turn, "overflow", counted_tokens=request_tokens
    )
    return (compacted.conversation, budget) if compacted.result.strategies else None


async def remove_rejected_images(
    conversation: Conversation,
    budget: ContextBudget,
    rejection: ImageRejected,
    window: WindowContext,
    turn: TurnContext,
) -> MeasuredConversation | None:
    """Remove rejected images from the view, with the strategy that removes the fewest. If they stayed, every request
    would be rejected. None if there is no image to remove."""
    previous_count = count_visible_images(conversation)
    for strategy in compaction.strategies.STRATEGIES_BY_CAUSE["pictures"] if previous_count else ():
        without_images, budget = await compact_and_measure(
            conversation, budget, window, turn, "pictures", force_strategy(strategy)
        )
        conversation = without_images.conversation
        if count_visible_images(conversation) < previous_count:
            turn.emit(Noticed(str(rejection)))
            return conversation, budget
    return None


def count_visible_images(conversation: Conversation) -> int:
    """Return the number of images that the model sees."""
    user_messages = [message for message in messages_in_view(conversation) if isinstance(message, User)]
    parts = [part for message in user_messages for part in message.parts]
    output_image_count = sum(len(part.images) for part in parts if isinstance(part, ToolOutput))
    return output_image_count + sum(isinstance(part, Image) for part in parts)


async def recover_truncated(
    conversation: Conversation,
    reply: Reply,
    budget: ContextBudget,
    window: WindowContext,
    turn: TurnContext,
    attempt: int,
) -> MeasuredConversation | None:
    """Shrink the conversation if the server has truncated the request and answered only part of it. None if the whole
    request was read, if the reply has calls, or if nothing can be shrunk. The actual window size is recorded in any
    case, because the next request must fit."""
    model = window.model
    size = model.meter.take_actual_window()
    if size is None:
        forget_refuted_window(reply.single_pass_usage.prompt, model, turn)
        return None
    model.learned_limits.window = window_after_overflow(budget.window, budget.used, size, INFERRED_FROM_COUNTS)
    if reply.message.calls or reply.stop_reason != "end" or attempt > MAX_RECOVERIES:
        return None
    uncounted = replace(conversation, anchor=None, anchored=0)
    budget = measure_budget(uncounted, window)
    return await shrink_request(uncounted, budget, window, turn, attempt, None, size, INFERRED_FROM_COUNTS)


def forget_refuted_window(counted_tokens: int, model: ModelContext, turn: TurnContext) -> None:
    """Discard the window size inferred from the server's counts, if the server has now read more tokens than that."""
    if model.learned_limits.is_refuted_by(counted_tokens):
        model.learned_limits.window = None
        model.meter.usage_check.allow_truncation_report()
        turn.emit(Noticed(window_restored_notice(counted_tokens, model.provider.window.size)))


def with_resolved_calls(
    reply: Reply, conversation: Conversation, prompt: Prompt, tools: tuple[ToolSpec, ...], ctx: SessionContext
) -> Reply:
    """Convert the reply's calls, including calls written as text, to the form in which they are run. Each call gets a
    unique id."""
    runner, offered_names = ctx.calls.runner, [spec.name for spec in tools]
    if runner.approver.policy.mode == "plan":
        offered_names.append(PLAN_TOOL)  # the model knows this tool from the list or a note
    reader, message = reply_reader_for(ctx.model.facts), reply.message
    if reader is not None and reply.stop_reason in ("end", "repetition") and not message.calls:
        message = reader.parse_calls_in_text(message, conversation, prompt, offered_names, runner)
    if message is not reply.message:
        ctx.turn.emit(CallsRead(message.text))
        reply = replace(reply, stop_reason="calls" if message.calls else reply.stop_reason)
    message = resolve_calls(message, runner.tools, offered_names, str(runner.workspace.root))
    if reader is not None:
        message = reader.refuse_mistaken_calls(message, conversation, runner)
    return replace(reply, message=with_unique_ids(message, ctx.window.view_cache.call_ids(conversation)))


def log_estimate(budget: ContextBudget, reply: Reply, window: WindowContext) -> None:
    """Log the difference between the estimate and the provider's count, and how many frames of the reply could not be
    read."""
    if reply.skipped_frame_count:
        window.debug.log("provider/skipped", model=window.model.facts.id, frames=reply.skipped_frame_count)
    if not window.debug.is_enabled or not reply.single_pass_usage.prompt:
        return
    estimated, counted = budget.used, reply.single_pass_usage.prompt
    window.debug.log(
        "context/estimate",
        model=window.model.facts.id,
        estimated=estimated,
        counted=counted,
        error=round(estimated / counted - 1, 4),
        samples=window.model.meter.estimator.sample_count,
    )

"""Send requests that fit the window: make room before sending, and again if the provider finds a request too large.
What to cut is decided in `ebbtide.agent.context`."""

import itertools
from dataclasses import replace

from ebbtide.agent.calls.resolve import is_exactly, is_offered, normalize_calls, parameter_names
from ebbtide.agent.context.budget import INFERRED_FROM_COUNTS, SHOWN_BY_SERVER, ContextBudget, Window, after_overflow
from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.context.empty_reply import ask_for_answer, work_summary
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.message_text import message_text, with_unique_ids
from ebbtide.agent.context.prompt import Prompt
from ebbtide.agent.context.server_truncation import window_refuted
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.errors import ContextExhausted, ContextOverflow, EmptyAnswer, ImageRejected, ProviderError
from ebbtide.agent.events.session import CallsRead, ContextMeasured, Noticed, TextDelta, WindowLearned
from ebbtide.agent.messages import Assistant, Conversation, Image, Text, ToolOutput, Usage, User
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.window.measure import budget_of, to_request, with_tools_of_use
from ebbtide.agent.window.model_choice import choose_model, ends_in_report, leave_model, preflight
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.agent.window.triggers import compact_conversation, correct_budget_note, rewrite_if_due

RECOVERIES = 3
"""Maximum attempts to shrink and resend a request that the provider found too large."""

NEW_SESSION_HINT = "start a new session or use a model with a larger window"


async def make_room(conversation: Conversation, env: SessionContext) -> tuple[Conversation, ContextBudget]:
    """Make room in the window and return the conversation with its budget. If it still does not fit, the next model
    that has room takes over. If a full window is to end in a report, only what would not fit at all is compacted.
    Raises `ContextExhausted`."""
    conversation, budget = await rewrite_if_due(with_tools_of_use(conversation, env), env)
    problem = ""
    if env.compacting.on_full == "final" and budget.exceeds_budget:
        conversation, budget = await choose_model(conversation, budget, env)
    if budget.verdict != "fits" and env.compacting.is_automatic and not ends_in_report(budget, env):
        smaller = await compact_conversation(conversation, env, "full")
        budget = budget_of(smaller.conversation, env)
        if (
            budget.is_blocked
            and env.learned_limits.is_in_cooldown(budget.effective_window)
            and not env.interrupt.is_requested()
        ):
            env.learned_limits.end_cooldown()  # an early summary is better than none
            smaller = await compact_conversation(smaller.conversation, env, "full")
            budget = budget_of(smaller.conversation, env)
        conversation, problem = smaller.conversation, smaller.problem
    before = env.provider
    conversation, budget = await choose_model(conversation, budget, env)
    if env.compacting.is_automatic and is_stuck(budget, env):
        conversation = await show_fewer_words(conversation, env)
        budget = budget_of(conversation, env)
    if env.provider is not before:
        # The new model's cache is empty, so masking now costs nothing more.
        conversation, budget = await rewrite_if_due(conversation, env)
    if budget.verdict == "fits":
        told = await correct_budget_note(conversation, budget, env)
        conversation, budget = (told, budget_of(told, env)) if told is not conversation else (conversation, budget)
    parts = tuple((name, size) for name, size in budget.components.items() if size)
    env.emit(ContextMeasured(budget.used, budget.window.size, budget.window.effective, parts))
    if is_stuck(budget, env) and not env.interrupt.is_requested():
        off = "" if env.compacting.is_automatic else "`rewrite.policy` is `off`; `/compact` makes room"
        raise ContextExhausted(too_big(budget, problem or off, env))
    return conversation, budget


def is_stuck(budget: ContextBudget, env: SessionContext) -> bool:
    """Whether no model has room for the request, and no report will be asked for."""
    return preflight(budget, env).verdict == "final" and not ends_in_report(budget, env)


async def show_fewer_words(conversation: Conversation, env: SessionContext) -> Conversation:
    """Shorten long user text of the open request, as the alternative to a session that is stuck."""
    return (await compact_conversation(conversation, env, "full", "words")).conversation


async def ask(
    conversation: Conversation, budget: ContextBudget, tools: tuple[ToolSpec, ...], env: SessionContext
) -> tuple[Conversation, Reply]:
    """Send the request and return the conversation with the reply. A request that the provider finds too large is
    shrunk and sent again, at most three times, and then goes to the next model; the tools may change each time. An
    answer to only the last part of a request is asked for again. Raises `ContextExhausted`."""
    known, given = env.learned_limits.window, None
    for attempt in itertools.count(1):
        prompt = env.view.prompt(conversation, env.instructions, images=env.provider.facts.images)
        env.debug.log("context-guard/build-metrics", **env.meter.counters.debug_fields())
        request = env.watch.note_request(to_request(prompt, tools, env), env.provider.facts)
        try:
            may_leave = env.retries.persistence.fallback_after is not None and bool(env.targets.fallbacks)
            reply = await stream_reply(
                env.provider, request, env.interrupt, env.emit, budget, env.retries, may_leave=may_leave
            )
        except ContextOverflow as error:
            smaller = await recover(conversation, env, attempt, error.size, error.limit)
            smaller = smaller or await leave_model(conversation, env)
            if smaller is None:
                # If a provider finds everything too large, its limits are not learned: the next turn asks it again.
                env.learned_limits.window = known
                raise ContextExhausted(
                    f"{str(error).rstrip('.')}, even after compaction; {NEW_SESSION_HINT}"
                ) from error
        except EmptyAnswer as error:
            line = work_summary(conversation)
            asked = ask_for_answer(conversation, is_led=env.provider.facts.is_small)
            if not error.is_silence or not (line or asked):
                raise
            if asked is None:
                env.emit(TextDelta(line))
                reply = Reply(Assistant((Text(line),), env.provider.facts.id), Usage(), "end")
                return conversation.plus(reply.message), reply
            # Recorded, so that the next request begins with this one.
            await env.recorder.record_user_message(asked)
            env.emit(Noticed(f"`{env.provider.facts.id}` returned an empty answer and is asked for a sentence"))
            smaller = conversation.plus(asked)
        except ImageRejected as error:
            smaller = await leave_pictures(conversation, error, env)
            if smaller is None:
                raise
        except ProviderError as error:
            smaller = await leave_model(conversation, env, str(error)) if may_leave and error.retryable else None
            if smaller is None and given is None:
                raise
            if smaller is not None:
                conversation, tools = smaller, env.offered_tools
                budget = budget_of(conversation, env)
                continue
            assert given is not None
            env.emit(Noticed(f"the first answer is used, because asking again failed: {error}"))
            env.emit(TextDelta(given.message.text))  # the interface discarded it for the second attempt
            return conversation.plus(given.message), given
        else:
            env.learned_limits.since_summary += 1
            env.watch.note_reply(reply.single_pass_usage)
            log_estimate(conversation, reply, env)
            reply = with_resolved_calls(reply, conversation, prompt, tools, env)
            if reply.stop_reason == "overflow":
                smaller = await recover_overflow(conversation, reply, known, env, attempt)
                answered = conversation if smaller else env.meter.anchor_reply(conversation, reply, budget, env.emit)
            else:
                answered = env.meter.anchor_reply(conversation, reply, budget, env.emit)
                smaller, given = await recover_unread(conversation, reply, budget, env, attempt), reply
            if smaller is None:
                return answered, reply
        conversation, tools = smaller, env.offered_tools
        # The provider's count is compared with the last measurement.
        budget = budget_of(conversation, env)
    raise AssertionError("the count never ends")


async def recover(
    conversation: Conversation,
    env: SessionContext,
    attempt: int,
    size: int | None,
    limit: int | None,
    source: str = SHOWN_BY_SERVER,
) -> Conversation | None:
    """Shrink the conversation after the provider found it too large, and learn the real window from that. None if this
    was the last attempt or nothing can be shrunk."""
    if attempt > RECOVERIES:
        return None
    budget = budget_of(conversation, env)
    env.learned_limits.window = after_overflow(budget.window, size or budget.used, limit, source)
    learned = env.learned_limits.window
    env.emit(WindowLearned(learned.size, learned.effective, attempt, RECOVERIES))
    if attempt > 1:
        # It seemed to fit, and the least certain size is what a provider counts for a picture.
        bare = await compact_conversation(conversation, env, "overflow", "pictures", counted=size)
        if bare.result.strategies:
            return bare.conversation
    smaller = await compact_conversation(conversation, env, "overflow", counted=size)
    return smaller.conversation if smaller.result.strategies else None


async def leave_pictures(
    conversation: Conversation, refused: ImageRejected, env: SessionContext
) -> Conversation | None:
    """Remove rejected pictures from the view, with the strategy that removes the fewest. None if no picture is left. A
    rejected picture would be rejected in every further request."""
    from ebbtide.agent.context.strategies import LADDERS  # noqa: PLC0415  # deferred: rarely needed

    before = visible_image_count(conversation)
    for strategy in LADDERS["pictures"] if before else ():
        bare = await compact_conversation(conversation, env, "pictures", strategy)
        conversation = bare.conversation
        if visible_image_count(conversation) < before:
            env.emit(Noticed(str(refused)))
            return conversation
    return None


def visible_image_count(conversation: Conversation) -> int:
    """Number of pictures that the model sees."""
    users = [
        message
        for message in (*summary_messages(conversation.summary), *visible_messages(conversation))
        if isinstance(message, User)
    ]
    parts = [part for message in users for part in message.parts]
    in_outputs = sum(len(part.images) for part in parts if isinstance(part, ToolOutput))
    return in_outputs + sum(isinstance(part, Image) for part in parts)


async def recover_overflow(
    conversation: Conversation, reply: Reply, known: Window | None, env: SessionContext, attempt: int
) -> Conversation | None:
    """Shrink the conversation, or switch to the next model, if a reply ended at the end of the window. None if the
    reply is all there will be. Raises `ContextExhausted` if the reply is empty; the window is reset to `known` then."""
    smaller = await recover(conversation, env, attempt, reply.single_pass_usage.total or None, None)
    if smaller is not None or reply.message.parts:
        return smaller
    smaller = await leave_model(conversation, env)
    if smaller is None:
        env.learned_limits.window = known
        found = f"`{env.provider.facts.id}` finds the request too large, even after compaction"
        raise ContextExhausted(f"{found}; {NEW_SESSION_HINT}")
    return smaller


async def recover_unread(
    conversation: Conversation, reply: Reply, budget: ContextBudget, env: SessionContext, attempt: int
) -> Conversation | None:
    """Shrink the conversation if the server has truncated the request and answered the rest. None if everything was
    read, if the reply has calls, or if nothing can be shrunk. The real window is learned in any case: the next request
    has to fit."""
    size = env.meter.take_real_window()
    if size is None:
        forget_window(reply.single_pass_usage.prompt, env)
        return None
    env.learned_limits.window = after_overflow(budget.window, budget.used, size, INFERRED_FROM_COUNTS)
    if reply.message.calls or reply.stop_reason != "end":
        return None
    return await recover(replace(conversation, anchor=None, anchored=0), env, attempt, None, size, INFERRED_FROM_COUNTS)


def forget_window(counted: int, env: SessionContext) -> None:
    """Forget a window inferred from the server's counts if it has read more than that after all."""
    if env.learned_limits.is_refuted_by(counted):
        env.learned_limits.window = None
        env.meter.forget_truncation()
        env.emit(Noticed(window_refuted(counted, env.provider.window.size)))


def with_resolved_calls(
    reply: Reply, conversation: Conversation, prompt: Prompt, tools: tuple[ToolSpec, ...], env: SessionContext
) -> Reply:
    """Return the reply with its calls as they will run, each with a unique id, including calls written as text."""
    runner, offered = env.call_runner, [spec.name for spec in tools]
    if runner.approval.policy.mode == "plan":
        offered.append(PLAN)  # the model knows it, from the list or a note
    message, is_led = reply.message, env.provider.facts.is_small
    is_an_answer = reply.stop_reason in ("end", "repetition") and not message.calls
    if is_led:
        from ebbtide.agent.window.small_model_reply import refuse_truncating_writes, with_calls_from_code_blocks  # noqa: PLC0415  # deferred: for few models
    if env.provider.facts.calls_in_text and is_an_answer:
        from ebbtide.agent.calls.text_calls import with_text_calls  # noqa: PLC0415  # deferred: for some models only

        message = with_text_calls(
            message,
            lambda call: (is_exactly if call.is_loose else is_offered)(
                call.name, call.arguments, runner.tools, offered
            ),
            lambda: (prompt.system, *(message_text(said) for said in prompt.messages if isinstance(said, User))),
            lambda: parameter_names(runner.tools, offered),
            is_led=is_led,
        )
    if is_led and is_an_answer:
        message = with_calls_from_code_blocks(message, reply.message, conversation, env)
    if message is not reply.message:
        env.emit(CallsRead(message.text))
        reply = replace(reply, stop_reason="calls" if message.calls else reply.stop_reason)
    own = with_unique_ids(message, env.view.call_ids(conversation))
    meant = normalize_calls(own, runner.tools, offered, str(runner.workspace.root))
    return replace(reply, message=refuse_truncating_writes(meant, conversation, env) if is_led else meant)


def log_estimate(conversation: Conversation, reply: Reply, env: SessionContext) -> None:
    """Log the error of the estimate against the provider's count."""
    if not env.debug.on or not reply.single_pass_usage.prompt:
        return
    estimated, counted = budget_of(conversation, env).used, reply.single_pass_usage.prompt
    env.debug.log(
        "context/estimate",
        model=env.provider.facts.id,
        estimated=estimated,
        counted=counted,
        error=round(estimated / counted - 1, 4),
        samples=env.meter.estimator.samples,
    )


def too_big(budget: ContextBudget, problem: str, env: SessionContext) -> str:
    why = f" ({problem})" if problem else " even after compaction"
    return (
        f"the conversation takes about {budget.used:,} tokens, and `{env.provider.facts.id}` has room for "
        f"{budget.window.effective:,}{why}; {NEW_SESSION_HINT}"
    )

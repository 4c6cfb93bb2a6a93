"""Summaries written by a model: either the session's model, which has the conversation in its cache, or another model,
which reads the conversation as text. `ebbtide.agent.compaction.summary` contains the prompt and the parser."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compaction.plan import MIN_SUMMARY_TOKENS, CompactionLimits, CompactionPlan
from ebbtide.agent.compaction.room import CompactionRoom
from ebbtide.agent.compaction.summary import (
    Draft,
    SummaryResult,
    UnusableSummary,
    build_summary_prompt,
    parse_summary,
    without_unanswered_calls,
)
from ebbtide.agent.compaction.transcript import output_reference_lines, render_transcript, split_into_chunks
from ebbtide.agent.errors import AgentError, ContextOverflow, EmptyAnswer, ProviderError, TimedOut, Unreachable
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, RetryScheduled
from ebbtide.agent.events.view import CompactionFailed, Price
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.messages import Conversation, Text, User
from ebbtide.agent.providers.base import Provider, Reply, Request
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource
from ebbtide.agent.providers.stream import (
    OPTIONAL_REQUEST_LIMITS,
    REPLACEABLE_MODEL_LIMITS,
    RetryLimits,
    RetryPolicy,
    stream_reply,
)
from ebbtide.agent.providers.summarisers import with_silence_timeout
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.visible import first_unseen_index

SUMMARISER_PROMPT = (
    "You write down what a coding session has been about, so that somebody else can go on with it without having "
    "seen it."
)
MAX_CHUNKS = 24
"""Maximum number of chunks in which a conversation is summarised, one after the other. For longer conversations, the
ledger is used instead."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """Everything that a compaction needs."""

    provider: Provider
    build_request: Callable[[Conversation], Request]
    """Returns the request that would continue a conversation with the session's system prompt and tools."""
    room: CompactionRoom
    count_tokens: Callable[[Conversation], int]
    """Returns the tokens of a request with this conversation, counted as in the displayed size."""
    settings: CompactionSettings
    interrupt: Interrupt
    emit: Callable[[Event], None]
    learned_limits: LearnedLimits = field(default_factory=LearnedLimits)
    choose_summarisers: SummariserSource | None = None
    is_cache_cold: bool = False
    """Whether nothing of the conversation is in the provider's cache."""
    compute_price: Callable[[Sequence[str], Container[str]], Price | None] = lambda strategies, keys: None
    """Returns the cost and savings of a rewrite with these strategies and item keys."""
    max_chunks: int = MAX_CHUNKS
    """Maximum number of requests for one summary by a model that has not seen the conversation."""


@dataclass(slots=True)
class SummaryCost:
    """Collects the cost of a compaction's summaries, and the model that wrote the last one."""

    emit: Callable[[Event], None]
    cost: float | None = 0.0
    """US dollars; None if the price of any request is unknown."""
    model: str = ""

    def record_event(self, event: Event) -> None:
        if isinstance(event, ReplyFinished):
            self.model = event.model
            self.cost = None if event.cost is None or self.cost is None else self.cost + event.cost
        self.emit(event)


async def summarise(
    conversation: Conversation,
    plan: CompactionPlan,
    context: CompactionContext,
    limits: CompactionLimits,
    focus: str | None,
    *,
    reads_cache: bool,
) -> Draft | None:
    """Let a model write the summary: first the models that the user set for summaries, then the session's own.
    `reads_cache`: whether to send the conversation as it is, so that the session's model reads it from its cache.
    Return None if no model returned a usable summary."""
    prompt = build_summary_prompt(
        context.settings.preferences, focus, retain_tokens=limits.caps.retain, summary_tokens=limits.caps.summary
    )
    for provider in await _choose_summarisers(context, conversation, plan, is_cached=reads_cache):
        draft = await _summarise_in_chunks(provider, plan, prompt, context)
        if draft is not None or context.interrupt.is_requested():
            return draft
    if not reads_cache:
        return await _summarise_in_chunks(context.provider, plan, prompt, context)
    request = await asyncio.to_thread(_summary_request, conversation, plan, context, limits, focus)
    if request is None:
        return await _summarise_in_chunks(context.provider, plan, prompt, context)
    try:
        summary_result = await _request_summary(context.provider, request, context)
    except ContextOverflow:
        return await _summarise_in_chunks(context.provider, plan, prompt, context)
    except ProviderError as error:
        summary_result = UnusableSummary(str(error))
    return _draft_or_none(summary_result, context.provider, context)


def _summary_request(
    conversation: Conversation,
    plan: CompactionPlan,
    context: CompactionContext,
    limits: CompactionLimits,
    focus: str | None,
) -> Request | None:
    """Build the request to the model whose cache holds the conversation; None if the request does not fit the
    window."""
    caps, output_lines = limits.caps, output_reference_lines(plan)
    prompt = build_summary_prompt(
        context.settings.preferences,
        focus,
        retain_tokens=caps.retain,
        summary_tokens=caps.summary,
        output_lines=output_lines,
    )
    with_instruction = _seen_view(conversation).plus(User((Text(prompt),)))
    return context.build_request(with_instruction) if context.room.has_room_for(with_instruction) else None


def _seen_view(conversation: Conversation) -> Conversation:
    """Remove the messages that the model has not seen yet. They are not cached, and they stay in view after a
    summary."""
    seen = conversation.messages[: first_unseen_index(conversation.messages) + 1]
    return replace(conversation, messages=without_unanswered_calls(seen))


def summary_job(
    conversation: Conversation, plan: CompactionPlan, context: CompactionContext, *, is_cached: bool
) -> SummaryJob:
    """Describe the summary to write: the sizes of its possible inputs, in tokens as the provider counts them."""
    conversation_tokens = context.count_tokens(_seen_view(conversation))
    transcript_tokens = round(sum(map(estimate_text, render_transcript(plan))) * context.room.token_ratio)
    return SummaryJob(
        conversation_tokens,
        transcript_tokens,
        is_cached=is_cached
        and not context.is_cache_cold
        and conversation_tokens <= context.room.window_tokens + context.room.buffer_tokens,
    )


async def _choose_summarisers(
    context: CompactionContext, conversation: Conversation, plan: CompactionPlan, *, is_cached: bool
) -> Sequence[Provider]:
    if context.choose_summarisers is None:
        return ()
    job = await asyncio.to_thread(summary_job, conversation, plan, context, is_cached=is_cached)
    try:
        summarisers = await context.choose_summarisers(job, context.emit)
        return [
            provider
            for provider in summarisers
            if provider.facts.id not in context.learned_limits.unresponsive_summarisers
        ]
    except AgentError as error:
        context.emit(Noticed(f"the summary model cannot be used: {error}"))
        return ()


async def _summarise_in_chunks(
    provider: Provider, plan: CompactionPlan, instructions: str, context: CompactionContext
) -> Draft | None:
    """Summarise with a model that has not seen the conversation. It reads the conversation in chunks of at most half
    its window, each together with the summary of the previous chunks."""
    window = (context.learned_limits.window if provider is context.provider else None) or provider.window
    summary_tokens = context.settings.caps.retain + context.settings.caps.summary
    available_tokens = (
        window.available_tokens - estimate_text(SUMMARISER_PROMPT) - estimate_text(instructions) - summary_tokens
    )
    # In a small window, most of the output reserve is used for input, because a summary needs little of it.
    unused_reserve = (
        max(window.output - max(2 * summary_tokens, MIN_SUMMARY_TOKENS), 0)
        if available_tokens < window.size // 4
        else 0
    )
    chunk_tokens = max(min(window.size // 2, available_tokens + unused_reserve), 500)
    chunk_texts = await asyncio.to_thread(lambda: split_into_chunks(render_transcript(plan), chunk_tokens))
    if not 0 < len(chunk_texts) <= context.max_chunks:
        return None
    previous_summary = ""
    draft: Draft | None = None
    for chunk_text in chunk_texts:
        prompt = f"{previous_summary}{chunk_text}\n\n{instructions}"
        request = Request(
            SUMMARISER_PROMPT,
            (User((Text(prompt),)),),
            (),
            window.output - unused_reserve,
            context.build_request(Conversation()).session_id,
        )
        try:
            summary_result = await _request_summary(provider, request, context)
        except ProviderError as error:
            summary_result = UnusableSummary(str(error))
            if provider is not context.provider and isinstance(error, TimedOut | Unreachable):
                context.learned_limits.unresponsive_summarisers |= {provider.facts.id}
        draft = _draft_or_none(summary_result, provider, context)
        if draft is None:
            return None
        previous_summary = f"[summary of what came before]\n{draft.retain}\n{draft.summary}\n\n"
    return draft


async def _request_summary(provider: Provider, request: Request, context: CompactionContext) -> SummaryResult:
    """Send one request for a summary. Only the events for its cost and its retries are emitted."""

    def forward_cost(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            context.emit(replace(event, purpose="summary"))
        elif isinstance(event, RetryScheduled):
            context.emit(event)

    def send_request(
        emit: Callable[[Event], None], retry_limits: RetryLimits = REPLACEABLE_MODEL_LIMITS
    ) -> Coroutine[Any, Any, Reply]:
        return stream_reply(provider, request, context.interrupt, emit, retry_policy=RetryPolicy(retry_limits))

    try:
        if provider is context.provider:
            reply = await send_request(forward_cost, OPTIONAL_REQUEST_LIMITS)
        else:
            reply = await with_silence_timeout(provider.facts.id, send_request, forward_cost, context.emit)
    except EmptyAnswer:
        return UnusableSummary("it is empty")
    return parse_summary(reply.message.text, reply.message.calls, reply.stop_reason)


def _draft_or_none(summary_result: SummaryResult, provider: Provider, context: CompactionContext) -> Draft | None:
    if isinstance(summary_result, Draft):
        return summary_result
    if not context.interrupt.is_requested():
        context.emit(CompactionFailed(provider.facts.id, summary_result.reason))
    return None

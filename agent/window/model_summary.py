"""Summaries written by a model: the one that has the conversation in its cache, or one that reads it as text. Prompt
and parsing are in `ebbtide.agent.context.summary`."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.compaction import MIN_SUMMARY_TOKENS, CompactionPlan, Floor
from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.context.steps import unseen_from
from ebbtide.agent.context.strategies import Room
from ebbtide.agent.context.summary import (
    Draft,
    RefusedSummary,
    SummaryReading,
    instruction,
    read_reply,
    without_open_calls,
)
from ebbtide.agent.context.summary_cost import SummaryJob
from ebbtide.agent.context.transcript import chunks, named_outputs, transcript
from ebbtide.agent.errors import AgentError, ContextOverflow, EmptyAnswer, ProviderError, TimedOut, Unreachable
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished, RetryScheduled
from ebbtide.agent.events.view import CompactionFailed, Price
from ebbtide.agent.messages import Conversation, Text, User
from ebbtide.agent.providers.base import Provider, Reply, Request
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource
from ebbtide.agent.providers.stream import QUICK, REPLACEABLE, Retries, RetryLimits, stream_reply
from ebbtide.agent.providers.summarisers import with_silence_timeout

READER = (
    "You write down what a coding session has been about, so that somebody else can go on with it without having "
    "seen it."
)
MAX_CHUNKS = 24
"""Maximum number of chunks of a conversation that are summarised one after the other. For longer ones the ledger is
used."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What a compaction works with."""

    provider: Provider
    request: Callable[[Conversation], Request]
    """Return the request that would continue a conversation, with the same system prompt and tools."""
    room: Room
    size: Callable[[Conversation], int]
    """Return the tokens of a request with this conversation, measured like all other figures."""
    settings: CompactionSettings
    interrupt: Interrupt
    emit: Callable[[Event], None]
    learned_limits: LearnedLimits = field(default_factory=LearnedLimits)
    summarisers: SummariserSource | None = None
    is_cold: bool = False
    """Whether nothing of the conversation is in the provider's cache."""
    price_of: Callable[[Sequence[str], Container[str]], Price | None] = lambda strategies, keys: None
    """Return the cost and savings of a rewrite with these strategies."""
    pieces: int = MAX_CHUNKS
    """Maximum requests for one summary by a model that has not seen the conversation."""


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
    work: CompactionContext,
    floor: Floor,
    focus: str | None,
    *,
    cached: bool,
) -> Draft | None:
    """Let a model write the summary: one that the user set for this, or else the one that has the conversation in its
    cache. None if none returned anything usable."""
    asked = instruction(work.settings.wishes, focus, retain_tokens=floor.caps.retain, summary_tokens=floor.caps.summary)
    for provider in await _summarisers_of(work, conversation, plan, cached=cached):
        draft = await _in_chunks(provider, plan, asked, work)
        if draft is not None or work.interrupt.is_requested():
            return draft
    if not cached:
        return await _in_chunks(work.provider, plan, asked, work)
    request = await asyncio.to_thread(_with_instruction, conversation, plan, work, floor, focus)
    if request is None:
        return await _in_chunks(work.provider, plan, asked, work)
    try:
        reading = await _ask(work.provider, request, work)
    except ContextOverflow:
        return await _in_chunks(work.provider, plan, asked, work)
    except ProviderError as error:
        reading = RefusedSummary(str(error))
    return _draft(reading, work.provider, work)


def _with_instruction(
    conversation: Conversation, plan: CompactionPlan, work: CompactionContext, floor: Floor, focus: str | None
) -> Request | None:
    """Return the request to the model that has the conversation in its cache; None if it does not fit into the
    window."""
    caps, outputs = floor.caps, named_outputs(plan)
    asked = instruction(
        work.settings.wishes, focus, retain_tokens=caps.retain, summary_tokens=caps.summary, outputs=outputs
    )
    with_instruction = _as_seen(conversation).plus(User((Text(asked),)))
    return work.request(with_instruction) if work.room.holds(with_instruction) else None


def _as_seen(conversation: Conversation) -> Conversation:
    """Return the conversation without what the model has not seen yet. That is in no cache, and stays in view after a
    summary."""
    seen = conversation.messages[: unseen_from(conversation.messages) + 1]
    return replace(conversation, messages=without_open_calls(seen))


def job_of(conversation: Conversation, plan: CompactionPlan, work: CompactionContext, *, cached: bool) -> SummaryJob:
    """Return the size of the summary's input, in tokens as the provider counts them."""
    context = work.size(_as_seen(conversation))
    text = round(sum(map(estimate_text, transcript(plan))) * work.room.scale)
    return SummaryJob(
        context, text, is_cached=cached and not work.is_cold and context <= work.room.effective + work.room.buffer
    )


async def _summarisers_of(
    work: CompactionContext, conversation: Conversation, plan: CompactionPlan, *, cached: bool
) -> Sequence[Provider]:
    if work.summarisers is None:
        return ()
    job = await asyncio.to_thread(job_of, conversation, plan, work, cached=cached)
    try:
        found = await work.summarisers(job, work.emit)
        return [provider for provider in found if provider.facts.id not in work.learned_limits.silent_writers]
    except AgentError as error:
        work.emit(Noticed(f"the summary model cannot be used: {error}"))
        return ()


async def _in_chunks(provider: Provider, plan: CompactionPlan, asked: str, work: CompactionContext) -> Draft | None:
    """Summarise with a model that has not seen the conversation. It reads it in chunks of at most half its window, each
    with the summary of the previous ones."""
    window = (work.learned_limits.window if provider is work.provider else None) or provider.window
    written = work.settings.caps.retain + work.settings.caps.summary
    room = window.effective - estimate_text(READER) - estimate_text(asked) - written
    # In a small window most of the output reserve is not needed for a summary.
    spared = max(window.output - max(2 * written, MIN_SUMMARY_TOKENS), 0) if room < window.size // 4 else 0
    size = max(min(window.size // 2, room + spared), 500)
    pieces = await asyncio.to_thread(lambda: chunks(transcript(plan), size))
    if not 0 < len(pieces) <= work.pieces:
        return None
    so_far = ""
    draft: Draft | None = None
    for piece in pieces:
        said = f"{so_far}{piece}\n\n{asked}"
        request = Request(
            READER, (User((Text(said),)),), (), window.output - spared, work.request(Conversation()).session
        )
        try:
            reading = await _ask(provider, request, work)
        except ProviderError as error:
            reading = RefusedSummary(str(error))
            if provider is not work.provider and isinstance(error, TimedOut | Unreachable):
                work.learned_limits.silent_writers |= {provider.facts.id}
        draft = _draft(reading, provider, work)
        if draft is None:
            return None
        so_far = f"[summary of what came before]\n{draft.retain}\n{draft.summary}\n\n"
    return draft


async def _ask(provider: Provider, request: Request, work: CompactionContext) -> SummaryReading:
    """Send one request for a summary; only its cost and retries are emitted."""

    def quietly(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            work.emit(replace(event, purpose="summary"))
        elif isinstance(event, RetryScheduled):
            work.emit(event)

    def ask(emit: Callable[[Event], None], persistence: RetryLimits = REPLACEABLE) -> Coroutine[Any, Any, Reply]:
        return stream_reply(provider, request, work.interrupt, emit, retries=Retries(persistence))

    try:
        if provider is work.provider:
            reply = await ask(quietly, QUICK)
        else:
            reply = await with_silence_timeout(provider.facts.id, ask, quietly, work.emit)
    except EmptyAnswer:
        return RefusedSummary("it is empty")
    return read_reply(reply.message.text, reply.message.calls, reply.stop_reason)


def _draft(reading: SummaryReading, provider: Provider, work: CompactionContext) -> Draft | None:
    if isinstance(reading, Draft):
        return reading
    if not work.interrupt.is_requested():
        work.emit(CompactionFailed(provider.facts.id, reading.why))
    return None

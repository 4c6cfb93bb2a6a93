"""Compaction as it happens: a plan, a summary by the model, the conversation after it. What to cut is decided in
`agent.context.compact`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.context.budget import Window
from agent.context.compact import (
    CompactionPlan,
    apply_summary,
    is_worth_it,
    plain_summary,
    plan_compaction,
    read_summary,
    summary_request,
)
from agent.context.estimate import estimate_messages, estimate_text, estimate_tools
from agent.errors import EmptyAnswer, ProviderError
from agent.events import Cause, CompactionStarted, ContextCompacted, Event, Noticed, ReplyFinished, RetryScheduled
from agent.interrupt import Interrupt
from agent.messages import Conversation
from agent.providers.base import Provider, Request
from agent.stream import stream_reply


@dataclass(frozen=True, slots=True)
class CompactResult:
    before_tokens: int
    after_tokens: int
    before_messages: int
    after_messages: int
    strategies: tuple[str, ...]
    """What ran: `summary` by the model, `plain` without one; empty when there was nothing to compact."""


@dataclass(frozen=True, slots=True)
class Compacted:
    conversation: Conversation
    result: CompactResult


async def compact(
    conversation: Conversation,
    request: Callable[[Conversation], Request],
    provider: Provider,
    tail_tokens: int,
    interrupt: Interrupt,
    emit: Callable[[Event], None],
    cause: Cause,
    focus: str | None = None,
) -> Compacted:
    """The conversation with its older part summarised. It always gets smaller or stays as it was: when the model gives
    no usable summary, one is made without it. An interrupted compaction leaves the conversation unchanged."""
    plan = plan_compaction(conversation, tail_tokens)
    before = _size(conversation)
    if plan is None:
        return Compacted(conversation, CompactResult(before, before, _count(conversation), _count(conversation), ()))
    emit(CompactionStarted(before))
    summary = await _ask_for_summary(conversation, plan, request, provider, interrupt, emit, focus)
    if interrupt.requested():
        return Compacted(conversation, CompactResult(before, before, _count(conversation), _count(conversation), ()))
    strategy = "summary" if summary else "plain"
    after = apply_summary(plan, summary or plain_summary(plan))
    if _size(after) >= before:
        after, strategy = conversation, ""
    result = CompactResult(
        before, _size(after), _count(conversation), _count(after), tuple(name for name in (strategy,) if name)
    )
    emit(
        ContextCompacted(
            result.before_tokens,
            result.after_tokens,
            result.before_messages,
            result.after_messages,
            result.strategies,
            cause,
        )
    )
    return Compacted(after, result)


async def _ask_for_summary(
    conversation: Conversation,
    plan: CompactionPlan,
    request: Callable[[Conversation], Request],
    provider: Provider,
    interrupt: Interrupt,
    emit: Callable[[Event], None],
    focus: str | None,
) -> str | None:
    """The model's summary, or None when it gave none that can be used."""

    def quietly(event: Event) -> None:
        if isinstance(event, ReplyFinished):
            emit(replace(event, purpose="summary"))
        elif isinstance(event, RetryScheduled):
            emit(event)

    asked = conversation.plus(summary_request(focus))
    wanted = request(asked)
    if not _fits(wanted, asked, provider.window):
        emit(Noticed("the conversation is too long for the model to summarise, so older messages are listed instead"))
        return None
    try:
        reply = await stream_reply(provider, wanted, interrupt, quietly)
    except (ProviderError, EmptyAnswer) as error:
        emit(Noticed(f"the model could not summarise, so older messages are listed instead: {error}"))
        return None
    summary = None if reply.message.calls else read_summary(reply.message.text)
    if summary is not None and not is_worth_it(plan, summary):
        summary = None
    if summary is None and not interrupt.requested():
        emit(Noticed("the model's summary could not be used, so older messages are listed instead"))
    return summary


def _fits(request: Request, asked: Conversation, window: Window) -> bool:
    """Whether the request for a summary, which may use the buffer, can be sent without overflowing the window."""
    if asked.anchor is not None:
        size = asked.anchor.total + estimate_messages(asked.messages[asked.anchored :])
    else:
        size = estimate_text(request.system) + estimate_tools(request.tools) + estimate_messages(request.messages)
    return size <= window.effective + window.buffer


def compaction_note(result: CompactResult) -> str:
    """What the model is told after a compaction that it asked for."""
    if not result.strategies:
        return "[compact_context: nothing was compacted; there was too little before the newest steps.]"
    return (
        f"[compact_context: about {result.before_tokens:,} tokens in {result.before_messages} messages became "
        f"{result.after_tokens:,} in {result.after_messages}. Go on with the work.]"
    )


def _size(conversation: Conversation) -> int:
    return estimate_text(conversation.summary) + estimate_messages(conversation.messages)


def _count(conversation: Conversation) -> int:
    return len(conversation.messages)

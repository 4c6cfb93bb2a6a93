"""Manual compaction in three steps: preview its effect and cost, draft the summary for the user to review and edit, and
apply it. Nothing changes before the last step. The cost of a draft is recorded even if the draft is not used."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.budget.summary_cost import SUMMARY_REQUEST_TOKENS
from ebbtide.agent.compaction.carried_outputs import with_carried_outputs
from ebbtide.agent.compaction.compact import (
    CompactedConversation,
    CompactionResult,
    build_compaction_event,
    build_compaction_result,
)
from ebbtide.agent.compaction.model_summary import CompactionContext, SummaryCost, summarise, summary_job
from ebbtide.agent.compaction.plan import (
    CompactionLimits,
    CompactionPlan,
    apply_compaction,
    caps_for_draft,
    caps_that_save_a_tenth,
    compute_limits,
    missing_from_summary,
    plan_compaction,
    saves_a_tenth,
)
from ebbtide.agent.compaction.receipt import build_receipt
from ebbtide.agent.compaction.rewrite import build_compaction_context, record_rewrite, run_compaction_hooks
from ebbtide.agent.compaction.room import DEFER_TOOLS, CompactionRoom, reduce_caps
from ebbtide.agent.compaction.summary import Draft
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import ContextCompacted, ReceiptItem
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.view.items import PINS_STRATEGY, shrink_pins
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import TurnContext, WindowContext

NOTHING_TO_COMPACT = "nothing was compacted: a summary would not save anything yet"
STALE_PREVIEW = "nothing was compacted: the conversation has changed since the preview; `/compact` makes a new one"


@dataclass(frozen=True, slots=True)
class SummaryEstimate:
    """The maximum cost of a summary by the session's own model, in tokens and dollars."""

    model: str
    read_tokens: int
    """Input tokens."""
    is_cached: bool
    """Whether the input is read from the provider's cache."""
    written_tokens: int
    cost: float | None
    """US dollars; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """The effect of a compaction; nothing has changed yet."""

    conversation: Conversation
    """The conversation that the summary is about."""
    focus: str | None
    expected_event: ContextCompacted
    """The expected event, assuming a summary of the usual size."""
    quote: SummaryEstimate
    plan: CompactionPlan
    limits: CompactionLimits
    room: CompactionRoom
    count_tokens: Callable[[Conversation], int]
    """Same as `CompactionContext.size`."""

    def with_summary(self, draft: Draft | None) -> Conversation:
        """Return the conversation compacted with this summary, or with only the ledger's facts if `draft` is None."""
        caps = caps_for_draft(self.limits.caps, draft) if draft is not None else self.limits.caps
        return apply_compaction(self.plan, draft, caps)

    def result(self, draft: Draft | None) -> CompactionResult:
        """Return the result of a compaction with this summary, or with only the facts if `draft` is None."""
        strategies = _applied_strategies("summary" if draft else "ledger", self.limits)
        return build_compaction_result(
            self.conversation, self.with_summary(draft), strategies, self.count_tokens, self.limits.deferred_tokens
        )

    def missing_facts(self, draft: Draft) -> tuple[str, ...]:
        """Return the required facts that a summary omits, as lines to add to it."""
        return missing_from_summary(self.plan, draft, caps_for_draft(self.limits.caps, draft))


@dataclass(frozen=True, slots=True)
class DraftResult:
    """A draft summary that has not been applied."""

    conversation: Conversation
    """The conversation that the draft summarises."""
    draft: Draft | None
    """The summary; None if no model returned a usable one, or if the user interrupted."""
    model: str = ""
    """The model that wrote the draft."""
    cost: float | None = 0.0
    """Cost of all requests for the draft, in US dollars; None if a price is unknown."""
    is_interrupted: bool = False


async def preview_compaction(
    conversation: Conversation, window: WindowContext, turn: TurnContext, focus: str | None = None
) -> CompactionPreview:
    """Preview a compaction with a summary short enough to be worthwhile. Raises `AgentError` if that is impossible."""
    context = await build_compaction_context(conversation, measure_budget(conversation, window), window, turn)
    return await asyncio.to_thread(_build_preview, conversation, focus, context, window.model.facts)


def _build_preview(
    conversation: Conversation, focus: str | None, context: CompactionContext, facts: ModelFacts
) -> CompactionPreview:
    limits = compute_limits(conversation, reduce_caps(context.settings.caps, context.room), context.room)
    shrunk = shrink_pins(conversation, limits.pin_form)
    plan = plan_compaction(shrunk, limits.caps.tail, min_steps=limits.min_steps, max_turns=limits.caps.max_tail_turns)
    caps = caps_that_save_a_tenth(conversation, plan, limits.caps) if plan is not None else None
    if plan is None or caps is None:
        raise AgentError(
            NOTHING_TO_COMPACT if plan is None else _no_gain_message(conversation, plan, limits, context.count_tokens)
        )
    limits, plan = replace(limits, caps=caps), with_carried_outputs(shrunk, plan, caps)
    expected_view = apply_compaction(plan, Draft("", ""), caps)
    result = build_compaction_result(
        conversation,
        expected_view,
        _applied_strategies("summary", limits),
        context.count_tokens,
        limits.deferred_tokens,
    )
    result = replace(
        result, after_tokens=result.after_tokens + round((caps.retain + caps.summary) * context.room.raw_token_ratio)
    )
    receipt = build_receipt(
        conversation, expected_view, result.strategies, limits.deferred_tokens, context.room.raw_token_ratio
    )
    expected = build_compaction_event(result, "asked", receipt)
    quote = _estimate_summary(conversation, plan, limits, context, facts)
    return CompactionPreview(conversation, focus, expected, quote, plan, limits, context.room, context.count_tokens)


def _no_gain_message(
    conversation: Conversation,
    plan: CompactionPlan,
    limits: CompactionLimits,
    count_tokens: Callable[[Conversation], int],
) -> str:
    smallest = build_compaction_result(
        conversation, apply_compaction(plan, Draft("", ""), limits.caps), (), count_tokens
    )
    return (
        f"nothing to gain: a request takes {smallest.before_tokens:,} tokens, and with an empty summary it would "
        f"take {smallest.after_tokens:,}. Try `/compact` again later"
    )


async def draft_summary(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    preview: CompactionPreview,
    on_event: Callable[[Event], None],
) -> DraftResult:
    """Let a model write the summary. `on_event` receives the events, because no turn is running to show them. Raises
    `HookRefused`."""
    _require_unchanged(conversation, preview)
    await run_compaction_hooks(turn, "asked", preview.focus)

    def emit(event: Event) -> None:
        turn.emit(event)
        on_event(event)

    window.model.learned_limits.summary_failure_count = 0
    summary_cost = SummaryCost(emit)
    context = await build_compaction_context(conversation, measure_budget(conversation, window), window, turn)
    context = replace(context, emit=summary_cost.record_event)
    draft = await summarise(conversation, preview.plan, context, preview.limits, preview.focus, reads_cache=True)
    if turn.interrupt.is_requested():
        return DraftResult(conversation, None, summary_cost.model, summary_cost.cost, is_interrupted=True)
    return DraftResult(conversation, draft, summary_cost.model, summary_cost.cost)


async def apply_summary(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    preview: CompactionPreview,
    draft: Draft | None,
    draft_result: DraftResult,
    emit: Callable[[Event], None],
) -> CompactedConversation:
    """Compact with a reviewed and possibly edited summary; if `draft` is None, only the facts replace the removed
    messages. Raises `AgentError`, without changing anything, if the summary omits required facts or saves too
    little."""
    _require_unchanged(conversation, preview)
    compacted_view, result, receipt = await asyncio.to_thread(_apply_draft, preview, draft)
    writer = draft_result.model if draft is not None else ""
    is_edited = draft is not None and draft_result.draft is not None and draft != draft_result.draft
    budget = measure_budget(conversation, window)
    price = (await build_compaction_context(conversation, budget, window, turn)).compute_price(result.strategies, ())
    event = replace(
        build_compaction_event(result, "asked", receipt),
        model=f"{writer}, edited by you" if is_edited else writer or ("you" if draft is not None else ""),
        cost=draft_result.cost,
        price=price,
    )
    turn.emit(event)
    emit(event)
    compacted = CompactedConversation(compacted_view, result, preview.limits.problem)
    await record_rewrite(conversation, budget, compacted, window, turn, "asked")
    return compacted


def _apply_draft(
    preview: CompactionPreview, draft: Draft | None
) -> tuple[Conversation, CompactionResult, tuple[ReceiptItem, ...]]:
    """Return the conversation with the summary, the result and the receipt. Raises `AgentError`."""
    missing = preview.missing_facts(draft) if draft is not None else ()
    if missing:
        raise AgentError(f"the summary omits required facts: {'; '.join(missing)}")
    compacted_view = preview.with_summary(draft)
    if not saves_a_tenth(preview.conversation, compacted_view):
        raise AgentError("the summary saves too little: make it shorter")
    result = preview.result(draft)
    receipt = build_receipt(
        preview.conversation,
        compacted_view,
        result.strategies,
        preview.limits.deferred_tokens,
        preview.room.raw_token_ratio,
    )
    return compacted_view, result, receipt


def _require_unchanged(conversation: Conversation, preview: CompactionPreview) -> None:
    if conversation != preview.conversation:
        raise AgentError(STALE_PREVIEW)


def _applied_strategies(strategy: str, limits: CompactionLimits) -> tuple[str, ...]:
    tools = (DEFER_TOOLS,) if limits.deferred_tokens else ()
    pins = (PINS_STRATEGY,) if limits.pin_form != "whole" else ()
    return (*tools, *pins, strategy)


def _estimate_summary(
    conversation: Conversation,
    plan: CompactionPlan,
    limits: CompactionLimits,
    context: CompactionContext,
    facts: ModelFacts,
) -> SummaryEstimate:
    job = summary_job(conversation, plan, context, is_cached=True)
    written_tokens = limits.caps.retain + limits.caps.summary
    read_tokens = SUMMARY_REQUEST_TOKENS + (
        job.context_tokens if context.room.has_room_for(conversation) else job.transcript_tokens
    )
    cost = None
    if facts.prices is not None:
        price = facts.prices.per_token(read_tokens)
        token_price = price.cache_read if job.is_cached else max(price.input, price.cache_write)
        cost = read_tokens * token_price + written_tokens * price.output
    return SummaryEstimate(facts.id, read_tokens, job.is_cached, written_tokens, cost)

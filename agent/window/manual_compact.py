"""Manual compaction in three steps: preview the effect and cost, draft the summary for review and editing, apply it.
Nothing changes before the last step, and the cost of a draft is recorded whether or not it is used."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.agent.context.carried_files import with_carried_files
from ebbtide.agent.context.compaction import (
    CompactionPlan,
    Floor,
    apply_compaction,
    is_worth_it,
    missing_from_summary,
    plan_compaction,
    solve_floor,
    worthwhile_caps,
)
from ebbtide.agent.context.pins import PINS_STRATEGY, smaller_pins
from ebbtide.agent.context.receipt import receipt
from ebbtide.agent.context.settings import spacious
from ebbtide.agent.context.strategies import TOOLS, Room
from ebbtide.agent.context.summary import Draft
from ebbtide.agent.context.summary_cost import ASKS
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import ContextCompacted, ReceiptItem
from ebbtide.agent.messages import Conversation
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.window.compact import CompactedConversation, CompactResult, event_of, result_of
from ebbtide.agent.window.model_summary import CompactionContext, SummaryCost, job_of, summarise
from ebbtide.agent.window.rewrite import ask_hooks, compaction_context, record_rewrite
from ebbtide.agent.window.session_context import SessionContext

NOTHING = "nothing was compacted: a summary would not save anything yet"
STALE_PREVIEW = "nothing was compacted: the conversation has changed since the preview; `/compact` makes a new one"


@dataclass(frozen=True, slots=True)
class Quote:
    """Maximum cost of the summary if the session's own model writes it."""

    model: str
    read: int
    """Tokens read."""
    is_cached: bool
    """Whether they are read from the provider's cache."""
    written: int
    cost: float | None
    """US dollars; None if the price is unknown."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a compaction; nothing has changed yet."""

    conversation: Conversation
    """The current conversation."""
    focus: str | None
    expected: ContextCompacted
    """The expected event, with a summary of the usual size."""
    quote: Quote
    plan: CompactionPlan
    floor: Floor
    room: Room
    size: Callable[[Conversation], int]
    """As in `CompactionContext`."""

    def with_summary(self, draft: Draft | None) -> Conversation:
        """Return the conversation with that summary, or with the facts alone."""
        caps = spacious(self.floor.caps, draft) if draft is not None else self.floor.caps
        return apply_compaction(self.plan, draft, caps)

    def result(self, draft: Draft | None) -> CompactResult:
        """Return the result of a compaction with that summary."""
        ran = _strategies_run("summary" if draft else "ledger", self.floor)
        return result_of(self.conversation, self.with_summary(draft), ran, self.size, self.floor.deferred)

    def missing(self, draft: Draft) -> tuple[str, ...]:
        """Return the required facts that a summary omits, as lines to add."""
        return missing_from_summary(self.plan, draft, spacious(self.floor.caps, draft))


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """A draft summary that has not been applied."""

    conversation: Conversation
    """The current conversation."""
    draft: Draft | None
    """None if no model returned a usable one, or the user interrupted."""
    model: str = ""
    """The model that wrote it."""
    cost: float | None = 0.0
    """US dollars of all requests for it; None if a price is unknown."""
    is_interrupted: bool = False


async def preview_compaction(conversation: Conversation, env: SessionContext, focus: str | None = None) -> Preview:
    """Preview a compaction with a summary short enough to pay off. Raises `AgentError` if there is none."""
    how, facts = await compaction_context(conversation, env), env.provider.facts
    return await asyncio.to_thread(_build_preview, conversation, focus, how, facts)


def _build_preview(conversation: Conversation, focus: str | None, how: CompactionContext, facts: ModelFacts) -> Preview:
    floor = solve_floor(conversation, how.settings.caps, how.room)
    fitting = smaller_pins(conversation, floor.pins)
    plan = plan_compaction(fitting, floor.caps.tail, least=floor.least, newest=floor.caps.turns)
    caps = worthwhile_caps(conversation, plan, floor.caps) if plan is not None else None
    if plan is None or caps is None:
        raise AgentError(NOTHING if plan is None else _too_small(conversation, plan, floor, how.size))
    floor, plan = replace(floor, caps=caps), with_carried_files(fitting, plan, caps)
    after = apply_compaction(plan, Draft("", ""), caps)
    result = result_of(conversation, after, _strategies_run("summary", floor), how.size, floor.deferred)
    result = replace(result, after_tokens=result.after_tokens + round((caps.retain + caps.summary) * how.room.ratio))
    items = receipt(conversation, after, result.strategies, floor.deferred, how.room.ratio)
    told = event_of(result, "asked", items)
    quote = _quote(conversation, plan, floor, how, facts)
    return Preview(conversation, focus, told, quote, plan, floor, how.room, how.size)


def _too_small(
    conversation: Conversation, plan: CompactionPlan, floor: Floor, size: Callable[[Conversation], int]
) -> str:
    least = result_of(conversation, apply_compaction(plan, Draft("", ""), floor.caps), (), size)
    return (
        f"nothing to gain: a request takes {least.before_tokens:,} tokens, and with an empty summary it would "
        f"take {least.after_tokens:,}. Try `/compact` again later"
    )


async def draft_summary(
    conversation: Conversation, env: SessionContext, preview: Preview, hear: Callable[[Event], None]
) -> SummaryDraft:
    """Let a model write the summary. `hear` gets the events, which are not part of a turn. Raises `HookRefused`."""
    _same(conversation, preview)
    await ask_hooks(env, "asked", preview.focus)

    def emit(event: Event) -> None:
        env.emit(event)
        hear(event)

    env.learned_limits.failures = 0
    bill = SummaryCost(emit)
    how = replace(await compaction_context(conversation, env), emit=bill.record_event)
    draft = await summarise(conversation, preview.plan, how, preview.floor, preview.focus, cached=True)
    if env.interrupt.is_requested():
        return SummaryDraft(conversation, None, bill.model, bill.cost, is_interrupted=True)
    return SummaryDraft(conversation, draft, bill.model, bill.cost)


async def apply_summary(
    conversation: Conversation,
    env: SessionContext,
    preview: Preview,
    draft: Draft | None,
    drafted: SummaryDraft,
    hear: Callable[[Event], None],
) -> CompactedConversation:
    """Compact with a reviewed and possibly edited summary; without one, only the facts replace the removed messages.
    Raises `AgentError` if the summary omits required facts or saves too little; nothing has changed then."""
    _same(conversation, preview)
    after, result, items = await asyncio.to_thread(_apply_draft, preview, draft)
    writer = drafted.model if draft is not None else ""
    is_edited = draft is not None and drafted.draft is not None and draft != drafted.draft
    price = (await compaction_context(conversation, env)).price_of(result.strategies, ())
    event = replace(
        event_of(result, "asked", items),
        model=f"{writer}, edited by you" if is_edited else writer or ("you" if draft is not None else ""),
        cost=drafted.cost,
        price=price,
    )
    env.emit(event)
    hear(event)
    done = CompactedConversation(after, result, preview.floor.problem)
    await record_rewrite(conversation, done, env, "asked")
    return done


def _apply_draft(preview: Preview, draft: Draft | None) -> tuple[Conversation, CompactResult, tuple[ReceiptItem, ...]]:
    """Return the conversation with the summary, the result and the receipt. Raises `AgentError`."""
    missing = preview.missing(draft) if draft is not None else ()
    if missing:
        raise AgentError(f"the summary omits required facts: {'; '.join(missing)}")
    after = preview.with_summary(draft)
    if not is_worth_it(preview.conversation, after):
        raise AgentError("the summary saves too little: make it shorter")
    result = preview.result(draft)
    items = receipt(preview.conversation, after, result.strategies, preview.floor.deferred, preview.room.ratio)
    return after, result, items


def _same(conversation: Conversation, preview: Preview) -> None:
    if conversation != preview.conversation:
        raise AgentError(STALE_PREVIEW)


def _strategies_run(strategy: str, floor: Floor) -> tuple[str, ...]:
    tools, pins = (TOOLS,) if floor.deferred else (), (PINS_STRATEGY,) if floor.pins != "whole" else ()
    return (*tools, *pins, strategy)


def _quote(
    conversation: Conversation, plan: CompactionPlan, floor: Floor, how: CompactionContext, facts: ModelFacts
) -> Quote:
    job = job_of(conversation, plan, how, cached=True)
    written = floor.caps.retain + floor.caps.summary
    read = ASKS + (job.context if how.room.holds(conversation) else job.transcript)
    cost = None
    if facts.prices is not None:
        price = facts.prices.at(read)
        a_token = price.cache_read if job.is_cached else max(price.input, price.cache_write)
        cost = read * a_token + written * price.output
    return Quote(facts.id, read, job.is_cached, written, cost)

"""Decides which outputs and replies leave the view, and when a rewrite pays for itself. No I/O.

Costs are in units of one fresh input token. Every request reads removable content from the cache again; that is its
carrying cost. For each kind of rewrite, the carrying cost is added up. The rewrite is done once the sum reaches the
rewrite's one-time cost. If the conversation grows evenly, this is optimal for any window and needs no forecast (the
ski-rental problem). An output may be masked once carrying it has cost more than the expected cost of fetching it again.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.budget.prices import Prices, UnitPrices, dollars_per_token, unit_prices
from ebbtide.agent.budget.request_budget import ContextBudget
from ebbtide.agent.events.view import Price
from ebbtide.agent.eviction.inventory import MaskableItem, MeasurementCache, Measurements
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings, RewritePatience
from ebbtide.agent.messages import Conversation, Message, ShortenedPart, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_output
from ebbtide.agent.view.items import pin_tokens
from ebbtide.agent.view.long_replies import shorten_long_reply
from ebbtide.agent.view.recalls import MIN_AGE_REQUESTS, content_kind, with_removed_outputs
from ebbtide.agent.view.visible import (
    first_unseen_index,
    message_key,
    newest_reply_index,
    numbered_outputs,
    output_stub,
    visible_output,
)
from ebbtide.tools.lazy import dataclass

MIN_MASKED_TOKENS, MIN_COMPACTED_TOKENS = 2_000, 8_000
"""Minimum number of tokens that masking and compaction must remove."""
SUMMARY_PROMPT_TOKENS = 400
"""Tokens of the prompt for a summary."""
MAX_REFETCHED_TOKENS, REFETCH_CALL_TOKENS = 2_500, 90
"""Cost of fetching a masked output again, in tokens: maximum size of the content, and size of the call."""
REREAD_FILE_TOKENS, REREAD_CALL_TOKENS, REREAD_FILE_COUNT = 2_200, 120, 3
"""What is typically read again after a summary: tokens per file, tokens per call, and number of files."""
_REFETCH_COST_TOKENS, _MAX_FETCHED_TOKENS = 2_000, 2_500
"""Cost of recalling an output, in tokens: the fixed part, and the maximum size of the content."""
KEEP_COST_THRESHOLD = 0.25
"""An item whose `refetch_cost_per_token` is above this threshold is kept, although it must then be written to the cache
again and read until the next rewrite. With 0.25 instead of 1, recorded sessions in a window of 100,000 tokens needed
masked outputs a quarter less often, at 0.5 % more cost."""

RewriteAction: TypeAlias = Literal["nothing", "mask", "compact"]

PriceRewrite: TypeAlias = Callable[[Sequence[str], Container[str]], Price]


@dataclass(frozen=True, slots=True)
class CarryingCosts:
    """The carrying cost since the last rewrite that each kind of rewrite would have saved."""

    mask: float = 0.0
    compact: float = 0.0


@dataclass(frozen=True, slots=True)
class RewriteOffer:
    """A rewrite that could be done now."""

    removed_tokens: int = 0
    """Tokens that would leave the view."""
    cache_write_tokens: int = 0
    """Tokens after the first change, which must be written to the cache again."""
    cost: float = 0.0
    """One-time cost, including the expected cost of fetching removed content again."""
    keys: frozenset[str] = frozenset()
    """Keys of the outputs and replies that would be masked."""


@dataclass(frozen=True, slots=True)
class RewriteDecision:
    action: RewriteAction
    carrying_costs: CarryingCosts
    """Accumulated costs after this decision; zero for the chosen rewrite and any that it includes."""
    triggering_cost: float = 0.0
    """Carrying cost that triggered the rewrite."""
    offer: RewriteOffer = RewriteOffer()
    """The chosen rewrite; if none was chosen, the masking that was considered."""


@dataclass(slots=True)
class CarryingCostTracker:
    """Accumulates the carrying cost of removable content since the last rewrite, and decides when to rewrite."""

    costs: CarryingCosts = field(default_factory=CarryingCosts)
    _inventory: MeasurementCache = field(default_factory=MeasurementCache)

    def reset(self) -> None:
        """Reset the accumulated cost, because the view was rewritten for another reason."""
        self.costs = CarryingCosts()

    def rewrite_offers(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        settings: CompactionSettings,
        *,
        is_cold: bool,
    ) -> tuple[RewriteOffer, RewriteOffer]:
        """Return the two possible rewrites, masking and compaction, with their cost and savings."""
        fixed_tokens = _fixed_tokens(budget)
        mask = mask_offer(
            conversation,
            settings.caps,
            budget.used,
            fixed_tokens,
            prices,
            settings.patience,
            is_cold=is_cold,
            inventory=self._inventory,
        )
        pinned_tokens = pin_tokens(conversation) if conversation.pinned else 0
        return mask, compaction_offer(settings.caps, budget.used, fixed_tokens, prices, pinned_tokens)

    def decide(
        self,
        conversation: Conversation,
        budget: ContextBudget,
        prices: UnitPrices,
        settings: CompactionSettings,
        *,
        is_cold: bool,
        masks_only: bool = False,
    ) -> RewriteDecision:
        """Add the carrying cost of the next request, and decide what to do before it. `masks_only`: a summary is not
        allowed yet."""
        mask, compaction = self.rewrite_offers(conversation, budget, prices, settings, is_cold=is_cold)
        # No summary is written if a full window ends the turn with a report instead.
        compaction = compaction if settings.on_full == "compact" and not masks_only else RewriteOffer()
        decision = decide_rewrite(mask, compaction, self.costs, prices, settings.patience, is_cold=is_cold)
        self.costs = decision.carrying_costs
        return decision

    def will_pay_off(
        self, conversation: Conversation, budget: ContextBudget, prices: UnitPrices, settings: CompactionSettings
    ) -> bool:
        """Whether a summary written while the session is idle will pay off. Does not change the accumulated cost."""
        _, compaction = self.rewrite_offers(conversation, budget, prices, settings, is_cold=False)
        return will_pay_off(compaction, self.costs, prices)


def create_rewrite_pricer(
    carrying_cost_tracker: CarryingCostTracker,
    conversation: Conversation,
    budget: ContextBudget,
    prices: Prices | None,
    settings: CompactionSettings,
    *,
    is_cold: bool,
    is_uncached: bool,
    triggering_cost: float | None = None,
) -> PriceRewrite:
    """Return a function that computes a rewrite's price from its strategies and the masked keys, at the prices that the
    provider actually charges. `triggering_cost`: the carrying cost that triggered the rewrite; None to use the cost
    accumulated so far."""
    charged_prices = unit_prices(prices, is_uncached=is_uncached)
    _, compaction = carrying_cost_tracker.rewrite_offers(
        conversation, budget, charged_prices, settings, is_cold=is_cold
    )
    listed_read_price, accumulated = unit_prices(prices).read, carrying_cost_tracker.costs
    price_ratio = charged_prices.read / listed_read_price if listed_read_price else 1.0

    def price(strategies: Sequence[str], keys: Container[str] = ()) -> Price:
        is_mask = set(strategies) <= {"mask", "mask_all"}
        mask_offer_for_keys = offer_for_keys(
            conversation, keys, budget.used, _fixed_tokens(budget), charged_prices, is_cold=is_cold
        )
        offer, accumulated_cost = (
            (mask_offer_for_keys, accumulated.mask) if is_mask else (compaction, accumulated.compact)
        )
        carrying_cost = (accumulated_cost if triggering_cost is None else triggering_cost) * price_ratio
        return Price(
            offer.removed_tokens,
            offer.cache_write_tokens,
            round(offer.cost),
            round(carrying_cost),
            dollars_per_token(prices),
        )

    return price


def _fixed_tokens(budget: ContextBudget) -> int:
    """Return the number of tokens before the messages."""
    return budget.used - budget.history - budget.pending - budget.retain - budget.summary


def decision_debug_fields(decision: RewriteDecision, prices: UnitPrices, is_cold: bool) -> dict[str, object]:
    """Return a decision's fields for the debug log. The carrying costs are those before the rewrite."""
    mask_cost = decision.triggering_cost if decision.action == "mask" else decision.carrying_costs.mask
    compact_cost = decision.triggering_cost if decision.action == "compact" else decision.carrying_costs.compact
    return {
        "action": decision.action,
        "cold": is_cold,
        "carrying_costs": {"mask": round(mask_cost), "compact": round(compact_cost)},
        "prices": {name: round(price, 6) for name, price in asdict(prices).items()},
        "removed": decision.offer.removed_tokens,
        "behind": decision.offer.cache_write_tokens,
        "cost": round(decision.offer.cost),
    }


def decide_rewrite(
    mask: RewriteOffer,
    compaction: RewriteOffer,
    costs: CarryingCosts,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool,
) -> RewriteDecision:
    """Add the carrying cost of the next request, and decide what to do before it. `is_cold`: the provider's cache
    contains nothing of this session. Masking then costs nothing unless content is fetched again, while a summary costs
    the most."""
    accumulated = CarryingCosts(
        costs.mask + prices.read * mask.removed_tokens, costs.compact + prices.read * compaction.removed_tokens
    )
    if is_cold:
        is_worthwhile = mask.removed_tokens >= MIN_MASKED_TOKENS and prices.write * mask.removed_tokens >= mask.cost
        remaining = CarryingCosts(0.0, accumulated.compact) if is_worthwhile else accumulated
        return RewriteDecision(
            "mask" if is_worthwhile else "nothing", remaining, accumulated.mask if is_worthwhile else 0.0, mask
        )
    if (
        compaction.removed_tokens > MIN_COMPACTED_TOKENS
        and accumulated.compact >= patience.compact * compaction.cost > 0
    ):
        return RewriteDecision("compact", CarryingCosts(), accumulated.compact, compaction)
    if mask.removed_tokens >= MIN_MASKED_TOKENS and accumulated.mask >= patience.mask * mask.cost > 0:
        return RewriteDecision("mask", CarryingCosts(0.0, accumulated.compact), accumulated.mask, mask)
    return RewriteDecision("nothing", accumulated, offer=mask)


def will_pay_off(compaction: RewriteOffer, costs: CarryingCosts, prices: UnitPrices) -> bool:
    """Whether a summary written while the session is idle will pay off, assuming that as many requests follow as there
    were since the last rewrite. If tokens are free, a summary always pays off, because it saves waiting time."""
    if compaction.removed_tokens <= MIN_COMPACTED_TOKENS:
        return False
    return prices.read <= 0 or 2 * (costs.compact + prices.read * compaction.removed_tokens) >= compaction.cost


def mask_offer(
    conversation: Conversation,
    caps: CompactionCaps,
    request_tokens: int,
    fixed_tokens: int,
    prices: UnitPrices,
    patience: RewritePatience,
    *,
    is_cold: bool = False,
    inventory: MeasurementCache | None = None,
) -> RewriteOffer:
    """Return the offer to mask everything that is due. `request_tokens`: tokens of the next request; `fixed_tokens`:
    tokens before its messages. Both are used to scale the estimates of individual messages. With the session's
    `inventory`, only new messages are measured."""
    measurements = (inventory or MeasurementCache()).measure(conversation)
    due_items = [
        item
        for item in maskable_items(conversation, measurements, caps.protected_message_count)
        if _is_due(
            item, measurements, caps.protected_output_tokens, request_tokens, prices, patience.recall, is_cold=is_cold
        )
    ]
    return _offer_for(due_items, measurements, request_tokens, fixed_tokens, prices, is_cold=is_cold)


def offer_for_keys(
    conversation: Conversation,
    keys: Container[str],
    request_tokens: int,
    fixed_tokens: int,
    prices: UnitPrices,
    *,
    is_cold: bool,
) -> RewriteOffer:
    """Return the offer to mask the items with these keys, whether or not they are due."""
    measurements = MeasurementCache().measure(conversation)
    items = [item for item in reversed(measurements.items) if item.key in keys]
    return _offer_for(items, measurements, request_tokens, fixed_tokens, prices, is_cold=is_cold)


def _offer_for(
    items: Sequence[MaskableItem],
    measurements: Measurements,
    request_tokens: int,
    fixed_tokens: int,
    prices: UnitPrices,
    *,
    is_cold: bool,
) -> RewriteOffer:
    """Return the offer to mask these items, which are ordered newest first."""
    if not items:
        return RewriteOffer()
    total_tokens = measurements.cumulative_tokens[-1]
    scale = max(request_tokens - fixed_tokens, 0) / max(total_tokens, 1)
    removed_tokens = int(scale * sum(item.freed_tokens for item in items))
    cache_write_tokens = max(
        int(scale * (total_tokens - measurements.cumulative_tokens[items[-1].message_index])) - removed_tokens, 0
    )
    refetch_cost = sum(_refetch_cost(item, measurements, request_tokens, prices) for item in items)
    cache_write_cost = 0.0 if is_cold else (prices.write - prices.read) * cache_write_tokens
    return RewriteOffer(
        removed_tokens, cache_write_tokens, cache_write_cost + refetch_cost, frozenset(item.key for item in items)
    )


def _is_due(
    item: MaskableItem,
    measurements: Measurements,
    protected_tokens: int,
    request_tokens: int,
    prices: UnitPrices,
    patience: float,
    *,
    is_cold: bool,
) -> bool:
    """Whether an item is due for masking: carrying it has cost more than missing it would, and it is not among the
    newest items, which are protected. With a cold cache, no output is protected."""
    if item.is_reply:
        return measurements.tokens_since(item) > protected_tokens
    if item.is_superseded:
        return True
    age = measurements.replies_since(item)
    if age < MIN_AGE_REQUESTS or (not is_cold and measurements.tokens_since(item) <= protected_tokens):
        return False
    carrying_cost = (prices.read * age + (prices.write if is_cold else 0.0)) * item.freed_tokens
    return carrying_cost >= patience * _refetch_cost(item, measurements, request_tokens, prices)


def _refetch_cost(item: MaskableItem, measurements: Measurements, request_tokens: int, prices: UnitPrices) -> float:
    """Return the expected cost of fetching an output again: one more request, the call and the fetched tokens, times
    the probability. Zero for a reply, because later work already contains what the reply said."""
    if item.is_reply:
        return 0.0
    fetch_cost = prices.write * min(item.tokens, MAX_REFETCHED_TOKENS)
    return measurements.reread_probability(item) * (
        prices.read * request_tokens + fetch_cost + prices.output * REFETCH_CALL_TOKENS
    )


def compaction_offer(
    caps: CompactionCaps, request_tokens: int, fixed_tokens: int, prices: UnitPrices, pinned_tokens: int = 0
) -> RewriteOffer:
    """Return the offer to compact with a summary. The session's model writes it, because that model's cache holds the
    conversation. `request_tokens`: tokens of the next request; `fixed_tokens`: tokens of the system prompt and tool
    definitions; `pinned_tokens`: tokens of pinned items."""
    summary_tokens = caps.summary
    retained_tokens = summary_tokens + min(caps.tail + pinned_tokens, max(request_tokens - fixed_tokens, 0))
    remaining_tokens = fixed_tokens + retained_tokens
    summary_cost = prices.read * request_tokens + prices.write * SUMMARY_PROMPT_TOKENS + prices.output * summary_tokens
    reread_cost = REREAD_FILE_COUNT * (
        prices.read * remaining_tokens + REREAD_FILE_TOKENS * prices.write + REREAD_CALL_TOKENS * prices.output
    )
    return RewriteOffer(
        max(request_tokens - remaining_tokens, 0),
        retained_tokens,
        (prices.write - prices.read) * retained_tokens + summary_cost + reread_cost,
    )


def maskable_items(
    conversation: Conversation, measurements: Measurements, newest_message_count: int = 0
) -> list[MaskableItem]:
    """Return the items that may be masked, newest first. Unseen outputs, the last step, the newest
    `newest_message_count` messages, the model's last reply, and pinned items are excluded."""
    messages = conversation.messages
    end = min(first_unseen_index(messages), max(len(messages) - newest_message_count, 0))
    last_output_index = next((index for index in range(len(messages) - 1, -1, -1) if _outputs(messages[index])), -1)
    reply_index = min(end, newest_reply_index(messages))
    return [
        item
        for item in reversed(measurements.items)
        if (
            item.message_index < reply_index
            if item.is_reply
            else item.message_index < end and item.message_index != last_output_index
        )
    ]


def _outputs(message: Message) -> Sequence[ToolOutput]:
    return message.outputs if isinstance(message, User) else ()


def old_maskable_items(
    conversation: Conversation, protected_tokens: int, newest_message_count: int = 0
) -> list[MaskableItem]:
    """Return the old maskable items, newest first. An item is old if a newer item repeats it, or if it is not within
    the newest `protected_tokens` tokens. Only outputs count towards these tokens; for a reply, long replies count too.
    `newest_message_count`: number of newest messages to exclude."""
    measurements = MeasurementCache().measure(conversation)
    return [
        item
        for item in maskable_items(conversation, measurements, newest_message_count)
        if item.is_superseded or measurements.tokens_since(item) > protected_tokens
    ]


def least_needed_items(
    conversation: Conversation, protected_tokens: int, min_freed_tokens: int, newest_message_count: int = 0
) -> list[MaskableItem]:
    """Return the `old_maskable_items` that are least needed for their size: enough to free `min_freed_tokens` tokens,
    or all of them. Everything after the first chosen item must be written to the cache again, so later items are chosen
    too if keeping them is not worth this cost."""
    measurements, chosen_items = MeasurementCache().measure(conversation), list[MaskableItem]()
    first_changed_index = len(conversation.messages)
    for item in sorted(
        old_maskable_items(conversation, protected_tokens, newest_message_count),
        key=lambda item: refetch_cost_per_token(item, measurements),
    ):
        if min_freed_tokens > 0 or (
            item.message_index >= first_changed_index
            and refetch_cost_per_token(item, measurements) < KEEP_COST_THRESHOLD
        ):
            first_changed_index = min(first_changed_index, item.message_index)
            chosen_items.append(item)
            min_freed_tokens -= item.freed_tokens
    return chosen_items


def refetch_cost_per_token(item: MaskableItem, measurements: Measurements) -> float:
    """Return the expected cost of missing an item, per token freed."""
    if item.is_reply or item.is_superseded:
        return 0.0
    return (
        measurements.reread_probability(item)
        * (_REFETCH_COST_TOKENS + min(item.tokens, _MAX_FETCHED_TOKENS))
        / max(item.freed_tokens, 1)
    )


def mask_outputs(conversation: Conversation, protected_tokens: int, newest_message_count: int = 0) -> Conversation:
    """Mask all `old_maskable_items`. Return the same conversation if there are none."""
    return mask_by_keys(
        conversation, {item.key for item in old_maskable_items(conversation, protected_tokens, newest_message_count)}
    )


def mask_by_keys(conversation: Conversation, keys: AbstractSet[str]) -> Conversation:
    """Mask the items with these keys: outputs that take at least twice as many tokens as their stub become stubs, and
    replies are reduced to their start and end. Return the same conversation if there are none."""
    replacements = {part.key: part for part in conversation.retold}
    outputs = [
        numbered_output
        for numbered_output in numbered_outputs(conversation)
        if numbered_output.ref in keys
        and numbered_output.output.call_id not in conversation.masked
        and 2 * estimate_output(replace(numbered_output.output, text=output_stub(numbered_output), images=()))
        <= estimate_output(visible_output(numbered_output, frozenset(), replacements))
    ]
    refs_by_call_id = {numbered_output.output.call_id: numbered_output.ref for numbered_output in outputs}
    replies = tuple(_shortened_replies(conversation, keys))
    if not refs_by_call_id and not replies:
        return conversation
    retold = tuple(part for part in conversation.retold if part.key not in refs_by_call_id.values()) + replies
    return replace(
        conversation,
        masked=conversation.masked | refs_by_call_id.keys(),
        retold=retold,
        anchor=None,
        anchored=0,
        recalls=with_removed_outputs(
            conversation.recalls,
            (content_kind(numbered_output.call) for numbered_output in outputs if not numbered_output.output.is_part),
        ),
    )


def newly_masked_keys(previous_conversation: Conversation, new_conversation: Conversation) -> frozenset[str]:
    """Return the keys of the outputs and messages that are masked or shortened in the new conversation but not in the
    previous one."""
    masked_ids = new_conversation.masked - previous_conversation.masked
    shortened_keys = {part.key for part in new_conversation.retold} - {
        part.key for part in previous_conversation.retold
    }
    masked_keys = {
        numbered.ref for numbered in numbered_outputs(previous_conversation) if numbered.output.call_id in masked_ids
    }
    return frozenset(shortened_keys | masked_keys)


def _shortened_replies(conversation: Conversation, keys: AbstractSet[str]) -> Iterator[ShortenedPart]:
    previous_message: Message | None = None
    for position, message in enumerate(conversation.messages, conversation.messages_before):
        if message_key(position) in keys and (reply := shorten_long_reply(message, previous_message)) is not None:
            yield ShortenedPart(message_key(position), "preview", reply.short_text)
        previous_message = message

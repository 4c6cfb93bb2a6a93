"""When a rewrite pays for itself."""

from dataclasses import replace
from math import sqrt

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prices import FREE_MODEL_PRICES, UnitPrices
from ebbtide.agent.eviction.carrying_costs import (
    MIN_COMPACTED_TOKENS,
    MIN_MASKED_TOKENS,
    CarryingCosts,
    RewriteDecision,
    RewriteOffer,
    compaction_offer,
    decide_rewrite,
    mask_by_keys,
    mask_offer,
    maskable_items,
    will_pay_off,
)
from ebbtide.agent.eviction.inventory import MeasurementCache
from ebbtide.agent.eviction.settings import CompactionCaps, RewritePatience
from ebbtide.agent.messages import Assistant, Conversation, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.recalls import REUSE_ODDS
from tests.kit.conversations import conversations

PRICES, PATIENCE = UnitPrices(), RewritePatience()
offers = st.builds(RewriteOffer, st.integers(0, 300_000), st.integers(0, 300_000), st.floats(0, 500_000))
costs = st.builds(CarryingCosts, st.floats(0, 1e6), st.floats(0, 1e6))
prices = st.builds(UnitPrices, st.floats(0, 1), st.floats(1, 2), st.floats(1, 10))


def steps(*sizes: int) -> Conversation:
    """A request and a step for each size: a call whose output has that many letters."""
    conversation = Conversation((User((Text("go"),)),))
    for number, size in enumerate(sizes):
        call = ToolCall(f"c{number}", "bash", {"command": "make"})
        conversation = conversation.plus(Assistant((call,)), User((ToolOutput(call.id, "x" * size),)))
    return conversation


@given(offers, offers, costs, prices, st.booleans())
def test_nothing_is_rewritten_that_is_too_small_or_has_not_paid(
    mask: RewriteOffer, compaction: RewriteOffer, paid: CarryingCosts, prices: UnitPrices, is_cold: bool
) -> None:
    ruling = decide_rewrite(mask, compaction, paid, prices, PATIENCE, is_cold=is_cold)

    match ruling.action:
        case "mask":
            assert mask.removed_tokens >= MIN_MASKED_TOKENS
            assert is_cold or ruling.triggering_cost >= PATIENCE.mask * mask.cost
            assert ruling.carrying_costs.mask == 0
        case "compact":
            assert not is_cold
            assert compaction.removed_tokens > MIN_COMPACTED_TOKENS
            assert ruling.triggering_cost >= PATIENCE.compact * compaction.cost
            assert ruling.carrying_costs == CarryingCosts()
        case "nothing":
            assert ruling.carrying_costs.mask >= paid.mask
            assert ruling.carrying_costs.compact >= paid.compact


@given(offers, offers, costs, st.booleans())
def test_a_model_whose_cache_is_free_is_never_summarised_early(
    mask: RewriteOffer, compaction: RewriteOffer, paid: CarryingCosts, is_cold: bool
) -> None:
    ruling = decide_rewrite(mask, compaction, CarryingCosts(), FREE_MODEL_PRICES, PATIENCE, is_cold=is_cold)

    assert ruling.action == "nothing" or (is_cold and ruling.action == "mask")


@given(offers, costs, prices)
def test_while_nobody_waits_a_summary_is_made_that_pays_with_as_many_requests_again(
    offer: RewriteOffer, paid: CarryingCosts, prices: UnitPrices
) -> None:
    found = will_pay_off(offer, paid, prices)
    if found and prices.read > 0:
        assert offer.removed_tokens > MIN_COMPACTED_TOKENS
        assert 2 * (paid.compact + prices.read * offer.removed_tokens) >= offer.cost
    more = will_pay_off(offer, CarryingCosts(compact=2 * paid.compact + 1), prices)
    assert more or not found


def test_a_summary_while_nobody_waits_needs_no_patience_and_costs_no_time() -> None:
    offer = RewriteOffer(removed_tokens=30_000, cache_write_tokens=9_000, cost=26_000)
    assert not will_pay_off(offer, CarryingCosts(compact=5_000), PRICES)
    assert will_pay_off(offer, CarryingCosts(compact=10_000), PRICES)
    assert will_pay_off(offer, CarryingCosts(), FREE_MODEL_PRICES)
    assert not will_pay_off(RewriteOffer(removed_tokens=8_000), CarryingCosts(compact=1e6), FREE_MODEL_PRICES)


def test_a_cold_cache_masks_at_once_and_summarises_never() -> None:
    mask, compaction = RewriteOffer(5_000, 30_000, 400.0), RewriteOffer(90_000, 10_000, 100.0)

    ruling = decide_rewrite(mask, compaction, CarryingCosts(0.0, 1e9), PRICES, PATIENCE, is_cold=True)

    assert ruling == RewriteDecision("mask", CarryingCosts(0.0, 1e9 + 9_000), 500.0, mask)


def test_a_mask_leaves_the_rent_of_a_summary_as_it_is() -> None:
    ruling = decide_rewrite(
        RewriteOffer(2_000, 0, 40.0),
        RewriteOffer(9_000, 0, 1e6),
        CarryingCosts(0.0, 50.0),
        PRICES,
        PATIENCE,
        is_cold=False,
    )

    assert ruling == RewriteDecision("mask", CarryingCosts(0.0, 950.0), 200.0, RewriteOffer(2_000, 0, 40.0))


def test_with_even_growth_a_summary_comes_where_it_costs_least_whatever_the_window() -> None:
    growth, stays, cost = 400, 26_000, 40_000.0
    size, paid, patience = stays, CarryingCosts(), RewritePatience(compact=1.0)

    while True:
        size += growth
        ruling = decide_rewrite(
            RewriteOffer(), RewriteOffer(size - stays, 0, cost), paid, PRICES, patience, is_cold=False
        )
        paid = ruling.carrying_costs
        if ruling.action == "compact":
            break

    best = stays + sqrt(2 * growth * cost / PRICES.read)
    assert abs(size - best) <= 2 * growth


def test_what_is_masked_is_counted_with_what_it_changes_and_what_is_fetched_again() -> None:
    conversation = steps(10_000, 90, 10_000, 10_000, 10_000, 10_000)
    eager, caps = replace(PATIENCE, recall=0.1), CompactionCaps(protected_output_tokens=9_500)

    offer = mask_offer(conversation, caps, 40_000, 20_000, PRICES, eager)
    cold = mask_offer(conversation, caps, 40_000, 20_000, PRICES, eager, is_cold=True)

    (tokens,) = {item.tokens for item in MeasurementCache().measure(conversation).items}
    price = 0.1 * 40_000 + 1.25 * 2_500 + 5 * 90
    again = [REUSE_ODDS.probability("program", tokens, age) * price for age in (5, 3)]
    assert offer.keys == cold.keys == {"r1", "r3"}
    assert 7_000 < offer.removed_tokens < 8_000
    assert 11_000 < offer.cache_write_tokens < 13_000
    assert cold == replace(offer, cost=sum(again))
    assert offer.cost == sum(again) + 1.15 * offer.cache_write_tokens
    assert mask_by_keys(conversation, offer.keys).masked == {"c0", "c2"}


def test_an_output_is_due_once_it_has_cost_more_than_it_would_cost_to_miss_it() -> None:
    patience = replace(PATIENCE, recall=10.0)

    def due(later: int, *, is_cold: bool = False) -> bool:
        conversation = steps(10_000, *(90,) * later)
        return bool(
            mask_offer(
                conversation,
                CompactionCaps(protected_output_tokens=0),
                60_000,
                20_000,
                PRICES,
                patience,
                is_cold=is_cold,
            ).keys
        )

    (item,) = MeasurementCache().measure(steps(10_000)).items
    price = 0.1 * 60_000 + 1.25 * 2_500 + 5 * 90

    def spent(age: int) -> float:
        return item.freed_tokens * 0.1 * age / (10 * price * REUSE_ODDS.probability("program", item.tokens, age))

    first = next(age for age in range(3, 60) if spent(age) >= 1)
    assert 3 < first < 10
    assert [due(first - 1), due(first)] == [False, True]
    assert [due(later, is_cold=True) for later in (2, 3)] == [False, True]


def test_the_newest_outputs_leave_only_when_all_is_written_anew() -> None:
    conversation = steps(10_000, *(90,) * 40)
    caps = CompactionCaps(protected_output_tokens=24_000)
    assert mask_offer(conversation, caps, 60_000, 20_000, PRICES, PATIENCE).keys == frozenset()
    assert mask_offer(conversation, caps, 60_000, 20_000, PRICES, PATIENCE, is_cold=True).keys == {"r1"}


@given(conversations(), st.integers(0, 2_000), st.integers(0, 200_000), st.integers(0, 20_000), st.booleans())
def test_an_offer_is_made_for_what_may_be_masked(
    conversation: Conversation, protect: int, size: int, fixed: int, is_cold: bool
) -> None:
    offer = mask_offer(
        conversation, CompactionCaps(protected_output_tokens=protect), size, fixed, PRICES, PATIENCE, is_cold=is_cold
    )

    assert min(offer.removed_tokens, offer.cache_write_tokens, offer.cost) >= 0
    assert offer.keys <= {item.key for item in maskable_items(conversation, MeasurementCache().measure(conversation))}
    assert offer.keys or offer == RewriteOffer()


@given(st.integers(0, 300_000), st.integers(0, 30_000))
def test_a_summary_removes_what_stands_before_the_tail(size: int, fixed: int) -> None:
    offer = compaction_offer(CompactionCaps(), size, fixed, PRICES)

    assert offer.removed_tokens == max(size - fixed - 1_800 - min(6_000, max(size - fixed, 0)), 0)
    assert offer.cost > 0

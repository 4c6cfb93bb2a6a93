"""What is told of rulings on rewrites."""

from ebbtide.agent.budget.prices import Prices, unit_prices
from ebbtide.agent.eviction.carrying_costs import CarryingCosts, RewriteDecision, RewriteOffer, decision_debug_fields


def test_a_ruling_is_told_in_numbers_that_people_read() -> None:
    ruling = RewriteDecision("nothing", CarryingCosts(1200.4, 99.6), offer=RewriteOffer(5000, 300, 1400.2))
    assert decision_debug_fields(ruling, unit_prices(Prices(3.0, 15.0, 0.3, 3.75)), is_cold=False) == {
        "action": "nothing",
        "cold": False,
        "carrying_costs": {"mask": 1200, "compact": 100},
        "prices": {"read": 0.1, "write": 1.25, "output": 5.0},
        "removed": 5000,
        "behind": 300,
        "cost": 1400,
    }

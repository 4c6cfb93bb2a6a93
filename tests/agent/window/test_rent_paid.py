"""What is told of rulings on rewrites."""

from ebbtide.agent.context.carrying_costs import CarryingCosts, RewriteDecision, RewriteOffer
from ebbtide.agent.providers.base import Prices
from ebbtide.agent.window.carrying_cost import evaluation, unit_prices


def test_a_ruling_is_told_in_numbers_that_people_read() -> None:
    ruling = RewriteDecision("nothing", CarryingCosts(1200.4, 99.6), offer=RewriteOffer(5000, 300, 1400.2))
    assert evaluation(ruling, unit_prices(Prices(3.0, 15.0, 0.3, 3.75)), is_cold=False) == {
        "action": "nothing",
        "cold": False,
        "rents": {"mask": 1200, "compact": 100},
        "prices": {"read": 0.1, "write": 1.25, "output": 5.0},
        "removed": 5000,
        "behind": 300,
        "cost": 1400,
    }

"""What is written down of a rewrite, to be told with the requests."""

import pytest

from ebbtide.agent.events.view import ContextCompacted, Price
from ebbtide.agent.records.usage import rewrite_from_row, rewrite_row
from ebbtide.store.session_rows import RewriteRow

PRICE = Price(30_000, 8_000, 10_000, 12_000, dollar=3e-6)
"""10,000 tokens of fresh input are 3 cents."""


@pytest.mark.parametrize(
    ("event", "cost"),
    [
        (ContextCompacted(90_000, 60_000, 40, 40, ("mask",), "rent", price=PRICE), 0.03),
        (ContextCompacted(90_000, 60_000, 40, 40, ("mask",), "rent"), 0.0),
        (ContextCompacted(90_000, 9_000, 40, 4, ("ledger",), "full", price=PRICE, cost=0.02), 0.05),
        (ContextCompacted(90_000, 9_000, 40, 4, ("summary",), "full", price=PRICE, model="m", cost=0.02), 0.02),
        (ContextCompacted(90_000, 9_000, 40, 4, ("summary",), "full", price=PRICE, model="m", cost=None), None),
    ],
    ids=[
        "a mask",
        "a mask of a model without prices",
        "a summary that was not used",
        "a summary",
        "one at no known price",
    ],
)
def test_a_rewrite_is_kept_with_what_it_takes(event: ContextCompacted, cost: float | None) -> None:
    row = rewrite_row(event, 7, 5.0)
    assert row is not None
    assert row.cost == (None if cost is None else pytest.approx(cost))


def test_a_rewrite_of_an_earlier_version_has_todays_names_of_its_strategies() -> None:
    row = RewriteRow(3, "overflow", "mask_all share drop last least references step words", 900, 100, 0.5, 6.0)
    assert rewrite_from_row(row).strategies == (
        "mask_all",
        "cut_to_share",
        "drop_older_turns",
        "keep_last_message",
        "cut_to_minimum",
        "mask_unseen",
        "drop_unseen_step",
        "shorten_text",
    )

"""Whether it pays to keep a cache alive, by how long users think."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.request.keep_alive import (
    PAUSE_DISTRIBUTION,
    is_renewal_worthwhile,
    pause_end_probability,
    share_of_longer_pauses,
)


def test_half_of_the_pauses_that_outlast_five_minutes_end_within_ten() -> None:
    assert pause_end_probability(300, 600, 300) == pytest.approx(0.48)


def test_the_counted_shares_are_met_and_between_them_they_only_fall() -> None:
    assert [share_of_longer_pauses(seconds) for seconds, _ in PAUSE_DISTRIBUTION] == pytest.approx(
        [share for _, share in PAUSE_DISTRIBUTION]
    )
    assert share_of_longer_pauses(0) == 1.0
    assert share_of_longer_pauses(1e9) < 1e-6


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_no_longer_pause_is_likelier(one: float, other: float) -> None:
    assert share_of_longer_pauses(max(one, other)) <= share_of_longer_pauses(min(one, other))


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_a_likelihood_lies_between_none_and_all(begin: float, end: float, so_far: float) -> None:
    assert 0.0 <= pause_end_probability(begin, end, so_far) <= 1.0


@pytest.mark.parametrize(
    ("read", "write", "times"),
    [(0.1, 1.25, 4), (0.2, 1.25, 2), (0.25, 1.0, 1), (0.5, 1.0, 0), (1.0, 1.0, 0), (0.0, 0.0, 0)],
    ids=["a tenth", "a fifth", "a quarter", "half", "no discount", "free"],
)
def test_the_dearer_a_read_the_fewer_pay(read: float, write: float, times: int) -> None:
    """A cache of five minutes, used again half a minute before its end, as often as that pays."""
    found = 0
    while found < 4 and is_renewal_worthwhile(read, write - read, 270.0 * (found + 1), 270.0 * found + 300.0, 300.0):
        found += 1
    assert found == times

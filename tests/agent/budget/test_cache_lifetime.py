"""How long a provider's cache is to live, chosen by price."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.cache_lifetime import (
    ANTHROPIC_LIFETIMES,
    MIN_REQUESTS,
    PastRequest,
    choose_lifetime,
    input_cost,
    lifetime_saving,
)

SHORT, HOUR = ANTHROPIC_LIFETIMES


def session(*pauses: float, step_tokens: int = 1000, name: str = "a") -> list[PastRequest]:
    """A session that grows by so many tokens a request, with these pauses between the requests."""
    at, requests = 0.0, [PastRequest(name, 0.0, 10_000)]
    for number, pause in enumerate(pauses, 1):
        at += pause
        requests.append(PastRequest(name, at, 10_000 + number * step_tokens))
    return requests


@pytest.mark.parametrize(
    ("pauses", "chosen"),
    [
        ([20.0] * 300, SHORT),  # the model works on its own
        ([20.0] * 19 + [900.0], HOUR),  # a question is thought about now and then
        ([20.0] * 19 + [7200.0], SHORT),  # too long for both
    ],
    ids=["none", "a quarter of an hour", "two hours"],
)
def test_the_pauses_of_earlier_sessions_choose(pauses: list[float], chosen: object) -> None:
    assert choose_lifetime(session(*(pauses * (300 // len(pauses))))) == chosen


def test_who_has_no_earlier_sessions_has_the_usual_lifetime() -> None:
    assert choose_lifetime(session(*[20.0] * (MIN_REQUESTS - 2))) == HOUR


def test_the_cost_is_that_of_each_request() -> None:
    two = session(60.0)
    assert input_cost(two, SHORT) == pytest.approx(10_000 * 1.25 + 10_000 * 0.1 + 1000 * 1.25)
    assert input_cost(session(600.0), SHORT) == pytest.approx(21_000 * 1.25)
    assert input_cost(session(600.0), HOUR) == pytest.approx(10_000 * 2 + 10_000 * 0.1 + 1000 * 2)
    assert input_cost([], SHORT) == 0


def test_after_a_rewrite_only_the_beginning_is_read_from_the_cache() -> None:
    rewritten = [PastRequest("a", 0.0, 100_000), PastRequest("a", 10.0, 30_000)]
    assert input_cost(rewritten, SHORT) == pytest.approx(100_000 * 1.25 + 8_000 * 0.1 + 22_000 * 1.25)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6), st.integers(1, 200_000)), max_size=30))
def test_sessions_cost_the_same_alone_and_together(rows: list[tuple[str, float, int]]) -> None:
    requests = sorted(PastRequest(*row) for row in rows)
    for lifetime in ANTHROPIC_LIFETIMES:
        alone = sum(input_cost([one for one in requests if one.session == name], lifetime) for name in "abc")
        assert input_cost(requests, lifetime) == pytest.approx(alone)
    assert lifetime_saving(requests, SHORT) == 0
    assert lifetime_saving(requests, HOUR) <= 1

"""Rankings that are merged, over arbitrary rankings."""

from hypothesis import given
from hypothesis import strategies as st

from agent.context.fusion import DAMPING, fused

rankings = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=12), max_size=4)


@given(rankings)
def test_whatever_is_ranked_has_a_score_and_every_place_counts(given_rankings: list[list[int]]) -> None:
    scores = fused(*given_rankings)
    assert set(scores) == {one for ranking in given_rankings for one in ranking}
    for one, score in scores.items():
        places = [ranking.index(one) + 1 for ranking in given_rankings if one in ranking]
        assert abs(score - sum(1 / (DAMPING + place) for place in places)) < 1e-12


@given(st.lists(st.integers(0, 20), unique=True, max_size=12), st.integers(1, 4))
def test_rankings_that_agree_are_the_ranking(ranking: list[int], times: int) -> None:
    scores = fused(*[ranking] * times)
    assert sorted(scores, key=lambda one: -scores[one]) == ranking


@given(rankings)
def test_the_order_of_rankings_makes_no_difference(given_rankings: list[list[int]]) -> None:
    forwards, backwards = fused(*given_rankings), fused(*reversed(given_rankings))
    assert forwards.keys() == backwards.keys()
    assert all(abs(forwards[one] - backwards[one]) < 1e-12 for one in forwards)

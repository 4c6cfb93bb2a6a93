"""What a summary costs, and who writes it for less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.summary_cost import (
    MAX_COST_RATIO,
    DollarsPerToken,
    SummaryCandidate,
    SummaryJob,
    cheapest_summary_model,
    cost_of_transcript,
    cost_with_cache,
)

OWN = DollarsPerToken(5e-6, 25e-6, 0.5e-6, 6.25e-6)
SMALL = DollarsPerToken(0.1e-6, 0.4e-6, 0.01e-6, 0.1e-6)
JOB = SummaryJob(120_000, 40_000)


def test_sharing_reads_the_conversation_from_the_cache_and_reading_pays_for_the_text() -> None:
    assert cost_with_cache(OWN, 120_000) == pytest.approx(0.06 + 0.0025 + 0.045)
    assert cost_of_transcript(SMALL, 40_000) == pytest.approx(0.00404 + 0.00072)


@pytest.mark.parametrize(
    ("job", "offer", "wins"),
    [
        (JOB, SummaryCandidate("a/small", SMALL, 128_000), True),
        (JOB, SummaryCandidate("a/unknown", None, 128_000), False),
        (JOB, SummaryCandidate("a/narrow", SMALL, 80_000), False),
        (JOB, SummaryCandidate("a/same", OWN, 1_000_000), False),
        (JOB, SummaryCandidate("a/hardly", DollarsPerToken(1e-6, 20e-6, 0.1e-6, 1e-6), 1_000_000), False),
        (
            SummaryJob(120_000, 40_000, is_cached=False),
            SummaryCandidate("a/hardly", DollarsPerToken(1e-6, 20e-6, 0.1e-6, 1e-6), 1_000_000),
            True,
        ),
    ],
)
def test_only_a_clear_saving_in_one_piece_wins(job: SummaryJob, offer: SummaryCandidate, wins: bool) -> None:
    assert cheapest_summary_model(OWN, job, [offer]) == (offer.model if wins else None)


def test_of_several_the_cheapest_is_asked_and_a_free_model_is_never_beaten() -> None:
    offers = [
        SummaryCandidate("a/mid", DollarsPerToken(0.5e-6, 2e-6, 0, 0), 200_000),
        SummaryCandidate("a/small", SMALL, 200_000),
    ]
    assert cheapest_summary_model(OWN, JOB, offers) == "a/small"
    assert cheapest_summary_model(None, JOB, offers) is None
    assert (
        cheapest_summary_model(
            DollarsPerToken(0, 0, 0, 0), JOB, [SummaryCandidate("a/free", DollarsPerToken(0, 0, 0, 0), 200_000)]
        )
        is None
    )


prices = st.builds(DollarsPerToken, *[st.floats(0, 1e-3)] * 4)
offers = st.builds(
    SummaryCandidate, st.sampled_from(["a/1", "a/2", "a/3"]), st.none() | prices, st.integers(0, 2_000_000)
)


@given(
    prices,
    st.builds(SummaryJob, st.integers(0, 10**6), st.integers(0, 10**6), is_cached=st.booleans()),
    st.lists(offers),
)
def test_whoever_wins_costs_less_and_is_known(
    own: DollarsPerToken, job: SummaryJob, given_offers: list[SummaryCandidate]
) -> None:
    winner = cheapest_summary_model(own, job, given_offers)
    paid = cost_with_cache(own, job.context_tokens) if job.is_cached else cost_of_transcript(own, job.transcript_tokens)
    possible = [
        o
        for o in given_offers
        if o.prices and cost_of_transcript(o.prices, job.transcript_tokens) < MAX_COST_RATIO * paid
    ]
    assert winner is None or winner in [offer.model for offer in possible]

"""When another try is made, how long it waits, and when it is given up."""

import pytest

from ebbtide.agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    RouteFailed,
    StreamCut,
    TimedOut,
    UnknownModel,
    Unreachable,
)
from ebbtide.agent.providers.stream import RetryLimits, retry_delay


def test_delays_double_up_to_half_a_minute() -> None:
    delays = [retry_delay(attempt, Overloaded("x"), 0) for attempt in (1, 2, 3, 4, 5, 6, 7, 8, 99)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_chance_takes_off_a_quarter_at_most() -> None:
    assert [retry_delay(4, Overloaded("x"), jitter) for jitter in (0, 0.5, 1)] == [4, 3.5, 3]


@pytest.mark.parametrize(
    ("asked", "waited", "limit", "waits"),
    [(0, 0, 600, 0), (7.5, 0, 600, 7.5), (600, 0, 600, 600), (600.1, 0, 600, None), (60, 550, 600, None),
     (9e4, 0, None, 9e4)],
)  # fmt: skip
def test_the_servers_wish_is_kept_as_long_as_there_is_patience(
    asked: float, waited: float, limit: float | None, waits: float | None
) -> None:
    assert retry_delay(1, RateLimited("x", retry_after=asked), 1, waited, limit) == waits


def test_a_server_that_asks_for_no_wait_is_not_asked_without_end() -> None:
    delays = [retry_delay(attempt, Overloaded("x", retry_after=0), 0, 0, 600) for attempt in (1, 2, 3, 4, 9)]
    assert delays == [0, 0, 0, 4, 30]


@pytest.mark.parametrize(("waited", "delay"), [(0, 30), (580, 20), (600, None), (700, None)])
def test_the_last_try_is_at_the_end_of_the_patience(waited: float, delay: float | None) -> None:
    assert retry_delay(20, Overloaded("x"), 0, waited, 600) == delay


def test_an_answer_that_breaks_off_is_asked_for_five_times() -> None:
    assert [retry_delay(attempt, StreamCut("x"), 0, 0, 600) for attempt in (4, 5)] == [4, None]


@pytest.mark.parametrize(
    "kind", [AuthFailed, BadRequest, ContextOverflow, QuotaExceeded, RouteFailed, UnknownModel, ProviderError]
)
def test_what_another_try_would_not_mend(kind: type[ProviderError]) -> None:
    assert retry_delay(1, kind("x"), 0) is None


@pytest.mark.parametrize("kind", [Overloaded, RateLimited, StreamCut, TimedOut, Unreachable])
def test_what_another_try_may_mend(kind: type[ProviderError]) -> None:
    assert retry_delay(1, kind("x"), 0) == 0.5


@pytest.mark.parametrize(
    ("error", "reached", "may_leave", "limit"),
    [
        (Unreachable("x"), False, False, 10),
        (Unreachable("x"), True, False, 600),
        (Overloaded("x"), False, False, 600),
        (Overloaded("x"), True, True, 30),
        (Unreachable("x"), False, True, 10),
    ],
)
def test_how_long_a_failure_is_borne(error: ProviderError, reached: bool, may_leave: bool, limit: float) -> None:
    assert RetryLimits(600, 10, 30).retry_seconds(error, is_reached=reached, has_fallback=may_leave) == limit


def test_in_a_terminal_only_a_first_try_has_an_end() -> None:
    terminal = RetryLimits(None)
    assert terminal.retry_seconds(Overloaded("x"), is_reached=True, has_fallback=False) is None
    assert terminal.retry_seconds(Unreachable("x"), is_reached=False, has_fallback=False) == 10

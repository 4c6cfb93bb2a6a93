"""When another try is made, and how long it waits."""

import pytest

from agent.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    StreamCut,
    TimedOut,
    UnknownModel,
    Unreachable,
)
from agent.providers.retry import delay_before


def test_delays_double() -> None:
    assert [delay_before(attempt, Overloaded("x"), 0) for attempt in range(1, 6)] == [0.5, 1, 2, 4, None]


def test_chance_takes_off_a_quarter_at_most() -> None:
    assert [delay_before(4, Overloaded("x"), jitter) for jitter in (0, 0.5, 1)] == [4, 3.5, 3]


@pytest.mark.parametrize(("asked", "waits"), [(0, 0), (7.5, 7.5), (60, 60), (60.1, None)])
def test_the_servers_wish_is_kept_up_to_a_minute(asked: float, waits: float | None) -> None:
    assert delay_before(1, RateLimited("x", retry_after=asked), 1) == waits


def test_the_last_try_is_the_last_whatever_the_server_says() -> None:
    assert delay_before(5, RateLimited("x", retry_after=1), 0) is None


@pytest.mark.parametrize("kind", [AuthFailed, BadRequest, ContextOverflow, QuotaExceeded, UnknownModel, ProviderError])
def test_what_another_try_would_not_mend(kind: type[ProviderError]) -> None:
    assert delay_before(1, kind("x"), 0) is None


@pytest.mark.parametrize("kind", [Overloaded, RateLimited, StreamCut, TimedOut, Unreachable])
def test_what_another_try_may_mend(kind: type[ProviderError]) -> None:
    assert delay_before(1, kind("x"), 0) == 0.5

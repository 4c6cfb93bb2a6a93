"""When a failed request is worth another try, and after how long. Pure: the waiting is done by `agent.stream`."""

from agent.errors import ProviderError

ATTEMPTS = 5
FIRST_DELAY = 0.5
LONGEST_DELAY = 8.0
JITTER = 0.25
"""The part of a delay that chance may take off, so that many clients do not return at once."""
LONGEST_WAIT = 60.0
"""A server that asks for more than this is not waited for."""


def delay_before(attempt: int, error: ProviderError, jitter: float) -> float | None:
    """Seconds to wait after the failure of try number `attempt` (from 1) before the next; None: give up.

    `jitter` is a random number from 0 to 1.
    """
    if not error.retryable or attempt >= ATTEMPTS:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= LONGEST_WAIT else None
    delay: float = min(FIRST_DELAY * 2.0 ** (attempt - 1), LONGEST_DELAY)
    return delay * (1 - JITTER * jitter)

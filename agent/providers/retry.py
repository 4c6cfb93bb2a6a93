"""When a failed request is worth another try, and after how long. Pure: the waiting is done by
`agent.providers.stream`."""

from agent.errors import ProviderError, StreamCut, Unreachable
from tools.lazy import dataclass

ATTEMPTS = 5
"""For an answer that breaks off: each costs a whole request, and what cannot be read is often the same again."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
TRUSTED = 3
"""How often a server's own wait is enough. One that goes on asking for none would be asked without end."""
JITTER = 0.25
"""The part of a delay that chance may take off, so that many clients do not return at once."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """How long a request is tried again."""

    patience: float | None = 600.0
    """Seconds; None: until the user has enough of it."""
    first: float = 10.0
    """Seconds for a server that nobody has reached yet: its address is probably mistyped."""
    fallback_after: float | None = None
    """Seconds after which another model takes over where there is one; None: never."""

    def limit(self, error: ProviderError, *, reached: bool, may_leave: bool) -> float | None:
        """Seconds in which a request that failed so is tried again; None: no end is set."""
        limits = [self.patience]
        if isinstance(error, Unreachable) and not reached:
            limits.append(self.first)
        if may_leave:
            limits.append(self.fallback_after)
        return min((limit for limit in limits if limit is not None), default=None)


def delay_before(
    attempt: int, error: ProviderError, jitter: float, waited: float = 0.0, limit: float | None = None
) -> float | None:
    """Seconds to wait after the failure of try number `attempt` (from 1) before the next; None: give up. Of an answer
    that broke off, `attempt` is how many did.

    `jitter` is a random number from 0 to 1, `waited` the seconds since the first try, `limit` the most of them.
    """
    if not error.retryable or (isinstance(error, StreamCut) and attempt >= ATTEMPTS):
        return None
    left = limit - waited if limit is not None else None
    if left is not None and left <= 0:
        return None
    delay = min(FIRST_DELAY * 2.0 ** min(attempt - 1, 16), LONGEST_DELAY) * (1 - JITTER * jitter)
    asked = error.retry_after
    if asked is not None and (left is None or asked <= left):
        if attempt <= TRUSTED:
            return asked
        delay = max(delay, asked)
    elif asked is not None:
        return None
    return delay if left is None else min(delay, left)

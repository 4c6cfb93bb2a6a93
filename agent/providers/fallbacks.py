"""The models of a session: its own and its fallbacks, each connected when it is first needed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ebbtide.agent.context.last_request import RequestMark
from ebbtide.agent.context.preflight import ModelTarget
from ebbtide.agent.errors import UsageError
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.learned_limits import has_answered
from ebbtide.agent.providers.meter import Meter
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ConnectedModel:
    """A connected model and its token meter."""

    provider: Provider
    meter: Meter
    server: str = ""
    """Digest of the address where the model last answered, in any session."""

    def answered_models(self, mark: RequestMark | None) -> set[str]:
        """The model's id, if it has answered before at its current address. `mark`: the session's last request."""
        is_known = has_answered(mark, self.provider) or (self.server and self.server == self.provider.facts.server)
        return {self.provider.facts.id} if is_known else set()


Connect: TypeAlias = Callable[[str], Awaitable[ConnectedModel]]
"""Connects to a model, `provider/name`. Raises `UsageError` and `ProviderError`."""


async def _no_connection(model: str) -> ConnectedModel:
    raise UsageError(f"`{model}` cannot be used: connecting to models is disabled here")


@dataclass(frozen=True, slots=True)
class TurnModelRequest:
    """A request to run the turn with another model."""

    model: str
    """The model, as written by its author."""
    by: str
    """What requested it, for display."""


class Targets:
    """The models of one session. A fallback that was left or skipped is not used again."""

    def __init__(
        self, provider: Provider, fallbacks: Sequence[ModelTarget] = (), connect: Connect = _no_connection
    ) -> None:
        """`provider` is the session's current model; the caller closes it."""
        self.provider = provider
        self.fallbacks = tuple(fallbacks)
        """The remaining fallbacks, with their known windows."""
        self.wish: TurnModelRequest | None = None
        """The request to run this turn with another model, until it is handled."""
        self.own: ConnectedModel | None = None
        """The session's own model, while another one runs the turn."""
        self._own_fallbacks: tuple[ModelTarget, ...] = ()
        self._connect = connect
        self._opened: list[Provider] = []

    @property
    def model(self) -> str:
        """The model that the session uses after this turn, as PROVIDER/NAME."""
        return (self.own.provider if self.own is not None else self.provider).facts.id

    async def connect(self, model: str) -> ConnectedModel:
        """Connect to a fallback. Raises `UsageError` and `ProviderError`."""
        connected = await self._connect(model)
        self._opened.append(connected.provider)
        return connected

    def pass_over(self, target: ModelTarget) -> None:
        """Remove a fallback, so that it is not tried again."""
        self.fallbacks = tuple(other for other in self.fallbacks if other is not target)

    def switch_to(self, target: ModelTarget, provider: Provider) -> None:
        """Make a fallback the session's model."""
        self.provider = provider
        self.fallbacks = self.fallbacks[self.fallbacks.index(target) + 1 :]
        self.own = None

    def lend_turn(self, provider: Provider, own: ModelTarget, meter: Meter) -> None:
        """Run this turn with another model. Its first fallback is the session's own model, followed by that model's
        fallbacks. `meter`: the meter of the session's own model."""
        self.own, self._own_fallbacks = ConnectedModel(self.provider, meter), self.fallbacks
        self.provider, self.fallbacks = provider, (own, *self.fallbacks)

    def end_turn(self) -> ConnectedModel | None:
        """Return to the session's own model and return it; None if no other model ran the turn."""
        own, self.own, self.wish = self.own, None, None
        if own is not None:
            self.provider, self.fallbacks = own.provider, self._own_fallbacks
        return own

    async def close(self) -> None:
        """Close the connections opened here."""
        while self._opened:
            await self._opened.pop().close()


def chain_after(model: str, fallbacks: Sequence[str]) -> tuple[str, ...]:
    """The fallbacks of a session's model: those after it if it is one of them, else all."""
    start = fallbacks.index(model) + 1 if model in fallbacks else 0
    return tuple(dict.fromkeys(fallbacks[start:]))

"""The models that a session may use: its own, then those that take over from it, each connected when it is needed."""

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
    """A model that can be asked, and the measure of its tokens."""

    provider: Provider
    meter: Meter
    server: str = ""
    """Digest of the address at which the model answered last, in any session."""

    def answered_models(self, mark: RequestMark | None) -> set[str]:
        """The model, when it has answered before at the address that it has now. `mark`: the session's last request."""
        is_known = has_answered(mark, self.provider) or (self.server and self.server == self.provider.facts.server)
        return {self.provider.facts.id} if is_known else set()


Connect: TypeAlias = Callable[[str], Awaitable[ConnectedModel]]
"""Connects to a model, `provider/name`. Raises `UsageError` and `ProviderError`."""


async def _no_connection(model: str) -> ConnectedModel:
    raise UsageError(f"`{model}` cannot be used: nothing here connects to models")


@dataclass(frozen=True, slots=True)
class TurnModelRequest:
    """That a turn is had with another model."""

    model: str
    """As whoever wrote it calls it."""
    by: str
    """What wants it, as it is shown."""


class Targets:
    """One for each session. It only goes forward: a model that was left, or passed over, is not used again."""

    def __init__(
        self, provider: Provider, fallbacks: Sequence[ModelTarget] = (), connect: Connect = _no_connection
    ) -> None:
        """`provider` is the session's model now; whoever gives it closes it."""
        self.provider = provider
        self.fallbacks = tuple(fallbacks)
        """Those that may follow, with the windows they are known to have."""
        self.wish: TurnModelRequest | None = None
        """What was called in this turn and is meant for another model, until it is looked at."""
        self.own: ConnectedModel | None = None
        """The session's model, while another one has the turn."""
        self._own_fallbacks: tuple[ModelTarget, ...] = ()
        self._connect = connect
        self._opened: list[Provider] = []

    @property
    def model(self) -> str:
        """The one that the session goes on with after this turn, as PROVIDER/NAME."""
        return (self.own.provider if self.own is not None else self.provider).facts.id

    async def connect(self, model: str) -> ConnectedModel:
        """A model that takes over, connected. Raises `UsageError` and `ProviderError`."""
        connected = await self._connect(model)
        self._opened.append(connected.provider)
        return connected

    def pass_over(self, target: ModelTarget) -> None:
        """It is not tried again."""
        self.fallbacks = tuple(other for other in self.fallbacks if other is not target)

    def switch_to(self, target: ModelTarget, provider: Provider) -> None:
        """The session's model from now on."""
        self.provider = provider
        self.fallbacks = self.fallbacks[self.fallbacks.index(target) + 1 :]
        self.own = None

    def lend_turn(self, provider: Provider, own: ModelTarget, meter: Meter) -> None:
        """Another model has this turn. Where it cannot go on, the session's own follows it, and the chain of that.
        `meter`: how its own counts."""
        self.own, self._own_fallbacks = ConnectedModel(self.provider, meter), self.fallbacks
        self.provider, self.fallbacks = provider, (own, *self.fallbacks)

    def end_turn(self) -> ConnectedModel | None:
        """The session's own model, which is asked again from now on, where another one had the turn."""
        own, self.own, self.wish = self.own, None, None
        if own is not None:
            self.provider, self.fallbacks = own.provider, self._own_fallbacks
        return own

    async def close(self) -> None:
        """Gives back what was connected here."""
        while self._opened:
            await self._opened.pop().close()


def chain_after(model: str, fallbacks: Sequence[str]) -> tuple[str, ...]:
    """Those that may follow a session's model: all of them, or those after it where it is one of them."""
    start = fallbacks.index(model) + 1 if model in fallbacks else 0
    return tuple(dict.fromkeys(fallbacks[start:]))

"""The models of a session: its own and its fallbacks. A fallback is connected when it is first needed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from ebbtide.agent.budget.last_request import RequestRecord
from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.errors import UsageError
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.learned_limits import has_answered
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ConnectedModel:
    """A connected model and its token meter."""

    provider: Provider
    meter: TokenMeter
    answered_server_digest: str = ""
    """Digest of the address where the model last answered, in any session."""

    def answered_model_ids(self, mark: RequestRecord | None) -> set[str]:
        """Return a set with the model's id if it has answered before at its current address; otherwise an empty set.
        `mark`: the session's last request."""
        is_known = has_answered(mark, self.provider) or (
            self.answered_server_digest and self.answered_server_digest == self.provider.facts.server_digest
        )
        return {self.provider.facts.id} if is_known else set()


ConnectModel: TypeAlias = Callable[[str], Awaitable[ConnectedModel]]
"""Connects to a model named `provider/name`. Raises `UsageError` and `ProviderError`."""


async def _no_connection(model: str) -> ConnectedModel:
    raise UsageError(f"`{model}` cannot be used: connecting to models is disabled here")


@dataclass(frozen=True, slots=True)
class TurnModelRequest:
    """A request to run the turn with another model."""

    model: str
    """The name of the model, as the requester wrote it."""
    requested_by: str
    """The name of the requester, for display."""


class SessionModels:
    """The models of one session. A fallback that was skipped is not used again."""

    def __init__(
        self, provider: Provider, fallbacks: Sequence[ModelTarget] = (), connect: ConnectModel = _no_connection
    ) -> None:
        """`provider`: the session's current model, which the caller must close."""
        self.provider = provider
        self.fallbacks = tuple(fallbacks)
        """The fallbacks that can still be used, with the windows known for them."""
        self.turn_request: TurnModelRequest | None = None
        """The pending request to run this turn with another model; None if there is none."""
        self.session_model: ConnectedModel | None = None
        """The session's own model while another one runs the turn; None at other times."""
        self._session_fallbacks: tuple[ModelTarget, ...] = ()
        self._connect = connect
        self._opened_providers: list[Provider] = []

    @property
    def model(self) -> str:
        """The model that the session will use after this turn, as PROVIDER/NAME."""
        return (self.session_model.provider if self.session_model is not None else self.provider).facts.id

    async def connect(self, model: str) -> ConnectedModel:
        """Connect to a fallback. Raises `UsageError` and `ProviderError`."""
        connected_model = await self._connect(model)
        self._opened_providers.append(connected_model.provider)
        return connected_model

    def drop_fallback(self, target: ModelTarget) -> None:
        """Remove a fallback, so that it is not tried again."""
        self.fallbacks = tuple(fallback for fallback in self.fallbacks if fallback is not target)

    def switch_to(self, target: ModelTarget, provider: Provider) -> None:
        """Make a fallback the session's model."""
        self.provider = provider
        self.fallbacks = self.fallbacks[self.fallbacks.index(target) + 1 :]
        self.session_model = None

    def begin_turn_with(self, provider: Provider, session_target: ModelTarget, meter: TokenMeter) -> None:
        """Run this turn with another model. During the turn, the fallbacks are the session's own model and its
        fallbacks. `meter`: the meter of the session's own model."""
        self.session_model, self._session_fallbacks = ConnectedModel(self.provider, meter), self.fallbacks
        self.provider, self.fallbacks = provider, (session_target, *self.fallbacks)

    def end_turn(self) -> ConnectedModel | None:
        """Switch back to the session's own model, and return it; None if no other model ran the turn."""
        own_model, self.session_model, self.turn_request = self.session_model, None, None
        if own_model is not None:
            self.provider, self.fallbacks = own_model.provider, self._session_fallbacks
        return own_model

    async def close(self) -> None:
        """Close all connections that `connect` opened."""
        while self._opened_providers:
            await self._opened_providers.pop().close()


def later_fallbacks(model: str, fallbacks: Sequence[str]) -> tuple[str, ...]:
    """Return the fallbacks that come after the session's model in the list, or all of them if it is not in the list."""
    start = fallbacks.index(model) + 1 if model in fallbacks else 0
    return tuple(dict.fromkeys(fallbacks[start:]))

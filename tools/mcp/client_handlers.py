"""What a server may ask of us, and tell us, while it serves. Whoever has the session answers; this module knows neither
the protocol's library nor a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.base import Picture

Service: TypeAlias = Literal["elicitation", "sampling", "roots"]

FieldValue: TypeAlias = str | int | float | bool | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class AcceptedAnswer:
    """What the user filled in; empty when the user was to open an address."""

    content: Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class DeclinedAnswer:
    """The user said no."""


@dataclass(frozen=True, slots=True)
class DismissedAnswer:
    """The user closed the question without an answer."""


Answer: TypeAlias = AcceptedAnswer | DeclinedAnswer | DismissedAnswer


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """A message of the conversation that a server wants a model to go on with."""

    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What a server wants a model to write."""

    messages: tuple[SamplingMessage, ...]
    most_tokens: int
    system: str = ""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model wrote."""

    text: str
    model: str
    stop_reason: Literal["endTurn", "stopSequence", "maxTokens"] = "endTurn"


@dataclass(frozen=True, slots=True)
class SamplingRefusal:
    """Why no model is asked."""

    reason: str


class ClientHandlers:
    """Where servers turn to. Whoever has a session answers otherwise; here nobody is there, and no server is told that
    somebody is. Every text that comes from a server is data: it is cleaned before it is drawn."""

    services: frozenset[Service] = frozenset()
    """What servers are told that they may ask for. Nothing else is asked."""

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> Answer:
        """Puts a question to the user: a form with the fields of the schema, or, when `url` is not empty, an address to
        open."""
        return DismissedAnswer()

    async def sample(self, server: str, request: SampleRequest) -> Sample | SamplingRefusal:
        """Has a model write something, if the user wants that."""
        return SamplingRefusal("nobody is there to allow it")

    def roots(self) -> tuple[Path, ...]:
        """The folders that servers are to work in, absolute."""
        return ()

    async def open_login(self, server: str, url: str) -> None:
        """Shows the user the address at which to log in, or opens it."""

    def notify_change(self, server: str) -> None:
        """The state of a server is another one now."""

"""Handlers for requests and notifications from MCP servers. Sessions implement them. This module needs neither the SDK
nor a terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.base import ImageData

ClientService: TypeAlias = Literal["elicitation", "sampling", "roots"]

FieldValue: TypeAlias = str | int | float | bool | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class AcceptedAnswer:
    """The values that the user entered; empty if the user only had to open a URL."""

    content: Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class DeclinedAnswer:
    """The user declined."""


@dataclass(frozen=True, slots=True)
class DismissedAnswer:
    """The user closed the question without answering."""


ElicitationAnswer: TypeAlias = AcceptedAnswer | DeclinedAnswer | DismissedAnswer


@dataclass(frozen=True, slots=True)
class SamplingMessage:
    """A message in the conversation that a model is asked to continue."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[ImageData, ...] = ()


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """A server's request for a reply from a model."""

    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    system_prompt: str = ""
    stop_sequences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SamplingReply:
    """The model's reply."""

    text: str
    model: str
    stop_reason: Literal["endTurn", "stopSequence", "maxTokens"] = "endTurn"


@dataclass(frozen=True, slots=True)
class SamplingRefusal:
    """Why a request for a reply was refused."""

    reason: str


class ClientHandlers:
    """Handles requests from servers. This default has no user and offers no services; sessions override it. Text from
    servers is untrusted and must be sanitised before it is displayed."""

    services: frozenset[ClientService] = frozenset()
    """The services that are announced to servers. Requests for other services are not handled."""

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> ElicitationAnswer:
        """Ask the user to fill in a form with the schema's fields, or to open `url` if it is not empty."""
        return DismissedAnswer()

    async def sample(self, server: str, request: SamplingRequest) -> SamplingReply | SamplingRefusal:
        """Ask a model for a reply, if the user allows it."""
        return SamplingRefusal("no user is present to allow it")

    def roots(self) -> tuple[Path, ...]:
        """Return the folders that servers should work in, as absolute paths."""
        return ()

    async def open_login(self, server: str, url: str) -> None:
        """Show the login URL to the user, or open it."""

    def notify_change(self, server: str) -> None:
        """Called when the state of a server has changed."""

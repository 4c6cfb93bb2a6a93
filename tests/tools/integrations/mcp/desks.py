"""A desk for tests, which answers what it was told to and remembers what it was asked."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from ebbtide.tools.integrations.mcp.client_handlers import (
    ClientHandlers,
    ClientService,
    DismissedAnswer,
    ElicitationAnswer,
    SamplingRefusal,
    SamplingReply,
    SamplingRequest,
)


class RecordingDesk(ClientHandlers):
    def __init__(
        self,
        answer: ElicitationAnswer = DismissedAnswer(),  # noqa: B008  # a frozen value
        sample: SamplingReply | SamplingRefusal = SamplingRefusal("no"),  # noqa: B008  # a frozen value
        roots: tuple[Path, ...] = (),
        services: frozenset[ClientService] = frozenset({"elicitation", "sampling", "roots"}),
    ) -> None:
        self.services = services
        self.asked: list[object] = []
        self.news = asyncio.Event()
        self._answer = answer
        self._sample = sample
        self._roots = roots

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> ElicitationAnswer:
        self.asked.append((server, message, schema, url))
        return self._answer

    async def sample(self, server: str, request: SamplingRequest) -> SamplingReply | SamplingRefusal:
        self.asked.append((server, request))
        return self._sample

    def roots(self) -> tuple[Path, ...]:
        return self._roots

    async def open_login(self, server: str, url: str) -> None:
        self.asked.append((server, url))

    def notify_change(self, server: str) -> None:
        self.news.set()

"""Asks the user in a session whether to trust what the project contains: once, at the first turn, about everything."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Event
from ebbtide.agent.extensions.trust import FolderTrust, Standing, TrustItem, TrustRecord, Verdict
from ebbtide.agent.extensions.trust_question import (
    ALL,
    APPROVE,
    EACH,
    FOLDER_OPTIONS,
    LATER,
    NEVER,
    ONE_OPTIONS,
    folder_question,
    item_question,
    unapproved_notice,
)


class SessionTrust:
    """Trust in the project's extensions, for one session."""

    def __init__(self, config: Config, channel: Channel) -> None:
        self._trust = FolderTrust(config)
        self._channel = channel
        self._items: list[TrustItem] = []
        self._postponed: set[str] = set()
        """Digests of items that the user postponed."""
        self._is_told = not self._trust.problem
        self._followers: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def items(self) -> tuple[TrustItem, ...]:
        """All items that need approval, decided or not."""
        return tuple(self._items)

    def add(self, items: Sequence[TrustItem]) -> None:
        """Add the project's items among these; they are asked about in the next turn."""
        self._items += [item for item in items if item.owner == "project"]

    def follow(self, settle: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register a callback that runs after the user has decided outside a turn."""
        self._followers.append(settle)

    def standing(self, item: TrustItem) -> Standing:
        return self._trust.standing(item)

    @property
    def awaits(self) -> bool:
        """Whether there are items that the user has not been asked about."""
        return bool(self._waiting())

    def ask_now(self) -> AsyncGenerator[Event, None]:
        """Ask outside a turn; return the events. Raises `AgentError` while a turn runs."""

        async def ask() -> None:
            for settle in (self.settle, *self._followers):
                await self._channel.interrupt.race(settle())

        return self._channel.stream_turn(ask)

    async def settle(self) -> None:
        """Ask about all undecided items, at the start of a turn."""
        if not self._is_told:
            self._is_told = True
            self._channel.notice(f"your approvals for this project cannot be read: {self._trust.problem}")
        waiting = self._waiting()
        if not waiting:
            return
        if not self._channel.is_interactive:
            self._postpone(waiting)
            self._channel.notice(unapproved_notice([(item, self.standing(item)) for item in waiting]))
            return
        if len(waiting) > 1:
            answer = await self._answer(folder_question(self._with_before(waiting)), FOLDER_OPTIONS)
            if answer != EACH:
                self._decide(waiting, APPROVE if answer == ALL else answer)
                return
        for item, before in self._with_before(waiting):
            self._decide([item], await self._answer(item_question(item, before), ONE_OPTIONS))

    def forget(self, item: TrustItem) -> None:
        """Remove a decision; the next turn asks again. Raises `ConfigError`."""
        self._postponed.discard(item.digest)
        self._trust.forget([item.key])

    def decide(self, item: TrustItem, verdict: Verdict) -> None:
        """Store a decision without asking. Raises `ConfigError` if it could not be saved and applies to this session
        only."""
        self._trust.decide([item], verdict)

    def _waiting(self) -> list[TrustItem]:
        """The undecided items."""
        return [
            item
            for item in self._items
            if item.digest not in self._postponed and self.standing(item) in ("not approved", "changed")
        ]

    def _with_before(self, items: Sequence[TrustItem]) -> list[tuple[TrustItem, TrustRecord | None]]:
        return [(item, self._trust.before(item)) for item in items]

    def _postpone(self, items: Sequence[TrustItem]) -> None:
        self._postponed |= {item.digest for item in items}

    def _decide(self, items: Sequence[TrustItem], answer: str) -> None:
        if answer not in (APPROVE, NEVER):
            self._postpone(items)
            return
        try:
            self._trust.decide(items, "approved" if answer == APPROVE else "refused")
        except ConfigError as error:
            self._channel.notice(f"your approval applies to this session only: {error}")

    async def _answer(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer; `LATER` if there is none, for example between two turns."""
        if not self._channel.is_open:
            return LATER
        asked = self._channel.questions.ask_text(question, options, is_lasting=True, takes_words=False)
        return await self._channel.interrupt.race(asked) or LATER

"""What the user is asked in a session about what its project brings: once, at its first turn, about all of it."""

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
    """What of the project may be used in one session."""

    def __init__(self, config: Config, channel: Channel) -> None:
        self._trust = FolderTrust(config)
        self._channel = channel
        self._items: list[TrustItem] = []
        self._postponed: set[str] = set()
        """Digests of what the user did not want to decide about now."""
        self._is_told = not self._trust.problem
        self._followers: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def items(self) -> tuple[TrustItem, ...]:
        """All that is asked about, or was."""
        return tuple(self._items)

    def add(self, items: Sequence[TrustItem]) -> None:
        """Something that the project brings: it is asked about with the next turn."""
        self._items += [item for item in items if item.owner == "project"]

    def follow(self, settle: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Is called once the user has decided outside of a turn, for what has to be asked then."""
        self._followers.append(settle)

    def standing(self, item: TrustItem) -> Standing:
        return self._trust.standing(item)

    @property
    def awaits(self) -> bool:
        """Whether there is something that the user has not been asked about."""
        return bool(self._waiting())

    def ask_now(self) -> AsyncGenerator[Event, None]:
        """What happens while the user is asked, before anything is said. Raises `AgentError` while a turn runs."""

        async def ask() -> None:
            for settle in (self.settle, *self._followers):
                await self._channel.interrupt.race(settle())

        return self._channel.stream_turn(ask)

    async def settle(self) -> None:
        """At the start of a turn: asks about what nobody has decided, once for all of it."""
        if not self._is_told:
            self._is_told = True
            self._channel.notice(f"what you approved of this project cannot be read: {self._trust.problem}")
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
        """Takes back what was decided: it is asked with the next turn. Raises `ConfigError`."""
        self._postponed.discard(item.digest)
        self._trust.forget([item.key])

    def decide(self, item: TrustItem, verdict: Verdict) -> None:
        """Keeps what the user says without being asked. Raises `ConfigError` when it holds for this session only."""
        self._trust.decide([item], verdict)

    def _waiting(self) -> list[TrustItem]:
        """Those that nobody has decided about."""
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
            self._channel.notice(f"what you approved holds for this session only: {error}")

    async def _answer(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer; not now when there is none, as between two turns."""
        if not self._channel.is_open:
            return LATER
        asked = self._channel.questions.ask_text(question, options, is_lasting=True, takes_words=False)
        return await self._channel.interrupt.race(asked) or LATER

"""Asks the user whether to trust the project's extensions, once per session, in the first turn."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.events.session import Event
from ebbtide.agent.extensions.trust import ProjectTrust, TrustItem, TrustRecord, TrustState, TrustVerdict
from ebbtide.agent.extensions.trust_question import (
    APPROVE_OPTION,
    ASK_EACH_OPTION,
    ITEM_OPTIONS,
    POSTPONE_OPTION,
    PROJECT_OPTIONS,
    REFUSE_OPTION,
    TRUST_ALL_OPTION,
    build_item_question,
    build_project_question,
    build_unapproved_notice,
)


class SessionTrust:
    """Trust in the project's extensions, for one session."""

    def __init__(self, config: Config, channel: Channel) -> None:
        self._trust = ProjectTrust(config)
        self._channel = channel
        self._items: list[TrustItem] = []
        self._postponed_digests: set[str] = set()
        """Digests of the items on which the user has postponed the decision."""
        self._is_problem_reported = not self._trust.problem
        self._follow_up_callbacks: list[Callable[[], Coroutine[Any, Any, None]]] = []

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        """All items that need approval, decided or not."""
        return tuple(self._items)

    def add(self, items: Sequence[TrustItem]) -> None:
        """Add items. The next turn asks about those that belong to the project; others are ignored."""
        self._items += [item for item in items if item.owner == "project"]

    def add_follow_up(self, callback: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register a callback that asks further questions at the end of `ask_now`."""
        self._follow_up_callbacks.append(callback)

    def trust_state(self, item: TrustItem) -> TrustState:
        return self._trust.trust_state(item)

    @property
    def has_undecided_items(self) -> bool:
        """Whether there are undecided items that the user has not postponed."""
        return bool(self._undecided_items())

    def ask_now(self) -> AsyncGenerator[Event, None]:
        """Ask about undecided items outside a turn, and yield the events. Raises `AgentError` while a turn runs."""

        async def ask() -> None:
            for ask_next in (self.ask_about_items, *self._follow_up_callbacks):
                await self._channel.interrupt.race(ask_next())

        return self._channel.stream_turn(ask)

    async def ask_about_items(self) -> None:
        """Ask about all undecided items. Called at the start of a turn."""
        if not self._is_problem_reported:
            self._is_problem_reported = True
            self._channel.show_notice(f"your approvals for this project cannot be read: {self._trust.problem}")
        undecided_items = self._undecided_items()
        if not undecided_items:
            return
        if not self._channel.is_interactive:
            self._postpone(undecided_items)
            self._channel.show_notice(
                build_unapproved_notice([(item, self.trust_state(item)) for item in undecided_items])
            )
            return
        if len(undecided_items) > 1:
            answer = await self._ask_user(
                build_project_question(self._pair_with_approval(undecided_items)), PROJECT_OPTIONS
            )
            if answer != ASK_EACH_OPTION:
                self._apply_answer(undecided_items, APPROVE_OPTION if answer == TRUST_ALL_OPTION else answer)
                return
        for item, earlier_approval in self._pair_with_approval(undecided_items):
            self._apply_answer([item], await self._ask_user(build_item_question(item, earlier_approval), ITEM_OPTIONS))

    def forget(self, item: TrustItem) -> None:
        """Remove a decision, so that the next turn asks again. Raises `ConfigError`."""
        self._postponed_digests.discard(item.digest)
        self._trust.forget([item.key])

    def decide(self, item: TrustItem, verdict: TrustVerdict) -> None:
        """Store a decision without asking. Raises `ConfigError` if saving fails; the decision then applies to this
        session only."""
        self._trust.decide([item], verdict)

    def _undecided_items(self) -> list[TrustItem]:
        """Return the undecided items that the user has not postponed."""
        return [
            item
            for item in self._items
            if item.digest not in self._postponed_digests and self.trust_state(item) in ("not approved", "changed")
        ]

    def _pair_with_approval(self, items: Sequence[TrustItem]) -> list[tuple[TrustItem, TrustRecord | None]]:
        return [(item, self._trust.previous_approval(item)) for item in items]

    def _postpone(self, items: Sequence[TrustItem]) -> None:
        self._postponed_digests |= {item.digest for item in items}

    def _apply_answer(self, items: Sequence[TrustItem], answer: str) -> None:
        if answer not in (APPROVE_OPTION, REFUSE_OPTION):
            self._postpone(items)
            return
        try:
            self._trust.decide(items, "approved" if answer == APPROVE_OPTION else "refused")
        except ConfigError as error:
            self._channel.show_notice(f"your approval applies to this session only: {error}")

    async def _ask_user(self, question: str, options: tuple[str, ...]) -> str:
        """Return the user's answer, or `POSTPONE_OPTION` if there is no user to ask, for example between turns."""
        if not self._channel.can_ask:
            return POSTPONE_OPTION
        answer = self._channel.questions.ask_text(question, options, is_lasting=True, accepts_text=False)
        return await self._channel.interrupt.race(answer) or POSTPONE_OPTION

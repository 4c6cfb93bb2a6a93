"""The session that is shown, heard by the lines."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.events import Event
from tui.session.controller import SessionController
from tui.session.drafts import Drafts

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from agent.sessions import Sessions


@dataclass(frozen=True, slots=True)
class WantedAnswer:
    """What a command asks."""

    prompt: str
    answer: asyncio.Future[str]
    asked_at: float


class HeardController(SessionController):
    """A talk that also tells what happens in it."""

    def __init__(
        self, sessions: "Sessions", changed: Callable[[], None], drafts: Drafts | None, hear: Callable[[Event], None]
    ) -> None:
        super().__init__(sessions, changed, drafts)
        self._hear = hear

    def advance(self, event: Event) -> None:
        super().advance(event)
        self._hear(event)

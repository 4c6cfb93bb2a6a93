"""What commands act on. A desk knows the screen and the session, not what is done with them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from textual.app import App

from agent.config.settings import Settings
from tui.commands import Invocation
from tui.presenter import Presenter
from tui.session.controller import SessionController
from tui.theme_choice import ThemeChoice
from tui.widgets.prompt import PromptInput


class Send(Protocol):
    """Says a message at once, or with the next step of what runs; `later` only when that is over."""

    def __call__(self, text: str, *, later: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    app: App[Any]
    talk: SessionController
    showing: Presenter
    model: str | None
    """For new sessions, where no other was chosen."""
    send: Send
    invoke: Callable[[Invocation], None]
    """Does what a command asks for, at once or as the next job."""
    looks: ThemeChoice
    settings: Settings | None
    """None where nobody can change them."""
    leave: Callable[[], Awaitable[None]]
    """Ends all that runs, and the program."""

    @property
    def prompt(self) -> PromptInput:
        return self.app.query_one(PromptInput)

"""What commands act on, whichever terminal it is. A context knows the user and the session, not what is done with
them."""

from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Protocol

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.config.settings import Settings
from ebbtide.tui.commands import Invocation
from ebbtide.tui.session.compaction import ManualCompaction
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import Panel, RowChosen


class Themes(Protocol):
    """What the terminal wears."""

    chosen: ThemeName
    colorless: bool

    def apply_theme(self, name: ThemeName) -> None: ...


class CommandContext(Protocol):
    @property
    def controller(self) -> SessionController: ...
    @property
    def model(self) -> str | None:
        """For new sessions, where no other was chosen."""

    @property
    def settings(self) -> Settings | None:
        """None where nobody can change them."""

    @property
    def looks(self) -> Themes | None:
        """None where there are no colours."""

    # What is said and asked

    async def show(self, panel: Panel) -> RowChosen | None:
        """What the user takes from a list; None where it was only looked at."""

    async def confirm(self, question: str, lines: Sequence[Line], yes: str) -> bool:
        """Whether the user wants it. `yes`: what that does, in a word or two."""

    def hint(self, text: str) -> None:
        """Says it for a moment."""

    def write(self, text: str) -> None:
        """Lets the user go on with a text in the prompt, in the place of what is there."""

    def insert(self, text: str) -> None:
        """The same, where the prompt is written on."""

    def show_session(self) -> None:
        """Shows the session that is open now, which is another one than before."""

    # What is begun and ended

    def send(self, text: str, *, later: bool = False) -> None:
        """Says a message at once, or with the next step of what runs; `later` only when that is over."""

    def invoke(self, invocation: Invocation) -> None:
        """Does what a command asks for, at once or as the next job."""

    def leave(self) -> Awaitable[None]:
        """Ends all that runs, and the program."""

    # What each terminal does in its own way

    async def show_help(self) -> None: ...
    async def show_palette(self) -> None:
        """Everything that can be done."""

    async def show_context(self) -> None:
        """What the window holds."""

    async def steer(self, written: str) -> None:
        """Does what was written after `/context`. Raises `AgentError`."""

    async def compact(self, by_hand: ManualCompaction) -> None:
        """A compaction, step by step."""

    async def find_message(self) -> None:
        """A message that was written before."""

    async def edit_message(self, text: str) -> None:
        """The message in the user's editor. Raises `AgentError`."""

    async def edit_file(self, path: Path) -> None:
        """A file in the user's editor. What went wrong is told."""

    async def switch_vim(self) -> None: ...
    def copy(self, text: str) -> None: ...
    async def print_conversation(self) -> None: ...
    def apply_setting(self, key: str) -> None:
        """A setting has become another: does what holds at once."""

"""The interface between commands and the front ends."""

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
    """Themes of a front end."""

    chosen: ThemeName
    colorless: bool

    def apply_theme(self, name: ThemeName) -> None: ...


class CommandContext(Protocol):
    @property
    def controller(self) -> SessionController: ...
    @property
    def model(self) -> str | None:
        """The model for new sessions, unless another is chosen."""

    @property
    def settings(self) -> Settings | None:
        """None if settings cannot be changed."""

    @property
    def looks(self) -> Themes | None:
        """None without colours."""

    # Output and questions

    async def show(self, panel: Panel) -> RowChosen | None:
        """Show a panel and return what was chosen; None if nothing was."""

    async def confirm(self, question: str, lines: Sequence[Line], yes: str) -> bool:
        """Ask for confirmation. `yes`: what yes does, in a word or two."""

    def hint(self, text: str) -> None:
        """Show a hint for a moment."""

    def write(self, text: str) -> None:
        """Replace the text of the prompt."""

    def insert(self, text: str) -> None:
        """Insert a text into the prompt at the cursor."""

    def show_session(self) -> None:
        """Show the session that is open now, after a switch."""

    # Starting and stopping work

    def send(self, text: str, *, later: bool = False) -> None:
        """Send a message at once, or with the next step of the running turn; `later` only after the turn."""

    def invoke(self, invocation: Invocation) -> None:
        """Run a command, at once or as the next job."""

    def leave(self) -> Awaitable[None]:
        """Stop all work and exit."""

    # Commands that each front end implements itself

    async def show_help(self) -> None: ...
    async def show_palette(self) -> None:
        """Show the command palette."""

    async def show_context(self) -> None:
        """Show the context."""

    async def steer(self, written: str) -> None:
        """Run the action typed after `/context`. Raises `AgentError`."""

    async def compact(self, by_hand: ManualCompaction) -> None:
        """Run a manual compaction, step by step."""

    async def find_message(self) -> None:
        """Search the prompt history."""

    async def edit_message(self, text: str) -> None:
        """Edit the message in the user's editor. Raises `AgentError`."""

    async def edit_file(self, path: Path) -> None:
        """Edit a file in the user's editor. Errors are shown."""

    async def switch_vim(self) -> None: ...
    def copy(self, text: str) -> None: ...
    async def print_conversation(self) -> None: ...
    def apply_setting(self, key: str) -> None:
        """Apply a changed setting that takes effect immediately."""

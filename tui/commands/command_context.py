"""The interface between slash commands and front ends."""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from ebbtide.agent.config.options import ThemeName
from ebbtide.agent.config.settings import Settings
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.slash_commands import Invocation
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import Panel, RowChosen

if TYPE_CHECKING:  # loads with the first compaction
    from ebbtide.tui.session.compaction import ManualCompaction


class SendMessage(Protocol):
    def __call__(self, text: str, *, later: bool = False) -> None: ...


class ThemeSwitcher(Protocol):
    """The themes of a front end."""

    chosen_theme: ThemeName
    is_colorless: bool

    def apply_theme(self, name: ThemeName) -> None: ...


class CommandContext(Protocol):
    @property
    def controller(self) -> SessionController: ...
    @property
    def model(self) -> str | None:
        """The model for new sessions unless the user chooses another."""

    @property
    def settings(self) -> Settings | None:
        """The settings; None if they cannot be changed."""

    @property
    def themes(self) -> ThemeSwitcher | None:
        """The themes; None if there is no colour."""

    @property
    def keys(self) -> Sequence[KeyBinding]:
        """The keys of the front end, for `/help` and the palette."""

    async def run_action(self, action: str) -> None:
        """Run a key's Textual action."""

    # Output and questions

    async def show(self, panel: Panel) -> RowChosen | None:
        """Show a panel. Returns the chosen row, or None if none was chosen."""

    async def confirm(self, question: str, lines: Sequence[Line], confirm_label: str) -> bool:
        """Ask for confirmation. `confirm_label`: one or two words that say what confirming does."""

    def show_hint(self, text: str) -> None:
        """Show a hint briefly."""

    def set_prompt_text(self, text: str) -> None:
        """Replace the text of the prompt."""

    def insert_in_prompt(self, text: str) -> None:
        """Insert text into the prompt at the cursor."""

    def show_session(self) -> None:
        """Display the session that the controller has switched to."""

    # Starting and stopping work

    def send(self, text: str, *, later: bool = False) -> None:
        """Send a message at once or, during a turn, with the turn's next step. With `later`, send it after the turn."""

    def invoke(self, invocation: Invocation) -> None:
        """Run a command at once or as the next job."""

    def exit(self) -> Awaitable[None]:
        """Stop all work and exit."""

    # Commands that differ between front ends

    async def show_context(self) -> None:
        """Show what fills the context window."""

    async def edit_context(self, action_text: str) -> None:
        """Run the action typed after `/context`. Raises `AgentError`."""

    async def compact(self, compaction: "ManualCompaction") -> None:
        """Run a manual compaction step by step."""

    async def search_history(self) -> None:
        """Search the prompt history."""

    async def edit_message(self, text: str) -> None:
        """Edit the message in the user's editor. Raises `AgentError`."""

    async def edit_text(self, text: str, name: str) -> str:
        """Let the user edit text in their editor, in a file whose name ends in `name`. Returns the new text. Raises
        `AgentError`."""

    async def toggle_vim_keys(self) -> None: ...
    def copy(self, text: str) -> None: ...
    async def print_conversation(self) -> None: ...
    def apply_setting(self, key: str) -> None:
        """Apply a changed setting if it takes effect immediately."""

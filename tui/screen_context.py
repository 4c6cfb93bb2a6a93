"""The command context of the full-screen app."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import App, SuspendNotSupported

from ebbtide.agent.config.options import ContextStyle
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tui import screens, session, terminal, view, widgets
from ebbtide.tui.commands.command_context import SendMessage
from ebbtide.tui.keys import KEYS, KeyBinding
from ebbtide.tui.presenter import Presenter
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.slash_commands import Invocation
from ebbtide.tui.terminal.terminal_features import released_terminal
from ebbtide.tui.text.spans import Line
from ebbtide.tui.theme_choice import ThemeManager
from ebbtide.tui.view.panel import Panel, RowChosen
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:  # loads with the first compaction
    from ebbtide.tui.session.compaction import ManualCompaction

# Screens are imported when first shown, so that the prompt appears sooner.


@dataclass(frozen=True, slots=True)
class ScreenContext:
    """The `CommandContext` of the full-screen app."""

    app: App[Any]
    controller: SessionController
    presenter: Presenter
    model: str | None
    send: SendMessage
    invoke: Callable[[Invocation], None]
    themes: ThemeManager
    settings: Settings | None
    exit: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        for key in ("tui.panel", "tui.animation", "tui.detail", "tui.thoughts"):
            self.apply_setting(key)

    @property
    def prompt(self) -> PromptInput:
        return self.app.query_one(PromptInput)

    @property
    def keys(self) -> Sequence[KeyBinding]:
        return KEYS

    async def run_action(self, action: str) -> None:
        owner, _, name = action.rpartition(".")
        await self.app.run_action(name, self.app.screen_stack[0] if owner == "main" else self.app)

    async def show(self, panel: Panel) -> RowChosen | None:
        """Show a panel. Does nothing if a panel with the same name is already shown."""
        screen = self.app.screen
        is_open = isinstance(screen, screens.panel.PanelScreen) and screen.panel.name == panel.name
        if is_open or (panel.waits_for_main_screen and len(self.app.screen_stack) > 1):
            return None
        return await self.app.push_screen_wait(screens.panel.PanelScreen(panel))

    async def confirm(self, question: str, lines: Sequence[Line], confirm_label: str) -> bool:
        return (
            await screens.question.ask_question(
                self.app, view.questions.build_confirmation(question, lines, confirm_label)
            )
            is True
        )

    def show_hint(self, text: str) -> None:
        self.presenter.show_hint(text)

    def set_prompt_text(self, text: str) -> None:
        self.prompt.set_text(text)

    def insert_in_prompt(self, text: str) -> None:
        self.prompt.insert(text)

    def show_session(self) -> None:
        self.presenter.show_session()

    async def show_context(self) -> None:
        if self.controller.session is not None:
            components = await screens.context.load_components(self.controller, self.controller.session.id)
            if not isinstance(self.app.screen, screens.context.ContextScreen):
                set_style = self._set_context_style if self.settings is not None else None
                self.app.push_screen(screens.context.ContextScreen(self.controller, components, set_style))

    def _set_context_style(self, style: ContextStyle) -> str:
        """Set the context style, in this session and in later ones, and return a message. Raises `AgentError`."""
        assert self.settings is not None
        message = self.settings.set_value("context.style", style)
        self.apply_setting("context.style")
        return message

    async def edit_context(self, action_text: str) -> None:
        await session.view_edits.run_typed_action(self.controller, action_text)

    async def compact(self, compaction: "ManualCompaction") -> None:
        await self.app.push_screen_wait(screens.compaction.CompactionScreen(compaction))

    async def search_history(self) -> None:
        if self.app.query(widgets.history_search.HistorySearchBar) or not self.prompt.has_focus:
            return
        search_bar = widgets.history_search.HistorySearchBar(self.prompt.prompt_history.entries())
        await self.app.mount(search_bar, before=self.prompt)
        search_bar.prepend_text(self.prompt.take_typeahead())
        message = await search_bar.result
        await search_bar.remove()
        self.prompt.focus()
        if message:
            self.set_prompt_text(message)

    async def edit_message(self, _: str) -> None:
        collapsed_text = self.prompt.text
        pastes = self.controller.pastes
        text = await self.edit_text(pastes.expand(collapsed_text), "message.md")
        self.set_prompt_text(pastes.collapse_unchanged(text.rstrip("\n"), collapsed_text))

    async def edit_text(self, text: str, name: str) -> str:
        return await terminal.editor_screen.edit_while_running(self.app, text, name)

    async def toggle_vim_keys(self) -> None:
        key_style = "usual" if self.prompt.uses_vim else "vim"
        self.prompt.set_vim_enabled(key_style == "vim")
        if self.settings is not None:
            try:
                self.show_hint(self.settings.set_value("tui.keys", key_style))
            except AgentError as error:
                self.controller.show_notice(str(error))

    def copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)

    async def print_conversation(self) -> None:
        app = self.app
        try:
            with released_terminal(app):
                blocks = self.controller.view.blocks
                await terminal.scrollback.print_blocks(
                    blocks, app.size.width, is_dark=app.current_theme.dark, is_colorless=app.no_color
                )
        except SuspendNotSupported:
            self.controller.show_notice("no scrollback here; open the session in a terminal")

    def apply_setting(self, key: str) -> None:
        if self.settings is None:
            return
        config = self.settings.config
        match key:
            case "context.style":
                self.controller.set_style(config.context_style)
            case "tui.theme":
                self.themes.apply_theme(config.tui_theme)
            case "tui.panel":
                self.presenter.has_panel = config.tui_panel
            case "tui.animation":
                self.presenter.is_animated = config.tui_animation
            case "tui.keys":
                self.prompt.set_vim_enabled(config.tui_keys == "vim")
            case "tui.detail":
                self.app.query_one(TranscriptView).set_detail(config.tui_detail)
            case "tui.thoughts":
                self.app.query_one(TranscriptView).set_detail(thoughts=config.tui_thoughts)

    async def play_demo(self) -> None:
        """Suspend the app while the demo plays."""
        try:
            with released_terminal(self.app), terminal.edit_text.ignore_interrupt_keys():
                await asyncio.to_thread(session.demo.show_demo, None)
        except SuspendNotSupported:
            self.controller.show_notice("the demo needs a terminal: run `ebb demo`")

"""The command context of the full-screen app."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Protocol

from textual.app import App, SuspendNotSupported

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands import COMMANDS, Invocation, parse
from ebbtide.tui.keys import KEYS
from ebbtide.tui.presenter import Presenter
from ebbtide.tui.session.compaction import ManualCompaction
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.terminal.attention import suspended
from ebbtide.tui.text.spans import Line
from ebbtide.tui.theme_choice import ThemeChoice
from ebbtide.tui.view.panel import Panel, RowChosen
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.transcript import TranscriptView

# Screens and what only they need are loaded when they are first shown: the prompt is there sooner without them.


class Send(Protocol):
    def __call__(self, text: str, *, later: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class ScreenContext:
    """A `CommandContext` for the full-screen app."""

    app: App[Any]
    controller: SessionController
    showing: Presenter
    model: str | None
    send: Send
    invoke: Callable[[Invocation], None]
    looks: ThemeChoice
    settings: Settings | None
    leave: Callable[[], Awaitable[None]]

    def __post_init__(self) -> None:
        for key in ("tui.panel", "tui.animation", "tui.detail"):
            self.apply_setting(key)
        self.apply_setting("tui.thoughts")

    @property
    def prompt(self) -> PromptInput:
        return self.app.query_one(PromptInput)

    async def show(self, panel: Panel) -> RowChosen | None:
        """Show a panel, unless the same one is already on the screen."""
        from ebbtide.tui.screens.panel import PanelScreen  # noqa: PLC0415  # deferred: see above

        shown = self.app.screen
        is_shown = isinstance(shown, PanelScreen) and shown.panel.name == panel.name
        if is_shown or (panel.is_alone and len(self.app.screen_stack) > 1):
            return None
        return await self.app.push_screen_wait(PanelScreen(panel))

    async def confirm(self, question: str, lines: Sequence[Line], yes: str) -> bool:
        from ebbtide.tui.screens.question import answer_to  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.view.questions import panel_to_confirm  # noqa: PLC0415  # deferred: see above

        return await answer_to(self.app, panel_to_confirm(question, lines, yes)) is True

    def hint(self, text: str) -> None:
        self.showing.show_hint(text)

    def write(self, text: str) -> None:
        self.prompt.set_text(text)

    def insert(self, text: str) -> None:
        self.prompt.insert(text)

    def show_session(self) -> None:
        self.showing.session()

    async def show_help(self) -> None:
        from ebbtide.tui.view.help import help_panel  # noqa: PLC0415  # deferred: see above

        if taken := await self.show(help_panel(KEYS, COMMANDS)):
            self.write(f"{taken.value} ")

    async def show_palette(self) -> None:
        from ebbtide.tui.view.command_palette import palette_entries, palette_panel  # noqa: PLC0415  # deferred: see above

        sessions = self.controller.sessions
        entries = palette_entries(COMMANDS, KEYS, await sessions.recent(), sessions.models(), time())
        if taken := await self.show(palette_panel(entries)):
            await self._run_chosen(taken.value)

    async def _run_chosen(self, chosen: str) -> None:
        """Run the chosen command. If it needs an argument, put it into the prompt."""
        kind, _, action = chosen.partition(":")
        invocation = parse(chosen)
        if kind == "action":
            home, _, name = action.rpartition(".")
            await self.app.run_action(name, self.app.screen_stack[0] if home == "main" else self.app)
        elif isinstance(invocation, Invocation):
            if invocation.command.hint.isupper() and not invocation.argument:
                self.write(f"{chosen} ")
            else:
                self.invoke(invocation)

    async def show_context(self) -> None:
        from ebbtide.tui.screens.context import ContextScreen, components_here  # noqa: PLC0415  # deferred: see above

        if self.controller.session is not None:
            components = await components_here(self.controller, self.controller.session.id)
            if not isinstance(self.app.screen, ContextScreen):
                self.app.push_screen(ContextScreen(self.controller, components))

    async def steer(self, written: str) -> None:
        from ebbtide.tui.session.view_edits import carry_out_written  # noqa: PLC0415  # deferred: see above

        await carry_out_written(self.controller, written)

    async def compact(self, by_hand: ManualCompaction) -> None:
        from ebbtide.tui.screens.compaction import CompactionScreen  # noqa: PLC0415  # deferred: see above

        await self.app.push_screen_wait(CompactionScreen(by_hand))

    async def find_message(self) -> None:
        from ebbtide.tui.widgets.history_search import HistorySearchBar  # noqa: PLC0415  # deferred: see above

        if self.app.query(HistorySearchBar) or not self.prompt.has_focus:
            return
        past = HistorySearchBar(self.prompt.past.entries())
        await self.app.mount(past, before=self.prompt)
        past.seek(self.prompt.take_typed_ahead())
        taken = await past.taken
        await past.remove()
        self.prompt.focus()
        if taken:
            self.write(taken)

    async def edit_message(self, _: str) -> None:
        from ebbtide.tui.terminal.editor_screen import edited_meanwhile  # noqa: PLC0415  # deferred: see above

        before, pastes = self.prompt.text, self.controller.pastes
        try:
            text = await edited_meanwhile(self.app, pastes.unfold(before), "message.md")
        except AgentError as error:
            self.controller.notice(str(error))
        else:
            self.write(pastes.folded_again(text.rstrip("\n"), before))

    async def edit_file(self, path: Path) -> None:
        from ebbtide.tui.terminal.edit_file import edit_file  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.terminal.editor_screen import edited_meanwhile  # noqa: PLC0415  # deferred: see above

        try:
            told = await edit_file(path, lambda text: edited_meanwhile(self.app, text, path.name))
        except AgentError as error:
            told = str(error)
        self.controller.notice(told)

    async def switch_vim(self) -> None:
        keys = "usual" if self.prompt.uses_vim else "vim"
        self.prompt.use_vim(keys == "vim")
        if self.settings is not None:
            try:
                self.hint(self.settings.set_value("tui.keys", keys))
            except AgentError as error:
                self.controller.notice(str(error))

    def copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)

    async def print_conversation(self) -> None:
        from ebbtide.tui.terminal.scrollback import print_all  # noqa: PLC0415  # deferred: few take it out

        app = self.app
        try:
            with suspended(app):
                blocks = self.controller.view.blocks
                await print_all(blocks, app.size.width, dark=app.current_theme.dark, colorless=app.no_color)
        except SuspendNotSupported:
            self.controller.notice("there is no scrollback to print into here; open the session in a terminal")

    def apply_setting(self, key: str) -> None:
        if self.settings is not None and key == "tui.theme":
            self.looks.apply_theme(self.settings.config.tui_theme)
        if self.settings is not None and key == "tui.panel":
            self.showing.has_panel = self.settings.config.tui_panel
        if self.settings is not None and key == "tui.animation":
            self.showing.is_animated = self.settings.config.tui_animation
        if self.settings is not None and key == "tui.keys":
            self.prompt.use_vim(self.settings.config.tui_keys == "vim")
        if self.settings is not None and key == "tui.detail":
            self.app.query_one(TranscriptView).show_in(self.settings.config.tui_detail)
        if self.settings is not None and key == "tui.thoughts":
            self.app.query_one(TranscriptView).show_in(thoughts=self.settings.config.tui_thoughts)

    async def play_demo(self) -> None:
        """Suspend the app, play the demo and return."""
        from ebbtide.tui.session.demo import show_demo  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.terminal.edit_text import ignore_interrupt_keys  # noqa: PLC0415  # deferred: see above

        try:
            with suspended(self.app), ignore_interrupt_keys():
                await asyncio.to_thread(show_demo, None)
        except SuspendNotSupported:
            self.controller.notice("the demo needs a terminal: `ebb demo` plays it in one")

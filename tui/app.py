"""The full-screen app: connects the widgets to one session. Most of the work is done by the classes imported here."""

import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App
from textual.binding import BindingType

from ebbtide import tui
from ebbtide.tui import session
from ebbtide.tui.bindings import bindings
from ebbtide.tui.jobs import AppJobs
from ebbtide.tui.prompt.double_press import DoublePress, ExitAction, ExitKeys
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import ANSWER_GUARD_S
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.screens.main import MainScreen
from ebbtide.tui.session.completion import SessionPromptCompleter
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.slash_commands import Invocation, command_by_name
from ebbtide.tui.startup import FirstSession, load_sessions
from ebbtide.tui.terminal.terminal_features import TerminalFeatures
from ebbtide.tui.terminal.typed_text import with_text_key
from ebbtide.tui.theme_choice import ThemeManager, driver_class
from ebbtide.tui.typeahead import TypeaheadFilter
from ebbtide.tui.widgets.caret import CaretApp
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:  # session and command modules load only after the first paint
    from ebbtide.agent.compose.sessions import ProjectSessions
    from ebbtide.agent.config.options import KeyBindingStyle, NotificationMethod, StatusPart, ThemeName
    from ebbtide.agent.config.settings import Settings
    from ebbtide.tui.screen_context import ScreenContext
    from ebbtide.tui.session.controller import SessionController
    from ebbtide.tui.terminal.size_query import SizeMismatch
    from ebbtide.tui.terminal.terminal_driver import BackgroundColor


class EbbApp(CaretApp, App[str]):
    """The full-screen app. `run` returns the session's id, if the session has any messages.

    After its first paint the app calls `sessions`, if that is a function, and opens a session: the one named by
    `resume`, one chosen from a list (`chooses_from_list`), or a new one, using `model` if given. It then sends
    `first_message`. With `resume_may_be_word`, `resume` becomes the first word of that message if it matches no session
    id. If the first session cannot be opened, the app exits with the error in `jobs.opening_error`.

    Prompt history is stored in `history_file` under `project`, and messages still queued on exit are saved in `drafts`.
    The app closes every session that it shows; the caller closes `sessions`. `guard_s`: how many seconds must pass
    without a key before a key counts as an answer. `theme` and `key_style` apply from the first paint. `notify`: how to
    notify the user when the terminal is not focused. `status_parts`: parts of the status line. `settings` returns the
    settings of this run, if the user may change them.
    """

    CSS_PATH = "app.tcss"
    TITLE = "Ebbtide"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self,
        sessions: "ProjectSessions | Callable[[], ProjectSessions]",
        *,
        history_file: Path | None = None,
        project: Path | None = None,
        resume: str | None = None,
        resume_may_be_word: bool = False,
        chooses_from_list: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        guard_s: float = ANSWER_GUARD_S,
        theme: "ThemeName" = "dark",
        key_style: "KeyBindingStyle" = "usual",
        drafts: Drafts | None = None,
        notify: "NotificationMethod" = "off",
        status_parts: "tuple[StatusPart, ...] | None" = None,
        settings: "Callable[[], Settings] | None" = None,
    ) -> None:
        no_color = os.environ.get("NO_COLOR", "")
        super().__init__(driver_class=driver_class(), ansi_color=True if no_color else None)
        if no_color:
            os.environ["NO_COLOR"] = no_color  # Textual removes it, but child processes need it
        self.animation_level = "none"
        self.theme_manager = ThemeManager(self, theme, bool(no_color))
        self.terminal_features = TerminalFeatures(self, notify, lambda: self.controller.title)
        first_session = FirstSession(resume, resume_may_be_word, chooses_from_list, model, first_message or "")
        self.jobs = AppJobs(self, first_session, partial(load_sessions, sessions), lambda: self.context)
        self._sessions, self._drafts, self._settings = sessions, drafts, settings
        self._typeahead_filter = TypeaheadFilter(self, lambda: self.main_screen.prompt, guard_s)
        self._pastes = Pastes()
        self._key_style = key_style
        self._history = History(history_file, str(project or ""))
        self._exit_keys, self._rewind_keys = ExitKeys(), DoublePress()
        self._status_parts = status_parts

    @cached_property
    def context(self) -> "ScreenContext":
        """The command context. Created on first use, because its imports would delay the first paint."""
        self.stylesheet.read(Path(__file__).with_name("dialogs.tcss"))  # deferred until a dialog may open
        controller = session.controller.SessionController(
            load_sessions(self._sessions), lambda: presenter.schedule.request(), self._drafts, self._pastes
        )
        dialogs = tui.dialogs.QuestionDialogs(self, controller.answer, self.jobs.interrupt)
        view_callbacks = (dialogs.update, self.terminal_features.update, lambda view: self.main_screen.todos.show(view))
        presenter = tui.presenter.Presenter(self, controller, view_callbacks)
        if self._status_parts is not None:
            presenter.status_parts = self._status_parts
        settings = self._settings() if self._settings is not None else None
        jobs = self.jobs
        jobs.greeter.settings = settings
        presenter.greeter = jobs.greeter
        return tui.screen_context.ScreenContext(
            self,
            controller,
            presenter,
            jobs.first_session.model,
            jobs.send,
            jobs.invoke,
            self.theme_manager,
            settings,
            jobs.exit,
        )

    @property
    def controller(self) -> "SessionController":
        return self.context.controller

    def get_default_screen(self) -> MainScreen:
        return MainScreen(
            self._history,
            SessionPromptCompleter(lambda: self.controller.session if self.jobs.is_session_open else None),
            self._pastes,
            lambda: self.controller.queue,
            lambda text: self.controller.unsent_text.save_in_progress(text) if self.jobs.is_session_open else None,
            starts_in_vim_mode=self._key_style == "vim",
            starts_with_new_session=self.jobs.first_session.begins_empty,
        )

    @property
    def main_screen(self) -> MainScreen:
        """The main screen, which is at the bottom of the stack."""
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def on_mount(self) -> None:
        if self._driver is not None:
            self.theme_manager.query_background(self._driver.write)
            self._typeahead_filter.watch_driver(self._driver)
        self.terminal_features.restore_after_suspension()
        self.theme_changed_signal.subscribe(self, lambda _: self._recolor())
        self.call_after_refresh(self._typeahead_filter.release_early_events)
        self.call_after_refresh(self.jobs.start_first_job)

    def _recolor(self) -> None:
        if self.jobs.is_loaded:
            self.context.presenter.recolor()

    async def on_event(self, event: events.Event) -> None:
        """Handle an event. Drops keys typed before a question appeared. Also drops mouse events outside the screen,
        which can occur while it shrinks and would clear the focus."""
        event = with_text_key(event)
        self.terminal_features.handle_event(event)
        if self._typeahead_filter.consume_event(event):
            return
        if isinstance(event, events.MouseEvent) and not self.size.region.contains(int(event.x), int(event.y)):
            return
        await super().on_event(event)

    async def on_unmount(self) -> None:
        if self.jobs.is_session_open:
            await self.controller.close()

    @property
    def is_working(self) -> bool:
        """Whether a job is running, or the result of the last one has not been drawn yet."""
        return self.jobs.is_busy or self.context.presenter.schedule.is_due

    def on_size_mismatch(self, message: "SizeMismatch") -> None:
        self.jobs.greeter.size_notice = message.message_text
        if self.jobs.is_session_open:
            self.controller.show_notice(message.message_text)

    def on_background_color(self, message: "BackgroundColor") -> None:
        self.theme_manager.set_background(message.tone)

    # User actions

    @on(PromptInput.Submitted)
    def _handle_submitted(self, message: PromptInput.Submitted) -> None:
        self.jobs.handle_input(message.text)

    def action_command(self, name: str, argument: str = "") -> None:
        """Run a command by name. Used by key bindings."""
        self.jobs.invoke(Invocation(command_by_name(name), argument))

    @on(PromptInput.Changed)
    def _prepare_turn(self) -> None:
        if self.jobs.is_session_open:
            self.context.presenter.prepare_turn()

    @on(PromptInput.HintRequested)
    def _show_hint(self, message: PromptInput.HintRequested) -> None:
        self.context.presenter.show_hint(message.text)

    def action_escape(self) -> None:
        if self.jobs.is_busy:
            self.jobs.interrupt()
        elif self.controller.view.blocks and not self.query_one(PromptInput).text:
            if self._rewind_keys.press():
                self.action_command("rewind")
            else:
                self.context.presenter.show_hint("press Esc again to go back to an earlier message")

    def action_suspend(self) -> None:
        if not self.terminal_features.suspend():
            self.context.presenter.show_hint("no shell to suspend to")

    @on(TranscriptView.OlderMessagesRequested)
    async def _load_older_messages(self) -> None:
        self.run_worker(self.controller.load_older_messages(), group="earlier")

    @on(TranscriptPane.SearchOpened)
    async def _load_all_messages(self) -> None:
        self.run_worker(self.controller.load_older_messages(load_all=True), group="earlier")

    @on(events.TextSelected)
    def _show_copy_hint(self) -> None:
        self.context.presenter.show_hint("Ctrl-C to copy")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text in every way that this terminal supports, and report the result."""
        self._clipboard = text
        self.terminal_features.copy(text, self.context.presenter.show_hint)

    def action_copy_or_leave(self) -> None:
        selected = self.screen.get_selected_text() or self.main_screen.prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            return
        has_open_question = self._is_session_busy and bool(self.controller.view.open_questions)
        is_over_main = self.screen is not self.main_screen and not has_open_question
        # Ctrl-C goes to the open question unless the prompt has focus.
        is_for_prompt = self.main_screen.prompt.has_focus or not has_open_question
        clears_prompt = not is_over_main and is_for_prompt and bool(self.main_screen.prompt.text)
        exit_action = self._exit_keys.press_ctrl_c(
            has_text=clears_prompt, is_running=self._is_session_busy and not is_over_main
        )
        if is_over_main and exit_action == "warn":
            self.simulate_key("escape")  # closes the list, so that the hint is visible
        self._run_exit_action(exit_action, "Ctrl-C")

    def action_leave(self) -> None:
        self._run_exit_action(self._exit_keys.press_ctrl_d(is_running=self._is_session_busy), "Ctrl-D")

    @property
    def _is_session_busy(self) -> bool:
        return self.jobs.is_session_open and self.controller.is_busy

    def _run_exit_action(self, exit_action: ExitAction, key: str) -> None:
        match exit_action:
            case "clear":
                self.main_screen.prompt.stash()
                self.context.presenter.show_hint("Up restores it")
            case "stop":
                self.jobs.interrupt()
            case "warn":
                self.context.presenter.show_hint(f"press {key} again to exit")
            case "leave":
                self.main_screen.prompt.restore_stash()  # the unsent text is then saved
                self.run_worker(self.jobs.exit(), group="aside")

"""The full-screen app: widgets around one session. It delegates all work to its parts."""

import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App
from textual.binding import BindingType

from ebbtide.tui.bindings import bindings
from ebbtide.tui.commands import Invocation, command_named
from ebbtide.tui.jobs import Jobs
from ebbtide.tui.prompt.double_press import DoublePress, LeaveKeys, LeaveMeaning
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.key_arrivals import GUARD
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.screens.main import MainScreen
from ebbtide.tui.session.completion import SessionPromptCompleter
from ebbtide.tui.session.drafts import Drafts
from ebbtide.tui.startup import FirstSession, load_sessions
from ebbtide.tui.terminal.attention import Attention
from ebbtide.tui.terminal.typed_text import as_typed
from ebbtide.tui.theme_choice import ThemeChoice, driver_class
from ebbtide.tui.typeahead import TypeAhead
from ebbtide.tui.widgets.caret import CaretApp
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:  # types only: what a session and its commands are made of is loaded behind the first paint
    from ebbtide.agent.config.options import KeysName, NotifyName, StatusPart, ThemeName
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.sessions import Sessions
    from ebbtide.tui.screen_context import ScreenContext
    from ebbtide.tui.session.controller import SessionController
    from ebbtide.tui.terminal.colour_query import BackgroundColour
    from ebbtide.tui.terminal.size_query import SizeMismatch


class EbbApp(CaretApp, App[str]):
    """The full-screen app. Returns the id of the session to resume, if it has any messages.

    After its first paint it calls `sessions`, if that is a function, and opens a session: the one named by `resume`,
    one chosen from a list (`choose`), or a new one, with `model` if given. `first_message` is sent once it is open;
    with `may_be_word`, `resume` is the first word of the message if it matches no session id. If the first session
    cannot be opened, the app exits and `jobs.refused` has the error. Prompt history is stored in `history_file` under
    `project`. The app closes every session that it shows; the caller closes `sessions`. `guard`: minimum seconds
    without a key before a key counts as an answer. `theme` and `keys` apply from the first paint. Queued messages are
    saved in `drafts` on exit. `notify`: how to notify an unfocused user. `status`: parts of the status line. `settings`
    returns the settings of this run, if the user may change them.
    """

    CSS_PATH = "app.tcss"
    TITLE = "Ebbtide"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self,
        sessions: "Sessions | Callable[[], Sessions]",
        *,
        history_file: Path | None = None,
        project: Path | None = None,
        resume: str | None = None,
        may_be_word: bool = False,
        choose: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        guard: float = GUARD,
        theme: "ThemeName" = "dark",
        keys: "KeysName" = "usual",
        drafts: Drafts | None = None,
        notify: "NotifyName" = "off",
        status: "tuple[StatusPart, ...] | None" = None,
        settings: "Callable[[], Settings] | None" = None,
    ) -> None:
        colorless = os.environ.get("NO_COLOR", "")
        super().__init__(driver_class=driver_class(), ansi_color=True if colorless else None)
        if colorless:
            os.environ["NO_COLOR"] = colorless  # Textual takes it away, but what we start is to know it, too
        self.animation_level = "none"
        self.looks = ThemeChoice(self, theme, bool(colorless))
        self.outside = Attention(self, notify, lambda: self.controller.name)
        first = FirstSession(resume, may_be_word, choose, model, first_message or "")
        self.jobs = Jobs(self, first, partial(load_sessions, sessions), lambda: self.context)
        self._sessions, self._drafts, self._settings = sessions, drafts, settings
        self._type_ahead = TypeAhead(self, lambda: self.main.prompt, guard)
        self._pastes, self._keys = Pastes(), keys
        self._history = History(history_file, str(project or ""))
        self._leaving, self._rewinding = LeaveKeys(), DoublePress()
        self._status = status

    @cached_property
    def context(self) -> "ScreenContext":
        """The command context, created on first use: it imports too much for the first paint."""
        from ebbtide.tui.dialogs import Dialogs  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.presenter import Presenter  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.screen_context import ScreenContext  # noqa: PLC0415  # deferred: see above
        from ebbtide.tui.session.controller import SessionController  # noqa: PLC0415  # deferred: see above

        self.stylesheet.read(Path(__file__).with_name("dialogs.tcss"))  # before the first of them, and not sooner
        controller = SessionController(
            load_sessions(self._sessions), lambda: showing.schedule_drawing(), self._drafts, self._pastes
        )
        asking = Dialogs(self, controller.answer, self.jobs.interrupt)
        drawn = (asking.show, self.outside.show, lambda view: self.main.todos.show(view))
        showing = Presenter(self, controller, drawn)
        if self._status is not None:
            showing.wanted = self._status
        settings = self._settings() if self._settings is not None else None
        jobs = self.jobs
        jobs.greeter.settings, showing.greeter = settings, jobs.greeter
        return ScreenContext(
            self, controller, showing, jobs.first.model, jobs.send, jobs.invoke, self.looks, settings, jobs.leave
        )

    @property
    def controller(self) -> "SessionController":
        return self.context.controller

    def get_default_screen(self) -> MainScreen:
        return MainScreen(
            self._history,
            SessionPromptCompleter(lambda: self.controller.session if self.jobs.is_open else None),
            self._pastes,
            lambda: self.controller.queue,
            lambda text: self.controller.unsent.save_in_progress(text) if self.jobs.is_open else None,
            vim=self._keys == "vim",
        )

    @property
    def main(self) -> MainScreen:
        """The main screen, at the bottom of the stack."""
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def on_mount(self) -> None:
        if self._driver is not None:
            self.looks.ask(self._driver.write)
            self._type_ahead.attend(self._driver)
        self.outside.attend()
        self.theme_changed_signal.subscribe(self, lambda _: self._recolor())
        self.call_after_refresh(self.jobs.begin)

    def _recolor(self) -> None:
        if self.jobs.is_loaded:
            self.context.showing.recolor()

    async def on_event(self, event: events.Event) -> None:
        """Filter all events: drop keys typed before a question appeared, and mouse events outside the screen
        (possible while it shrinks), which would clear the focus."""
        event = as_typed(event)
        self.outside.saw(event)
        if self._type_ahead.consumes(event):
            return
        if isinstance(event, events.MouseEvent) and not self.size.region.contains(int(event.x), int(event.y)):
            return
        await super().on_event(event)

    async def on_unmount(self) -> None:
        if self.jobs.is_open:
            await self.controller.close()

    @property
    def is_working(self) -> bool:
        """Whether a job is running or its result is not drawn yet."""
        return self.jobs.is_busy or self.context.showing.is_behind

    def on_size_mismatch(self, message: "SizeMismatch") -> None:
        self.jobs.greeter.told = message.message_text
        if self.jobs.is_open:
            self.controller.notice(message.message_text)

    def on_background_colour(self, message: "BackgroundColour") -> None:
        self.looks.set_ground(message.ground)

    # What the user does

    @on(PromptInput.Submitted)
    def _take_submitted(self, message: PromptInput.Submitted) -> None:
        self.jobs.take(message.text)

    def action_command(self, name: str, argument: str = "") -> None:
        """Run the command of that name; for key bindings."""
        self.jobs.invoke(Invocation(command_named(name), argument))

    @on(PromptInput.HintRequested)
    def _show_hint(self, message: PromptInput.HintRequested) -> None:
        self.context.showing.show_hint(message.text)

    def action_escape(self) -> None:
        if self.jobs.is_busy:
            self.jobs.interrupt()
        elif self.controller.view.blocks and not self.query_one(PromptInput).text:
            if self._rewinding.again():
                self.action_command("rewind")
            else:
                self.context.showing.show_hint("Esc again goes back to an earlier message")

    def action_suspend(self) -> None:
        if not self.outside.suspend():
            self.context.showing.show_hint("no shell to come back from")

    @on(TranscriptView.OlderMessagesRequested)
    async def _read_earlier(self) -> None:
        self.run_worker(self.controller.read_earlier(), group="earlier")

    @on(TranscriptPane.SearchOpened)
    async def _read_all_earlier(self) -> None:
        self.run_worker(self.controller.read_earlier(all=True), group="earlier")

    @on(events.TextSelected)
    def _hint_at_copy(self) -> None:
        self.context.showing.show_hint("Ctrl-C copies")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy by every method that this terminal supports, and report the result."""
        self._clipboard = text
        self.outside.copy(text, self.context.showing.show_hint)

    def action_copy_or_leave(self) -> None:
        selected = self.screen.get_selected_text() or self.main.prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            return
        is_asked = self._works and bool(self.controller.view.asked)
        is_list = self.screen is not self.main and not is_asked
        is_meant = self.main.prompt.has_focus or not is_asked  # at a question it is for that, unless one writes
        is_written = not is_list and is_meant and bool(self.main.prompt.text)
        meant = self._leaving.ctrl_c(is_written=is_written, works=self._works and not is_list)
        if is_list and meant == "warn":
            self.simulate_key("escape")  # and what is said is seen
        self._leave(meant, "Ctrl-C")

    def action_leave(self) -> None:
        self._leave(self._leaving.ctrl_d(works=self._works), "Ctrl-D")

    @property
    def _works(self) -> bool:
        return self.jobs.is_open and self.controller.occupied

    def _leave(self, meant: LeaveMeaning, key: str) -> None:
        match meant:
            case "clear":
                self.main.prompt.stash()
                self.context.showing.show_hint("Up brings it back")
            case "stop":
                self.jobs.interrupt()
            case "warn":
                self.context.showing.show_hint(f"{key} again leaves")
            case "leave":
                self.main.prompt.restore_stash()  # what is not sent is kept for the next time
                self.run_worker(self.jobs.leave(), group="aside")

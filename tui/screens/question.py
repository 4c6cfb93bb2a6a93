"""Shows a question above the prompt, or over another screen."""

import asyncio
from collections.abc import Callable
from typing import Any

from textual import events
from textual.app import App, ComposeResult

from ebbtide.tui.screens.main import MainScreen
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuardedDialog
from ebbtide.tui.view.question import Answer, QuestionSpec
from ebbtide.tui.widgets.question_panel import QuestionPanel


class AskingScreen(TypeaheadGuardedDialog[None]):
    """A screen with the question panel at its lower edge."""

    AUTO_FOCUS = ""
    CSS = """
    AskingScreen { align: left bottom; }
    """

    def __init__(self, spec: QuestionSpec, answered: Callable[[Answer | None], None], place: str = "") -> None:
        super().__init__()
        self.panel = QuestionPanel(spec, answered, self._room, place)

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.panel.take_focus()

    def _room(self, is_whole: bool) -> int:
        return self.size.height

    def on_resize(self) -> None:
        self.panel.fit()

    @property
    def has_text_focus(self) -> bool:
        return self.panel.has_text_focus

    def accepts_key(self, key: events.Key) -> bool:
        return self.panel.accepts_key(key)

    def insert_key(self, key: events.Key) -> bool:
        return self.panel.write(key)


class QuestionDisplay:
    """A displayed question: above the prompt, or over another screen."""

    def __init__(
        self, app: App[Any], spec: QuestionSpec, answered: Callable[[Answer | None], None], place: str
    ) -> None:
        """`answered` is called with the answer, or None for Esc."""
        self._answered = answered
        self._main: MainScreen | None = None
        self._over: AskingScreen | None = None
        main = app.screen_stack[0]
        if isinstance(main, MainScreen) and len(app.screen_stack) == 1 and main.question is None:
            self._main = main
            self._panel = main.ask(spec, self._give, place)
        else:
            self._over = AskingScreen(spec, self._give, place)
            self._panel = self._over.panel
            app.push_screen(self._over)

    def show_position(self, place: str) -> None:
        """Show the position among several questions."""
        self._panel.show_position(place)

    @property
    def can_close(self) -> bool:
        """Whether it can be removed now: no other screen is above it."""
        return self._over is None or self._over.is_current

    def close(self) -> None:
        if self._main is not None:
            self._main.remove_question()
        elif self._over is not None:
            self._over.dismiss()

    def _give(self, answer: Answer | None) -> None:
        self.close()
        self._answered(answer)


async def answer_to(app: App[Any], spec: QuestionSpec) -> Answer | None:
    """Ask and return the answer; None for Esc."""
    waiting: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def answered(answer: Answer | None) -> None:
        if not waiting.done():
            waiting.set_result(answer)

    shown = QuestionDisplay(app, spec, answered, "")
    try:
        return await waiting
    finally:
        if not waiting.done():
            shown.close()

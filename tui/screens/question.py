"""Shows a question above the prompt or over another screen."""

import asyncio
from collections.abc import Callable
from typing import Any

from textual import events
from textual.app import App, ComposeResult

from ebbtide.tui.screens.main import MainScreen
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuardedDialog
from ebbtide.tui.view.question import Answer, QuestionSpec
from ebbtide.tui.widgets.question_panel import QuestionPanel


class QuestionScreen(TypeaheadGuardedDialog[None]):
    """A screen with the question panel at the bottom."""

    AUTO_FOCUS = ""
    CSS = """
    QuestionScreen { align: left bottom; }
    """

    def __init__(self, spec: QuestionSpec, on_answer: Callable[[Answer | None], None], position_text: str = "") -> None:
        super().__init__()
        self.panel = QuestionPanel(spec, on_answer, self._lines_for_question, position_text)

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_mount(self) -> None:
        self.panel.take_focus()

    def _lines_for_question(self, is_full: bool) -> int:
        return self.size.height

    def on_resize(self) -> None:
        self.panel.fit_to_screen()

    @property
    def has_text_focus(self) -> bool:
        return self.panel.has_text_focus

    def accepts_key(self, key: events.Key) -> bool:
        return self.panel.accepts_key(key)

    def insert_key(self, key: events.Key) -> bool:
        return self.panel.insert_key(key)


class QuestionDisplay:
    """A question that is shown above the prompt or over another screen."""

    def __init__(
        self, app: App[Any], spec: QuestionSpec, on_answer: Callable[[Answer | None], None], position_text: str
    ) -> None:
        """`on_answer` is called with the answer, or with None on Esc."""
        self._on_answer = on_answer
        self._main_screen: MainScreen | None = None
        self._screen: QuestionScreen | None = None
        main_screen = app.screen_stack[0]
        if isinstance(main_screen, MainScreen) and len(app.screen_stack) == 1 and main_screen.question is None:
            self._main_screen = main_screen
            self._panel = main_screen.show_question(spec, self._report_answer, position_text)
        else:
            self._screen = QuestionScreen(spec, self._report_answer, position_text)
            self._panel = self._screen.panel
            app.push_screen(self._screen)

    def show_position(self, position_text: str) -> None:
        """Show the question's position among several."""
        self._panel.show_position(position_text)

    @property
    def can_close(self) -> bool:
        """Whether the question can be removed now. It cannot if another screen is above it."""
        return self._screen is None or self._screen.is_current

    def close(self) -> None:
        if self._main_screen is not None:
            self._main_screen.remove_question()
        elif self._screen is not None:
            self._screen.dismiss()

    def _report_answer(self, answer: Answer | None) -> None:
        self.close()
        self._on_answer(answer)


async def ask_question(app: App[Any], spec: QuestionSpec) -> Answer | None:
    """Ask the question. Returns the answer, or None on Esc."""
    future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def set_answer(answer: Answer | None) -> None:
        if not future.done():
            future.set_result(answer)

    display = QuestionDisplay(app, spec, set_answer, "")
    try:
        return await future
    finally:
        if not future.done():
            display.close()

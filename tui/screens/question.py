"""A question on the screen: above the prompt, or over whatever other screen is shown."""

import asyncio
from collections.abc import Callable
from typing import Any

from textual import events
from textual.app import App, ComposeResult

from tui.screens.guarded import GuardedScreen
from tui.screens.main import MainScreen
from tui.view.question import Answer, QuestionSpec
from tui.widgets.question_panel import QuestionPanel


class AskingScreen(GuardedScreen[None]):
    """It holds the panel at its lower edge."""

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
    def is_written_in(self) -> bool:
        return self.panel.is_written_in

    def means(self, key: events.Key) -> bool:
        return self.panel.means(key)

    def wrote(self, key: events.Key) -> bool:
        return self.panel.write(key)


class Shown:
    """A question that is on the screen: above the prompt, or over another screen."""

    def __init__(
        self, app: App[Any], spec: QuestionSpec, answered: Callable[[Answer | None], None], place: str
    ) -> None:
        """`answered` is given the answer, or None where Esc was pressed."""
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

    def stands(self, place: str) -> None:
        """Says which of several questions it is."""
        self._panel.stands(place)

    @property
    def can_go(self) -> bool:
        """Whether it can be taken away now: no other screen is over it."""
        return self._over is None or self._over.is_current

    def take_away(self) -> None:
        if self._main is not None:
            self._main.has_asked()
        elif self._over is not None:
            self._over.dismiss()

    def _give(self, answer: Answer | None) -> None:
        self.take_away()
        self._answered(answer)


async def answer_to(app: App[Any], spec: QuestionSpec) -> Answer | None:
    """What the user answers; None where Esc was pressed."""
    waiting: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def answered(answer: Answer | None) -> None:
        if not waiting.done():
            waiting.set_result(answer)

    shown = Shown(app, spec, answered, "")
    try:
        return await waiting
    finally:
        if not waiting.done():
            shown.take_away()

"""The content of a reference, page by page, with its line numbers in a heading."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static
from textual.worker import Worker

from ebbtide.agent.archive.listing import ContentPage
from ebbtide.agent.errors import AgentError
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.styles import palette_of
from ebbtide.tui.view.panel import PagedTexts


class Pages(Vertical):
    """Loads and shows pages."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: PagedTexts | None = None
        self._ref = ""
        self._page = ContentPage((), 1, 0)
        self._holding = ""
        """The text to find, until found."""
        self._reading: Worker[None] | None = None
        self.settled = False
        """Whether the content last requested is on the screen."""

    def compose(self) -> ComposeResult:
        yield Static(id="what", markup=False)
        yield Static(id="content", markup=False)

    @property
    def lines(self) -> int:
        """The number of lines that fit."""
        return max(1, self.query_one("#content").size.height)

    def show(self, texts: PagedTexts, ref: str, holding: str = "") -> None:
        """Show the start of a referenced content, or the place of a text in it."""
        self._texts = texts
        self._page = ContentPage((), 1, 0)
        self._load_page(ref, 1, holding)

    def turn(self, lines: int) -> None:
        """Scroll by that many lines."""
        if self._ref:
            self._load_page(self._ref, max(1, self._page.first + lines))

    def on_resize(self) -> None:
        """Adapt to the new size."""
        if self._ref:
            self._load_page(self._ref, self._page.first, self._holding)

    def refit(self) -> None:
        """Adapt to the current size."""
        self.call_after_refresh(self.turn, 0)

    def _load_page(self, ref: str, first: int, holding: str = "") -> None:
        async def show() -> None:  # not begun yet: the worker may be cancelled before it starts
            await self._show(ref, first, holding)

        self._ref, self._holding, self.settled = ref, holding, False
        self._reading = self.run_worker(show, group="page", exclusive=True)

    async def _show(self, ref: str, first: int, holding: str) -> None:
        palette = palette_of(self.app.theme_variables)
        assert self._texts is not None
        try:
            if holding:
                first = max(1, await self._texts.line_of(ref, holding) - 1)
            self._page = await self._texts.page(ref, first, self.lines)
        except AgentError as error:
            self._show_loaded(ref, Text(sanitised(str(error)), palette.warn))
        else:
            self._holding = ""
            text = "\n".join(sanitised_line(line) for line in self._page.lines)
            self._show_loaded(place_of(ref, self._page), Text(text, palette.text, no_wrap=True, overflow="ellipsis"))

    def _show_loaded(self, what: str, content: Text) -> None:
        palette = palette_of(self.app.theme_variables)
        self.query_one("#what", Static).update(Text(what, palette.dim))
        self.query_one("#content", Static).update(content)
        self.settled = True


def place_of(ref: str, page: ContentPage) -> str:
    """The heading: reference and line numbers."""
    last = page.first + len(page.lines) - 1
    if not page.lines:
        return f"{ref}  empty"
    if last == page.first:
        return f"{ref}  line {last:,} of {page.total:,}"
    return f"{ref}  lines {page.first:,}-{last:,} of {page.total:,}"

"""Stored content shown page by page. The heading contains the line numbers."""

from functools import partial

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from ebbtide.agent.archive.listing import ContentPage
from ebbtide.agent.errors import AgentError
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.view.panel import ContentSource
from ebbtide.tui.widgets.worker import start_worker


class Pages(Vertical):
    """Loads stored content and shows it page by page."""

    def __init__(self) -> None:
        super().__init__()
        self._source: ContentSource | None = None
        self._ref = ""
        self._page = ContentPage((), 1, 0)
        self._text_to_find = ""
        """Text to look for in the content; empty once found."""
        self.is_settled = False
        """Whether the content that was last requested is visible."""

    def compose(self) -> ComposeResult:
        yield Static(id="what", markup=False)
        yield Static(id="content", markup=False)

    @property
    def page_height(self) -> int:
        """The number of lines that fit into the view."""
        return max(1, self.query_one("#content").size.height)

    def show(self, source: ContentSource, ref: str, contained_text: str = "") -> None:
        """Show the start of the referenced content, or the page that contains `contained_text`."""
        self._source = source
        self._page = ContentPage((), 1, 0)
        self._load_page(ref, 1, contained_text)

    def scroll_lines(self, line_count: int) -> None:
        """Scroll down by that many lines, or up if negative."""
        if self._ref:
            self._load_page(self._ref, max(1, self._page.first_line + line_count))

    def on_resize(self) -> None:
        """Load as many lines as fit now."""
        if self._ref:
            self._load_page(self._ref, self._page.first_line, self._text_to_find)

    def fit_to_size(self) -> None:
        """After the next layout, load as many lines as fit."""
        self.call_after_refresh(self.scroll_lines, 0)

    def _load_page(self, ref: str, first_line: int, contained_text: str = "") -> None:
        self._ref, self._text_to_find, self.is_settled = ref, contained_text, False
        start_worker(self, partial(self._load_and_show, ref, first_line, contained_text), "page", cancels_earlier=True)

    async def _load_and_show(self, ref: str, first_line: int, contained_text: str) -> None:
        palette = get_palette(self.app.theme_variables)
        assert self._source is not None
        try:
            if contained_text:
                first_line = max(1, await self._source.find_line(ref, contained_text) - 1)
            self._page = await self._source.page(ref, first_line, self.page_height)
        except AgentError as error:
            self._show_loaded(ref, Text(sanitise(str(error)), palette.warn))
        else:
            self._text_to_find = ""
            text = "\n".join(sanitise_line(line) for line in self._page.lines)
            self._show_loaded(
                page_heading(ref, self._page), Text(text, palette.text, no_wrap=True, overflow="ellipsis")
            )

    def _show_loaded(self, heading: str, content: Text) -> None:
        palette = get_palette(self.app.theme_variables)
        self.query_one("#what", Static).update(Text(heading, palette.dim))
        self.query_one("#content", Static).update(content)
        self.is_settled = True


def page_heading(ref: str, page: ContentPage) -> str:
    """Format the heading: the reference and which lines are shown."""
    last_line = page.first_line + len(page.lines) - 1
    if not page.lines:
        return f"{ref}  empty"
    if last_line == page.first_line:
        return f"{ref}  line {last_line:,} of {page.line_count:,}"
    return f"{ref}  lines {page.first_line:,}-{last_line:,} of {page.line_count:,}"

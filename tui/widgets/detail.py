"""The details of a list's marked row: lines, paged text or a diff."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import get_palette, wrapped_text
from ebbtide.tui.text.unified_diff import parse_diff
from ebbtide.tui.view.panel import DiffText, LoadedText, PagedText, PanelContent, PanelRow, row_details
from ebbtide.tui.widgets.diff_view import DiffView
from ebbtide.tui.widgets.pages import Pages
from ebbtide.tui.widgets.worker import Loading


class Detail(Vertical):
    """The details of a row. Content that is already shown is not loaded again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: PanelContent = None
        self._row_value = ""
        self._loading_worker = Loading(self, lambda error: self.show_lines([((sanitise(str(error)), "warn"),)]))

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="about", can_focus=False):
            yield Static(id="said", markup=False)
        yield Pages()
        yield DiffView(id="diff")

    def on_mount(self) -> None:
        self._diff.can_focus = False
        self._pages.display = self._diff.display = False

    @property
    def is_settled(self) -> bool:
        """Whether the content that was last requested is visible."""
        return self._loading_worker.is_finished and (self._pages.is_settled or not self._pages.display)

    def show(self, row: PanelRow, *, scrolls_to_end: bool = False) -> None:
        """Show the details of a row. `scrolls_to_end`: whether to scroll to their last line."""
        if not isinstance(row.content, LoadedText):
            self.show_lines(row_details(row))
        if row.content is None or row.content != self._content:
            self._show_content(row.content)
        if row.value != self._row_value or scrolls_to_end:
            self.call_after_refresh(
                self._details.scroll_end if scrolls_to_end else self._details.scroll_home, animate=False
            )
        self._row_value = row.value

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show these lines above the content."""
        self.query_one("#said", Static).update(wrapped_text(lines, get_palette(self.app.theme_variables)))
        self._details.display = bool(lines)

    def scroll_lines(self, line_count: int) -> None:
        """Scroll down by that many lines, or up if negative."""
        if self._pages.display:
            self._pages.scroll_lines(line_count)
        else:
            self._details.scroll_relative(y=line_count, animate=False)

    def scroll_page(self, direction: int) -> None:
        """Scroll one page down (1) or up (-1)."""
        if self._diff.display:
            (self._diff.scroll_page_down if direction > 0 else self._diff.scroll_page_up)(animate=False)
        else:
            self.scroll_lines(
                direction * (self._pages.page_height if self._pages.display else max(1, self._details.size.height - 1))
            )

    def process_key(self, key: str) -> bool:
        """Handle a key of the diff view. Returns whether it did anything."""
        if not self._diff.display:
            return False
        match key:
            case "n" | "p":
                self._diff.next_change(1 if key == "n" else -1)
            case "space":
                self.scroll_page(1)
            case "home" | "end":
                (self._diff.scroll_home if key == "home" else self._diff.scroll_end)(animate=False)
            case "m":
                self._diff.action_more()
            case _:
                return False
        return True

    def fit_to_size(self) -> None:
        """Fit the content to the current size."""
        self._pages.fit_to_size()

    def _show_content(self, content: PanelContent) -> None:
        self._content = content
        self._pages.display, self._diff.display = isinstance(content, PagedText), isinstance(content, DiffText)
        match content:
            case PagedText(source, ref, contained_text):
                self._pages.show(source, ref, contained_text)
            case DiffText(text, no_difference_text):
                self._diff.show_diff(parse_diff(text)) if text else self._diff.show_code(no_difference_text, "")
            case LoadedText(load, arguments):
                self._loading_worker.start("load", partial(self._load, partial(load, *arguments)))
            case None:
                pass

    async def _load(self, load: Callable[[], Awaitable[Sequence[Line]]]) -> None:
        self.show_lines(await load())

    @property
    def _details(self) -> VerticalScroll:
        return self.query_one("#about", VerticalScroll)

    @property
    def _pages(self) -> Pages:
        return self.query_one(Pages)

    @property
    def _diff(self) -> DiffView:
        return self.query_one(DiffView)

"""The subject of a question as a scrollable widget: code, a diff, arguments, Markdown or plain text."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.tui.render.diff_rows import without_blank_edges
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import get_palette, wrapped_text
from ebbtide.tui.text.unified_diff import parse_diff
from ebbtide.tui.view.call_titles import argument_lines
from ebbtide.tui.view.question import Subject
from ebbtide.tui.widgets.diff_view import DiffView
from ebbtide.tui.widgets.markdown_view import MarkdownView


def create_subject_widget(subject: Subject, *, id: str) -> Widget:
    """Create a widget for the subject. It cannot be focused, and its `get_content_height` returns the height of the
    content."""
    match subject.kind:
        case "code" | "diff" | "arguments":
            return _CodeView(subject, id=id)
        case "markdown":
            return MarkdownView(subject.text, id=id)
        case "text" | "lines":
            return _TextView(subject, id=id)


def scroll_subject(view: Widget, key: str) -> None:
    """Depending on the key, scroll the widget by a page, scroll it to one end, or show more of it."""
    if isinstance(view, _CodeView):
        view.has_scrolled = True
    page_height = max(1, view.size.height - 1)
    match key:
        case "home":
            view.scroll_home(animate=False)
        case "end":
            view.scroll_end(animate=False)
        case "m":
            if isinstance(view, DiffView):
                view.action_more()
        case _:
            view.scroll_relative(y=-page_height if key == "pageup" else page_height, animate=False)


def show_change(view: Widget, index: int) -> None:
    """Scroll a diff to one of its changes."""
    if isinstance(view, _CodeView):
        view.has_scrolled = True
        view.scroll_to_change(index)


class _CodeView(DiffView, can_focus=False):
    """Code, a diff or arguments. Long content is cut off."""

    def __init__(self, subject: Subject, *, id: str) -> None:
        super().__init__(id=id)
        self.set_class(subject.kind == "code", "code")
        self._subject = subject
        self.has_scrolled = False
        """Whether the user has scrolled. If so, resizing does not scroll to the change."""

    def on_resize(self) -> None:
        super().on_resize()
        if self._subject.kind == "diff" and not self.has_scrolled:
            self.scroll_to_change()  # if only few lines fit, show the change

    def on_mount(self) -> None:
        subject = self._subject
        match subject.kind:
            case "diff":
                self.show_diff(
                    tuple(map(without_blank_edges, parse_diff(subject.text))), is_named=subject.is_named_in_headline
                )
            case "arguments":
                self.show_code("\n".join(argument_lines(subject.arguments)), "yaml")
            case _:
                self.show_code(subject.text, subject.language, subject.marks)


class _TextView(VerticalScroll, can_focus=False):
    """Plain or styled text."""

    def __init__(self, subject: Subject, *, id: str) -> None:
        super().__init__(id=id)
        self._subject = subject

    def compose(self) -> ComposeResult:
        yield Static(self._subject_text)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.query_one(Static).update(self._subject_text))

    @property
    def _subject_text(self) -> Text:
        palette = get_palette(self.app.theme_variables)
        if self._subject.kind == "text":
            return Text(sanitise(self._subject.text), palette.text)
        return wrapped_text(self._subject.lines, palette)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        text = self._subject_text
        return len(text.wrap(self.app.console, max(1, width - 1))) if text.plain else 0

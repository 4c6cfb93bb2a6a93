"""The subject of a question as a scrollable widget: code, a diff, arguments, Markdown or text."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.tui.render.diff_rows import without_blank_ends
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.styles import palette_of, wrapped_text
from ebbtide.tui.text.unified_diff import files_of
from ebbtide.tui.view.call_titles import argument_lines
from ebbtide.tui.view.question import Subject
from ebbtide.tui.widgets.diffview import DiffView
from ebbtide.tui.widgets.markdown_view import MarkdownView


def subject_view(subject: Subject, *, id: str) -> Widget:
    """A widget without focus whose `get_content_height` is the height of its content."""
    match subject.kind:
        case "code" | "diff" | "arguments":
            return _Code(subject, id=id)
        case "markdown":
            return MarkdownView(subject.text, id=id)
        case "words" | "lines":
            return _Words(subject, id=id)


def read_on(view: Widget, key: str) -> None:
    """Scroll the widget by a key: a page, to an end, or show more."""
    if isinstance(view, _Code):
        view.is_read = True
    page = max(1, view.size.height - 1)
    match key:
        case "home":
            view.scroll_home(animate=False)
        case "end":
            view.scroll_end(animate=False)
        case "m":
            if isinstance(view, DiffView):
                view.action_more()
        case _:
            view.scroll_relative(y=-page if key == "pageup" else page, animate=False)


class _Code(DiffView, can_focus=False):
    """Code, a diff, or arguments, cut if long."""

    def __init__(self, subject: Subject, *, id: str) -> None:
        super().__init__(id=id)
        self.set_class(subject.kind == "code", "code")
        self._subject = subject
        self.is_read = False
        """Whether the user has scrolled: then the position is kept."""

    def on_resize(self) -> None:
        super().on_resize()
        if self._subject.kind == "diff" and not self.is_read:
            self.to_change()  # few lines are for what is asked, not for what stands before it

    def on_mount(self) -> None:
        subject = self._subject
        match subject.kind:
            case "diff":
                self.show_diff(tuple(map(without_blank_ends, files_of(subject.text))), is_named=subject.is_named)
            case "arguments":
                self.show_code("\n".join(argument_lines(subject.arguments)), "yaml")
            case _:
                self.show_code(subject.text, subject.language, subject.marks)


class _Words(VerticalScroll, can_focus=False):
    """Text or lines."""

    def __init__(self, subject: Subject, *, id: str) -> None:
        super().__init__(id=id)
        self._subject = subject

    def compose(self) -> ComposeResult:
        yield Static(self._subject_text)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.query_one(Static).update(self._subject_text))

    @property
    def _subject_text(self) -> Text:
        palette = palette_of(self.app.theme_variables)
        if self._subject.kind == "words":
            return Text(sanitised(self._subject.text), palette.text)
        return wrapped_text(self._subject.lines, palette)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        said = self._subject_text
        return len(said.wrap(self.app.console, max(1, width - 1))) if said.plain else 0

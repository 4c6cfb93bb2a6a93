"""A text area that keeps text exactly as typed and draws it safely."""

from collections.abc import Mapping, Sequence
from typing import overload

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.document._document import Document, EditResult  # the document that every text area uses
from textual.document._document_navigator import DocumentNavigator
from textual.document._wrapped_document import WrappedDocument
from textual.expand_tabs import expand_tabs_inline
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import TextAreaTheme

from ebbtide.tui.text.graphemes import grapheme_end, grapheme_start
from ebbtide.tui.text.sanitise import normalise_paste, with_control_pictures

TextPosition = tuple[int, int]
"""Line and column, both from 0."""
_ACTION_BY_KEY: Mapping[str, str] = {
    "alt+left": "cursor_word_left", "alt+right": "cursor_word_right", "alt+b": "cursor_word_left",
    "alt+f": "cursor_word_right", "alt+shift+left": "cursor_word_left(True)", "alt+d": "delete_word_right",
    "alt+shift+right": "cursor_word_right(True)", "ctrl+delete": "delete_word_right",
    "shift+backspace": "delete_left", "shift+delete": "delete_right", "super+left": "cursor_line_start",
    "super+right": "cursor_line_end",
}  # fmt: skip
"""Keys that work in shells and terminals but that Textual ignores."""


class _LineFeedDocument(Document):
    """A document with line breaks only at line feeds. Textual would also split at Unicode line separators, and these
    would be lost."""

    def __init__(self, text: str) -> None:
        self._newline = "\n"
        self._lines = text.split("\n")

    def replace_range(self, start: TextPosition, end: TextPosition, text: str) -> EditResult:
        (top, left), (bottom, right) = sorted((start, end))
        replaced_text = self.get_text_range((top, left), (bottom, right))
        prefix = self._lines[top][:left] if top < len(self._lines) else ""
        suffix = self._lines[bottom][right:] if bottom < len(self._lines) else ""
        *new_lines, last_line = (prefix + text).split("\n")
        self._lines[top : bottom + 1] = [*new_lines, last_line + suffix]
        return EditResult((top + len(new_lines), len(last_line)), replaced_text)


class _RenderedLines(Sequence[str]):
    """The lines as they are drawn, computed on demand."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return (
            with_control_pictures(self._lines[index])
            if isinstance(index, int)
            else [with_control_pictures(line) for line in self._lines[index]]
        )


class _DrawnDocument(_LineFeedDocument):
    """A document as it is drawn, for measuring and wrapping. It has the same columns as the original."""

    def __init__(self, document: Document) -> None:
        self._newline = "\n"
        self._lines = _RenderedLines(document.lines)  # type: ignore[assignment]  # it is only read


class _Navigator(DocumentNavigator):
    """Moves the cursor over characters as they are drawn."""

    def get_location_left(self, location: TextPosition) -> TextPosition:
        row, column = location
        if not column:
            return super().get_location_left(location)
        return row, grapheme_start(self._document.get_line(row), column)

    def get_location_right(self, location: TextPosition) -> TextPosition:
        row, column = location
        line = self._document.get_line(row)
        return (row, grapheme_end(line, column)) if column < len(line) else super().get_location_right(location)


class TextBox(TextArea):
    """A text area that returns exactly what was typed."""

    _styled_theme: TextAreaTheme | None = None
    """The theme, once its colours have been taken from the styles."""

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styled_theme = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines. Textual would take the colours from the styles for every frame, which takes as long as all else
        that a typed letter needs."""
        if self._styled_theme is not None and self._styled_theme is self._theme:
            return ScrollView.render_lines(self, crop)
        self._styled_theme = self._theme
        return super().render_lines(crop)

    def _set_document(self, text: str, language: str | None) -> None:
        self._highlight_query = None
        self.document = _LineFeedDocument(text)
        self.wrapped_document = WrappedDocument(_DrawnDocument(self.document), tab_width=self.indent_width)
        self.navigator = _Navigator(self.wrapped_document)
        self._build_highlight_map()
        self.move_cursor((0, 0))
        self._rewrap_and_refresh_virtual_size()

    def get_line(self, line_index: int) -> Text:
        return Text(with_control_pictures(self.document.get_line(line_index)), end="", no_wrap=True)

    def get_column_width(self, row: int, column: int) -> int:
        return cell_len(
            expand_tabs_inline(with_control_pictures(self.document.get_line(row))[:column], self.indent_width)
        )

    async def _on_key(self, event: events.Key) -> None:
        action = _ACTION_BY_KEY.get(event.key)
        if action is not None and not self.read_only:
            event.stop()
            event.prevent_default()
            await self.run_action(action)

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        if not self.read_only:
            self.paste(normalise_paste(event.text))

    def paste(self, text: str) -> None:
        """Insert text at the cursor, replacing the selection."""
        self.replace(text, *self.selection, maintain_selection_offset=False)

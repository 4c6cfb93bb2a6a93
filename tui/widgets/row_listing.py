"""The list of a panel."""

from rich.text import Text

from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.panel import PanelRow, row_line
from ebbtide.tui.widgets.listing import Listing


class RowListing(Listing):
    """A panel's rows. Headings are never marked."""

    rows: tuple[PanelRow, ...] = ()

    @property
    def marked_row(self) -> PanelRow | None:
        index = self.marked_index
        return self.rows[index] if index < len(self.rows) and not self.rows[index].is_heading else None

    def show_rows(self, rows: tuple[PanelRow, ...], value: str, *, is_new: bool) -> None:
        """Show these rows and mark the row with this value. `is_new`: whether to start at the top if no row has the
        value."""
        self.rows = rows

        def paint(index: int, width: int) -> Text:
            return clipped_text([row_line(rows[index], width)], get_palette(self.app.theme_variables))

        (self.show if is_new else self.replace_lines)(len(rows), paint)
        row_index = next((index for index, row in enumerate(rows) if row.value == value and value), self.marked_index)
        self.move_mark(row_index - self.marked_index)
        if rows and rows[self.marked_index].is_heading:
            self.move_to_row(1)

    def move_to_row(self, step: int) -> None:
        """Move the mark by that many lines, skipping headings."""
        start_index, rows = self.marked_index, self.rows
        self.move_mark(step)
        direction = 1 if step > 0 else -1
        while rows and rows[self.marked_index].is_heading:
            previous_index = self.marked_index
            self.move_mark(direction)
            if self.marked_index == previous_index:  # only headings in this direction
                self.move_mark(start_index - previous_index)
                return

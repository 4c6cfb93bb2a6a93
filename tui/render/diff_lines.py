"""Renders the rows of a diff as terminal lines, on demand."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ebbtide.tui.render.diff_pairing import find_changed_ranges
from ebbtide.tui.render.diff_rows import DiffLayout, DiffRow, FileRow, GapRow, LineRow, PairRow, RemarkRow
from ebbtide.tui.render.themed_markdown import PaletteConsole, highlight_code, language_for_file_name
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.styles import Palette
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff

SegmentLine: TypeAlias = list[Segment]

MAX_LINE_CHARS = 100_000
"""Maximum number of characters shown per line."""
NO_FINAL_NEWLINE = "no newline at the end of the file"
_TAB_COLUMNS = 4
_JOINER = "\N{ZERO WIDTH JOINER}"
_MAX_CHARS_PER_CELL = 16
"""Maximum number of characters in a cell. Grapheme clusters up to this length are kept together."""
_CHUNK_LINES = 200
"""Number of lines highlighted together."""
_MAX_HIGHLIGHTED_CHARS = 2_000
"""Maximum length, in characters, of a line that is highlighted."""
_MAX_CACHED_ROWS = 1_000
"""Maximum number of rows whose lines are cached."""
_MIN_NUMBERED_COLUMNS = 24
"""Minimum number of columns a side needs for line numbers to be shown."""
_SIGNS = {"added": "+", "removed": "-", "kept": " "}


class RenderedDiff:
    """The lines of a layout at a given width, without control characters. A side-by-side layout needs at least three
    columns."""

    def __init__(self, layout: DiffLayout, width: int, console: PaletteConsole) -> None:
        self._layout = layout
        self._width = max(3, width) if any(isinstance(row, PairRow) for row in layout.rows) else max(1, width)
        self._console = console
        self._palette = console.palette
        self._left_width = max(1, (self._width - 1) // 2)
        self._highlighted_chunks: dict[tuple[int, bool, int], list[Text]] = {}
        self._row_lines: dict[int, list[SegmentLine]] = {}
        self._row_ends = list(accumulate(self._row_height(row) for row in layout.rows))

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return self._row_ends[-1] if self._row_ends else 0

    def get_line(self, y: int) -> SegmentLine:
        """Render line `y`, counting from 0."""
        row_index = bisect_right(self._row_ends, y)
        return self._cached_row(row_index)[y - (self._row_ends[row_index - 1] if row_index else 0)]

    def row_index_at(self, y: int) -> int:
        """Find the row that line `y` belongs to."""
        return min(bisect_right(self._row_ends, y), max(0, len(self._row_ends) - 1))

    def first_line_of(self, row_index: int) -> int:
        """Find the first line of a row."""
        return self._row_ends[row_index - 1] if 0 < row_index <= len(self._row_ends) else 0

    def _cached_row(self, index: int) -> list[SegmentLine]:
        if index not in self._row_lines:
            if len(self._row_lines) >= _MAX_CACHED_ROWS:
                self._row_lines.clear()
            self._row_lines[index] = self._render_row(self._layout.rows[index])
        return self._row_lines[index]

    def _row_height(self, row: DiffRow) -> int:
        match row:
            case LineRow():
                return len(self._wrapped_text(row, self._width))
            case PairRow(old=old, new=new):
                sides = [(old, self._left_width), (new, self._width - self._left_width - 1)]
                return max(len(self._wrapped_text(side, width)) for side, width in sides if side is not None)
            case FileRow() | GapRow() | RemarkRow():
                return 1

    def _render_row(self, row: DiffRow) -> list[SegmentLine]:
        palette = self._palette
        match row:
            case LineRow():
                return self._side_lines(row, self._width, self._console)
            case PairRow(old=old, new=new):
                return self._pair_lines(old, new)
            case FileRow(file=file):
                return [self._text_line(_file_line(file, palette))]
            case GapRow(heading=heading):
                return [self._text_line(_styled_text(f"⋯ {sanitise_line(heading)}".rstrip(), palette.dim))]
            case RemarkRow(text=text):
                return [self._text_line(_styled_text(sanitise_line(text), palette.dim))]

    def _text_line(self, text: Text) -> SegmentLine:
        text.no_wrap, text.overflow, text.end = True, "ellipsis", ""
        text.truncate(self._width, overflow="ellipsis")
        return _pad_to_width(list(text.render(self._console)), self._width, Style.null())

    def _pair_lines(self, old: LineRow | None, new: LineRow | None) -> list[SegmentLine]:
        right_width = self._width - self._left_width - 1
        left_lines = self._side_lines(old, self._left_width, self._console)
        right_lines = self._side_lines(new, right_width, self._console)
        separator = Segment("│", self._palette.border)
        left_blank, right_blank = [Segment(" " * self._left_width)], [Segment(" " * right_width)]
        height = max(len(left_lines), len(right_lines))
        left_lines += [_blank_line(old, self._left_width, self._palette) or left_blank] * (height - len(left_lines))
        right_lines += [_blank_line(new, right_width, self._palette) or right_blank] * (height - len(right_lines))
        return [
            [*left_line, separator, *right_line] for left_line, right_line in zip(left_lines, right_lines, strict=True)
        ]

    def _side_lines(self, row: LineRow | None, width: int, console: PaletteConsole) -> list[SegmentLine]:
        """Render one side of a row; no lines if the row is None."""
        if row is None:
            return []
        text, background = self._line_text(row), _line_background(row.line, self._palette)
        lines: list[SegmentLine] = []
        pieces = self._wrapped_text(row, width)
        line_pieces = pieces if row.line.has_newline else pieces[:-1]
        styled_pieces = [
            *text.divide(list(accumulate(map(len, line_pieces)))[:-1])
        ]  # all at once, because each cut copies the rest
        styled_pieces += [] if row.line.has_newline else [_styled_text(pieces[-1], self._palette.dim)]
        for index, styled_piece in enumerate(styled_pieces):
            styled_piece.end = ""
            line = [
                *self._gutter(row, width, index == 0),
                *Segment.apply_style(styled_piece.render(console), background),
            ]
            lines.append(_pad_to_width(line, width, background))
        return lines

    def _gutter(self, row: LineRow, width: int, is_first: bool) -> SegmentLine:
        if row.side == "code":
            return []
        line, palette = row.line, self._palette
        background = _line_background(line, palette)
        sign_style = {"added": palette.added, "removed": palette.removed, "kept": palette.faint}[line.kind]
        number = line.new_number or line.old_number if row.side == "new" else line.old_number
        number_text = f"{str(number) if number and is_first else '':>{self._layout.number_digits}} "
        number_style = palette.faint if line.kind == "kept" else sign_style
        gutter = (
            [Segment(number_text, number_style + Style(bgcolor=background.bgcolor))]
            if self._shows_line_numbers(width)
            else []
        )
        return [*gutter, Segment(f"{_SIGNS[line.kind] if is_first else ' '} ", sign_style)]

    def _shows_line_numbers(self, width: int) -> bool:
        """Whether line numbers are shown at this width."""
        return self._layout.number_digits > 0 and width >= _MIN_NUMBERED_COLUMNS

    def _wrapped_text(self, row: LineRow, width: int) -> list[str]:
        """Wrap the text of a diff line to the width of its side."""
        gutter_width = (
            0 if row.side == "code" else self._shows_line_numbers(width) * (self._layout.number_digits + 1) + 2
        )
        text_width = max(1, width - gutter_width)
        pieces = wrap_at_spaces(displayed_line(row.line.text), text_width)
        return pieces if row.line.has_newline else [*pieces, NO_FINAL_NEWLINE]

    def _line_text(self, row: LineRow) -> Text:
        """Highlight a diff line and mark its changes."""
        plain_text = displayed_line(row.line.text)
        text = (
            self._highlighted_line(row)
            if len(plain_text) <= _MAX_HIGHLIGHTED_CHARS
            else _styled_text(plain_text, self._palette.text)
        )
        text.stylize(_line_background(row.line, self._palette))
        if row.counterpart is not None:
            self._mark_changes(text, row, row.counterpart)
        for start, end in row.marks:
            displayed_start, displayed_end = (len(displayed_line(row.line.text[:offset])) for offset in (start, end))
            text.stylize(self._palette.removed + Style(bold=True, underline=True), displayed_start, displayed_end)
        return text

    def _mark_changes(self, text: Text, row: LineRow, counterpart: DiffLine) -> None:
        old, new = (row.line, counterpart) if row.side == "old" else (counterpart, row.line)
        old_text, new_text = displayed_line(old.text), displayed_line(new.text)
        if old_text == new_text and old.text != new.text:
            text.plain = with_visible_spaces(row.line.text)  # the lines differ only in whitespace that looks the same
            return
        ranges = find_changed_ranges(old_text, new_text)
        if ranges is not None:
            style = self._palette.removed_word if row.side == "old" else self._palette.added_word
            for start, end in ranges.old if row.side == "old" else ranges.new:
                text.stylize(style, start, end)

    def _highlighted_line(self, row: LineRow) -> Text:
        is_old, chunk_index = row.side == "old", row.index // _CHUNK_LINES
        key = (row.hunk_index, is_old, chunk_index)
        if key not in self._highlighted_chunks:
            self._highlighted_chunks[key] = self._highlight_chunk(
                row.hunk_index, is_old, chunk_index, row.side == "code"
            )
        return self._highlighted_chunks[key][row.index % _CHUNK_LINES].copy()

    def _highlight_chunk(self, hunk_index: int, is_old: bool, chunk_index: int, is_code: bool) -> list[Text]:
        """Highlight neighbouring lines on one side. They are highlighted together, because a construct may span several
        lines."""
        name, hunk = self._layout.hunks[hunk_index]
        excluded_kind = "added" if is_old else "removed"
        lines = [line for line in hunk.lines if line.kind != excluded_kind][
            chunk_index * _CHUNK_LINES : (chunk_index + 1) * _CHUNK_LINES
        ]
        return highlight_lines(
            [line.text for line in lines], name if is_code else language_for_file_name(name), self._palette
        )


def highlight_lines(lines: Sequence[str], language: str, palette: Palette) -> list[Text]:
    """Prepare lines for display and highlight them in a language."""
    plain_lines = [displayed_line(line) for line in lines]
    joined = "\n".join(line if len(line) <= _MAX_HIGHLIGHTED_CHARS else "" for line in plain_lines)
    highlighted = list(highlight_code(joined, language, palette).split("\n", allow_blank=True)) if language else []
    texts = []
    for index, line in enumerate(plain_lines):
        is_same = index < len(highlighted) and highlighted[index].plain == line
        if index == len(highlighted) - 1 and highlighted[index].plain == line.rstrip():  # highlighting strips spaces
            highlighted[index].append(line[len(highlighted[index].plain) :])
            is_same = True
        texts.append(highlighted[index] if is_same else _styled_text(line, palette.text))
    return texts


def wrap_at_spaces(text: str, max_cells: int) -> list[str]:
    """Split text into pieces of at most `max_cells` cells, preferably at a space near the end."""
    pieces: list[str] = []
    offset = 0
    while len(text) - offset > max_cells or (not text.isascii() and cell_len(text[offset:]) > max_cells):
        prefix = _fitting_prefix(text, offset, max_cells)
        space_index = prefix.rfind(" ", len(prefix) * 2 // 3)
        pieces.append(prefix[: space_index + 1] if space_index >= 0 and prefix.strip() else prefix)
        offset += len(pieces[-1])
    return [*pieces, text[offset:]] if offset < len(text) or not pieces else pieces


def _fitting_prefix(text: str, start: int, max_cells: int) -> str:
    """Get as much of the text from `start` on as fits into `max_cells` cells. Grapheme clusters stay together."""
    char_count = max_cells
    while True:
        prefix = next(
            (piece for piece in chop_cells(text[start : start + char_count], max_cells) if piece),
            text[start : start + 1],
        )
        end = start + len(prefix)
        splits_cluster = end < len(text) and (text[end - 1] == _JOINER or not cell_len(text[end]))
        if not splits_cluster or char_count >= _MAX_CHARS_PER_CELL * max_cells:
            return prefix
        char_count *= 2


def displayed_line(line: str) -> str:
    """Prepare a line for display: expand tabs, replace control and invisible characters."""
    omitted_count = len(line) - MAX_LINE_CHARS
    shortened = f"{line[:MAX_LINE_CHARS]}… {omitted_count:,} more characters" if omitted_count > 0 else line
    return sanitise(shortened).expandtabs(_TAB_COLUMNS)


def with_visible_spaces(line: str) -> str:
    """Prepare a line for display with visible whitespace. Its length does not change."""
    pieces = []
    column = 0
    for character in sanitise(line[:MAX_LINE_CHARS]):
        width = _TAB_COLUMNS - column % _TAB_COLUMNS if character == "\t" else 1
        pieces.append("→" + " " * (width - 1) if character == "\t" else "·" if character == " " else character)
        column += width
    return "".join(pieces)


def _file_line(file: FileDiff, palette: Palette) -> Text:
    name = sanitise_line(file.name)
    text = _styled_text(f"{sanitise_line(file.previous_name)} → {name}" if file.previous_name else name, palette.strong)
    return text.append(f"  {file.state}" if file.state in ("new", "deleted") else "", palette.dim)


def _styled_text(text: str, style: Style) -> Text:
    """Create text with a style. Rich would ignore a style passed to the constructor if the text had no other styles."""
    return Text(end="").append(text, style)


def _line_background(line: DiffLine, palette: Palette) -> Style:
    match line.kind:
        case "added":
            return palette.added_line
        case "removed":
            return palette.removed_line
        case "kept":
            return Style.null()


def _blank_line(row: LineRow | None, width: int, palette: Palette) -> SegmentLine:
    return [] if row is None else [Segment(" " * width, _line_background(row.line, palette))]


def _pad_to_width(line: SegmentLine, width: int, background: Style) -> SegmentLine:
    """Pad a line to exactly `width` cells."""
    missing_cells = width - sum(cell_len(segment.text) for segment in line)
    if missing_cells >= 0:
        return [*line, Segment(" " * missing_cells, background)] if missing_cells else line
    return Segment.adjust_line_length(line, width)

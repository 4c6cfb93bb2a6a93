"""Renders rows of a diff as terminal lines, on demand."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ebbtide.tui.render.diff_pairing import marks_of
from ebbtide.tui.render.diff_rows import DiffRow, FileRow, GapRow, Layout, LineRow, PairRow, RemarkRow
from ebbtide.tui.render.prose import PaletteConsole, highlight_code, language_of
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.styles import Palette
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff

SegmentLine: TypeAlias = list[Segment]

MAX_LINE_CHARS = 100_000
"""Maximum characters shown of a line."""
NO_END = "no newline at the end of the file"
_TAB = 4
_JOINER = "\N{ZERO WIDTH JOINER}"
_MAX_CHARS_PER_CELL = 16
"""Maximum characters per cell, to keep grapheme clusters together."""
_CHUNK = 200
"""Lines highlighted together."""
_MAX_HIGHLIGHTED_CHARS = 2_000
"""Maximum characters of a highlighted line."""
_MAX_CACHED_ROWS = 1_000
"""Maximum rows with cached lines."""
_GUTTER = 24
"""Minimum columns for line numbers."""
_SIGNS = {"added": "+", "removed": "-", "kept": " "}


class RenderedDiff:
    """The lines of a layout at a width, without control characters. Two sides need at least three columns."""

    def __init__(self, layout: Layout, width: int, console: PaletteConsole) -> None:
        self._layout = layout
        self._width = max(3, width) if any(isinstance(row, PairRow) for row in layout.rows) else max(1, width)
        self._console = console
        self._palette = console.palette
        self._side = max(1, (self._width - 1) // 2)
        self._colours: dict[tuple[int, bool, int], list[Text]] = {}
        self._kept: dict[int, list[SegmentLine]] = {}
        self._ends = list(accumulate(self._height(row) for row in layout.rows))

    @property
    def count(self) -> int:
        """The number of lines."""
        return self._ends[-1] if self._ends else 0

    def line(self, y: int) -> SegmentLine:
        """A line, counted from 0."""
        row = bisect_right(self._ends, y)
        return self._row(row)[y - (self._ends[row - 1] if row else 0)]

    def row_at(self, y: int) -> int:
        """The row of a line."""
        return min(bisect_right(self._ends, y), max(0, len(self._ends) - 1))

    def start_of(self, row: int) -> int:
        """The first line of a row."""
        return self._ends[row - 1] if 0 < row <= len(self._ends) else 0

    def _row(self, index: int) -> list[SegmentLine]:
        if index not in self._kept:
            if len(self._kept) >= _MAX_CACHED_ROWS:
                self._kept.clear()
            self._kept[index] = self._render_row(self._layout.rows[index])
        return self._kept[index]

    def _height(self, row: DiffRow) -> int:
        match row:
            case LineRow():
                return len(self._pieces(row, self._width))
            case PairRow(old=old, new=new):
                sides = [(old, self._side), (new, self._width - self._side - 1)]
                return max(len(self._pieces(side, width)) for side, width in sides if side is not None)
            case FileRow() | GapRow() | RemarkRow():
                return 1

    def _render_row(self, row: DiffRow) -> list[SegmentLine]:
        palette = self._palette
        match row:
            case LineRow():
                return self._half(row, self._width, self._console)
            case PairRow(old=old, new=new):
                return self._pair(old, new)
            case FileRow(file=file):
                return [self._text_line(_file_line(file, palette))]
            case GapRow(heading=heading):
                return [self._text_line(_styled_text(f"⋯ {sanitised_line(heading)}".rstrip(), palette.dim))]
            case RemarkRow(text=text):
                return [self._text_line(_styled_text(sanitised_line(text), palette.dim))]

    def _text_line(self, text: Text) -> SegmentLine:
        text.no_wrap, text.overflow, text.end = True, "ellipsis", ""
        text.truncate(self._width, overflow="ellipsis")
        return _pad_to_width(list(text.render(self._console)), self._width, Style.null())

    def _pair(self, old: LineRow | None, new: LineRow | None) -> list[SegmentLine]:
        right = self._width - self._side - 1
        left_lines, right_lines = self._half(old, self._side, self._console), self._half(new, right, self._console)
        rule = Segment("│", self._palette.rule)
        blank, new_blank = [Segment(" " * self._side)], [Segment(" " * right)]
        height = max(len(left_lines), len(right_lines))
        left_lines += [_ground_line(old, self._side, self._palette) or blank] * (height - len(left_lines))
        right_lines += [_ground_line(new, right, self._palette) or new_blank] * (height - len(right_lines))
        return [[*one, rule, *other] for one, other in zip(left_lines, right_lines, strict=True)]

    def _half(self, row: LineRow | None, width: int, console: PaletteConsole) -> list[SegmentLine]:
        """The lines of one side; empty if nothing is there."""
        if row is None:
            return []
        text, ground = self._text(row), _ground_of(row.line, self._palette)
        lines: list[SegmentLine] = []
        pieces = self._pieces(row, width)
        own = pieces if row.line.ends else pieces[:-1]
        parts = [*text.divide(list(accumulate(map(len, own)))[:-1])]  # at once: each cut copies what is left
        parts += [] if row.line.ends else [_styled_text(pieces[-1], self._palette.dim)]
        for index, part in enumerate(parts):
            part.end = ""
            line = [*self._gutter(row, width, index == 0), *Segment.apply_style(part.render(console), ground)]
            lines.append(_pad_to_width(line, width, ground))
        return lines

    def _gutter(self, row: LineRow, width: int, is_first: bool) -> SegmentLine:
        if row.side == "code":
            return []
        line, palette = row.line, self._palette
        ground = _ground_of(line, palette)
        sign_ink = {"added": palette.added, "removed": palette.removed, "kept": palette.faint}[line.kind]
        number = line.new or line.old if row.side == "new" else line.old
        shown = f"{str(number) if number and is_first else '':>{self._layout.digits}} "
        ink = palette.faint if line.kind == "kept" else sign_ink
        gutter = [Segment(shown, ink + Style(bgcolor=ground.bgcolor))] if self._has_numbers(width) else []
        return [*gutter, Segment(f"{_SIGNS[line.kind] if is_first else ' '} ", sign_ink)]

    def _has_numbers(self, width: int) -> bool:
        """Whether lines of that width have numbers."""
        return self._layout.digits > 0 and width >= _GUTTER

    def _pieces(self, row: LineRow, width: int) -> list[str]:
        """The text of a line, wrapped to the side."""
        gutter = 0 if row.side == "code" else self._has_numbers(width) * (self._layout.digits + 1) + 2
        room = max(1, width - gutter)
        pieces = cut_at_blanks(displayed_line(row.line.text), room)
        return pieces if row.line.ends else [*pieces, NO_END]

    def _text(self, row: LineRow) -> Text:
        """The highlighted line with its changes marked."""
        plain = displayed_line(row.line.text)
        text = (
            self._highlighted_line(row)
            if len(plain) <= _MAX_HIGHLIGHTED_CHARS
            else _styled_text(plain, self._palette.text)
        )
        text.stylize(_ground_of(row.line, self._palette))
        if row.other is not None:
            self._mark(text, row, row.other)
        for start, end in row.marks:
            before, marked = (len(displayed_line(row.line.text[:at])) for at in (start, end))
            text.stylize(self._palette.removed + Style(bold=True, underline=True), before, marked)
        return text

    def _mark(self, text: Text, row: LineRow, other: DiffLine) -> None:
        old, new = (row.line, other) if row.side == "old" else (other, row.line)
        before, after = displayed_line(old.text), displayed_line(new.text)
        if before == after and old.text != new.text:
            text.plain = with_blanks(row.line.text)  # they differ in blanks that look the same
            return
        marks = marks_of(before, after)
        if marks is not None:
            ink = self._palette.removed_word if row.side == "old" else self._palette.added_word
            for start, end in marks.old if row.side == "old" else marks.new:
                text.stylize(ink, start, end)

    def _highlighted_line(self, row: LineRow) -> Text:
        is_old, chunk = row.side == "old", row.at // _CHUNK
        key = (row.hunk, is_old, chunk)
        if key not in self._colours:
            self._colours[key] = self._chunk(row.hunk, is_old, chunk, row.side == "code")
        return self._colours[key][row.at % _CHUNK].copy()

    def _chunk(self, hunk: int, is_old: bool, chunk: int, is_code: bool) -> list[Text]:
        """Neighbouring lines of one side, highlighted together because constructs span lines."""
        name, found = self._layout.hunks[hunk]
        left_out = "added" if is_old else "removed"
        lines = [line for line in found.lines if line.kind != left_out][chunk * _CHUNK : (chunk + 1) * _CHUNK]
        return highlight_lines([line.text for line in lines], name if is_code else language_of(name), self._palette)


def highlight_lines(lines: Sequence[str], language: str, palette: Palette) -> list[Text]:
    """The lines as shown, highlighted for a language."""
    plain = [displayed_line(line) for line in lines]
    whole = "\n".join(line if len(line) <= _MAX_HIGHLIGHTED_CHARS else "" for line in plain)
    found = list(highlight_code(whole, language, palette).split("\n", allow_blank=True)) if language else []
    texts = []
    for index, line in enumerate(plain):
        is_same = index < len(found) and found[index].plain == line
        if index == len(found) - 1 and found[index].plain == line.rstrip():  # the end of all is given without blanks
            found[index].append(line[len(found[index].plain) :])
            is_same = True
        texts.append(found[index] if is_same else _styled_text(line, palette.text))
    return texts


def cut_at_blanks(text: str, room: int) -> list[str]:
    """Split the text to fit into `room` cells, at a space if one is near the end."""
    pieces: list[str] = []
    at = 0
    while len(text) - at > room or (not text.isascii() and cell_len(text[at:]) > room):
        head = _fitting(text, at, room)
        blank = head.rfind(" ", len(head) * 2 // 3)
        pieces.append(head[: blank + 1] if blank >= 0 and head.strip() else head)
        at += len(pieces[-1])
    return [*pieces, text[at:]] if at < len(text) or not pieces else pieces


def _fitting(text: str, at: int, room: int) -> str:
    """The part of the text that fits into `room` cells. Grapheme clusters stay together."""
    reach = room
    while True:
        head = next((piece for piece in chop_cells(text[at : at + reach], room) if piece), text[at : at + 1])
        end = at + len(head)
        is_torn = end < len(text) and (text[end - 1] == _JOINER or not cell_len(text[end]))
        if not is_torn or reach >= _MAX_CHARS_PER_CELL * room:
            return head
        reach *= 2


def displayed_line(line: str) -> str:
    """A line for display: tabs expanded, control and invisible characters replaced."""
    more = len(line) - MAX_LINE_CHARS
    cut = f"{line[:MAX_LINE_CHARS]}… {more:,} more characters of this line are not shown" if more > 0 else line
    return sanitised(cut).expandtabs(_TAB)


def with_blanks(line: str) -> str:
    """The line with visible whitespace, of the same length."""
    pieces = []
    at = 0
    for sign in sanitised(line[:MAX_LINE_CHARS]):
        width = _TAB - at % _TAB if sign == "\t" else 1
        pieces.append("→" + " " * (width - 1) if sign == "\t" else "·" if sign == " " else sign)
        at += width
    return "".join(pieces)


def _file_line(file: FileDiff, palette: Palette) -> Text:
    name = sanitised_line(file.name)
    text = _styled_text(f"{sanitised_line(file.before)} → {name}" if file.before else name, palette.strong)
    return text.append(f"  {file.state}" if file.state in ("new", "deleted") else "", palette.dim)


def _styled_text(text: str, ink: Style) -> Text:
    """Text with a style. Rich drops the style of an otherwise unstyled text."""
    return Text(end="").append(text, ink)


def _ground_of(line: DiffLine, palette: Palette) -> Style:
    match line.kind:
        case "added":
            return palette.added_line
        case "removed":
            return palette.removed_line
        case "kept":
            return Style.null()


def _ground_line(row: LineRow | None, width: int, palette: Palette) -> SegmentLine:
    return [] if row is None else [Segment(" " * width, _ground_of(row.line, palette))]


def _pad_to_width(line: SegmentLine, width: int, ground: Style) -> SegmentLine:
    """The line padded to exactly `width` cells."""
    missing = width - sum(cell_len(segment.text) for segment in line)
    if missing >= 0:
        return [*line, Segment(" " * missing, ground)] if missing else line
    return Segment.adjust_line_length(line, width)

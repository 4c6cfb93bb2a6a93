"""The screen as cells, and the shortest output that changes one screen into another."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import ne
from typing import TypeAlias

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment


@dataclass(frozen=True, slots=True, eq=False)
class CellStyle:
    """The style of a cell, as SGR codes. Instances are shared."""

    flags: tuple[str, ...] = ()
    foreground: str = ""
    """Foreground colour; empty for the terminal's default."""
    background: str = ""
    link: str = ""


DEFAULT_STYLE = CellStyle()

Cell: TypeAlias = tuple[str, CellStyle]
"""A character with its combining marks, and a style. The second cell of a wide character is empty."""

Row: TypeAlias = list[Cell]

BLANK_CELL: Cell = (" ", DEFAULT_STYLE)

_VISIBLE_ON_SPACES = {"4", "7", "9", "21", "51", "52", "53"}
_END_CODES = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""The SGR code that ends each attribute."""
_CERTAIN_WIDTH_RANGES = (
    " ~", "\xa1\xac", "\xae\u02ff", "\u0370\u0377", "\u037a\u037f", "\u0384\u0482", "\u048a\u052f",
    "\u2010\u2027", "\u2030\u205e", "\u20a0\u20c0", "\u2190\u22ff", "\u2500\u25fc", "\u2713\u2714", "\u2717\u2718",
    "\u2800\u28ff", "\u3041\u3096", "\u30a1\u30ff", "\u3400\u4dbf", "\u4e00\u9fff", "\uac00\ud7a3", "\uff01\uff60",
)  # fmt: skip
"""Ranges of characters that are equally wide on all terminals, each as its first and last character. Emoji, joined
characters and rare scripts are not included."""
_REGIONAL_INDICATORS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
"""Letters that form a flag when two are combined."""
_MAX_REWRITTEN_GAP = 3
"""If at most this many unchanged cells lie between changed cells, they are written again rather than skipped."""
_MIN_ERASE_SAVING = 8
"""The end of a line is erased only if that saves writing at least this many cells."""
_MAX_SAMPLED_LINES = 6
"""Maximum number of changed lines examined to find the columns that scroll."""
_MIN_SCROLLED_LINES = 3
"""The terminal is scrolled only if at least this many lines have moved by the same distance."""

_parsed_styles: dict[tuple[str, str], tuple[CellStyle, Cell]] = {}
_shared_styles: dict[tuple[tuple[str, ...], str, str, str], CellStyle] = {((), "", "", ""): DEFAULT_STYLE}
_blank_styles: dict[CellStyle, CellStyle] = {DEFAULT_STYLE: DEFAULT_STYLE}
"""For each style, the simplest style in which a space looks the same."""
_style_changes: dict[tuple[CellStyle, CellStyle], str] = {}


def put_segments(row: Row, x: int, segments: Iterable[Segment], color_system: ColorSystem) -> None:
    """Write segments into a line, starting at column `x`."""
    cells: Row = []
    for text, style, control in segments:
        if control:
            continue
        codes, link = "", ""
        if style is not None:
            # Private, but it keeps the codes in the style. Textual would keep the style, too, and those of a long text
            # never end, because each has its place in the text.
            codes = style._make_ansi_codes(color_system) if style._ansi is None else style._ansi
            link = style._link or ""
        cell_style, blank = _parsed_styles.get((codes, link)) or _parse_style(codes, link)
        if text.isascii():
            cells += [(char, cell_style) if char != " " else blank for char in text]
            continue
        for start, end, width in split_graphemes(text)[0]:
            char = text[start:end]
            if char in _REGIONAL_INDICATORS and cells and cells[-1][0] in _REGIONAL_INDICATORS:  # a pair makes a flag
                cells[-1] = (cells[-1][0] + char, cell_style)
                cells.append(("", cell_style))
            elif width:
                cells.append((char, cell_style) if char != " " else blank)
                if width == 2:
                    cells.append(("", cell_style))
            elif cells:
                _add_combining(cells, len(cells) - 1, char)
            elif x:
                _add_combining(row, x - 1, char)
    end, columns = x + len(cells), len(row)
    if x < columns and not row[x][0]:  # as in a terminal: overwriting half of a wide character erases the other half
        row[x - 1] = (" ", row[x - 1][1])
    if end < columns and not row[end][0]:
        row[end] = (" ", row[end][1])
    row[x:end] = cells
    del row[columns:]


def _add_combining(row: Row, x: int, text: str) -> None:
    """Add combining characters to the character at column `x`."""
    x -= not row[x][0] and x > 0
    row[x] = (row[x][0] + text, row[x][1])


def _parse_style(codes: str, link: str) -> tuple[CellStyle, Cell]:
    flags, foreground, background = list[str](), "", ""
    numbers = iter(codes.split(";") if codes else ())
    for number in numbers:
        if number in ("38", "48"):
            kind = next(numbers)
            color = ";".join((number, kind, *(next(numbers) for _ in range(3 if kind == "2" else 1))))
        else:
            color = number
        if len(number) > 1 and number != "21" and (number[0] == "3" or number[:-1] == "9"):
            foreground = "" if number == "39" else color
        elif len(number) > 1 and (number[0] == "4" or number[:-1] == "10"):
            background = "" if number == "49" else color
        else:
            flags.append(number)
    style = _shared_style(tuple(flags), foreground, background, link)
    if style not in _blank_styles:
        blank = style if link or not _VISIBLE_ON_SPACES.isdisjoint(flags) else _shared_style((), "", background, "")
        _blank_styles[blank] = _blank_styles[style] = blank
    parsed = _parsed_styles[codes, link] = style, (" ", _blank_styles[style])
    return parsed


def _shared_style(*values: *tuple[tuple[str, ...], str, str, str]) -> CellStyle:
    style = _shared_styles.get(values)
    if style is None:
        style = _shared_styles[values] = CellStyle(*values)
    return style


def _style_change(old_style: CellStyle, new_style: CellStyle) -> str:
    """Build the escape sequence that changes one style to another."""
    sequence = _style_changes.get((old_style, new_style))
    if sequence is None:
        sequence = _style_changes[old_style, new_style] = _style_sequence(old_style, new_style)
    return sequence


def _style_sequence(old_style: CellStyle, new_style: CellStyle) -> str:
    link = "" if old_style.link == new_style.link else f"\x1b]8;;{new_style.link}\x1b\\"
    colors = [code for code in (new_style.foreground, new_style.background) if code]
    full_codes = ";".join(("0", *new_style.flags, *colors)) if new_style.flags or colors else ""
    if (old_style.flags, old_style.foreground, old_style.background) == (
        new_style.flags,
        new_style.foreground,
        new_style.background,
    ):
        return link
    end_codes = {_END_CODES.get(flag, "0") for flag in old_style.flags if flag not in new_style.flags}
    if "0" in end_codes:
        return f"{link}\x1b[{full_codes}m"
    # The code that ends bold also ends faint.
    codes = [
        *sorted(end_codes),
        *(flag for flag in new_style.flags if flag not in old_style.flags or _END_CODES.get(flag) in end_codes),
    ]
    codes += [new_style.foreground or "39"] * (new_style.foreground != old_style.foreground) + [
        new_style.background or "49"
    ] * (new_style.background != old_style.background)
    changed_codes = ";".join(codes)
    return f"{link}\x1b[{min(changed_codes, full_codes, key=len)}m"


def row_text(row: Iterable[Cell]) -> str:
    return "".join([text for text, _ in row])


def has_uncertain_width(text: str) -> bool:
    """Whether text has characters whose width depends on the terminal."""
    return any(map(_is_width_uncertain, set(text)))


@cache
def _is_width_uncertain(character: str) -> bool:
    # Do not use a regular expression: compiling these ranges takes 3 ms, which would delay the first frame.
    return not any(width_range[0] <= character <= width_range[1] for width_range in _CERTAIN_WIDTH_RANGES)


class CellWriter:
    """Collects output for a terminal while tracking its cursor and style."""

    def __init__(self, cursor: tuple[int, int] | None, style: CellStyle | None, *, erases_in_color: bool) -> None:
        """`cursor`: column and line of the terminal's cursor; None if unknown. `style`: the terminal's current style;
        None if unknown. `erases_in_color`: whether erased cells take the current background colour."""
        self.cursor = cursor
        self.style = style or DEFAULT_STYLE
        self._erases_in_color = erases_in_color
        self._output = [] if style is not None else ["\x1b[m"]

    def end(self, cursor: tuple[int, int]) -> str:
        """Move the cursor to `cursor` and return the collected output."""
        self._move_cursor(*cursor)
        return "".join(self._output)

    def write_changes(self, current_rows: list[Row | None], target_rows: Sequence[Row], lines: Iterable[int]) -> None:
        """Write the output that changes these lines from `current_rows` to `target_rows`, and update `current_rows`."""
        changed_lines = [y for y in lines if current_rows[y] != target_rows[y]]
        if len(changed_lines) > _MIN_SCROLLED_LINES and self._scroll(current_rows, target_rows, changed_lines):
            changed_lines = [y for y, row in enumerate(target_rows) if current_rows[y] != row]
        for y in changed_lines:
            row = target_rows[y]
            for start, end in _find_differing_ranges(self._erase_line_end(current_rows[y], row, y), row):
                self._write(row, y, start, end)
            current_rows[y] = row

    def _erase_line_end(self, old_row: Row | None, new_row: Row, y: int) -> Row | None:
        """Erase the line, starting at its first difference, if that makes the output shorter. Returns the resulting
        line."""
        first_x = next((x for x, differs in enumerate(map(ne, old_row, new_row)) if differs), 0) if old_row else 0
        blanks = Counter(cell for cell in new_row[first_x:] if cell[0] == " ")
        if not blanks:
            return old_row
        blank, blank_count = blanks.most_common(1)[0]
        style = blank[1]
        if (
            blank_count <= _MIN_ERASE_SAVING
            or style.flags
            or style.link
            or (style.background and not self._erases_in_color)
        ):
            return old_row
        erased_row = [*new_row[:first_x], *[blank] * (len(new_row) - first_x)]
        if _count_differing_cells(erased_row, new_row) + _MIN_ERASE_SAVING >= _count_differing_cells(old_row, new_row):
            return old_row
        self._move_cursor(first_x, y)
        self._set_style(style)
        self._output.append("\x1b[K")
        return erased_row

    def _scroll(self, current_rows: list[Row | None], target_rows: Sequence[Row], changed_lines: Sequence[int]) -> bool:
        """Scroll lines up or down if that makes the output shorter. Returns whether anything was scrolled."""
        scroll = find_scroll(current_rows, target_rows, changed_lines)
        if scroll is None:
            return False
        top, bottom, distance = scroll
        old_difference_count = sum(
            _count_differing_cells(current_rows[y], target_rows[y]) for y in range(top, bottom + 1)
        )
        blank: list[Row | None] = [[BLANK_CELL] * len(target_rows[top]) for _ in range(abs(distance))]
        rows = current_rows[top : bottom + 1]
        rows = [*rows[distance:], *blank] if distance > 0 else [*blank, *rows[:distance]]
        new_difference_count = sum(_count_differing_cells(row, target_rows[y]) for y, row in enumerate(rows, top))
        if new_difference_count + 40 > old_difference_count:
            return False
        self._set_style(DEFAULT_STYLE)
        count = "" if abs(distance) == 1 else str(abs(distance))
        self._output.append(
            f"\x1b[{top + 1};{bottom + 1}r\x1b[{top + 1}H\x1b[{count}{'M' if distance > 0 else 'L'}\x1b[r"
        )
        self.cursor = None  # some terminals then move the cursor to the first cell, some do not
        current_rows[top : bottom + 1] = rows
        return True

    def _write(self, row: Row, y: int, start: int, end: int) -> None:
        self._move_cursor(start, y)
        style, append = self.style, self._output.append
        is_width_uncertain = has_uncertain_width(row_text(row[start:end]))
        for x in range(start, end):
            text, new_style = row[x]
            if new_style is not style and not (text == " " and _blank_styles[style] is new_style):
                append(_style_change(style, new_style))
                style = new_style
            append(text)
            if is_width_uncertain and text and (len(text) > 1 or _is_width_uncertain(text)):
                self.cursor = None
                next_x = x + 1 if x + 1 >= end or row[x + 1][0] else x + 2
                if next_x < end:
                    self._move_cursor(next_x, y)
        self.style = style
        # Terminals disagree about where the cursor is after the last column and after characters of uncertain width.
        is_position_certain = end < len(row) and not (is_width_uncertain and self.cursor is None)
        self.cursor = (end, y) if is_position_certain else None

    def _set_style(self, style: CellStyle) -> None:
        if style is not self.style:
            self._output.append(_style_change(self.style, style))
            self.style = style

    def _move_cursor(self, x: int, y: int) -> None:
        if self.cursor == (x, y):
            return
        if self.cursor is not None and self.cursor[1] == y:
            distance = x - self.cursor[0]
            self._output.append(f"\x1b[{'' if abs(distance) == 1 else abs(distance)}{'C' if distance > 0 else 'D'}")
        else:
            self._output.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self.cursor = (x, y)


def find_scroll(
    current_rows: Sequence[Row | None], target_rows: Sequence[Row], changed_lines: Sequence[int]
) -> tuple[int, int, int] | None:
    """Find the region in which scrolling produces most of the changed `target_rows`. Returns its first line, its last
    line and how far to scroll up (down if negative); None if scrolling does not help."""
    left, right = _differing_columns(current_rows, target_rows, changed_lines)
    lines_by_text: dict[str, list[int]] = {}
    for y in range(changed_lines[0], changed_lines[-1] + 1):
        row = current_rows[y]
        if row is not None and (text := row_text(row[left:right])).strip(text[:1]):
            lines_by_text.setdefault(text, []).append(y)
    distance_counts = Counter[int]()
    matches = list[tuple[int, int]]()
    for y in changed_lines:
        for source_y in lines_by_text.get(row_text(target_rows[y][left:right]), ()):
            distance_counts[source_y - y] += 1
            matches.append((y, source_y))
    if not distance_counts:
        return None
    distance, count = distance_counts.most_common(1)[0]
    if not distance or count < _MIN_SCROLLED_LINES:
        return None
    lines = [line for y, source_y in matches if source_y - y == distance for line in (y, source_y)]
    return min(lines), max(lines), distance


def _differing_columns(
    current_rows: Sequence[Row | None], target_rows: Sequence[Row], changed_lines: Sequence[int]
) -> tuple[int, int]:
    """Estimate from a sample the range of columns in which these lines differ."""
    left, right = len(target_rows[changed_lines[0]]), 0
    for y in changed_lines[:: max(1, len(changed_lines) // _MAX_SAMPLED_LINES)]:
        old_row, new_row = current_rows[y], target_rows[y]
        if old_row is None or len(old_row) != len(new_row):
            return 0, len(new_row)
        differing_columns = [x for x, differs in enumerate(map(ne, old_row, new_row)) if differs]
        left, right = min(left, differing_columns[0]), max(right, differing_columns[-1] + 1)
    return left, right


def _count_differing_cells(row: Row | None, other_row: Row) -> int:
    """Count the cells that differ."""
    if row is None or len(row) != len(other_row):
        return len(other_row)
    return 0 if row == other_row else sum(map(ne, row, other_row))


def _find_differing_ranges(old_row: Row | None, new_row: Row) -> Iterator[tuple[int, int]]:
    """Yield the ranges of columns that differ. In a line with characters of uncertain width, everything from the first
    difference on counts as different."""
    if old_row is None or len(old_row) != len(new_row):
        yield 0, len(new_row)
        return
    differing_columns = [x for x, differs in enumerate(map(ne, old_row, new_row)) if differs]
    if not differing_columns:
        return
    if has_uncertain_width(row_text(old_row)) or has_uncertain_width(row_text(new_row)):
        yield differing_columns[0], len(new_row)
        return
    start = end = differing_columns[0]
    for x in differing_columns:
        style = new_row[end - 1][1]
        if x - end > _MAX_REWRITTEN_GAP or any(
            cell_style is not style and (text != " " or cell_style is not _blank_styles[style])
            for text, cell_style in new_row[end:x]
        ):
            yield start, end
            start = x
        end = x + 1
    yield start, end

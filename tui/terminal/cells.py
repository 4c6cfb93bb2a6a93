"""A screen as cells, and the minimal output that turns one screen into another."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import ne
from typing import TypeAlias

from rich.cells import split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from textual.strip import Strip


@dataclass(frozen=True, slots=True, eq=False)
class CellStyle:
    """The style of a cell, as SGR numbers; instances are shared."""

    flags: tuple[str, ...] = ()
    ink: str = ""
    """Empty for the terminal's default colour."""
    ground: str = ""
    link: str = ""


PLAIN = CellStyle()

Cell: TypeAlias = tuple[str, CellStyle]
"""A cell: a character with its combining marks, and its style. The second half of a wide character is empty."""

Row: TypeAlias = list[Cell]

BLANK: Cell = (" ", PLAIN)

_SEEN_ON_BLANKS = {"4", "7", "9", "21", "51", "52", "53"}
_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""SGR codes that end an attribute."""
_SURE = (
    " ~", "\xa1\xac", "\xae\u02ff", "\u0370\u0377", "\u037a\u037f", "\u0384\u0482", "\u048a\u052f",
    "\u2010\u2027", "\u2030\u205e", "\u20a0\u20c0", "\u2190\u22ff", "\u2500\u25fc", "\u2713\u2714", "\u2717\u2718",
    "\u2800\u28ff", "\u3041\u3096", "\u30a1\u30ff", "\u3400\u4dbf", "\u4e00\u9fff", "\uac00\ud7a3", "\uff01\uff60",
)  # fmt: skip
"""First and last characters of ranges with the same width on all terminals: no emoji, joined characters or rare
scripts."""
_LETTERS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
"""Regional indicators."""
_MAX_REWRITTEN_GAP = 3
"""Gaps of up to this many cells are rewritten instead of skipped."""
_MIN_ERASE_SAVING = 8
"""Minimum cells saved for erasing a line."""
_MAX_SAMPLED_LINES = 6
"""Changed lines sampled to find the columns that scroll."""
_MIN_SCROLLED_LINES = 3
"""Minimum lines moved by the same distance for scrolling the terminal."""

_parsed_styles: dict[tuple[str, str], tuple[CellStyle, Cell]] = {}
_known_styles: dict[tuple[tuple[str, ...], str, str, str], CellStyle] = {((), "", "", ""): PLAIN}
_blanks: dict[CellStyle, CellStyle] = {PLAIN: PLAIN}
"""For each style, the style of a blank written in it."""
_style_changes: dict[tuple[CellStyle, CellStyle], str] = {}


def put_segments(row: Row, x: int, strip: Iterable[Segment], color_system: ColorSystem) -> None:
    """Put segments into a line, starting at a column."""
    cells: Row = []
    for text, style, control in strip:
        if control:
            continue
        codes, link = "", ""
        if style is not None:
            known = style._ansi  # as Textual's strips ask for it
            codes = Strip.render_ansi(style, color_system) if known is None else known
            link = style._link or ""
        look, blank = _parsed_styles.get((codes, link)) or _parse_style(codes, link)
        if text.isascii():
            cells += [(char, look) if char != " " else blank for char in text]
            continue
        for start, end, width in split_graphemes(text)[0]:
            char = text[start:end]
            if char in _LETTERS and cells and cells[-1][0] in _LETTERS:  # two of them are a flag
                cells[-1] = (cells[-1][0] + char, look)
                cells.append(("", look))
            elif width:
                cells.append((char, look) if char != " " else blank)
                if width == 2:
                    cells.append(("", look))
            elif cells:
                _draw_over(cells, len(cells) - 1, char)
            elif x:
                _draw_over(row, x - 1, char)
    end, columns = x + len(cells), len(row)
    if x < columns and not row[x][0]:  # as in a terminal, nothing is left of a character that half is left of
        row[x - 1] = (" ", row[x - 1][1])
    if end < columns and not row[end][0]:
        row[end] = (" ", row[end][1])
    row[x:end] = cells
    del row[columns:]


def _draw_over(row: Row, x: int, text: str) -> None:
    """Add combining characters to the cell before a column."""
    x -= not row[x][0] and x > 0
    row[x] = (row[x][0] + text, row[x][1])


def _parse_style(codes: str, link: str) -> tuple[CellStyle, Cell]:
    flags, ink, ground = list[str](), "", ""
    numbers = iter(codes.split(";") if codes else ())
    for number in numbers:
        if number in ("38", "48"):
            kind = next(numbers)
            color = ";".join((number, kind, *(next(numbers) for _ in range(3 if kind == "2" else 1))))
        else:
            color = number
        if len(number) > 1 and number != "21" and (number[0] == "3" or number[:-1] == "9"):
            ink = "" if number == "39" else color
        elif len(number) > 1 and (number[0] == "4" or number[:-1] == "10"):
            ground = "" if number == "49" else color
        else:
            flags.append(number)
    look = _look(tuple(flags), ink, ground, link)
    if look not in _blanks:
        blank = look if link or not _SEEN_ON_BLANKS.isdisjoint(flags) else _look((), "", ground, "")
        _blanks[blank] = _blanks[look] = blank
    learned = _parsed_styles[codes, link] = look, (" ", _blanks[look])
    return learned


def _look(*values: *tuple[tuple[str, ...], str, str, str]) -> CellStyle:
    look = _known_styles.get(values)
    if look is None:
        look = _known_styles[values] = CellStyle(*values)
    return look


def _style_change(before: CellStyle, after: CellStyle) -> str:
    """The escape sequence from one style to another."""
    known = _style_changes.get((before, after))
    if known is None:
        known = _style_changes[before, after] = _sequence(before, after)
    return known


def _sequence(before: CellStyle, after: CellStyle) -> str:
    link = "" if before.link == after.link else f"\x1b]8;;{after.link}\x1b\\"
    colors = [code for code in (after.ink, after.ground) if code]
    anew = ";".join(("0", *after.flags, *colors)) if after.flags or colors else ""
    if (before.flags, before.ink, before.ground) == (after.flags, after.ink, after.ground):
        return link
    ends = {_ENDS.get(flag, "0") for flag in before.flags if flag not in after.flags}
    if "0" in ends:
        return f"{link}\x1b[{anew}m"
    # The code that ends bold also ends faint.
    codes = [*sorted(ends), *(flag for flag in after.flags if flag not in before.flags or _ENDS.get(flag) in ends)]
    codes += [after.ink or "39"] * (after.ink != before.ink) + [after.ground or "49"] * (after.ground != before.ground)
    changed = ";".join(codes)
    return f"{link}\x1b[{min(changed, anew, key=len)}m"


def text_of(row: Iterable[Cell]) -> str:
    return "".join([text for text, _ in row])


def has_unsure(text: str) -> bool:
    """Whether the text has characters whose width differs between terminals."""
    return any(map(_is_unsure, set(text)))


@cache
def _is_unsure(sign: str) -> bool:
    # No regular expression: compiling these ranges takes 3 ms, which would delay the first frame.
    return not any(one[0] <= sign <= one[1] for one in _SURE)


class CellWriter:
    """Collects output for a terminal, tracking its cursor and style."""

    def __init__(self, cursor: tuple[int, int] | None, look: CellStyle | None, *, erases_in_color: bool) -> None:
        """`cursor`: column, line and style of the terminal; None if unknown. `erases_in_color`: erased cells get the
        current background."""
        self.cursor = cursor
        self.look = look or PLAIN
        self._erases_in_color = erases_in_color
        self._written = [] if look is not None else ["\x1b[m"]

    def end(self, cursor: tuple[int, int]) -> str:
        """The collected output, ending with the cursor at `cursor`."""
        self._move_cursor(*cursor)
        return "".join(self._written)

    def write_changes(self, shown: list[Row | None], wanted: Sequence[Row], lines: Iterable[int]) -> None:
        """Write the changes from `shown` to the wanted lines, and update `shown`."""
        changed = [y for y in lines if shown[y] != wanted[y]]
        if len(changed) > _MIN_SCROLLED_LINES and self._scroll(shown, wanted, changed):
            changed = [y for y, row in enumerate(wanted) if shown[y] != row]
        for y in changed:
            row = wanted[y]
            for start, end in _runs(self._erase_rest(shown[y], row, y), row):
                self._write(row, y, start, end)
            shown[y] = row

    def _erase_rest(self, before: Row | None, after: Row, y: int) -> Row | None:
        """The line after erasing from its first difference on, if that saves output."""
        first = next((x for x, differs in enumerate(map(ne, before, after)) if differs), 0) if before else 0
        blanks = Counter(cell for cell in after[first:] if cell[0] == " ")
        if not blanks:
            return before
        blank, count = blanks.most_common(1)[0]
        look = blank[1]
        if count <= _MIN_ERASE_SAVING or look.flags or look.link or (look.ground and not self._erases_in_color):
            return before
        erased = [*after[:first], *[blank] * (len(after) - first)]
        if _distance(erased, after) + _MIN_ERASE_SAVING >= _distance(before, after):
            return before
        self._move_cursor(first, y)
        self._set_style(look)
        self._written.append("\x1b[K")
        return erased

    def _scroll(self, shown: list[Row | None], wanted: Sequence[Row], changed: Sequence[int]) -> bool:
        """Scroll lines up or down, if that saves output."""
        move = find_scroll(shown, wanted, changed)
        if move is None:
            return False
        top, bottom, by = move
        before = sum(_distance(shown[y], wanted[y]) for y in range(top, bottom + 1))
        blank: list[Row | None] = [[BLANK] * len(wanted[top]) for _ in range(abs(by))]
        rows = shown[top : bottom + 1]
        rows = [*rows[by:], *blank] if by > 0 else [*blank, *rows[:by]]
        after = sum(_distance(row, wanted[y]) for y, row in enumerate(rows, top))
        if after + 40 > before:
            return False
        self._set_style(PLAIN)
        count = "" if abs(by) == 1 else str(abs(by))
        self._written.append(f"\x1b[{top + 1};{bottom + 1}r\x1b[{top + 1}H\x1b[{count}{'M' if by > 0 else 'L'}\x1b[r")
        self.cursor = None  # some take the cursor to the first cell with it, some leave it
        shown[top : bottom + 1] = rows
        return True

    def _write(self, row: Row, y: int, start: int, end: int) -> None:
        self._move_cursor(start, y)
        look, append = self.look, self._written.append
        is_unsure = has_unsure(text_of(row[start:end]))
        for x in range(start, end):
            text, wanted = row[x]
            if wanted is not look and not (text == " " and _blanks[look] is wanted):
                append(_style_change(look, wanted))
                look = wanted
            append(text)
            if is_unsure and text and (len(text) > 1 or _is_unsure(text)):
                self.cursor = None
                following = x + 1 if x + 1 >= end or row[x + 1][0] else x + 2
                if following < end:
                    self._move_cursor(following, y)
        self.look = look
        # Terminals disagree on the cursor position after the last column and after characters of uncertain width.
        is_sure = end < len(row) and not (is_unsure and self.cursor is None)
        self.cursor = (end, y) if is_sure else None

    def _set_style(self, look: CellStyle) -> None:
        if look is not self.look:
            self._written.append(_style_change(self.look, look))
            self.look = look

    def _move_cursor(self, x: int, y: int) -> None:
        if self.cursor == (x, y):
            return
        if self.cursor is not None and self.cursor[1] == y:
            by = x - self.cursor[0]
            self._written.append(f"\x1b[{'' if abs(by) == 1 else abs(by)}{'C' if by > 0 else 'D'}")
        else:
            self._written.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self.cursor = (x, y)


def find_scroll(
    shown: Sequence[Row | None], wanted: Sequence[Row], changed: Sequence[int]
) -> tuple[int, int, int] | None:
    """The region that mostly contains the wanted lines already: first line, last line, and the distance to scroll up
    (negative: down)."""
    left, right = _width(shown, wanted, changed)
    places: dict[str, list[int]] = {}
    for y in range(changed[0], changed[-1] + 1):
        row = shown[y]
        if row is not None and (text := text_of(row[left:right])).strip(text[:1]):
            places.setdefault(text, []).append(y)
    votes = Counter[int]()
    found = list[tuple[int, int]]()
    for y in changed:
        for place in places.get(text_of(wanted[y][left:right]), ()):
            votes[place - y] += 1
            found.append((y, place))
    if not votes:
        return None
    by, count = votes.most_common(1)[0]
    if not by or count < _MIN_SCROLLED_LINES:
        return None
    lines = [line for y, place in found if place - y == by for line in (y, place)]
    return min(lines), max(lines), by


def _width(shown: Sequence[Row | None], wanted: Sequence[Row], changed: Sequence[int]) -> tuple[int, int]:
    """The range of columns in which some of these lines differ."""
    left, right = len(wanted[changed[0]]), 0
    for y in changed[:: max(1, len(changed) // _MAX_SAMPLED_LINES)]:
        row, new = shown[y], wanted[y]
        if row is None or len(row) != len(new):
            return 0, len(new)
        differing = [x for x, differs in enumerate(map(ne, row, new)) if differs]
        left, right = min(left, differing[0]), max(right, differing[-1] + 1)
    return left, right


def _distance(row: Row | None, other: Row) -> int:
    """The number of cells that differ."""
    if row is None or len(row) != len(other):
        return len(other)
    return 0 if row == other else sum(map(ne, row, other))


def _runs(before: Row | None, after: Row) -> Iterator[tuple[int, int]]:
    """The ranges of columns that differ. From the first difference on, a line with characters of uncertain width
    counts as different."""
    if before is None or len(before) != len(after):
        yield 0, len(after)
        return
    differing = [x for x, differs in enumerate(map(ne, before, after)) if differs]
    if not differing:
        return
    if has_unsure(text_of(before)) or has_unsure(text_of(after)):
        yield differing[0], len(after)
        return
    start = end = differing[0]
    for x in differing:
        look = after[end - 1][1]
        if x - end > _MAX_REWRITTEN_GAP or any(
            kind is not look and (text != " " or kind is not _blanks[look]) for text, kind in after[end:x]
        ):
            yield start, end
            start = x
        end = x + 1
    yield start, end

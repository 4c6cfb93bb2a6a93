"""Lays out a diff in rows, unified or side by side."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice
from typing import Literal, TypeAlias

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.render.diff_pairing import MAX_COMPARED_PAIRS, pair_lines
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff, Hunk, Remark

MIN_SIDE_BY_SIDE_COLUMNS = 112
"""Minimum number of columns for a side-by-side diff. This is a 120-column screen without its borders."""
_MIN_FITTING_SHARE = 0.9
"""Minimum share of lines that must fit into half of the width. Two columns of wrapped lines are harder to read than one
column of unwrapped lines."""
_MAX_MEASURED_LINES = 1_000
"""Maximum number of lines measured per file."""
MAX_INITIAL_ROWS = 5_000
"""Maximum number of rows shown at first. The rest are shown on demand."""
_MAX_HUNK_PAIRS = 20_000
"""Maximum number of line pairs compared per hunk."""

Side: TypeAlias = Literal["old", "new", "code"]


@dataclass(frozen=True, slots=True)
class FileRow:
    file: FileDiff


@dataclass(frozen=True, slots=True)
class GapRow:
    """The omitted lines between two hunks."""

    heading: str


@dataclass(frozen=True, slots=True)
class RemarkRow:
    text: str


@dataclass(frozen=True, slots=True)
class LineRow:
    line: DiffLine
    side: Side
    """Which side of the diff the line is on; `code` if the text is not a diff."""
    hunk_index: int
    """Index of the line's hunk in the layout."""
    index: int
    """Index of the line among the hunk's lines on its side."""
    counterpart: DiffLine | None = None
    """The line it is paired with on the other side."""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges to highlight."""


@dataclass(frozen=True, slots=True)
class PairRow:
    old: LineRow | None
    new: LineRow | None


DiffRow: TypeAlias = FileRow | GapRow | RemarkRow | LineRow | PairRow


@dataclass(frozen=True, slots=True)
class DiffLayout:
    rows: tuple[DiffRow, ...] = ()
    hunks: tuple[tuple[str, Hunk], ...] = ()
    """Each hunk with its file name or, for code, its language."""
    omitted_count: int = 0
    """Number of diff lines that the rows leave out."""
    number_digits: int = 0
    """Number of digits of the largest line number; 0 if lines are not numbered."""


def build_diff_layout(
    files: Sequence[FileDiff], *, width: int = 0, max_rows: int = MAX_INITIAL_ROWS, name: str = "", hint: str = ""
) -> DiffLayout:
    """Lay out the first rows of a diff. A file is shown side by side if `width` is large enough. `name`: the file name
    to use if the diff has none. `hint`: how to see the rest; appended to the note about omitted lines."""
    hunks: list[tuple[str, Hunk]] = []
    rows = tuple(islice(_rows(files, hunks, width, name), max_rows))
    omitted_count = sum(1 for file in files for _ in file.lines) - sum(map(_line_count, rows))
    last_line_number = max(_line_numbers(hunks), default=0)
    return DiffLayout(
        _with_omission_note(rows, omitted_count, hint),
        tuple(hunks),
        omitted_count,
        len(str(last_line_number)) if last_line_number else 0,
    )


def without_blank_edges(file: FileDiff) -> FileDiff:
    """Remove unchanged blank lines from the start and end of hunks."""
    return replace(
        file, parts=tuple(_trim_blank_lines(part) if isinstance(part, Hunk) else part for part in file.parts)
    )


def _trim_blank_lines(hunk: Hunk) -> Hunk:
    content_indices = [
        index
        for index, line in enumerate(hunk.lines)
        if line.kind != "kept" or line.text.strip() or not line.has_newline
    ]
    if not content_indices or len(hunk.lines) == content_indices[-1] + 1 - content_indices[0]:
        return hunk
    return replace(hunk, lines=hunk.lines[content_indices[0] : content_indices[-1] + 1])


def change_range(rows: Sequence[DiffRow], index: int) -> tuple[int, int]:
    """Find a run of changed rows; (0, 0) if there are not so many."""
    start = 0
    for is_changed, group in groupby(rows, key=_is_changed):
        end = start + sum(1 for _ in group)
        if is_changed:
            if not index:
                return start, end
            index -= 1
        start = end
    return 0, 0


def _is_changed(row: DiffRow) -> bool:
    match row:
        case LineRow(line=line, side=side):
            return side != "code" and line.kind != "kept"
        case PairRow(old=old, new=new):
            return any(side_row is not None and side_row.line.kind != "kept" for side_row in (old, new))
        case _:
            return False


def without_file_name(layout: DiffLayout) -> DiffLayout:
    """Remove the row with the file name if there is only one file. Its name is then shown elsewhere."""
    file_row_indices = [index for index, row in enumerate(layout.rows) if isinstance(row, FileRow)]
    return replace(layout, rows=layout.rows[1:]) if file_row_indices == [0] else layout


def build_code_layout(
    text: str, language: str, max_rows: int = MAX_INITIAL_ROWS, hint: str = "", marks: Sequence[tuple[int, int]] = ()
) -> DiffLayout:
    """Lay out the first lines of text that is not a diff, such as a command. `marks`: ranges to highlight."""
    lines = [DiffLine("kept", line) for line in text.split("\n")]
    visible_lines = lines[:max_rows]
    starts = accumulate((len(line.text) + 1 for line in visible_lines), initial=0)
    rows = tuple(
        LineRow(line, "code", 0, index, marks=_marks_in(marks, start, start + len(line.text)))
        for index, (line, start) in enumerate(zip(visible_lines, starts, strict=False))
    )
    omitted_count = max(0, len(lines) - max_rows)
    return DiffLayout(
        _with_omission_note(rows, omitted_count, hint), ((language, Hunk("", tuple(lines))),), omitted_count
    )


def _marks_in(marks: Sequence[tuple[int, int]], line_start: int, line_end: int) -> tuple[tuple[int, int], ...]:
    """Find the parts of the marks that are in a line, relative to the line's start."""
    return tuple(
        (max(start, line_start) - line_start, min(end, line_end) - line_start)
        for start, end in marks
        if start < line_end and end > line_start
    )


def _with_omission_note(rows: tuple[DiffRow, ...], omitted_count: int, hint: str) -> tuple[DiffRow, ...]:
    """Append a note that says how many lines are omitted, if any are."""
    return (*rows, RemarkRow(f"… {pluralize(omitted_count, 'more line')}{hint}")) if omitted_count else rows


def _line_numbers(hunks: Iterable[tuple[str, Hunk]]) -> Iterator[int]:
    return (max(line.old_number, line.new_number) for _, hunk in hunks for line in hunk.lines)


def _line_count(row: DiffRow) -> int:
    """Count the diff lines in a row. An unchanged line is on both sides but counts once."""
    match row:
        case LineRow():
            return 1
        case PairRow(old=LineRow(line=DiffLine(kind="kept"))):
            return 1
        case PairRow(old=old, new=new):
            return (old is not None) + (new is not None)
        case _:
            return 0


def _rows(files: Sequence[FileDiff], hunks: list[tuple[str, Hunk]], width: int, name: str) -> Iterator[DiffRow]:
    """Yield the rows, appending their hunks to `hunks`."""
    for file in files:
        if file.name:
            yield FileRow(file)
        is_first = True
        is_side_by_side = width >= MIN_SIDE_BY_SIDE_COLUMNS and _fits_side_by_side(file, width)
        for part in file.parts:
            match part:
                case Remark(text=text):
                    yield RemarkRow(text)
                case Hunk(heading=heading):
                    if heading or not is_first:
                        yield GapRow(heading)
                    is_first = False
                    hunks.append((file.name or name, part))
                    yield from _build_hunk_rows(part, len(hunks) - 1, is_side_by_side)


def _fits_side_by_side(file: FileDiff, width: int) -> bool:
    """Whether the file exists both before and after the change, and its lines fit into half of the width."""
    kinds = {line.kind for line in file.lines}
    if not kinds - {"added"} or not kinds - {"removed"}:
        return False
    lines = list(islice(file.lines, _MAX_MEASURED_LINES))
    side_width = (
        width // 2 - len(str(max(line.new_number for line in lines))) - 5
    )  # minus line number, sign and separators
    return sum(len(line.text.expandtabs(4)) <= side_width for line in lines) >= _MIN_FITTING_SHARE * len(lines)


def _build_hunk_rows(hunk: Hunk, hunk_index: int, is_side_by_side: bool) -> Iterator[DiffRow]:
    old_index = new_index = line_index = 0
    pair_budget = _MAX_HUNK_PAIRS
    while line_index < len(hunk.lines):
        line = hunk.lines[line_index]
        if line.kind == "kept":
            left, right = LineRow(line, "old", hunk_index, old_index), LineRow(line, "new", hunk_index, new_index)
            yield PairRow(left, right) if is_side_by_side else right
            old_index, new_index, line_index = old_index + 1, new_index + 1, line_index + 1
            continue
        end = line_index
        while end < len(hunk.lines) and hunk.lines[end].kind != "kept":
            end += 1
        removed = [line for line in hunk.lines[line_index:end] if line.kind == "removed"]
        added = [line for line in hunk.lines[line_index:end] if line.kind == "added"]
        pair_count = len(removed) * len(added)
        pair_count = pair_count if pair_count <= min(MAX_COMPARED_PAIRS, pair_budget) else 0
        pair_budget -= pair_count
        pairs = pair_lines(
            [line.text for line in removed], [line.text for line in added], MAX_COMPARED_PAIRS if pair_count else 0
        )
        rows = [
            PairRow(
                None
                if removed_index is None
                else LineRow(
                    removed[removed_index],
                    "old",
                    hunk_index,
                    old_index + removed_index,
                    None if added_index is None else added[added_index],
                ),
                None
                if added_index is None
                else LineRow(
                    added[added_index],
                    "new",
                    hunk_index,
                    new_index + added_index,
                    None if removed_index is None else removed[removed_index],
                ),
            )
            for removed_index, added_index in pairs
        ]
        if is_side_by_side:
            yield from rows
        else:
            yield from (row.old for row in rows if row.old is not None)
            yield from (row.new for row in rows if row.new is not None)
        old_index, new_index, line_index = old_index + len(removed), new_index + len(added), end

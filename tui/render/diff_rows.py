"""The layout of a diff as rows, unified or side by side."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Literal, TypeAlias

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.render.diff_pairing import MAX_COMPARED_PAIRS, pair_lines
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff, Hunk, Remark

WIDE = 112
"""Minimum columns for side by side: a screen of 120 minus frames."""
_MIN_FITTING_SHARE = 0.9
"""Minimum share of lines that must fit into a side: wrapped columns are harder to read than one whole column."""
_MAX_MEASURED_LINES = 1_000
"""Maximum lines measured per file."""
MAX_ROWS = 5_000
"""Maximum rows shown at first."""
_MAX_HUNK_PAIRS = 20_000
"""Maximum pairs of lines compared per hunk."""

Side: TypeAlias = Literal["old", "new", "code"]


@dataclass(frozen=True, slots=True)
class FileRow:
    file: FileDiff


@dataclass(frozen=True, slots=True)
class GapRow:
    """Lines of the file left out between hunks."""

    heading: str


@dataclass(frozen=True, slots=True)
class RemarkRow:
    text: str


@dataclass(frozen=True, slots=True)
class LineRow:
    line: DiffLine
    side: Side
    """The side that it is on; `code` is neither."""
    hunk: int
    """Index of its hunk in the layout."""
    at: int
    """Its index among the hunk's lines on that side."""
    other: DiffLine | None = None
    """The paired line on the other side."""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges to highlight."""


@dataclass(frozen=True, slots=True)
class PairRow:
    old: LineRow | None
    new: LineRow | None


DiffRow: TypeAlias = FileRow | GapRow | RemarkRow | LineRow | PairRow


@dataclass(frozen=True, slots=True)
class Layout:
    rows: tuple[DiffRow, ...] = ()
    hunks: tuple[tuple[str, Hunk], ...] = ()
    """Each with its file name or, for code, its language."""
    left_out: int = 0
    """Lines of the diff that are not in the rows."""
    digits: int = 0
    """Digits of the longest line number; 0 without numbers."""


def layout_of(
    files: Sequence[FileDiff], *, width: int = 0, most: int = MAX_ROWS, name: str = "", how: str = ""
) -> Layout:
    """The first rows of a diff, each file side by side if `width` suffices. `name`: the file name if the diff has
    none; `how`: how to see the rest."""
    hunks: list[tuple[str, Hunk]] = []
    rows = tuple(islice(_rows(files, hunks, width, name), most))
    left_out = sum(1 for file in files for _ in file.lines) - sum(map(_lines_in, rows))
    last = max(_numbers(hunks), default=0)
    return Layout(_with_rest(rows, left_out, how), tuple(hunks), left_out, len(str(last)) if last else 0)


def without_blank_ends(file: FileDiff) -> FileDiff:
    """The file without unchanged blank lines at the ends of hunks."""
    return replace(
        file, parts=tuple(_trim_blank_lines(part) if isinstance(part, Hunk) else part for part in file.parts)
    )


def _trim_blank_lines(hunk: Hunk) -> Hunk:
    told = [at for at, line in enumerate(hunk.lines) if line.kind != "kept" or line.text.strip() or not line.ends]
    if not told or len(hunk.lines) == told[-1] + 1 - told[0]:
        return hunk
    return replace(hunk, lines=hunk.lines[told[0] : told[-1] + 1])


def first_change(rows: Sequence[DiffRow]) -> tuple[int, int]:
    """The range of the first consecutive changed rows; (0, 0) if there are none."""
    changes = [at for at, row in enumerate(rows) if _changes(row)]
    if not changes:
        return 0, 0
    end = next((at for at in range(changes[0], len(rows)) if not _changes(rows[at])), len(rows))
    return changes[0], end


def _changes(row: DiffRow) -> bool:
    match row:
        case LineRow(line=line, side=side):
            return side != "code" and line.kind != "kept"
        case PairRow(old=old, new=new):
            return any(one is not None and one.line.kind != "kept" for one in (old, new))
        case _:
            return False


def without_name(layout: Layout) -> Layout:
    """The layout without the file name line, if there is one file whose name is shown elsewhere."""
    named = [at for at, row in enumerate(layout.rows) if isinstance(row, FileRow)]
    return replace(layout, rows=layout.rows[1:]) if named == [0] else layout


def code_layout(
    text: str, language: str, most: int = MAX_ROWS, how: str = "", marks: Sequence[tuple[int, int]] = ()
) -> Layout:
    """The first lines of a text without changes, e.g. a command. `marks`: ranges to highlight."""
    lines = [DiffLine("kept", line) for line in text.split("\n")]
    shown = lines[:most]
    starts = accumulate((len(line.text) + 1 for line in shown), initial=0)
    rows = tuple(
        LineRow(line, "code", 0, at, marks=_marks_in(marks, start, start + len(line.text)))
        for at, (line, start) in enumerate(zip(shown, starts, strict=False))
    )
    left_out = max(0, len(lines) - most)
    return Layout(_with_rest(rows, left_out, how), ((language, Hunk("", tuple(lines))),), left_out)


def _marks_in(marks: Sequence[tuple[int, int]], first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The parts of the marks inside a line, relative to its start."""
    return tuple(
        (max(start, first) - first, min(end, last) - first) for start, end in marks if start < last and end > first
    )


def _with_rest(rows: tuple[DiffRow, ...], left_out: int, how: str) -> tuple[DiffRow, ...]:
    """The rows and the number of lines left out."""
    return (
        (*rows, RemarkRow(f"… {pluralize(left_out, 'more line')} {'is' if left_out == 1 else 'are'} not shown{how}"))
        if left_out
        else rows
    )


def _numbers(hunks: Iterable[tuple[str, Hunk]]) -> Iterator[int]:
    return (max(line.old, line.new) for _, hunk in hunks for line in hunk.lines)


def _lines_in(row: DiffRow) -> int:
    """Number of diff lines that a row shows; an unchanged line counts once for both sides."""
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
    """The rows, and the hunks that they cover."""
    for file in files:
        if file.name:
            yield FileRow(file)
        is_first = True
        wide = width >= WIDE and _has_sides(file, width)
        for part in file.parts:
            match part:
                case Remark(text=text):
                    yield RemarkRow(text)
                case Hunk(heading=heading):
                    if heading or not is_first:
                        yield GapRow(heading)
                    is_first = False
                    hunks.append((file.name or name, part))
                    yield from _hunk_rows(part, len(hunks) - 1, wide)


def _has_sides(file: FileDiff, width: int) -> bool:
    """Whether the file exists before and after, and its lines fit into half of the width."""
    kinds = {line.kind for line in file.lines}
    if not kinds - {"added"} or not kinds - {"removed"}:
        return False
    lines = list(islice(file.lines, _MAX_MEASURED_LINES))
    side = width // 2 - len(str(max(line.new for line in lines))) - 5  # its number, its sign and what stands between
    return sum(len(line.text.expandtabs(4)) <= side for line in lines) >= _MIN_FITTING_SHARE * len(lines)


def _hunk_rows(hunk: Hunk, index: int, wide: bool) -> Iterator[DiffRow]:
    old = new = at = 0
    budget = _MAX_HUNK_PAIRS
    while at < len(hunk.lines):
        line = hunk.lines[at]
        if line.kind == "kept":
            left, right = LineRow(line, "old", index, old), LineRow(line, "new", index, new)
            yield PairRow(left, right) if wide else right
            old, new, at = old + 1, new + 1, at + 1
            continue
        end = at
        while end < len(hunk.lines) and hunk.lines[end].kind != "kept":
            end += 1
        removed = [line for line in hunk.lines[at:end] if line.kind == "removed"]
        added = [line for line in hunk.lines[at:end] if line.kind == "added"]
        cost = len(removed) * len(added)
        cost = cost if cost <= min(MAX_COMPARED_PAIRS, budget) else 0
        budget -= cost
        pairs = pair_lines(
            [line.text for line in removed], [line.text for line in added], MAX_COMPARED_PAIRS if cost else 0
        )
        rows = [
            PairRow(
                None if i is None else LineRow(removed[i], "old", index, old + i, None if j is None else added[j]),
                None if j is None else LineRow(added[j], "new", index, new + j, None if i is None else removed[i]),
            )
            for i, j in pairs
        ]
        if wide:
            yield from rows
        else:
            yield from (row.old for row in rows if row.old is not None)
            yield from (row.new for row in rows if row.new is not None)
        old, new, at = old + len(removed), new + len(added), end

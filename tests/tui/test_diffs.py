"""Diffs: read, laid out and drawn."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ebbtide.tools.files.change import diff_lines
from ebbtide.tui.render.diff_lines import RenderedDiff, SegmentLine, displayed_line, with_visible_spaces, wrap_at_spaces
from ebbtide.tui.render.diff_pairing import ChangedRanges, find_changed_ranges, pair_lines
from ebbtide.tui.render.diff_rows import (
    DiffLayout,
    LineRow,
    PairRow,
    RemarkRow,
    build_code_layout,
    build_diff_layout,
    change_range,
    without_blank_edges,
)
from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.text.unified_diff import DiffLine, FileDiff, Hunk, Remark, count_changes, parse_diff
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.outcomes import call_diff
from tests.kit.plain_lines import PALETTE

CONSOLE = PaletteConsole(PALETTE)


def plain(line: SegmentLine) -> str:
    return "".join(segment.text for segment in line)


def drawn(diff: str, width: int, name: str = "") -> list[str]:
    """All lines of a diff, without the blanks at their ends."""
    layout = build_diff_layout(parse_diff(diff), width=width, name=name)
    found = RenderedDiff(layout, width, CONSOLE)
    return [plain(found.get_line(y)).rstrip() for y in range(found.line_count)]


def test_lines_are_numbered_and_files_named() -> None:
    assert parse_diff("--- a/x.py\n+++ b/x.py\n@@ -3,3 +3,3 @@ def f():\n a\n-b\n+c\n d\n") == (
        FileDiff(
            "x.py",
            parts=(
                Hunk(
                    "def f():",
                    (
                        DiffLine("kept", "a", 3, 3),
                        DiffLine("removed", "b", 4, 0),
                        DiffLine("added", "c", 0, 4),
                        DiffLine("kept", "d", 5, 5),
                    ),
                ),
            ),
        ),
    )


def test_no_changed_line_can_pose_as_a_header() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/innocent\n+++ b/innocent\n @@ -0,0 +1 @@\n"
    (file,) = parse_diff(diff)
    assert [line.kind for line in file.lines] == ["removed", "added", "kept"]
    assert count_changes(diff) == (1, 1)
    assert "++ b/innocent" in "\n".join(drawn(diff, 80))


def test_files_that_come_go_and_move_say_so() -> None:
    assert drawn("--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x", 80) == ["n.py  new", "1 + x"]
    assert drawn("--- a/o.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x", 80) == ["o.py  deleted", "1 - x"]
    moved = "rename from a.py\nrename to b.py\n--- a/a.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y"
    assert drawn(moved, 80) == ["a.py → b.py", "1 - x", "1 + y"]
    assert drawn("rename from a\nrename to b", 80) == ["a → b"]


def test_what_is_no_line_of_a_file_is_shown_as_a_remark() -> None:
    diff = "--- a/x.png\n+++ b/x.png\nbinary data, not shown: 3 bytes -> 4 bytes"
    assert parse_diff(diff) == (FileDiff("x.png", parts=(Remark("binary data, not shown: 3 bytes -> 4 bytes"),)),)
    assert drawn(diff, 80) == ["x.png", "binary data, not shown: 3 bytes -> 4 bytes"]


def test_a_missing_line_end_is_said_and_other_line_ends_show() -> None:
    diff = "\n".join(diff_lines("f", b"a\nb", b"a\nb\r\n"))
    assert drawn(diff, 80) == [
        "f",
        "1   a",
        "2 - b",
        "    no newline at the end of the file",
        "2 + b␍",
    ]


def test_a_line_has_its_number_in_the_file_as_it_becomes_and_a_removed_one_that_before() -> None:
    diff = "\n".join(diff_lines("f", b"a\nb\nc\nd\n", b"a\nc\nd\ne\n"))
    assert drawn(diff, 80) == ["f", "1   a", "2 - b", "2   c", "3   d", "4 + e"]
    assert drawn(diff, 20) == ["f", "  a", "- b", "  c", "  d", "+ e"]


def test_blank_lines_that_stay_are_no_beginning_and_no_end_where_little_is_shown() -> None:
    (file,) = parse_diff("\n".join(diff_lines("f", b"\na\n\nb\n\n", b"\na\n\nc\n\n")))
    (hunk,) = without_blank_edges(file).parts
    assert isinstance(hunk, Hunk)
    assert [line.text for line in hunk.lines] == ["a", "", "b", "c"]
    (added,) = parse_diff("\n".join(diff_lines("f", b"a\n", b"a\n\n")))
    assert without_blank_edges(added) == added


def test_the_first_change_is_what_changes_and_stands_together() -> None:
    diff = "\n".join(diff_lines("f", b"a\nb\nc\nd\ne\n", b"a\nB\nc\nd\nE\n"))
    assert change_range(build_diff_layout(parse_diff(diff)).rows, 0) == (2, 4)
    assert change_range(build_diff_layout(parse_diff(diff), width=200).rows, 0) == (2, 3)
    assert change_range(build_code_layout("a\nb", "python").rows, 0) == (0, 0)


def test_calls_without_a_preview_show_what_their_arguments_change() -> None:
    assert count_changes(call_diff(Call("1", "edit", {"path": "a", "old": "x\ny", "new": "x\nz\nw"}))) == (2, 1)
    assert count_changes(call_diff(Call("1", "write", {"path": "a", "content": "x\ny\n"}))) == (2, 0)
    patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ def f\n-x\n+y\n*** Delete File: c\n*** End Patch"
    assert count_changes(call_diff(Call("1", "apply_patch", {"patch": patch}))) == (1, 1)
    assert drawn(patch, 80) == ["a → b", "⋯ def f", "- x", "+ y", "c  deleted"]
    assert call_diff(Call("1", "bash", {"command": "x"})) == ""
    assert call_diff(Call("1", "edit", {"path": 3})) == ""


def test_a_file_of_one_side_has_the_whole_width() -> None:
    new = parse_diff("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n")
    assert build_diff_layout(new, width=200).rows == build_diff_layout(new).rows


def test_side_by_side_where_there_is_room() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n same\n-old line\n-gone\n+new line"
    lines = drawn(diff, 121)
    assert [tuple(part.rstrip() for part in line.split("│")) for line in lines[1:]] == [
        ("1   same", "1   same"),
        ("2 - old line", "2 + new line"),
        ("3 - gone", ""),
    ]


def test_a_long_line_goes_on_below_itself() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "0123456789" * 3
    assert drawn(diff, 24) == ["x", "1 + 01234567890123456789", "    0123456789"]
    assert drawn(diff, 12) == ["x", "+ 0123456789", "  0123456789", "  0123456789"]


def test_tabs_and_wide_characters_keep_their_columns() -> None:
    assert drawn("@@ -1 +1 @@\n-\tx\n+日本語", 6) == ["-", "  x", "+ 日本", "  語"]


def test_the_words_that_changed_are_marked() -> None:
    assert find_changed_ranges("return old_name(a, b)", "return new_name(a, c)") == ChangedRanges(
        ((7, 15), (19, 20)), ((7, 15), (19, 20))
    )
    assert find_changed_ranges("return 1", "class Other: pass") is None
    assert find_changed_ranges("  x = 1", "    x = 1") == ChangedRanges(((0, 2),), ((0, 4),))
    assert find_changed_ranges("a" * 3_000, "a" * 3_000 + "b") is None


def test_lines_that_are_alike_stand_beside_each_other() -> None:
    removed = ["x = compute(a)", "return x"]
    added = ["# first", "x = compute(a, b)", "log(x)", "return x"]
    assert pair_lines(removed, added) == [(None, 0), (0, 1), (None, 2), (1, 3)]
    assert pair_lines(["a"] * 30, ["b"] * 20) == [(at, at if at < 20 else None) for at in range(30)]


def test_blanks_that_look_the_same_are_shown_where_they_are_all_that_changed() -> None:
    diff = "@@ -1 +1 @@\n-\tx = 1\n+    x = 1"
    assert drawn(diff, 40) == ["- →   x·=·1", "+ ····x·=·1"]
    assert len(with_visible_spaces("\ta b\tc")) == len(displayed_line("\ta b\tc"))


def test_changed_words_and_grounds_are_styled() -> None:
    layout = build_diff_layout(parse_diff("@@ -1 +1 @@\n-a = one\n+a = two"), name="x.py")
    line = RenderedDiff(layout, 20, CONSOLE).get_line(1)
    assert {segment.text: segment.style.bgcolor for segment in line if segment.style}[
        "two"
    ] == PALETTE.added_word.bgcolor
    assert all(segment.style and segment.style.bgcolor for segment in line)


def test_where_colours_do_not_mix_changed_lines_have_inks() -> None:
    names = ("background", "foreground", "primary", "accent", "success", "warning", "error")
    inks = ("ansi_black", "ansi_white", "ansi_blue", "ansi_cyan", "ansi_green", "ansi_yellow", "ansi_red")
    palette = get_palette(dict(zip(names, inks, strict=True)))
    layout = build_diff_layout(parse_diff("@@ -1 +1 @@\n-a = one\n+a = two"), name="x.py")
    line = RenderedDiff(layout, 20, PaletteConsole(palette)).get_line(1)
    assert {segment.style.color for segment in line if segment.style} == {palette.good.color}


def test_a_huge_diff_is_capped_and_says_so() -> None:
    diff = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,100000 @@\n" + "\n".join(f"+{number}" for number in range(100_000))
    layout = build_diff_layout(parse_diff(diff), max_rows=100, hint="; `m` shows more")
    assert layout.omitted_count == 99_901
    assert layout.rows[-1] == RemarkRow("… 99,901 more lines; `m` shows more")
    assert count_changes(diff) == (100_000, 0)


def test_code_is_shown_whole_without_numbers() -> None:
    layout = build_code_layout("for x in *; do\n  echo $x\ndone", "bash")
    found = RenderedDiff(layout, 40, CONSOLE)
    assert [plain(found.get_line(y)).rstrip() for y in range(found.line_count)] == [
        "for x in *; do",
        "  echo $x",
        "done",
    ]


TEXTS = st.text(st.sampled_from("ab \t日\x1b\r\u202eé\x00\u0301🙂_(x"), max_size=30)
FILES = st.lists(TEXTS.map(lambda text: text.replace("\n", "")), max_size=14).map("\n".join)


def sides(layout: DiffLayout) -> tuple[list[DiffLine], list[DiffLine]]:
    """The lines that are shown of the old file and of the new one, in order."""
    rows = [half for row in layout.rows for half in ((row.old, row.new) if isinstance(row, PairRow) else (row,))]
    lines = [row for row in rows if isinstance(row, LineRow)]
    both = [row.line for row in lines if row.line.kind == "kept"] if not any_pairs(layout) else []
    old = [row.line for row in lines if row.side == "old" or row.line in both]
    return old, [row.line for row in lines if row.side == "new"]


def any_pairs(layout: DiffLayout) -> bool:
    return any(isinstance(row, PairRow) for row in layout.rows)


@pytest.mark.parametrize("wide", [False, True])
@given(before=FILES, after=FILES)
def test_every_line_is_shown_once_on_each_side(wide: bool, before: str, after: str) -> None:
    files = parse_diff("\n".join(diff_lines("x.py", before.encode(), after.encode())))
    lines = [line for file in files for line in file.lines]
    old, new = sides(build_diff_layout(files, width=200 * wide))
    assert old == [line for line in lines if line.kind != "added"]
    assert new == [line for line in lines if line.kind != "removed"]


@given(before=FILES, after=FILES, width=st.integers(1, 150), name=st.sampled_from(["a.py", "Makefile", "b.md", "\x1b"]))
def test_no_line_is_wider_than_there_is_room_and_none_steers(before: str, after: str, width: int, name: str) -> None:
    diff = "\n".join(diff_lines(name, before.encode(), after.encode()))
    found = RenderedDiff(build_diff_layout(parse_diff(diff), width=width), width, CONSOLE)
    for y in range(found.line_count):
        line = plain(found.get_line(y))
        assert cell_len(line) == width
        assert sanitise(line) == line
        assert "\n" not in line
        assert "\t" not in line


@given(TEXTS, TEXTS)
def test_marks_lie_in_their_lines_and_leave_the_rest_equal(old: str, new: str) -> None:
    marks = find_changed_ranges(old, new)
    if marks is not None:
        assert _without(old, marks.old).split() == _without(new, marks.new).split()


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        assert 0 <= start < end <= len(text)
        text = text[:start] + text[end:]
    return text


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8))
def test_each_line_stands_in_one_pair_and_in_order(removed: list[str], added: list[str]) -> None:
    pairs = pair_lines(removed, added)
    assert [i for i, _ in pairs if i is not None] == list(range(len(removed)))
    assert [j for _, j in pairs if j is not None] == list(range(len(added)))


@given(st.text(st.sampled_from("+-@ \\\nab,1-/*"), max_size=200))
def test_any_text_can_be_read_as_a_diff(text: str) -> None:
    for width in (10, 130):
        assert all(sanitise(line) == line for line in drawn(text, width))


@given(st.text("ab \t界é"), st.integers(2, 12))
def test_the_pieces_of_a_long_line_are_the_line_and_fit(text: str, room: int) -> None:
    pieces = wrap_at_spaces(text, room)
    assert "".join(pieces) == text
    assert all(cell_len(piece) <= room for piece in pieces)


def test_a_long_line_is_cut_at_a_blank_that_is_near() -> None:
    assert wrap_at_spaces("total(lines, discount) -> int", 12) == ["total(lines,", " discount) ", "-> int"]
    assert wrap_at_spaces("", 3) == [""]


@pytest.mark.parametrize("sign", ["a\u0300", "e\u0301\u0302\u0303", "👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈"])
def test_a_sign_of_several_characters_is_not_torn(sign: str) -> None:
    pieces = wrap_at_spaces(sign * 60, 11)
    assert "".join(pieces) == sign * 60
    assert all(piece == sign * (len(piece) // len(sign)) and cell_len(piece) <= 11 for piece in pieces)

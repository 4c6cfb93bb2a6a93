"""Diffs: what they say, that they are right, and that no input makes them slow."""

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.files.change import Change, diff_changes, diff_lines
from ebbtide.tools.files.diff import NO_FINAL_NEWLINE
from ebbtide.tools.files.line_diff import Region, find_differing_regions

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d e", "\r", "é"]), max_size=60)


def rebuilt(old: Sequence[str], new: Sequence[str], regions: Sequence[Region]) -> list[str]:
    """The new lines, made from the old ones and the regions."""
    found: list[str] = []
    at = 0
    for region in regions:
        found += [*old[at : region.old_start], *new[region.new_start : region.new_end]]
        at = region.old_end
    return [*found, *old[at:]]


@given(LINES, LINES)
def test_the_regions_make_one_text_the_other(old: list[str], new: list[str]) -> None:
    assert rebuilt(old, new, find_differing_regions(old, new)) == new


@given(st.permutations(range(400)), st.integers(0, 399))
def test_lines_in_another_order_are_found_as_well(order: list[int], cut: int) -> None:
    old, new = list(range(400)), order[:cut]
    lines = [str(line) for line in old], [str(line) for line in new]
    assert rebuilt(*lines, find_differing_regions(*lines)) == lines[1]


def test_a_line_that_stands_once_holds_the_others_in_place() -> None:
    old = [f"line {number}" for number in range(1_000)]
    new = [*old[:300], "more", *old[300:700], *old[701:]]
    assert find_differing_regions(old, new) == [Region(300, 300, 300, 301), Region(700, 701, 701, 701)]


def test_large_texts_of_few_lines_count_as_replaced_after_a_while() -> None:
    old, new = ["a", "b"] * 50_000, ["b", "c", "a"] * 40_000
    found = find_differing_regions(old, new)
    assert rebuilt(old, new, found) == new


def test_a_missing_line_end_shows() -> None:
    assert diff_lines("f", b"a\nb", b"a\nb\n") == [
        "--- a/f",
        "+++ b/f",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        NO_FINAL_NEWLINE,
        "+b",
    ]


def test_line_ends_show_where_they_change_and_only_there() -> None:
    assert diff_lines("f", b"a\r\nb\r\n", b"a\r\nc\r\n")[2:] == ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert diff_lines("f", b"a\nb\n", b"a\nb\r\n")[2:] == ["@@ -1,2 +1,2 @@", " a", "-b", "+b\r"]
    assert diff_lines("f", b"a\r\nb\r\n", b"a\nb\n")[2:] == ["@@ -1,2 +1,2 @@", "-a\r", "-b\r", "+a", "+b"]


def test_a_change_of_the_encoding_alone_is_said() -> None:
    assert diff_lines("f", b"\xef\xbb\xbfa\n", b"a\n") == [
        "--- a/f",
        "+++ b/f",
        "encoding: utf-8 with a byte order mark -> utf-8",
    ]


def test_what_is_no_text_is_only_said_to_change() -> None:
    assert diff_lines("f", b"\0" * 10, None) == [
        "--- a/f",
        "+++ /dev/null",
        "binary data, not shown: 10 bytes -> none",
    ]
    assert diff_lines("f", b"\0", b"\0") == []


def test_empty_files_come_and_go() -> None:
    assert diff_lines("f", None, b"") == ["--- /dev/null", "+++ b/f"]
    assert diff_lines("f", b"", None) == ["--- a/f", "+++ /dev/null"]


def test_a_moved_file_is_one_change(tmp_path: Path) -> None:
    moved = [Change(tmp_path / "new.py", None, b"a\nc\n"), Change(tmp_path / "old.py", b"a\nb\n", None)]
    assert diff_changes(moved, tmp_path).split("\n") == [
        "rename from old.py",
        "rename to new.py",
        "--- a/old.py",
        "+++ b/new.py",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]


def test_the_name_of_a_file_stays_on_its_line() -> None:
    assert diff_lines("a\n+++ b/innocent\x1b[2J", None, b"") == ["--- /dev/null", "+++ b/a\\x0a+++ b/innocent\\x1b[2J"]

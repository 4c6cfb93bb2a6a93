from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.edits.alignment import AmbiguousLineError
from ebbtide.tools.edits.matching import (
    Matches,
    NearMiss,
    adapt_replacement,
    apply_replacements,
    find_nearest_lines,
    find_text,
)
from ebbtide.tools.files.text import Replacement, TextFile, decode_file

LINES = st.lists(st.text(alphabet="ab {}\t", max_size=6), min_size=1, max_size=8)


def edited(text: str, old: str, new: str) -> str:
    return apply_replacements(text, changes(text, old, new))


def changes(text: str, old: str, new: str) -> tuple[Replacement, ...]:
    matches = find_text(text, old)
    return tuple(adapt_replacement(text, place, old, new) for place in matches.non_overlapping)


@given(st.text(alphabet="ab\n "), st.text(alphabet="ab\n ", min_size=1), st.text(alphabet="ab\n\\$"))
def test_an_exact_match_is_replaced_literally_everywhere(text: str, old: str, new: str) -> None:
    if old in text:
        assert edited(text, old, new) == text.replace(old, new)
        assert find_text(text, old).closeness == "exact"


@given(LINES, st.data())
def test_changes_are_in_order_and_inside_the_text(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    old = "\n".join(line.strip() for line in data.draw(LINES))
    at, found = 0, tuple[Replacement, ...]()
    with suppress(AmbiguousLineError):
        found = changes(text, old, "new")
    for change in found:
        assert at <= change.start <= change.end <= len(text)
        at = change.end


@given(LINES)
def test_blanks_at_line_ends_and_indentation_do_not_hide_a_text(lines: list[str]) -> None:
    text = "\n".join(f"    {line}  " for line in lines)
    old = "\n".join(line.rstrip() for line in lines)
    assert bool(find_text(text, old).spans) == bool(old.strip() or (old in text and old))


def test_the_new_text_takes_the_indentation_of_the_file() -> None:
    text = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    old = "def f(self):\n    return 1"
    new = "def f(self):\n    if x:\n        return 2\n    return 1"
    assert edited(text, old, new) == ("class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 2\n\t\treturn 1\n")


def test_an_indented_block_moves_by_as_much_as_its_first_line() -> None:
    text = "if a:\n    if b:\n        one()\n        two()\n"
    assert edited(text, "    one()\n    two()", "    one()\n    for x in y:\n        two()") == (
        "if a:\n    if b:\n        one()\n        for x in y:\n            two()\n"
    )


def test_lines_without_any_indentation_take_that_of_their_counterparts() -> None:
    text = "  if (true) {\n    return false;\n  }"
    assert edited(text, "if (true) {\nreturn false;\n}", "if (false) {\nreturn true;\n}") == (
        "  if (false) {\n    return true;\n  }"
    )


def test_a_place_that_fits_by_a_part_of_a_line_is_not_the_one_of_whole_lines() -> None:
    text = "x\nf('y')\n\t\nf('y')"
    assert edited(text, "\nf(\u2019y\u2019)\n", "\ng()\n") == "x\nf('y')\n\t\ng()"


def test_a_line_that_comes_again_keeps_the_blanks_at_its_end_that_the_model_wrote() -> None:
    text = "    with a:\n        b\n        try:  \n"
    assert edited(text, "with a:\n    b\n    try:  ", "with a:\n    b\n    try:\n        try:  ") == (
        "    with a:\n        b\n        try:\n            try:  \n"
    )


def test_typographic_signs_match_plain_ones_and_stay_where_nothing_changes() -> None:
    text = "say “hello” – now"
    assert edited(text, 'say "hello" - now', 'say "hello" - later') == "say “hello” – later"


def test_an_old_text_with_a_line_end_fits_at_the_end_of_a_file_without_one() -> None:
    assert edited("a\n  b", "b\n", "c\n") == "a\n  c"


def test_a_middle_that_differs_is_no_match() -> None:
    text = "f(a) {\n  x = 1\n  y = 2\n}"
    assert find_text(text, "f(a) {\n  // something\n}") == Matches((), "none")


def test_the_nearest_lines_are_found_with_their_number() -> None:
    text = "one\ntwo\ndef compute(value):\n    return value + 1\nend"
    wanted = "def compute(values):\n    return values + 1"
    assert find_nearest_lines(text, wanted) == NearMiss(3, ("def compute(value):", "    return value + 1"))
    assert find_nearest_lines(text, "%%%%%%%%") is None


@given(st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r"])), st.data())
def test_bytes_outside_a_change_stay(pieces: list[str], data: st.DataObject) -> None:
    file = decode_file("".join(pieces).encode())
    start = data.draw(st.integers(0, len(file.normalised_text)))
    end = data.draw(st.integers(start, len(file.normalised_text)))
    after = file.with_changes([Replacement(start, end, "X\nY")])
    assert after.normalised_text == TextFile(after.text, newline=file.newline).normalised_text
    expected = file.normalised_text[:start] + "X\nY" + file.normalised_text[end:]
    assert after.normalised_text == expected


@given(st.binary())
def test_what_was_decoded_gives_the_same_bytes(raw: bytes) -> None:
    assert decode_file(raw).encode() == raw


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("für\nände\n", "latin-1"),
        ("déjà", "latin-1"),
        ("日本語のテキスト\n二行目\n", "shift_jis"),
        ("中文文本内容很多很多\n第二行\n", "gbk"),
    ],
)
def test_a_short_text_is_read_in_its_own_encoding(text: str, codec: str) -> None:
    assert decode_file(text.encode(codec)).text == text


def test_a_near_miss_of_very_many_lines_is_found_by_their_beginning() -> None:
    lines = [f"value_{number} = {number}" for number in range(4_000)]
    miss = find_nearest_lines("\n".join(["import os", *lines]), "\n".join(["value_0 = 1", *lines[1:]]))
    assert miss == NearMiss(2, tuple(lines))

"""The names in what a preview leaves out."""

import re
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import ToolOutput
from ebbtide.agent.view.name_index import MAX_INDEXED_BYTES, build_name_index, max_index_bytes, names_in_order
from ebbtide.agent.view.previews import OffloadLimits, StreamedPreview, cut_output, text_without_insertions


def test_names_are_words_that_nobody_says_by_chance_each_once_in_the_order_in_which_they_stand() -> None:
    text = (
        "We looked at src/context/apply_strategy.py and at useSharedNavigation.ts again: see av-991.4, "
        "WriteCommitted and WriteCommitted, well-known, internationally, 2026-11-23T10, 1.250.000, 0123456789abcdef"
    )
    assert build_name_index(text, "") == (
        "\nnames left out: apply_strategy.py useSharedNavigation.ts av-991.4 WriteCommitted"
    )


def test_what_is_shown_has_no_place_in_the_index() -> None:
    assert build_name_index("first_name second_name", "def first_name():") == "\nnames left out: second_name"
    assert build_name_index("first_name second_name", "first_name, second_name") == ""
    assert build_name_index("", "") == ""


def test_an_index_takes_little_and_says_that_there_are_more() -> None:
    index = build_name_index(" ".join(f"name_{a}_of_{b}" for a in ascii_lowercase for b in ascii_lowercase), "")
    assert index.startswith("\nnames left out: name_a_of_a name_a_of_b ")
    assert index.endswith(" …")
    assert 850 < len(index) <= 920


def test_of_names_that_differ_in_numbers_a_few_stand_for_all() -> None:
    index = build_name_index(" ".join(f"test_error_{number}" for number in range(1000)) + " parse_dates", "")
    assert index == "\nnames left out: test_error_0 test_error_1 test_error_2 parse_dates …"


def test_a_single_word_without_end_is_no_name() -> None:
    assert build_name_index("a_" * 30_000, "") == ""


def preview(data: bytes) -> str:
    skim = StreamedPreview()
    skim.add_chunk(data)
    return skim.preview(OffloadLimits())


def test_a_preview_of_one_long_line_names_what_stands_in_its_middle() -> None:
    line = b'{"body": "' + b"word " * 1000 + b"see key_rotation.rs and deriveIpnsKeypair " + b"word " * 1000 + b'"}'
    assert preview(line).endswith("\nnames left out: key_rotation.rs deriveIpnsKeypair")


def test_a_long_log_and_what_is_no_text_have_no_index() -> None:
    line = b"12:00:01 some_module: done\n"
    assert "names left out" not in preview(line * (MAX_INDEXED_BYTES // len(line) + 1))
    assert "names left out" not in preview(bytes(range(8)) * 1000 + b"some_module_name")


@given(st.text(), st.text())
def test_whatever_stands_in_an_output_an_index_is_one_line(text: str, visible: str) -> None:
    index = build_name_index(text, visible)
    assert index.count("\n") == bool(index)
    assert len(index) <= 920


@pytest.mark.parametrize(("size", "most"), [(10, 900), (4_100, 900), (20_000, 2_400), (65_000, 4_500)])
def test_a_long_output_has_a_longer_index(size: int, most: int) -> None:
    assert max_index_bytes(size) == most


def test_a_preview_has_an_index_of_that_size() -> None:
    names = " ".join(f"name_{a}{b}_of_{c}" for a in ascii_lowercase for b in ascii_lowercase for c in "abcdef")
    text = preview(f"{'word ' * 400}{names}"[:20_000].encode())
    assert 2_380 < len(text.partition("\nnames left out: ")[2]) <= 2_402


def test_a_text_that_is_cut_for_want_of_room_names_what_is_left_out() -> None:
    text = f"{'word ' * 400}see key_rotation.rs and deriveIpnsKeypair {'word ' * 400}"
    cut = cut_output(ToolOutput("c1", text), 1_000, len(text), lambda output: 0, "it is kept")
    ((start, end),) = cut.inserted
    assert cut.text[:start].startswith("word word")
    assert cut.text[start:end].startswith("[… ")
    assert cut.text[start:end].endswith("; it is kept …]\nnames left out: key_rotation.rs deriveIpnsKeypair\n")
    own = text_without_insertions(cut.text, cut.inserted)
    assert 900 < len(own) < 1_000
    assert "key_rotation" not in own


@given(
    st.lists(st.sampled_from([*(f"some_name_{letter}" for letter in ascii_lowercase), "word", "\n"]), min_size=1),
    st.floats(0, 0.99),
)
def test_whatever_is_cut_its_own_words_are_both_ends_of_it(words: list[str], share: float) -> None:
    text = " ".join(words)
    room = int(share * len(text))
    cut = cut_output(ToolOutput("c1", text), room, len(text), lambda output: 0, "it is kept")
    ((start, end),) = cut.inserted
    assert text.startswith(cut.text[: max(start - 1, 0)])
    assert text.endswith(cut.text[end:])
    assert len(text_without_insertions(cut.text, cut.inserted)) <= room + 1


@given(st.text("abZ_09.-é \n", max_size=60))
def test_all_names_are_found_in_order_wherever_they_stand(text: str) -> None:
    words = [match[0] for match in re.finditer(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*", text)]
    marked = [word for word in words if 8 <= len(word) <= 80 and re.search(r"[0-9_.]|[a-z][A-Z]", word)]
    numbers = [word for word in marked if re.fullmatch(r"[\d.-]*\d(?:T\d+)?|[0-9a-f]{12,}", word)]
    assert names_in_order(text) == tuple(dict.fromkeys(word for word in marked if word not in numbers))

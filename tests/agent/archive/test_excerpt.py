"""The part of a text that shows why it was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.archive.excerpt import MAX_EXCERPT_CHARS, make_excerpt

LINES = "".join(f"line {number}\n" for number in range(1000))


@pytest.mark.parametrize("words", [("line", "700"), ("700",), ("700", "nowhere")])
def test_it_stands_around_the_rarest_word(words: tuple[str, ...]) -> None:
    found = make_excerpt(LINES, words)
    assert "line 700\n" in found
    assert found.startswith("… line ")
    assert found.endswith(" …")


def test_whole_words_count_before_parts_of_others() -> None:
    assert "the cat sat" in make_excerpt("concatenate " * 100 + "the cat sat " + "x " * 300, ("cat",))
    assert "concatenate" in make_excerpt("x " * 300 + "concatenate " + "x " * 300, ("cat",))


def test_a_place_where_the_words_stand_together_is_shown() -> None:
    apart = "retry " + "x " * 400 + "limit " + "x " * 400
    assert "the retry limit" in make_excerpt(
        apart + "the retry limit is here " + "x " * 400 + "limit", ("retry", "limit")
    )


@pytest.mark.parametrize("words", [(), ("",), ("nowhere",)])
def test_without_a_hit_it_is_the_beginning(words: tuple[str, ...]) -> None:
    assert make_excerpt(LINES, words).startswith("line 0\nline 1\n")
    assert make_excerpt("short", words) == "short"


@given(st.text(max_size=2000), st.lists(st.text(max_size=8), max_size=5))
def test_it_is_never_longer_than_it_may_be_and_stands_in_the_text(text: str, words: list[str]) -> None:
    passage = make_excerpt(text, words).removeprefix("… ").removesuffix(" …")
    assert len(passage) <= MAX_EXCERPT_CHARS
    assert passage in text

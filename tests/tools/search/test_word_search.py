"""Words looked for in content of any size, piece by piece."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.outputs.stored_content import InMemoryContent
from ebbtide.tools.search import word_search as wordscan
from ebbtide.tools.search.word_search import ScanResult, scan_words

TEXTS = st.lists(st.sampled_from(["a", "b", "Ä", "ä", "漢", "Ж", "_", "-", " ", "\n", "x" * 30])).map("".join)
WORDS = st.lists(st.text("aäb漢ж-", min_size=1, max_size=4), min_size=1, max_size=3)


def test_the_first_line_of_each_word_is_told_with_its_number() -> None:
    whole = ("filler\n" * 100_000 + "a Needle here\n" + "y" * 300 + " hay-stack, Ünd\n").encode()
    needle, hay = (100_001, "a Needle here"), (100_002, "… " + "y" * 79 + " hay-stack, Ünd")
    assert scan_words(InMemoryContent(whole), ["needle", '"HAY STACK"', "ünd"], lambda: False) == ScanResult(
        (needle, hay), True, len(whole)
    )
    assert scan_words(InMemoryContent(whole), ["eedle", "needle"], lambda: False) == ScanResult(
        (needle,), False, len(whole)
    )


@pytest.mark.parametrize("word", ["user_name", "userName", "user-name", "UserName", "HTTPUser", "user name"])
def test_the_words_of_a_name_may_be_glued_or_stand_apart(word: str) -> None:
    whole = ("filler\n" * 50_000 + "userName\nuser_name\nhttp_user\n").encode()
    line = {"HTTPUser": (50_003, "http_user"), "user name": (50_002, "user_name")}.get(word, (50_001, "userName"))
    assert scan_words(InMemoryContent(whole), [word], lambda: False).lines == (line,)


def test_what_is_over_says_how_far_it_got() -> None:
    whole = b"filler\n" * 200_000
    assert scan_words(InMemoryContent(whole), ["needle"], lambda: True) == ScanResult((), False, wordscan.PIECE_BYTES)


@given(TEXTS, WORDS)
def test_no_edge_of_a_piece_hides_a_word_or_makes_one(text: str, words: list[str]) -> None:
    def holds(word: str) -> bool:
        tokens, between = re.findall(r"[^\W_]+", word), r"[\W_]*" if re.fullmatch(r"\w+(-\w+)*", word) else r"[\W_]+"
        return re.search(r"(?<![^\W_])" + between.join(tokens), text.lower()) is not None if tokens else True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordscan, "PIECE_BYTES", 80)
        patch.setattr(wordscan, "_OVERLAP_BYTES", 60)
        found = scan_words(InMemoryContent(text.encode()), words, lambda: False)
    assert found.has_found_all == all(map(holds, words))

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tui.text.fuzzy import rank_matches

NAMES = ("anthropic/claude-opus-5", "openai/gpt-6", "ollama/qwen3", "anthropic/claude-sonnet-5")


def found(words: str) -> list[str]:
    return [NAMES[index] for index in rank_matches(words, NAMES)]


def test_no_words_find_everything_in_its_order() -> None:
    assert found(" ") == list(NAMES)


def test_the_nearest_is_the_first() -> None:
    assert found("opus") == ["anthropic/claude-opus-5"]
    assert found("claude") == ["anthropic/claude-opus-5", "anthropic/claude-sonnet-5"]
    assert found("o") == ["openai/gpt-6", "ollama/qwen3", "anthropic/claude-opus-5", "anthropic/claude-sonnet-5"]
    assert rank_matches("mod", ("whether the model sees it", "/model", "remodel", "models")) == (3, 1, 0, 2)
    assert found("gpt 6") == found("6 gpt") == ["openai/gpt-6"]


def test_letters_in_order_are_enough() -> None:
    assert found("clsn") == ["anthropic/claude-sonnet-5"]
    assert found("qn3") == ["ollama/qwen3"]
    assert found("xyz") == []


@given(st.lists(st.text(max_size=20), max_size=8), st.text(max_size=6))
def test_whatever_is_found_holds_the_letters_in_order(texts: list[str], words: str) -> None:
    for index in rank_matches(words, texts):
        for word in words.lower().split():
            letters = iter(texts[index].lower())
            assert all(letter in letters for letter in word)

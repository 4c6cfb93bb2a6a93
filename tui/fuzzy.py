"""Texts found by a few letters of them. Pure: it ranks, and shows nothing."""

from collections.abc import Sequence


def ranked(words: str, texts: Sequence[str]) -> tuple[int, ...]:
    """The indices of the texts that hold every word, or its letters in order and not far apart, the nearest first;
    texts that are as near as each other stay in their order."""
    wanted = words.lower().split()
    scored = [(index, _distance(wanted, text.lower())) for index, text in enumerate(texts)]
    return tuple(index for index, distance in sorted(scored, key=lambda pair: pair[1]) if distance < _FAR)


_FAR = 1_000_000


def _distance(wanted: Sequence[str], text: str) -> int:
    return min(_FAR, sum(_of_word(word, text) for word in wanted))


def _of_word(word: str, text: str) -> int:
    """0 where the text begins with the word; less for words that stand together, and where a word of it begins."""
    at = text.find(word)
    if at == 0:
        return 0
    if at > 0:
        starts = [i for i in range(len(text)) if text.startswith(word, i) and not text[i - 1].isalnum()]
        return 1 if starts else 2
    gaps, at = 0, -1
    for letter in word:
        following = text.find(letter, at + 1)
        if following < 0:
            return _FAR
        gaps, at = gaps + (following - at - 1 if at >= 0 else 0), following
    return 3 + gaps if gaps <= 2 * len(word) else _FAR

"""Fuzzy matching. Pure."""

from collections.abc import Sequence


def rank_matches(words: str, texts: Sequence[str]) -> tuple[int, ...]:
    """The indices of texts that match every word, or its letters in order and close together, best first; ties keep
    their order."""
    wanted = words.lower().split()
    scored = [(index, _distance(wanted, text.lower())) for index, text in enumerate(texts)]
    return tuple(index for index, distance in sorted(scored, key=lambda pair: pair[1]) if distance < _FAR)


_MAX_OFFSET_PENALTY = 900
_STARTS, _STANDS, _APART, _FAR = 1_000, 2_000, 3_000, 1_000_000


def _distance(wanted: Sequence[str], text: str) -> int:
    distance = 0
    for word in wanted:
        distance += _of_word(word, text)
        if distance >= _FAR:
            return _FAR
    return distance


def _of_word(word: str, text: str) -> int:
    """The score of a word, 0 if the text starts with it. The start of a word counts more than its middle, and that
    more than letters apart; earlier is better."""
    at = text.find(word)
    if at == 0:
        return 0
    if at > 0:
        start = at
        while start > 0 and text[start - 1].isalnum():
            start = text.find(word, start + 1)
        return _STARTS + min(start, _MAX_OFFSET_PENALTY) if start > 0 else _STANDS + min(at, _MAX_OFFSET_PENALTY)
    gaps, at = 0, -1
    for letter in word:
        following = text.find(letter, at + 1)
        if following < 0:
            return _FAR
        gaps, at = gaps + (following - at - 1 if at >= 0 else 0), following
    return _APART + gaps if gaps <= 2 * len(word) else _FAR

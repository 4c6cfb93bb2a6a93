"""Ranks strings by fuzzy matching."""

from collections.abc import Sequence


def rank_matches(query: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Find the strings that match every word of the query, best first, and return their indices. Ties keep their order.
    A string matches a word if it contains the word, or the word's letters in order and close together."""
    query_words = query.lower().split()
    scored = [(index, _score(query_words, text.lower())) for index, text in enumerate(texts)]
    return tuple(index for index, score in sorted(scored, key=lambda pair: pair[1]) if score < _NO_MATCH_SCORE)


_MAX_OFFSET_PENALTY = 900
_WORD_START_SCORE = 1_000
_INSIDE_WORD_SCORE = 2_000
_SEPARATE_LETTERS_SCORE = 3_000
_NO_MATCH_SCORE = 1_000_000


def _score(query_words: Sequence[str], text: str) -> int:
    score = 0
    for word in query_words:
        score += _word_score(word, text)
        if score >= _NO_MATCH_SCORE:
            return _NO_MATCH_SCORE
    return score


def _word_score(word: str, text: str) -> int:
    """Score how well text matches a word. Lower is better; 0 means that the text starts with the word. Matches at the
    start of a word beat those inside a word, and both beat separate letters. Earlier matches are better."""
    offset = text.find(word)
    if offset == 0:
        return 0
    if offset > 0:
        start = offset
        while start > 0 and text[start - 1].isalnum():
            start = text.find(word, start + 1)
        return (
            _WORD_START_SCORE + min(start, _MAX_OFFSET_PENALTY)
            if start > 0
            else _INSIDE_WORD_SCORE + min(offset, _MAX_OFFSET_PENALTY)
        )
    gaps, offset = 0, -1
    for letter in word:
        letter_offset = text.find(letter, offset + 1)
        if letter_offset < 0:
            return _NO_MATCH_SCORE
        gaps, offset = gaps + (letter_offset - offset - 1 if offset >= 0 else 0), letter_offset
    return _SEPARATE_LETTERS_SCORE + gaps if gaps <= 2 * len(word) else _NO_MATCH_SCORE

"""Detect text that has begun to repeat itself endlessly. Pure.

Models, especially small ones, can fall into a loop that only the output limit ends. Deliberate repetition such as
tables of zeros, rulers and lists must not be detected, but is shorter: none of 145,000 files shipped with programs and
their documentation reached half of the thresholds.
"""

from dataclasses import field

from ebbtide.tools.lazy import dataclass, regex

MIN_REPEATS = 8
LEAST_OF_WORDS = 6_000
"""Minimum characters of repeated words, or of blanks only."""
LEAST_OF_SIGNS = 24_000
"""Minimum characters of repeated numbers, symbols or a single word."""
MAX_PIECE_CHARS = 3_000
"""Maximum length of the repeated piece, in characters."""
LOOKED_AT_EVERY = 500
"""Characters between two checks of a growing text."""
_KNOWN_BY = 64
"""Length of the suffix that is searched for earlier in the text, in characters."""
_WORD = regex(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Repetition:
    """A repetition at the end of a text."""

    start: int
    """Where the first repeated piece begins."""
    size: int
    times: int

    @property
    def end_of_first(self) -> int:
        """The end of the first occurrence."""
        return self.start + self.size


@dataclass(slots=True)
class RepetitionWatch:
    """Checks a text as it grows."""

    found: Repetition | None = None
    _text: str = ""
    _new: list[str] = field(default_factory=list)
    _size: int = 0

    def add(self, piece: str) -> Repetition | None:
        """Add a piece and return the repetition that the text now ends in, or None."""
        self._new.append(piece)
        self._size += len(piece)
        if self._size < LOOKED_AT_EVERY:
            return None
        self._text = "".join((self._text, *self._new))
        self._new, self._size = [], 0
        self.found = repetition(self._text)
        return self.found


def repetition(text: str) -> Repetition | None:
    """Return the exact repetition at the end of a text; None if there is none or it is too short to be sure."""
    if len(text) < LEAST_OF_WORDS:
        return None
    known_from = len(text) - _KNOWN_BY
    before = text.rfind(text[known_from:], known_from - MAX_PIECE_CHARS, len(text) - 1)
    if before < 0:
        return None
    size = known_from - before
    piece = text[-size:]
    is_telling = not piece.strip() or len(set(_WORD.findall(piece))) > 1
    least = max(LEAST_OF_WORDS if is_telling else LEAST_OF_SIGNS, MIN_REPEATS * size)
    if len(text) < least or text[-least:-size] != text[size - least :]:
        return None
    start = len(text) - least
    while start > 0 and text[start - 1] == text[start - 1 + size]:
        start -= 1
    return Repetition(start, size, (len(text) - start) // size)

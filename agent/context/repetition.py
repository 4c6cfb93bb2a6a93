"""A text that has begun to say the same again and again: from where on, and how often. Pure.

Models, small ones above all, may fall into a circle that only the limit of a reply ends. What people and programs write
on purpose is not taken for one: tables of zeros, rulers and lists repeat themselves, too, but not for so long. None of
145,000 files that programs and their documentation came with had half of what it takes here.
"""

from dataclasses import field

from ebbtide.tools.lazy import dataclass, regex

MIN_REPEATS = 8
LEAST_OF_WORDS = 6_000
"""Characters that the same words, or nothing but blanks, fill at least."""
LEAST_OF_SIGNS = 24_000
"""Characters that the same numbers, signs or single word fill at least."""
MAX_PIECE_CHARS = 3_000
"""Characters of what is repeated."""
LOOKED_AT_EVERY = 500
"""Characters between two looks at a text that grows."""
_KNOWN_BY = 64
"""Characters at the end of a text that are looked for before it."""
_WORD = regex(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Repetition:
    """What a text ends in."""

    start: int
    """Where the piece begins that is repeated."""
    size: int
    times: int

    @property
    def end_of_first(self) -> int:
        """Behind what is said the first time."""
        return self.start + self.size


@dataclass(slots=True)
class RepetitionWatch:
    """Looks at a text as it grows."""

    found: Repetition | None = None
    _text: str = ""
    _new: list[str] = field(default_factory=list)
    _size: int = 0

    def add(self, piece: str) -> Repetition | None:
        """What the text with this piece ends in; None where it does not repeat itself."""
        self._new.append(piece)
        self._size += len(piece)
        if self._size < LOOKED_AT_EVERY:
            return None
        self._text = "".join((self._text, *self._new))
        self._new, self._size = [], 0
        self.found = repetition(self._text)
        return self.found


def repetition(text: str) -> Repetition | None:
    """How a text repeats itself at its end, to the letter; None where it does not, or not long enough to be sure."""
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

"""Detects text that has begun to repeat itself endlessly.

Models, especially small ones, can fall into a loop that continues until the output limit. Deliberate repetition, such
as tables of zeros, separator lines and lists, must not be detected. It is shorter: none of 145,000 files shipped with
programs and their documentation reached half of the thresholds.
"""

from dataclasses import field

from ebbtide.tools.lazy import dataclass, regex

MIN_REPEATS = 8
MIN_WORD_REPETITION_CHARS = 6_000
"""Minimum length of a repetition of words or of whitespace, in characters."""
MIN_SYMBOL_REPETITION_CHARS = 24_000
"""Minimum length of a repetition of numbers, symbols or a single word, in characters."""
MAX_PIECE_CHARS = 3_000
"""Maximum length of the repeated piece, in characters."""
CHECK_INTERVAL_CHARS = 500
"""Number of new characters after which a growing text is checked again."""
_TAIL_CHARS = 64
"""Number of characters at the end of the text. The preceding text is searched for them."""
_WORD = regex(r"[^\W\d_]{3,}")


@dataclass(frozen=True, slots=True)
class Repetition:
    """A repetition at the end of text."""

    start_offset: int
    """Index at which the first repeated piece begins."""
    piece_chars: int
    repeat_count: int

    @property
    def first_piece_end(self) -> int:
        """Index at which the first repeated piece ends."""
        return self.start_offset + self.piece_chars


@dataclass(slots=True)
class RepetitionDetector:
    """Checks text as it grows."""

    repetition: Repetition | None = None
    _text: str = ""
    _pending_pieces: list[str] = field(default_factory=list)
    _pending_chars: int = 0

    def add(self, piece: str) -> Repetition | None:
        """Add a piece, and check whether the text now ends in a repetition. The check is skipped if too little text has
        arrived since the last one."""
        self._pending_pieces.append(piece)
        self._pending_chars += len(piece)
        if self._pending_chars < CHECK_INTERVAL_CHARS:
            return None
        self._text = "".join((self._text, *self._pending_pieces))
        self._pending_pieces, self._pending_chars = [], 0
        self.repetition = trailing_repetition(self._text)
        return self.repetition


def trailing_repetition(text: str) -> Repetition | None:
    """Find an exact repetition at the end of text. Repetitions that are too short to be certain are ignored."""
    if len(text) < MIN_WORD_REPETITION_CHARS:
        return None
    tail_start = len(text) - _TAIL_CHARS
    previous_offset = text.rfind(text[tail_start:], tail_start - MAX_PIECE_CHARS, len(text) - 1)
    if previous_offset < 0:
        return None
    piece_chars = tail_start - previous_offset
    piece = text[-piece_chars:]
    has_words = not piece.strip() or len(set(_WORD.findall(piece))) > 1
    min_chars = max(MIN_WORD_REPETITION_CHARS if has_words else MIN_SYMBOL_REPETITION_CHARS, MIN_REPEATS * piece_chars)
    if len(text) < min_chars or text[-min_chars:-piece_chars] != text[piece_chars - min_chars :]:
        return None
    start = len(text) - min_chars
    while start > 0 and text[start - 1] == text[start - 1 + piece_chars]:
        start -= 1
    return Repetition(start, piece_chars, (len(text) - start) // piece_chars)

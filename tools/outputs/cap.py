"""Limits on the size of an answer, in bytes and optionally in tokens."""

from collections.abc import Callable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_ANSWER_BYTES = 51_200
"""Maximum size of an answer, in bytes."""
NOTE_BYTES, NOTE_TOKENS = 200, 200
"""Bytes and tokens of it reserved for notes."""
BYTES_A_TOKEN = 3


def by_bytes(text: str) -> int:
    """Estimate the tokens of a text for an unknown model."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class Cap:
    """Limits on the content of an answer. Notes have reserved space of their own."""

    size: int = MAX_ANSWER_BYTES - NOTE_BYTES
    """In bytes."""
    tokens: int | None = None
    """None for no limit on tokens."""
    measure: Callable[[str], int] = by_bytes

    def holds(self, text: str) -> bool:
        return len(text.encode("utf-8", "replace")) <= self.size and (
            self.tokens is None or self.measure(text) <= self.tokens
        )

    def fitting(self, lines: Sequence[str]) -> int:
        """Return how many of the first lines fit together."""
        least, most = 0, len(lines)
        while least < most:
            half = (least + most + 1) // 2
            least, most = (half, most) if self.holds("\n".join(lines[:half])) else (least, half - 1)
        return least

    def truncate(self, text: str) -> str:
        """Return the text, or as much of its beginning as fits with a marker."""
        if self.holds(text):
            return text
        least, most = 0, len(text)
        while least < most:
            half = (least + most + 1) // 2
            least, most = (half, most) if self.holds(f"{text[:half]}…") else (least, half - 1)
        return f"{text[:least]}…"


def cap_of(tokens: int, measure: Callable[[str], int]) -> Cap:
    """Return the cap for an answer of this many tokens, including notes. If that is less than twice the space for
    notes, half of it is for content, and the answer may exceed it by the notes."""
    return Cap(MAX_ANSWER_BYTES - NOTE_BYTES, max(tokens - NOTE_TOKENS, (tokens + 1) // 2), measure)

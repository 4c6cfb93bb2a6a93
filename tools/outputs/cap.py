"""How much of a text one answer may show, in bytes and, where that is asked for, in tokens."""

from collections.abc import Callable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_ANSWER_BYTES = 51_200
"""Bytes of one answer."""
NOTE_BYTES, NOTE_TOKENS = 200, 200
"""Bytes and tokens of that for what is said besides."""
BYTES_A_TOKEN = 3


def by_bytes(text: str) -> int:
    """About how many tokens a text takes, where nobody knows the model."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class Cap:
    """What the content of an answer must stay within. What is said besides has its own room."""

    size: int = MAX_ANSWER_BYTES - NOTE_BYTES
    """Bytes."""
    tokens: int | None = None
    """None: only bytes count."""
    measure: Callable[[str], int] = by_bytes

    def holds(self, text: str) -> bool:
        return len(text.encode("utf-8", "replace")) <= self.size and (
            self.tokens is None or self.measure(text) <= self.tokens
        )

    def fitting(self, lines: Sequence[str]) -> int:
        """How many of the lines, from the first, fit together."""
        least, most = 0, len(lines)
        while least < most:
            half = (least + most + 1) // 2
            least, most = (half, most) if self.holds("\n".join(lines[:half])) else (least, half - 1)
        return least

    def truncate(self, text: str) -> str:
        """The text, or as much of its beginning as fits and a sign that it is cut."""
        if self.holds(text):
            return text
        least, most = 0, len(text)
        while least < most:
            half = (least + most + 1) // 2
            least, most = (half, most) if self.holds(f"{text[:half]}…") else (least, half - 1)
        return f"{text[:least]}…"


def cap_of(tokens: int, measure: Callable[[str], int]) -> Cap:
    """The cap of an answer that may take so many tokens, notes included. Below twice what notes may take, half of it is
    for the content, and the answer may take as much more as notes do."""
    return Cap(MAX_ANSWER_BYTES - NOTE_BYTES, max(tokens - NOTE_TOKENS, (tokens + 1) // 2), measure)

"""Limits on the size of an answer, in bytes and optionally in tokens."""

from collections.abc import Callable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_ANSWER_BYTES = 51_200
"""Maximum size of an answer, in bytes."""
RESERVED_NOTE_BYTES, RESERVED_NOTE_TOKENS = 200, 200
"""Number of bytes and tokens of an answer that are reserved for notes."""
BYTES_PER_TOKEN = 3


def estimate_tokens_by_bytes(text: str) -> int:
    """Estimate the number of tokens in text from its size in bytes, for use when the model is unknown."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Cap:
    """Limits on the content of an answer. The space for notes is not included."""

    max_bytes: int = MAX_ANSWER_BYTES - RESERVED_NOTE_BYTES
    """Maximum size in bytes."""
    max_tokens: int | None = None
    """Maximum number of tokens; None for no limit."""
    estimate_tokens: Callable[[str], int] = estimate_tokens_by_bytes

    def fits(self, text: str) -> bool:
        return len(text.encode("utf-8", "replace")) <= self.max_bytes and (
            self.max_tokens is None or self.estimate_tokens(text) <= self.max_tokens
        )

    def count_fitting_lines(self, lines: Sequence[str]) -> int:
        """Count how many lines fit, starting with the first one."""
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits("\n".join(lines[:middle])) else (low, middle - 1)
        return low

    def truncate(self, text: str) -> str:
        """Return the text if it fits. Otherwise, cut its end off and add an ellipsis."""
        if self.fits(text):
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits(f"{text[:middle]}…") else (low, middle - 1)
        return f"{text[:low]}…"


def create_cap(max_tokens: int, estimate_tokens: Callable[[str], int]) -> Cap:
    """Create the cap for an answer of `max_tokens` tokens, including notes. At least half of the tokens are for
    content, even if that leaves too little space for notes."""
    return Cap(
        MAX_ANSWER_BYTES - RESERVED_NOTE_BYTES,
        max(max_tokens - RESERVED_NOTE_TOKENS, (max_tokens + 1) // 2),
        estimate_tokens,
    )

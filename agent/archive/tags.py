"""Tags: the user's labels for sessions, and which words are valid tags."""

import re
import unicodedata
from collections.abc import Iterable

from ebbtide.agent.errors import UsageError

LONGEST_TAG = 50
MOST_TAGS = 50
"""Most tags of one session."""
_TAG = re.compile(r"\w[\w.:/+-]*")


def tag_named(word: str) -> str:
    """Normalise a tag: `#Parser` and `parser` are the same. Raises `UsageError`."""
    tag = unicodedata.normalize("NFC", word.strip().removeprefix("#")).lower()
    if not _TAG.fullmatch(tag) or len(tag) > LONGEST_TAG:
        raise UsageError(
            f"`{word}` is not a valid tag: use one word of up to {LONGEST_TAG} letters and digits; `-`, `_`, `.`, "
            "`:`, `+` and `/` are allowed too"
        )
    return tag


def tags_named(words: Iterable[str]) -> tuple[str, ...]:
    """Normalise tags, each once. Raises `UsageError`."""
    return tuple(dict.fromkeys(map(tag_named, words)))

"""Tags: the user's labels for sessions, and the rules for valid ones."""

import re
import unicodedata
from collections.abc import Iterable

from ebbtide.agent.errors import UsageError

MAX_TAG_CHARS = 50
MAX_TAGS = 50
"""Maximum number of tags of a session."""
_TAG = re.compile(r"\w[\w.:/+-]*")


def normalise_tag(word: str) -> str:
    """Return a tag in its normal form; for example, `#Parser` becomes `parser`. Raises `UsageError`."""
    tag = unicodedata.normalize("NFC", word.strip().removeprefix("#")).lower()
    if not _TAG.fullmatch(tag) or len(tag) > MAX_TAG_CHARS:
        raise UsageError(
            f"`{word}` is not a valid tag: use one word of up to {MAX_TAG_CHARS} letters and digits; `-`, `_`, `.`, "
            "`:`, `+` and `/` are allowed too"
        )
    return tag


def normalise_tags(words: Iterable[str]) -> tuple[str, ...]:
    """Return tags in their normal form, without duplicates. Raises `UsageError`."""
    return tuple(dict.fromkeys(map(normalise_tag, words)))

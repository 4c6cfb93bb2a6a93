"""Replies of the terminal among what is typed: somebody asked for them, perhaps the program before."""

import re
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

REPLY_TIMEOUT = 1.0
"""Seconds that the rest of a reply is waited for, before what there is of it is dropped."""
READ_PAUSE_S = 0.02
"""Seconds: whoever types, and a key that is held, take longer from one key to the next."""
MAX_JOINED_READS = 64
"""Reads that are taken for one, at most."""
MAX_REPLY_CHARS = 65_536
"""Characters of a reply that is waited for."""
CORNER = r"\x1b\[(?:[2-9]|[1-9]\d{1,3});\d{1,4}R"
"""Where the cursor is, in another line than the first: F3 with Shift or Ctrl looks like a report of that."""

_REPLY = regex(
    r"\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, what was copied
    r"|\x1b\[[?>=][\d;:]*(?!\$y)[ -/]*[@-~]"  # device attributes, states, keyboard flags; Textual hears of modes
    rf"|{CORNER}|\x1b\[\d*n|\x1b\[[4689];\d+;\d+t"  # the last corner, states, sizes
    r"|\x1b[P_^][^\x07\x1b]*\x1b\\"  # versions and capabilities
    # One that ends in a control character or another sequence was cut off.
    r"|\x1b(?:\]\d+;|P[ -@]|[_^][ -~])[^\x00-\x1f\x7f]*(?=[\x00-\x06\x08-\x1a\x1c-\x1f\x7f]|\x1b[^\\])"
)
_PARTIAL_REPLY = regex(
    r"\x1b(?:"
    r"\[(?:[<-?\d][\d;:]*[ -/]*)?"  # CSI
    r"|\](?:\d+(?:;[^\x00-\x1f\x7f]*\x1b?)?)?"  # OSC
    r"|P(?:[ -@][^\x00-\x1f\x7f]*\x1b?)?"  # DCS: each reply begins with a number or a sign
    r"|[_^][^\x00-\x1f\x7f]*\x1b?"  # APC, PM
    r")?\Z"
)
_MAYBE_KEYS = ("\x1b", "\x1b[")
"""Esc and Alt-[ as they are typed: every longer beginning is no key of its own."""


class TerminalReplies:
    """Takes replies out of what is typed, so that none is ever written into the prompt."""

    def __init__(self) -> None:
        self.begun = ""
        """What may be the beginning of a reply."""

    @property
    def is_certain(self) -> bool:
        """Whether what has begun is a reply, or a key of which a part is missing, and nothing that somebody typed."""
        return bool(self.begun) and self.begun not in _MAYBE_KEYS

    def split_replies(self, typed: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What was really typed, in pieces between which replies came, and these. The beginning of a reply is kept for
        its rest."""
        typed, self.begun = self.begun + typed, ""
        replies = tuple(_REPLY.findall(typed))
        *pieces, last = _REPLY.split(typed)
        begun = _PARTIAL_REPLY.search(last)
        if begun is not None and len(begun.group()) < MAX_REPLY_CHARS:
            last, self.begun = last[: begun.start()], begun.group()
        return (*pieces, last), replies

    def completes_reply(self, typed: str) -> bool:
        """Whether this completes the reply that has begun."""
        return _REPLY.match(self.begun + typed) is not None

    def give_up(self) -> str:
        """The keys in what was kept: nothing where it was certainly the beginning of a reply."""
        keys, self.begun = "" if self.is_certain else self.begun, ""
        return keys


_TOKEN = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.?|[^\x1b])?"  # a key that sends several characters
    r"|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+|.",
    re.DOTALL,
)
_LINES = regex(r"[\r\n][\r\n\t]*[^\x00-\x1f\x7f]")


def pasted_in(typed: str) -> Iterator[tuple[str, bool]]:
    """What one read brought, in pieces, and whether each was pasted: text behind a line end, as no keys bring it."""
    if not _LINES.search(typed):
        yield typed, False
        return
    keys = ""
    for token in _TOKEN.findall(typed):
        if token[0] != "\x1b" and _LINES.search(token):
            yield keys, False
            yield token, True
            keys = ""
        else:
            keys += token
    yield keys, False


def may_be_pasted(typed: bytes) -> bool:
    """Whether one read may have brought a part of what is pasted without marks around it."""
    return len(typed) > 1 and (b"\r" in typed or b"\n" in typed) and b"\x1b" not in typed

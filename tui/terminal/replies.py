"""Filters the terminal's replies out of the input, including those requested by an earlier program."""

import re
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

REPLY_TIMEOUT = 1.0
"""Seconds to wait for the rest of a reply before it is dropped."""
READ_PAUSE_S = 0.02
"""Seconds; shorter than the pause between two typed keys or key repeats."""
MAX_JOINED_READS = 64
"""Maximum reads that are joined."""
MAX_REPLY_CHARS = 65_536
"""Maximum characters of an incomplete reply."""
CORNER = r"\x1b\[(?:[2-9]|[1-9]\d{1,3});\d{1,4}R"
"""A cursor position report with a line after the first: in the first line it looks like F3 with Shift or Ctrl."""

_REPLY = regex(
    r"\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, what was copied
    r"|\x1b\[[?>=][\d;:]*(?!\$y)[ -/]*[@-~]"  # device attributes, states, keyboard flags; Textual hears of modes
    rf"|{CORNER}|\x1b\[\d*n|\x1b\[[4689];\d+;\d+t"  # the last corner, states, sizes
    r"|\x1b[P_^][^\x07\x1b]*\x1b\\"  # versions and capabilities
    # A reply that ends in a control character or another sequence was cut off.
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
"""Esc and Alt-[ as typed: longer beginnings are not keys."""


class TerminalReplies:
    """Removes replies from the input, so that none gets into the prompt."""

    def __init__(self) -> None:
        self.begun = ""
        """The possible start of a reply."""

    @property
    def is_certain(self) -> bool:
        """Whether the start is a reply or part of a key sequence, and nothing that a user typed."""
        return bool(self.begun) and self.begun not in _MAYBE_KEYS

    def split_replies(self, typed: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The typed input and the replies, in order. The start of a reply is kept for its rest."""
        typed, self.begun = self.begun + typed, ""
        replies = tuple(_REPLY.findall(typed))
        *pieces, last = _REPLY.split(typed)
        begun = _PARTIAL_REPLY.search(last)
        if begun is not None and len(begun.group()) < MAX_REPLY_CHARS:
            last, self.begun = last[: begun.start()], begun.group()
        return (*pieces, last), replies

    def completes_reply(self, typed: str) -> bool:
        """Whether this completes the incomplete reply."""
        return _REPLY.match(self.begun + typed) is not None

    def give_up(self) -> str:
        """The keys in the held input; empty if it was certainly the start of a reply."""
        keys, self.begun = "" if self.is_certain else self.begun, ""
        return keys


_TOKEN = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.?|[^\x1b])?"  # a key that sends several characters
    r"|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+|.",
    re.DOTALL,
)
_LINES = regex(r"[\r\n][\r\n\t]*[^\x00-\x1f\x7f]")


def pasted_in(typed: str) -> Iterator[tuple[str, bool]]:
    """One read in pieces, and whether each was pasted: text after a line ending, as no keys produce."""
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
    """Whether one read may contain an unbracketed paste."""
    return len(typed) > 1 and (b"\r" in typed or b"\n" in typed) and b"\x1b" not in typed

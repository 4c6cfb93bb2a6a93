"""Filters the terminal's replies out of the input, including replies to an earlier program."""

import re
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

REPLY_TIMEOUT_S = 1.0
"""How long to wait for the rest of a reply, in seconds. After that, it is dropped."""
READ_PAUSE_S = 0.02
"""A read is complete after this many seconds without input. Must be shorter than the time between typed or repeated
keys."""
MAX_JOINED_READS = 64
"""Maximum number of reads to join into one."""
MAX_REPLY_CHARS = 65_536
"""Maximum number of characters in an incomplete reply."""
CURSOR_REPORT = r"\x1b\[(?:[2-9]|[1-9]\d{1,3});\d{1,4}R"
"""A cursor position report. Excludes the first line, where the report looks like F3 with Shift or Ctrl."""

_REPLY = regex(
    r"\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)"  # colours, clipboard content
    r"|\x1b\[[?>=][\d;:]*(?!\$y)[ -/]*[@-~]"  # device attributes, states, keyboard flags; modes are left to Textual
    rf"|{CURSOR_REPORT}|\x1b\[\d*n|\x1b\[[4689];\d+;\d+t"  # cursor position, states, sizes
    r"|\x1b[P_^][^\x07\x1b]*\x1b\\"  # versions and capabilities
    # If a control character or another sequence follows, the reply was cut off.
    r"|\x1b(?:\]\d+;|P[ -@]|[_^][ -~])[^\x00-\x1f\x7f]*(?=[\x00-\x06\x08-\x1a\x1c-\x1f\x7f]|\x1b[^\\])"
)
_PARTIAL_REPLY = regex(
    r"\x1b(?:"
    r"\[(?:[<-?\d][\d;:]*[ -/]*)?"  # CSI
    r"|\](?:\d+(?:;[^\x00-\x1f\x7f]*\x1b?)?)?"  # OSC
    r"|P(?:[ -@][^\x00-\x1f\x7f]*\x1b?)?"  # DCS: replies start with a digit or symbol
    r"|[_^][^\x00-\x1f\x7f]*\x1b?"  # APC, PM
    r")?\Z"
)
_POSSIBLE_KEYS = ("\x1b", "\x1b[")
"""Esc and Alt-[ as a user can type them. Longer beginnings of replies cannot be keys."""


class TerminalReplies:
    """Removes terminal replies from the input, so that they do not end up in the prompt."""

    def __init__(self) -> None:
        self.pending = ""
        """Input that may be the start of a reply."""

    @property
    def is_certain(self) -> bool:
        """Whether the held input cannot have been typed character by character, so is the start of a reply or of a key
        sequence."""
        return bool(self.pending) and self.pending not in _POSSIBLE_KEYS

    def split_replies(self, typed: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Split input into typed pieces and the replies between them. If it ends with an incomplete reply, that part is
        held until the rest arrives."""
        typed, self.pending = self.pending + typed, ""
        replies = tuple(_REPLY.findall(typed))
        *pieces, last_piece = _REPLY.split(typed)
        partial = _PARTIAL_REPLY.search(last_piece)
        if partial is not None and len(partial.group()) < MAX_REPLY_CHARS:
            last_piece, self.pending = last_piece[: partial.start()], partial.group()
        return (*pieces, last_piece), replies

    def completes_reply(self, typed: str) -> bool:
        """Whether this input completes a reply that was incomplete."""
        return _REPLY.match(self.pending + typed) is not None

    def release(self) -> str:
        """Return the held input and stop holding it. Returns an empty string if it was certainly the start of a
        reply."""
        keys, self.pending = "" if self.is_certain else self.pending, ""
        return keys


_TOKEN = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.?|[^\x1b])?"  # a key sent as several characters
    r"|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+|.",
    re.DOTALL,
)
_LINE_BREAKS = regex(r"[\r\n][\r\n\t]*[^\x00-\x1f\x7f]")


def split_pastes(typed: str) -> Iterator[tuple[str, bool]]:
    """Split one read into pieces, each with a flag that says whether it was pasted. Text after a line ending in the
    same read cannot have been typed."""
    if not _LINE_BREAKS.search(typed):
        yield typed, False
        return
    keys = ""
    for token in _TOKEN.findall(typed):
        if token[0] != "\x1b" and _LINE_BREAKS.search(token):
            yield keys, False
            yield token, True
            keys = ""
        else:
            keys += token
    yield keys, False


def may_be_pasted(typed: bytes) -> bool:
    """Whether one read may contain a paste that is not marked as such (bracketed paste)."""
    return len(typed) > 1 and (b"\r" in typed or b"\n" in typed) and b"\x1b" not in typed

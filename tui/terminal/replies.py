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
"""Esc and Alt-[, which a user can type but which may also be the start of a reply. If more of a reply has arrived, it
cannot be a key."""


class TerminalReplies:
    """Removes terminal replies from the input, so that they do not end up in the prompt."""

    def __init__(self) -> None:
        self.pending_text = ""
        """Input that may be the start of a reply."""

    @property
    def is_reply_certain(self) -> bool:
        """Whether the held input cannot have been typed character by character, and so must be the start of a reply or
        of a key sequence."""
        return bool(self.pending_text) and self.pending_text not in _POSSIBLE_KEYS

    def split_replies(self, input_text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Split input into typed pieces and the replies between them. If it ends with an incomplete reply, that part is
        held until the rest arrives."""
        input_text, self.pending_text = self.pending_text + input_text, ""
        replies = tuple(_REPLY.findall(input_text))
        *pieces, last_piece = _REPLY.split(input_text)
        partial_match = _PARTIAL_REPLY.search(last_piece)
        if partial_match is not None and len(partial_match.group()) < MAX_REPLY_CHARS:
            last_piece, self.pending_text = last_piece[: partial_match.start()], partial_match.group()
        return (*pieces, last_piece), replies

    def completes_reply(self, input_text: str) -> bool:
        """Whether this input completes a reply that was incomplete."""
        return _REPLY.match(self.pending_text + input_text) is not None

    def release(self) -> str:
        """Return the held input and stop holding it. Returns an empty string if it was certainly the start of a
        reply."""
        keys, self.pending_text = "" if self.is_reply_certain else self.pending_text, ""
        return keys


_TOKEN = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|O.?|[^\x1b])?"  # a key sent as several characters
    r"|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+|.",
    re.DOTALL,
)
_LINE_BREAKS = regex(r"[\r\n][\r\n\t]*[^\x00-\x1f\x7f]")


def split_pastes(input_text: str) -> Iterator[tuple[str, bool]]:
    """Split one read into pieces, each with a flag that says whether it was pasted. Text after a line ending in the
    same read cannot have been typed."""
    if not _LINE_BREAKS.search(input_text):
        yield input_text, False
        return
    keys = ""
    for token in _TOKEN.findall(input_text):
        if token[0] != "\x1b" and _LINE_BREAKS.search(token):
            yield keys, False
            yield token, True
            keys = ""
        else:
            keys += token
    yield keys, False


def may_be_pasted(input_bytes: bytes) -> bool:
    """Whether one read might contain a paste that the terminal has not marked as one (bracketed paste)."""
    return len(input_bytes) > 1 and (b"\r" in input_bytes or b"\n" in input_bytes) and b"\x1b" not in input_bytes

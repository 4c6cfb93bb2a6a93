"""What a program wrote to a terminal, taken apart strictly: every byte is text, a control sequence that this program
has a use for, or foreign."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from ebbtide.tui.terminal.size_query import SIZE_QUERY as SIZE

_PIECE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # a control sequence
    r"|\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\)"  # a command for the terminal's operating system
    r"|\x1b[PX^_].*?\x1b\\"  # a string for the device, the application, nobody
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x1f\x7f-\x9f]"
    r"|[^\x00-\x1f\x7f-\x9f]+",
    re.DOTALL,
)
_COLOR = r"(?:[34]8;(?:2;\d+;\d+;\d+|5;\d+))"
_STYLE = re.compile(rf"\x1b\[(?:(?:0|1|2|3|4|7|9|2[2-9]|[34]\d|9\d|10\d|{_COLOR})(?:;|(?=m)))*m")
_MOVE = re.compile(r"\x1b\[(\d+)(?:;(\d+))?H")
_STEP = re.compile(r"\x1b\[(\d*)[CD]")
_LINES = re.compile(r"\x1b\[(?:(\d*)[LM]|(\d+);(\d+)r|r|K)")
"""Lines that are moved, or erased from the cursor on."""
_MODE = re.compile(
    r"\x1b\[(?:\?(?:1049|1000|1003|1006|1015|25|1004|2004|7|2026)[hl]|\?2026\$p|\?2048\$p|>\d+u|<u|2[23];2t)"
)
_TITLE = re.compile(r"\x1b\]2;(?:\? |● )?ebb(?: · .*)?\x07", re.DOTALL)
_NEWS = re.compile(r"\x1b\]9;ebb(?: · .*)?: (?:waiting for your answer|done)\x07", re.DOTALL)
_POINTER = "\x1b]22;default\x07"
_GROUND = "\x1b]11;?\x1b\\"
_COPIED = re.compile(r"\x1b\]52;c;[A-Za-z0-9+/]*=*\x07")
_SELECTED = re.compile(
    "(?<![©®‼-㊙\U0001f000-\U0001faff])[\ufe0e\ufe0f](?!\u20e3)|[\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
"""What asks for another glyph where none is to be had, and so only hides."""

_JOINER = re.compile("(?<=[\ufe0f\u2194-\u2bff\U0001f300-\U0001faff])\u200d(?=[\u2194-\u2bff\U0001f300-\U0001faff])")
"""What makes one emoji of two."""


def pieces(sent: bytes) -> Iterator[str]:
    """Texts and control sequences in turn. What is neither, such as a lone ESC, is a piece of its own."""
    text, at = sent.decode(), 0
    while at < len(text):
        found = _PIECE.match(text, at)
        yield found.group() if found else text[at]
        at = found.end() if found else at + 1


def foreign(sent: bytes, columns: int, lines: int) -> list[str]:
    """All that is not for this program to write to a screen of that size, each once. Line ends and texts are, and the
    copies, titles and news that it tells; a bell is not."""
    return sorted({piece for piece in pieces(sent) if not _is_ours(piece, columns, lines)})


def modes(sent: bytes) -> Counter[str]:
    """How often each mode was switched."""
    return Counter(piece for piece in pieces(sent) if _MODE.fullmatch(piece))


def is_shown(text: str) -> bool:
    """Whether all of a text is to be seen."""
    text = _JOINER.sub("", text)
    hidden = [char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    return not hidden and not _SELECTED.search(text)


def _is_ours(piece: str, columns: int, lines: int) -> bool:
    if not piece.startswith("\x1b"):
        return piece in "\r\n" or is_shown(piece)
    if piece in pieces(SIZE.encode()):
        return True
    moved = _MOVE.fullmatch(piece)
    if moved:
        return int(moved[1]) <= lines and int(moved[2] or 1) <= columns
    if step := _STEP.fullmatch(piece):
        return int(step[1] or 1) <= columns
    if changed := _LINES.fullmatch(piece):
        return all(int(number or 1) <= lines for number in changed.groups())
    if _TITLE.fullmatch(piece) or _NEWS.fullmatch(piece):
        return is_shown(piece[2:-1])
    return piece in (_GROUND, _POINTER) or any(form.fullmatch(piece) for form in (_STYLE, _MODE, _COPIED))

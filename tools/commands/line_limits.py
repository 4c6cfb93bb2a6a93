"""Limits on the size of the command lines that are parsed, checked much faster than by the grammar."""

import re

MAX_LINE_CHARS = 10_000
"""Maximum number of characters in a line."""
MAX_NODES = 200
"""Maximum number of pieces in a line; that many take about a millisecond to parse. The limit for long lines is
lower."""
_MAX_HEREDOCS = 8
LONG_LINE_CHARS, MAX_WORDS_IN_LONG, _MAX_NODES_IN_LONG = 2_000, 20, 120
"""Length in characters above which a line is long, and the maximum numbers of words and pieces in a long line. A line
with more words is not proved, because examining the file that each word may name takes long. A line with more pieces is
not parsed."""
_SINGLE_PIECE_TEXT = re.compile(
    r"<(?<!<<)<-?[ \t]*(?P<q>['\"]?)(?P<end>[\w.-]{1,40})(?P=q)(?P<behind>[^\n]{0,200})\n"
    r"(?:(?:[^\n]*+\n)*?[ \t]*(?P=end)(?=\n|\Z)|(?s:.*))"
    r"|'[^']*+'|\"(?:[^\"\\$`]|\\.)*+\"|#(?<![^\s;]#)[^\n]*+|\\(?P<sign>[\\\"'#<])"
)
"""Text and comments, each of which is one piece, however long. Each alternative begins with a character that `re` can
search for."""
_HEREDOC_START = re.compile(r"<(?<!<<)<-?[ \t]*['\"]?([\w.-]{1,40})")
_PIECE_SIGNS = "\"'\n$;|&()<>={}`\\\\"
_MAX_QUOTES = 400
_LONG_WORD = re.compile(r"[^\s'\"]{4000}")
"""A single such word takes longer to parse than anything else in a line."""


def is_too_complex(text: str) -> bool:
    """Whether a line has too many pieces to be parsed."""
    if len(text) <= MAX_NODES:
        return False
    heredoc_count, max_pieces = text.count("<<"), max_nodes(text)
    if heredoc_count > _MAX_HEREDOCS:
        return True
    if not _has_more_pieces(text, max_pieces):
        return (
            len(text) > LONG_LINE_CHARS and _LONG_WORD.search(_SINGLE_PIECE_TEXT.sub(_shorten_text, text)) is not None
        )
    if heredoc_count and not _has_more_pieces(text := without_heredoc_bodies(text), max_pieces):
        return False
    quotes = text.count('"') + text.count("'")
    if quotes > _MAX_QUOTES or not (quotes or heredoc_count or "#" in text):
        return True
    return _has_more_pieces(_SINGLE_PIECE_TEXT.sub(_shorten_text, text), max_pieces)


def without_heredoc_bodies(text: str) -> str:
    """Return the line approximately as it would be without its here-documents."""
    pieces, at = list[str](), 0
    while (found := _HEREDOC_START.search(text, at)) is not None:
        begin = text.find("\n", found.end())
        end = text.find(f"\n{found[1]}", begin) if begin >= 0 else -1
        pieces.append(text[at : begin if begin >= 0 else len(text)])
        at = end if end >= 0 else len(text)
    return "".join((*pieces, text[at:]))


def max_nodes(text: str) -> int:
    return _MAX_NODES_IN_LONG if len(text) > LONG_LINE_CHARS else MAX_NODES


def without_heredoc_texts(text: str) -> str:
    """Return the line without its here-documents; unchanged if there are too many."""
    if not 0 < text.count("<<") <= _MAX_HEREDOCS:
        return text
    return _SINGLE_PIECE_TEXT.sub(lambda found: found["behind"] or "" if found["end"] else found[0], text)


def _has_more_pieces(text: str, pieces: int) -> bool:
    """Whether the text has more than this number of pieces, estimated by counting words and special characters."""
    pieces_left = float(pieces)
    for sign in _PIECE_SIGNS:  # for meaningless lines, the first few of these characters decide
        pieces_left -= text.count(sign) / 2
        if pieces_left < 0:
            return True
    return len(text.split(None, int(pieces_left))) > pieces_left


def _shorten_text(found: re.Match[str]) -> str:
    return found[0] if found["sign"] else f" {found['behind']} " if found["behind"] else " a "

"""Limits on the size of the command lines that are parsed, checked much faster than by the grammar."""

import re

MAX_LINE_CHARS = 10_000
"""Maximum number of characters in a line."""
MAX_NODES = 200
"""Maximum number of pieces in a line, which take about a millisecond to parse. Long lines have a lower limit."""
_MAX_HEREDOCS = 8
LONG_LINE_CHARS, MAX_WORDS_IN_LONG, _MAX_NODES_IN_LONG = 2_000, 20, 120
"""A line longer than this is not proved if it has more words, since examining what each names takes long."""
_QUIET = re.compile(
    r"<(?<!<<)<-?[ \t]*(?P<q>['\"]?)(?P<end>[\w.-]{1,40})(?P=q)(?P<behind>[^\n]{0,200})\n"
    r"(?:(?:[^\n]*+\n)*?[ \t]*(?P=end)(?=\n|\Z)|(?s:.*))"
    r"|'[^']*+'|\"(?:[^\"\\$`]|\\.)*+\"|#(?<![^\s;]#)[^\n]*+|\\(?P<sign>[\\\"'#<])"
)
"""Texts and comments, which are one piece however long they are. Each alternative begins with a character that `re` can
search for."""
_BODY = re.compile(r"<(?<!<<)<-?[ \t]*['\"]?([\w.-]{1,40})")
_PIECE_SIGNS = "\"'\n$;|&()<>={}`\\\\"
_MAX_QUOTES = 400
_LONG_WORD = re.compile(r"[^\s'\"]{4000}")
"""One such word takes the grammar longer than anything else in a line."""


def is_too_much(text: str) -> bool:
    """Whether a line has more pieces than are parsed."""
    if len(text) <= MAX_NODES:
        return False
    arrows, most = text.count("<<"), most_nodes(text)
    if arrows > _MAX_HEREDOCS:
        return True
    if not _has_more(text, most):
        return len(text) > LONG_LINE_CHARS and _LONG_WORD.search(_QUIET.sub(_quiet, text)) is not None
    if arrows and not _has_more(text := without_bodies(text), most):
        return False
    quotes = text.count('"') + text.count("'")
    if quotes > _MAX_QUOTES or not (quotes or arrows or "#" in text):
        return True
    return _has_more(_QUIET.sub(_quiet, text), most)


def without_bodies(text: str) -> str:
    """Return roughly the line without its here-documents."""
    kept, at = list[str](), 0
    while (found := _BODY.search(text, at)) is not None:
        begin = text.find("\n", found.end())
        end = text.find(f"\n{found[1]}", begin) if begin >= 0 else -1
        kept.append(text[at : begin if begin >= 0 else len(text)])
        at = end if end >= 0 else len(text)
    return "".join((*kept, text[at:]))


def most_nodes(text: str) -> int:
    return _MAX_NODES_IN_LONG if len(text) > LONG_LINE_CHARS else MAX_NODES


def without_texts_behind_arrows(text: str) -> str:
    """Return a line without its here-documents, unless there are many."""
    if not 0 < text.count("<<") <= _MAX_HEREDOCS:
        return text
    return _QUIET.sub(lambda found: found["behind"] or "" if found["end"] else found[0], text)


def _has_more(text: str, pieces: int) -> bool:
    """Whether it has more pieces, estimated by counting words and special characters."""
    left = float(pieces)
    for sign in _PIECE_SIGNS:  # one at a time, since in nonsense the first few suffice
        left -= text.count(sign) / 2
        if left < 0:
            return True
    return len(text.split(None, int(left))) > left


def _quiet(found: re.Match[str]) -> str:
    return found[0] if found["sign"] else f" {found['behind']} " if found["behind"] else " a "

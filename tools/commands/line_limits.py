"""How much of a command line is read: by a look at its text that is far quicker than the grammar."""

import re

MAX_LINE_CHARS = 10_000
"""Characters of a line, beyond which nobody reads on."""
MAX_NODES = 200
"""Pieces of a line, beyond which nobody reads on: a millisecond is over. In a long line they are fewer."""
_MAX_HEREDOCS = 8
LONG_LINE_CHARS, MAX_WORDS_IN_LONG, _MAX_NODES_IN_LONG = 2_000, 20, 120
"""Of a line longer than this nothing is proved where it holds more words: to look at what each names takes long."""
_QUIET = re.compile(
    r"<(?<!<<)<-?[ \t]*(?P<q>['\"]?)(?P<end>[\w.-]{1,40})(?P=q)(?P<behind>[^\n]{0,200})\n"
    r"(?:(?:[^\n]*+\n)*?[ \t]*(?P=end)(?=\n|\Z)|(?s:.*))"
    r"|'[^']*+'|\"(?:[^\"\\$`]|\\.)*+\"|#(?<![^\s;]#)[^\n]*+|\\(?P<sign>[\\\"'#<])"
)
"""Texts and comments, which are one piece however long they are. Each way begins with a sign that `re` can look for."""
_BODY = re.compile(r"<(?<!<<)<-?[ \t]*['\"]?([\w.-]{1,40})")
_PIECE_SIGNS = "\"'\n$;|&()<>={}`\\\\"
_MAX_QUOTES = 400
_LONG_WORD = re.compile(r"[^\s'\"]{4000}")
"""The grammar takes longer for one than for all else that may stand in a line."""


def is_too_much(text: str) -> bool:
    """Whether there are more pieces in a line than are read, by a look that is far quicker than the grammar."""
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
    """About what is left of a line without the texts behind its arrows."""
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
    """A line without the texts that it holds for programs to read, unless they are many."""
    if not 0 < text.count("<<") <= _MAX_HEREDOCS:
        return text
    return _QUIET.sub(lambda found: found["behind"] or "" if found["end"] else found[0], text)


def _has_more(text: str, pieces: int) -> bool:
    """Whether it has more, as far as a count of words and signs tells."""
    left = float(pieces)
    for sign in _PIECE_SIGNS:  # one after the other, since in what makes no sense the first few are enough
        left -= text.count(sign) / 2
        if left < 0:
            return True
    return len(text.split(None, int(left))) > left


def _quiet(found: re.Match[str]) -> str:
    return found[0] if found["sign"] else f" {found['behind']} " if found["behind"] else " a "

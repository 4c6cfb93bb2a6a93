"""Limits on the size of command lines. Checking them is much faster than parsing."""

import re

MAX_LINE_CHARS = 10_000
"""Maximum number of characters in a line."""
MAX_NODES = 200
"""Maximum number of syntax nodes in a line. Parsing this many takes about a millisecond. Long lines have a lower
limit."""
_MAX_HEREDOCS = 8
LONG_LINE_CHARS, MAX_WORDS_IN_LONG, _MAX_NODES_IN_LONG = 2_000, 20, 120
"""A line with more than `LONG_LINE_CHARS` characters counts as long. A long line with too many words is not treated as
read-only, because looking up a file for each word takes time. A long line with too many syntax nodes is not parsed."""
_SINGLE_NODE_TEXT = re.compile(
    r"<(?<!<<)<-?[ \t]*(?P<q>['\"]?)(?P<end>[\w.-]{1,40})(?P=q)(?P<behind>[^\n]{0,200})\n"
    r"(?:(?:[^\n]*+\n)*?[ \t]*(?P=end)(?=\n|\Z)|(?s:.*))"
    r"|'[^']*+'|\"(?:[^\"\\$`]|\\.)*+\"|#(?<![^\s;]#)[^\n]*+|\\(?P<sign>[\\\"'#<])"
)
"""Matches here-documents, quoted text and comments. Each counts as one piece, however long it is. Each alternative
begins with a literal character, which `re` can search for quickly."""
_HEREDOC_START = re.compile(r"<(?<!<<)<-?[ \t]*['\"]?([\w.-]{1,40})")
_NODE_CHARACTERS = "\"'\n$;|&()<>={}`\\\\"
_MAX_QUOTES = 400
_LONG_WORD = re.compile(r"[^\s'\"]{4000}")
"""Matches a word so long that parsing it takes longer than the limit for a whole line."""


def is_too_complex(text: str) -> bool:
    """Whether a line would take too long to parse."""
    if len(text) <= MAX_NODES:
        return False
    heredoc_count, max_pieces = text.count("<<"), max_nodes(text)
    if heredoc_count > _MAX_HEREDOCS:
        return True
    if not _has_more_nodes(text, max_pieces):
        return len(text) > LONG_LINE_CHARS and _LONG_WORD.search(_SINGLE_NODE_TEXT.sub(_shorten_text, text)) is not None
    if heredoc_count and not _has_more_nodes(text := without_heredoc_bodies(text), max_pieces):
        return False
    quote_count = text.count('"') + text.count("'")
    if quote_count > _MAX_QUOTES or not (quote_count or heredoc_count or "#" in text):
        return True
    return _has_more_nodes(_SINGLE_NODE_TEXT.sub(_shorten_text, text), max_pieces)


def without_heredoc_bodies(text: str) -> str:
    """Remove the here-documents from a line. They are found by an approximate search."""
    chunks, offset = list[str](), 0
    while (match := _HEREDOC_START.search(text, offset)) is not None:
        body_start = text.find("\n", match.end())
        body_end = text.find(f"\n{match[1]}", body_start) if body_start >= 0 else -1
        chunks.append(text[offset : body_start if body_start >= 0 else len(text)])
        offset = body_end if body_end >= 0 else len(text)
    return "".join((*chunks, text[offset:]))


def max_nodes(text: str) -> int:
    return _MAX_NODES_IN_LONG if len(text) > LONG_LINE_CHARS else MAX_NODES


def without_heredocs_exact(text: str) -> str:
    """Remove the here-documents from a line. It stays unchanged if there are too many."""
    if not 0 < text.count("<<") <= _MAX_HEREDOCS:
        return text
    return _SINGLE_NODE_TEXT.sub(lambda match: match["behind"] or "" if match["end"] else match[0], text)


def _has_more_nodes(text: str, max_pieces: int) -> bool:
    """Whether the text has more than `max_pieces` pieces. Estimates by counting words and special characters."""
    remaining_nodes = float(max_pieces)
    for character in _NODE_CHARACTERS:  # for meaningless lines, the first few of these characters decide
        remaining_nodes -= text.count(character) / 2
        if remaining_nodes < 0:
            return True
    return len(text.split(None, int(remaining_nodes))) > remaining_nodes


def _shorten_text(match: re.Match[str]) -> str:
    return match[0] if match["sign"] else f" {match['behind']} " if match["behind"] else " a "

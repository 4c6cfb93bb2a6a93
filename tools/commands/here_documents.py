"""Inlines literal text so that a line can be analysed. A here-document is replaced by a file to read, and `"$(cat
<<'EOF' … EOF)"` by a quoted word. The result is only analysed, never run.

Text is replaced only if it contains no expansions, and only in lines that otherwise consist of words and quotes. If the
end of a here-document were found too late, commands would be mistaken for text. So its end is determined in two ways:
by the grammar, and line by line.
"""

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from ebbtide.tools.commands.line_limits import MAX_LINE_CHARS, is_too_complex
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.bash_syntax import parse_syntax_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_FILE_REDIRECTION = b" < here-document "
_HEREDOC_START = rb"<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<end>[A-Za-z_]\w*)(?P=quote)(?=[ \t\n;|&>])"
_INPUT_HEREDOC = regex(rb"(?<![\d<>&}])" + _HEREDOC_START)
_CAT_SUBSTITUTION = regex(rb'"\$\(cat ' + _HEREDOC_START + rb"[ \t]*\n(?P<text>.*)\)\"", re.DOTALL)
_EXPANSION_CHARACTER = regex(rb"[$`\\]")
_WORDS_AND_QUOTES = regex(rb"(?:[\w \t\n./:,+%@=|&;<>*?~^\[\]\x80-\xff-]|\$\?|'[^']*'|\"(?:[^\"\\$`]|\$\?)*\")*+")
_TRANSPARENT_NODES = {"program", "list", "pipeline", "redirected_statement"}
_MAY_HAVE_OLD_BASH = sys.platform == "darwin"
"""Whether bash may be the old version from macOS. It looks for the end of a substitution even inside the substitution's
here-documents."""


class _Body(NamedTuple):
    """The text of a here-document."""

    text: bytes
    end: int
    """Offset after the end marker."""


def inline_here_documents(text: str) -> str:
    """Inline a line's here-documents. The line stays unchanged if it is uncertain where they end."""
    if "<<" not in text or len(text) > MAX_LINE_CHARS or is_too_complex(text):
        return text
    source = text.encode("utf-8", "surrogatepass")
    root = parse_syntax_tree(source)
    if root is None or root.has_error:
        return text
    chunks, last_end = list[bytes](), 0
    for start, end, replacement in sorted(_replacements(source, root)):
        if start < last_end:
            return text  # nested replacements
        chunks += [source[last_end:start], replacement]
        last_end = end
    inlined = b"".join((*chunks, source[last_end:]))
    return inlined.decode("utf-8", "surrogatepass") if chunks and _WORDS_AND_QUOTES.fullmatch(inlined) else text


def _replacements(source: bytes, root: "Node") -> "Iterator[tuple[int, int, bytes]]":
    """Yield each replacement, with the start and end byte offsets of the text to replace."""
    pending = [(root, True)]
    while pending:
        node, is_top_level = pending.pop()
        if node.type == "string" and (word := _quoted_word(source[node.start_byte : node.end_byte])) is not None:
            yield node.start_byte, node.end_byte, word
            continue
        if node.type == "herestring_redirect" and _WORDS_AND_QUOTES.fullmatch(source, node.start_byte, node.end_byte):
            yield node.start_byte, node.end_byte, _FILE_REDIRECTION
        if node.type == "heredoc_redirect" and is_top_level:
            yield from _file_replacements(source, node)
        is_top_level = is_top_level and node.type in _TRANSPARENT_NODES
        pending += [(child, is_top_level) for child in node.children]


def _file_replacements(source: bytes, node: "Node") -> "Iterator[tuple[int, int, bytes]]":
    start_match = _INPUT_HEREDOC.match(source, node.start_byte)
    body_start = source.find(b"\n", node.start_byte) + 1
    body_end = next((child.end_byte for child in node.children if child.type == "heredoc_end"), -1)
    if start_match is None or not body_start or b"<<" in source[start_match.end() : body_start]:
        return
    if not _WORDS_AND_QUOTES.fullmatch(source, start_match.end(), body_start):
        return  # a quote opened there would continue into the text
    body = _heredoc_text(source[body_start:], start_match)
    if body is not None and body_start + body.end == body_end:
        yield start_match.start(), start_match.end(), _FILE_REDIRECTION
        yield body_start, body_end, b""


def _quoted_word(text: bytes) -> bytes | None:
    """Convert a `"$(cat <<'EOF' …)"` string to the equivalent quoted word. None for anything else."""
    match = None if _MAY_HAVE_OLD_BASH else _CAT_SUBSTITUTION.fullmatch(text)
    body = _heredoc_text(match["text"], match) if match is not None else None
    if match is None or body is None or match["text"][body.end :].strip():
        return None
    if any(line.lstrip().startswith(match["end"]) for line in body.text.split(b"\n")):
        return None  # an older bash would take `EOF)` for the end
    return b"'" + body.text.rstrip(b"\n").replace(b"'", b"'\"'\"'") + b"'"


def _heredoc_text(text: bytes, start_match: re.Match[bytes]) -> _Body | None:
    """Parse the text of a here-document. None if it has no end marker or contains expansions."""
    offset = 0
    for line in text.split(b"\n"):
        if (line.lstrip(b"\t") if start_match["dash"] else line) == start_match["end"]:
            is_literal = bool(start_match["quote"]) or not _EXPANSION_CHARACTER.search(text[:offset])
            return _Body(text[:offset], offset + len(line)) if is_literal else None
        offset += len(line) + 1
    return None

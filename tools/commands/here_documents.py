"""Inlines literal text so that a line can be analysed: a here-document becomes a file that is read, and `"$(cat <<'EOF'
… EOF)"` becomes a quoted word. Pure; the result is only analysed, never run.

Only text without expansions is replaced, and only in lines that otherwise consist of words and quotes. If a
here-document were taken to be longer than it is in bash, commands would be taken for text. Its end is therefore
determined twice: by the grammar and line by line.
"""

import re
import sys
from typing import TYPE_CHECKING

from ebbtide.tools.bash_tree import syntax_tree
from ebbtide.tools.commands.line_limits import MAX_LINE_CHARS, is_too_complex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_FILE_REDIRECTION = b" < here-document "
_HEREDOC_START = re.compile(rb"<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<end>[A-Za-z_]\w*)(?P=quote)(?=[ \t\n;|&>])")
_INPUT_HEREDOC = re.compile(rb"(?<![\d<>&}])" + _HEREDOC_START.pattern)
_CAT_SUBSTITUTION = re.compile(rb'"\$\(cat ' + _HEREDOC_START.pattern + rb"[ \t]*\n(?P<text>.*)\)\"", re.DOTALL)
_EXPANDED_CHARACTER = re.compile(rb"[$`\\]")
_WORDS_AND_QUOTES = re.compile(rb"(?:[\w \t\n./:,+%@=|&;<>*?~^\[\]\x80-\xff-]|\$\?|'[^']*'|\"(?:[^\"\\$`]|\$\?)*\")*+")
_JOINING_NODES = {"program", "list", "pipeline", "redirected_statement"}
_HAS_OLD_BASH = sys.platform == "darwin"
"""The bash of macOS searches for the end of a substitution even inside its here-document."""


def without_here_documents(text: str) -> str:
    """Return the line without its here-documents; unchanged if they cannot be determined with certainty."""
    if "<<" not in text or len(text) > MAX_LINE_CHARS or is_too_complex(text):
        return text
    source = text.encode("utf-8", "surrogatepass")
    root = syntax_tree(source)
    if root is None or root.has_error:
        return text
    parts, last = list[bytes](), 0
    for start, end, replacement in sorted(_replacements(source, root)):
        if start < last:
            return text  # nested replacements
        parts += [source[last:start], replacement]
        last = end
    found = b"".join((*parts, source[last:]))
    return found.decode("utf-8", "surrogatepass") if parts and _WORDS_AND_QUOTES.fullmatch(found) else text


def _replacements(source: bytes, root: "Node") -> "Iterator[tuple[int, int, bytes]]":
    """Yield start, end and replacement of each here-document."""
    pending = [(root, True)]
    while pending:
        node, is_joined = pending.pop()
        if node.type == "string" and (word := _quoted_word(source[node.start_byte : node.end_byte])) is not None:
            yield node.start_byte, node.end_byte, word
            continue
        if node.type == "herestring_redirect" and _WORDS_AND_QUOTES.fullmatch(source, node.start_byte, node.end_byte):
            yield node.start_byte, node.end_byte, _FILE_REDIRECTION
        if node.type == "heredoc_redirect" and is_joined:
            yield from _file_replacements(source, node)
        is_joined = is_joined and node.type in _JOINING_NODES
        pending += [(child, is_joined) for child in node.children]


def _file_replacements(source: bytes, node: "Node") -> "Iterator[tuple[int, int, bytes]]":
    start = _INPUT_HEREDOC.match(source, node.start_byte)
    begins = source.find(b"\n", node.start_byte) + 1
    ends = next((child.end_byte for child in node.children if child.type == "heredoc_end"), -1)
    if start is None or not begins or b"<<" in source[start.end() : begins]:
        return
    if not _WORDS_AND_QUOTES.fullmatch(source, start.end(), begins):
        return  # a quote opened there would continue into the text
    body = _heredoc_text(source[begins:], start)
    if body is not None and begins + body[1] == ends:
        yield start.start(), start.end(), _FILE_REDIRECTION
        yield begins, ends, b""


def _quoted_word(text: bytes) -> bytes | None:
    """Return the quoted word equivalent to a `"$(cat <<'EOF' …)"` string, or None for anything else."""
    found = None if _HAS_OLD_BASH else _CAT_SUBSTITUTION.fullmatch(text)
    body = _heredoc_text(found["text"], found) if found is not None else None
    if found is None or body is None or found["text"][body[1] :].strip():
        return None
    if any(line.lstrip().startswith(found["end"]) for line in body[0].split(b"\n")):
        return None  # an older bash would take `EOF)` for the end
    return b"'" + body[0].rstrip(b"\n").replace(b"'", b"'\"'\"'") + b"'"


def _heredoc_text(text: bytes, start: re.Match[bytes]) -> tuple[bytes, int] | None:
    """Return the text of a here-document and the offset where its last line ends, or None if it has no end or contains
    expansions."""
    at = 0
    for line in text.split(b"\n"):
        if (line.lstrip(b"\t") if start["dash"] else line) == start["end"]:
            is_text = bool(start["quote"]) or not _EXPANDED_CHARACTER.search(text[:at])
            return (text[:at], at + len(line)) if is_text else None
        at += len(line) + 1
    return None

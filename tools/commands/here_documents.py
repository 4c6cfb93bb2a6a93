"""Inlines literal text in a line so that it can be analysed: a here-document becomes a file that is read, and `"$(cat
<<'EOF' … EOF)"` becomes a quoted word. Pure; the result is analysed and never run.

Only text without expansions is replaced, and only in lines that otherwise consist of words and quotes. Reading a
here-document further than bash does would mistake commands for text, so each end is determined twice: by the grammar
and line by line.
"""

import re
import sys
from typing import TYPE_CHECKING

from ebbtide.tools.bash_tree import tree_of
from ebbtide.tools.commands.line_limits import MAX_LINE_CHARS, is_too_much

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_AS_FILE = b" < here-document "
_START = re.compile(rb"<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<end>[A-Za-z_]\w*)(?P=quote)(?=[ \t\n;|&>])")
_FEEDS = re.compile(rb"(?<![\d<>&}])" + _START.pattern)
_GIVEN = re.compile(rb'"\$\(cat ' + _START.pattern + rb"[ \t]*\n(?P<text>.*)\)\"", re.DOTALL)
_REPLACED = re.compile(rb"[$`\\]")
_WORDS_AND_QUOTES = re.compile(rb"(?:[\w \t\n./:,+%@=|&;<>*?~^\[\]\x80-\xff-]|\$\?|'[^']*'|\"(?:[^\"\\$`]|\$\?)*\")*+")
_JOINED = {"program", "list", "pipeline", "redirected_statement"}
_HAS_OLD_BASH = sys.platform == "darwin"
"""The bash of macOS looks for the end of a substitution inside its here-document."""


def without_here_documents(text: str) -> str:
    """Return the line without its here-documents, or unchanged if they cannot be determined for certain."""
    if "<<" not in text or len(text) > MAX_LINE_CHARS or is_too_much(text):
        return text
    source = text.encode("utf-8", "surrogatepass")
    root = tree_of(source)
    if root is None or root.has_error:
        return text
    parts, last = list[bytes](), 0
    for start, end, instead in sorted(_replacements(source, root)):
        if start < last:
            return text  # nested replacements
        parts += [source[last:start], instead]
        last = end
    found = b"".join((*parts, source[last:]))
    return found.decode("utf-8", "surrogatepass") if parts and _WORDS_AND_QUOTES.fullmatch(found) else text


def _replacements(source: bytes, root: "Node") -> "Iterator[tuple[int, int, bytes]]":
    """Yield start, end and replacement of each here-document."""
    waiting = [(root, True)]
    while waiting:
        node, is_joined = waiting.pop()
        if node.type == "string" and (word := _quoted_word(source[node.start_byte : node.end_byte])) is not None:
            yield node.start_byte, node.end_byte, word
            continue
        if node.type == "herestring_redirect" and _WORDS_AND_QUOTES.fullmatch(source, node.start_byte, node.end_byte):
            yield node.start_byte, node.end_byte, _AS_FILE
        if node.type == "heredoc_redirect" and is_joined:
            yield from _as_file(source, node)
        is_joined = is_joined and node.type in _JOINED
        waiting += [(child, is_joined) for child in node.children]


def _as_file(source: bytes, node: "Node") -> "Iterator[tuple[int, int, bytes]]":
    start = _FEEDS.match(source, node.start_byte)
    begins = source.find(b"\n", node.start_byte) + 1
    ends = next((child.end_byte for child in node.children if child.type == "heredoc_end"), -1)
    if start is None or not begins or b"<<" in source[start.end() : begins]:
        return
    if not _WORDS_AND_QUOTES.fullmatch(source, start.end(), begins):
        return  # a quote that is open there extends into the apparent text
    body = _body(source[begins:], start)
    if body is not None and begins + body[1] == ends:
        yield start.start(), start.end(), _AS_FILE
        yield begins, ends, b""


def _quoted_word(text: bytes) -> bytes | None:
    """Return the quoted word equivalent to a `"$(cat <<'EOF' …)"` string, or None for anything else."""
    found = None if _HAS_OLD_BASH else _GIVEN.fullmatch(text)
    body = _body(found["text"], found) if found is not None else None
    if found is None or body is None or found["text"][body[1] :].strip():
        return None
    if any(line.lstrip().startswith(found["end"]) for line in body[0].split(b"\n")):
        return None  # an older bash reads `EOF)` as the end
    return b"'" + body[0].rstrip(b"\n").replace(b"'", b"'\"'\"'") + b"'"


def _body(text: bytes, start: re.Match[bytes]) -> tuple[bytes, int] | None:
    """Return the text of a here-document and the offset where its last line ends, or None if it has no end or contains
    expansions."""
    at = 0
    for line in text.split(b"\n"):
        if (line.lstrip(b"\t") if start["dash"] else line) == start["end"]:
            is_text = bool(start["quote"]) or not _REPLACED.search(text[:at])
            return (text[:at], at + len(line)) if is_text else None
        at += len(line) + 1
    return None

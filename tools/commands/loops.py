"""Loops over words that stand in the line, written out: `for x in a b; do wc $x; done` is `wc a` and then `wc b`, so
that what tells what a line does needs to know no loops. Pure: the names that a pattern stands for are given."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tools.bash_tree import tree_of
from tools.commands.line_limits import LONGEST, is_too_much
from tools.lazy import regex

if TYPE_CHECKING:
    from tree_sitter import Node

_PLAIN = regex(r"[\w./@%+:,-]+")
"""What is one word for the shell wherever it is put."""
_PATTERN = regex(r"[\w./@%+:,*?-]+")
_MOST = 100
"""Times that a loop is written out."""


def written_out(text: str, names: Callable[[str], Sequence[str]]) -> str:
    """The line with its loops written out; the line itself where one of them cannot be. `names`: the files that a
    pattern stands for, in order."""
    if "for " not in text or len(text) > LONGEST or is_too_much(text):
        return text
    source = text.encode("utf-8", "surrogatepass")
    root = tree_of(source)
    if root is None or root.has_error:
        return text
    parts, last = list[bytes](), 0
    for loop in (node for node in root.children if node.type == "for_statement"):
        bodies = _bodies(source, loop, names)
        if bodies is None:
            return text
        parts += [source[last : loop.start_byte], b"\n".join(bodies)]
        last = loop.end_byte
    found = b"".join((*parts, source[last:]))
    return found.decode("utf-8", "surrogatepass") if len(found) <= LONGEST else text


def _bodies(source: bytes, loop: "Node", names: Callable[[str], Sequence[str]]) -> list[bytes] | None:
    """What is run each time; None where that is not known."""
    variable, body = loop.child_by_field_name("variable"), loop.child_by_field_name("body")
    if variable is None or body is None or source[loop.start_byte : loop.start_byte + 3] != b"for":
        return None
    values = list[str]()
    for node in loop.children_by_field_name("value"):
        written = source[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")
        is_pattern = "*" in written or "?" in written
        if not _PATTERN.fullmatch(written):
            return None
        values += names(written) if is_pattern else (written,)
        if is_pattern and not names(written):
            return None
    if not values or len(values) > _MOST or not all(map(_PLAIN.fullmatch, values)):
        return None
    inside = [node for node in body.children if node.type not in ("do", "done", ";")]
    if not inside or any(node.type == "comment" for node in inside):
        return None  # a comment would hide what stands behind the loop
    start, end = inside[0].start_byte, inside[-1].end_byte
    uses = list(_uses(source, body, source[variable.start_byte : variable.end_byte]))
    return [_with(source[start:end], [(a - start, b - start) for a, b in uses], value.encode()) for value in values]


def _uses(source: bytes, body: "Node", name: bytes) -> Iterator[tuple[int, int]]:
    """Where the variable stands, in order."""
    waiting = [body]
    while waiting:
        node = waiting.pop()
        is_variable = node.type in ("simple_expansion", "expansion")
        if is_variable and source[node.start_byte : node.end_byte] in (b"$" + name, b"${" + name + b"}"):
            yield node.start_byte, node.end_byte
        else:
            waiting += reversed(node.children)


def _with(text: bytes, places: Sequence[tuple[int, int]], value: bytes) -> bytes:
    parts, last = list[bytes](), 0
    for start, end in places:
        parts += [text[last:start], value]
        last = end
    return b"".join((*parts, text[last:]))

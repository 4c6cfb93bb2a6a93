"""What one file defines and which names it uses."""

import builtins
import os
from collections import Counter
from typing import NamedTuple

from ebbtide.tools.code_map.grammars import GRAMMARS, parser_for
from ebbtide.tools.files.bounded import beginning_of

MAX_FILE_BYTES = 1_000_000
"""Bytes of a file that is read."""
_MAX_MEAN_LINE_BYTES = 400
"""Bytes of a line on average, above which a file was made by a program for a program."""
_MAX_SIGNATURE_CHARS = 160
_MAX_NAMES = 400
_WEIGHTS = {"use": 3, "part": 1}
_OF_SCRIPTS = "push map filter forEach slice concat then catch toString length unwrap clone into iter len"
_BUILT_IN = {
    "use": frozenset(name.encode() for name in dir(builtins)),
    "part": frozenset(
        name.encode()
        for name in (*_OF_SCRIPTS.split(), *(n for one in (str, bytes, list, dict, set) for n in dir(one)))
    ),
}
"""What languages bring along: a use of it is rarely one of what a project calls the same."""
_FUNCTIONS = ("function", "method", "variable_declarator")


class Definition(NamedTuple):
    name: str
    line: int
    """From 1."""
    depth: int
    """Definitions around it."""
    signature: str
    """Its beginning, on one line."""


class Tags(NamedTuple):
    definitions: tuple[Definition, ...]
    uses: dict[str, int]
    """How much each name is used: called, imported or taken as a type counts more than as a part of anything."""


NOTHING = Tags((), {})


def tags_of(path: str) -> Tags:
    """The tags of a regular file; nothing of one that is large, no text, or cannot be read."""
    try:
        content = beginning_of(path, MAX_FILE_BYTES + 1)
    except OSError:
        return NOTHING
    is_generated = len(content) > _MAX_MEAN_LINE_BYTES * (content.count(b"\n") + 1)
    if len(content) > MAX_FILE_BYTES or b"\0" in content[:8192] or (is_generated and len(content) > 4096):
        return NOTHING
    return tags_in(content, os.path.splitext(path)[1])


def tags_in(content: bytes, extension: str) -> Tags:
    """The tags of what a file holds, in the order of its lines."""
    from tree_sitter import QueryCursor  # noqa: PLC0415  # deferred: see `grammars`

    parser, query, of_uses = parser_for(GRAMMARS[extension])
    root = parser.parse(content).root_node
    found = []
    for _, captures in QueryCursor(query).matches(root):
        node, name = captures["def"][0], captures["name"][0]
        body = node.child_by_field_name("body") or node.child_by_field_name("value")
        end = body.start_byte if body is not None else node.end_byte
        found.append((node.start_byte, node.end_byte, node.type, name.text or b"", name.start_point[0], end))
    definitions: list[Definition] = []
    around: list[tuple[int, str]] = []
    """Where each definition around the next one ends, and its kind."""
    for start, stop, kind, name_text, line, end in sorted(set(found)):
        while around and around[-1][0] <= start:
            around.pop()
        if not any(kind.startswith(_FUNCTIONS) or kind.endswith("_function") for _, kind in around):
            signature = b" ".join(content[start : min(end, start + 1000)].split()).rstrip(b"{=: ")
            text = signature.decode("utf-8", "replace")
            text = text if len(text) <= _MAX_SIGNATURE_CHARS else f"{text[: _MAX_SIGNATURE_CHARS - 1]}…"
            definitions.append(Definition(name_text.decode("utf-8", "replace"), line + 1, len(around), text))
        around.append((stop, kind))
    uses: Counter[bytes] = Counter()
    for kind, nodes in QueryCursor(of_uses).captures(root).items():
        names = Counter(node.text or b"" for node in nodes)
        uses.update({name: count * _WEIGHTS[kind] for name, count in names.items() if name not in _BUILT_IN[kind]})
    often = uses.most_common(_MAX_NAMES)
    return Tags(tuple(definitions), {name.decode("utf-8", "replace"): count for name, count in often})

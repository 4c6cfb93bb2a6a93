"""The definitions and uses of names in one file."""

import builtins
import os
from collections import Counter
from typing import NamedTuple

from ebbtide.tools.code_map.grammars import GRAMMARS, parser_for
from ebbtide.tools.files.bounded import beginning_of

MAX_FILE_BYTES = 1_000_000
"""Maximum size of a file, in bytes."""
_MAX_MEAN_LINE_BYTES = 400
"""Mean line length in bytes above which a file counts as generated."""
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
"""Built-in names of the languages. A use rarely refers to a project's definition of the same name."""
_FUNCTIONS = ("function", "method", "variable_declarator")


class Definition(NamedTuple):
    name: str
    line: int
    """Counted from 1."""
    depth: int
    """Number of enclosing definitions."""
    signature: str
    """The beginning of the definition, on one line."""


class Tags(NamedTuple):
    definitions: tuple[Definition, ...]
    uses: dict[str, int]
    """How much each name is used. Calls, imports and types weigh more than members."""


NOTHING = Tags((), {})


def tags_of(path: str) -> Tags:
    """Return the tags of a regular file, or no tags if it is large, not text or unreadable."""
    try:
        content = beginning_of(path, MAX_FILE_BYTES + 1)
    except OSError:
        return NOTHING
    is_generated = len(content) > _MAX_MEAN_LINE_BYTES * (content.count(b"\n") + 1)
    if len(content) > MAX_FILE_BYTES or b"\0" in content[:8192] or (is_generated and len(content) > 4096):
        return NOTHING
    return tags_in(content, os.path.splitext(path)[1])


def tags_in(content: bytes, extension: str) -> Tags:
    """Return the tags of a file's content, in line order."""
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
    """End and kind of each enclosing definition."""
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

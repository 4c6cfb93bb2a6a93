"""Finds the definitions and uses of names in one file."""

import builtins
import os
from collections import Counter
from typing import NamedTuple

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.integrations.code_map.grammars import GRAMMARS, parser_for

MAX_FILE_BYTES = 1_000_000
"""Maximum size of a file, in bytes. Larger files get no tags."""
_MAX_MEAN_LINE_BYTES = 400
"""A file whose lines are longer than this on average, in bytes, counts as generated."""
_MAX_SIGNATURE_CHARS = 160
_MAX_USED_NAMES = 400
_USE_WEIGHTS = {"use": 3, "part": 1}
_COMMON_MEMBERS = "push map filter forEach slice concat then catch toString length unwrap clone into iter len"
_BUILT_IN_NAMES = {
    "use": frozenset(name.encode() for name in dir(builtins)),
    "part": frozenset(
        name.encode()
        for name in (
            *_COMMON_MEMBERS.split(),
            *(name for type_ in (str, bytes, list, dict, set) for name in dir(type_)),
        )
    ),
}
"""Names that are built into the languages. When one is used, it rarely refers to a definition in the project."""
_FUNCTION_KINDS = ("function", "method", "variable_declarator")


class Definition(NamedTuple):
    name: str
    line: int
    """The line number, counted from 1."""
    depth: int
    """Number of enclosing definitions."""
    signature: str
    """The beginning of the definition, on one line."""


class Tags(NamedTuple):
    definitions: tuple[Definition, ...]
    uses: dict[str, int]
    """The weight of each used name. Calls, imports and types count more than members."""


NO_TAGS = Tags((), {})


def file_tags(path: str) -> Tags:
    """Return the tags of a regular file. Empty if it is too large, generated, unreadable or not text."""
    try:
        content = read_prefix(path, MAX_FILE_BYTES + 1)
    except OSError:
        return NO_TAGS
    is_generated = len(content) > _MAX_MEAN_LINE_BYTES * (content.count(b"\n") + 1)
    if len(content) > MAX_FILE_BYTES or b"\0" in content[:8192] or (is_generated and len(content) > 4096):
        return NO_TAGS
    return extract_tags(content, os.path.splitext(path)[1])


def extract_tags(content: bytes, extension: str) -> Tags:
    """Return the tags of a file's content, in line order."""
    from tree_sitter import QueryCursor  # noqa: PLC0415  # deferred: see `grammars`

    parser, definition_query, use_query = parser_for(GRAMMARS[extension])
    root = parser.parse(content).root_node
    captured = []
    for _, captures in QueryCursor(definition_query).matches(root):
        node, name = captures["def"][0], captures["name"][0]
        body = node.child_by_field_name("body") or node.child_by_field_name("value")
        signature_end = body.start_byte if body is not None else node.end_byte
        captured.append(
            (node.start_byte, node.end_byte, node.type, name.text or b"", name.start_point[0], signature_end)
        )
    definitions: list[Definition] = []
    enclosing: list[tuple[int, str]] = []
    """The end and kind of each definition that encloses the current one."""
    for start, end, kind, name_text, line, signature_end in sorted(set(captured)):
        while enclosing and enclosing[-1][0] <= start:
            enclosing.pop()
        if not any(kind.startswith(_FUNCTION_KINDS) or kind.endswith("_function") for _, kind in enclosing):
            signature = b" ".join(content[start : min(signature_end, start + 1000)].split()).rstrip(b"{=: ")
            text = signature.decode("utf-8", "replace")
            text = text if len(text) <= _MAX_SIGNATURE_CHARS else f"{text[: _MAX_SIGNATURE_CHARS - 1]}…"
            definitions.append(Definition(name_text.decode("utf-8", "replace"), line + 1, len(enclosing), text))
        enclosing.append((end, kind))
    uses: Counter[bytes] = Counter()
    for kind, nodes in QueryCursor(use_query).captures(root).items():
        names = Counter(node.text or b"" for node in nodes)
        uses.update(
            {name: count * _USE_WEIGHTS[kind] for name, count in names.items() if name not in _BUILT_IN_NAMES[kind]}
        )
    most_used = uses.most_common(_MAX_USED_NAMES)
    return Tags(tuple(definitions), {name.decode("utf-8", "replace"): count for name, count in most_used})

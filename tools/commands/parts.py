"""The parts of a command line that contain lines of their own: groups, loops, conditions and substitutions. Each is
replaced with a mark, so that the rest is plain commands. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ebbtide.tools.bash_tree import tree_of
from ebbtide.tools.commands.line_limits import LONG_LINE_CHARS, is_too_much
from ebbtide.tools.lazy import dataclass, regex

if TYPE_CHECKING:
    from tree_sitter import Node

MARK = regex("ebb[0-9a-f]{16}n[0-9]+e")
"""The mark in place of a part. It contains a random number, so that no line can contain it already."""
_OPENS = regex(r"[({$!]|\b(?:for|while|if)\b")
_PLAIN = regex(r"[\w./@%+:,-]+")
"""Text that is one word to the shell wherever it is inserted."""
_QUOTABLE = regex(r"[^\0-\x1f\x7f\"$`\\!]+")
"""Text that is literal between double quotes."""
_PATTERN = regex(r"[\w./@%+:,*?-]+")
_MAX_LOOP_ROUNDS = 200
"""Maximum number of rounds when a loop is unrolled."""
_SEQUENCE = regex(r"\{(?P<a>\d{1,6})\.\.(?P<b>\d{1,6})\}|\$\(seq (?:(?P<from>\d{1,6}) )?(?P<to>\d{1,6})\)")
_NUMBER = regex(
    r"\$[$#]|\$\(\([0-9 +*/%()-]+\)\)|\$\{?(?:RANDOM|SECONDS|UID|EUID)\}?|\$\{#[A-Z]+\}|\$\{PIPESTATUS\[[0-9@*]\]\}"
)
"""Expressions that expand to a number."""
_TEXT = regex(r"\$\{?(?:HOME|USER|LOGNAME|SHELL|LANG|PWD|OLDPWD|HOSTNAME|TERM|BASH_VERSION)\}?")
"""Variables that expand to harmless text."""
_READ = regex(r"(?P<split>IFS=(?:[,:]|'[,:;| ]'|\"[,:;| ]\"|) )?read(?P<raw> -r)?(?P<names>(?: [a-z]\w{0,30}){1,6})")
_ASSIGNMENT = regex(
    r"\s*(?P<name>[A-Za-z]\w{0,30})=(?P<value>[\w./@%+:,-]+|'[\w./@%+:, -]+'|\"[\w./@%+:, -]+\")[ \t]*(?:;|&&|\n)"
    r"(?![;&|])\s*"
)
_OWN_NAME = regex(r"[a-z]\w{0,30}")
_PART_HOLDERS = {
    "program", "list", "pipeline", "redirected_statement", "command", "string", "concatenation", "file_redirect",
    "command_name", "test_command", "unary_expression", "binary_expression",
}  # fmt: skip
"""Nodes that may contain a part."""

_EXPANSIONS = {"simple_expansion", "expansion", "arithmetic_expansion"}

Names = Callable[[str], Sequence[str]]
"""Expands a pattern to files, in order."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part taken out of a line."""

    kind: str
    """`file`: `<(…)`; `output`: `$(…)`; `value`: a variable; `group`; `subshell`; `loop`: a loop with `read`; `words`:
    a loop over words."""
    around: tuple[str, ...]
    """The text before, between and after its lines."""
    lines: tuple[str, ...] = ()
    is_quoted: bool = True
    """Whether the shell treats its output as one word."""
    names: tuple[str, ...] = ()
    """The variables that it sets."""


class Parts:
    """The parts of one line and of the lines in them, by mark."""

    def __init__(self, names: Names, sign: str) -> None:
        self.names, self.sign = names, sign
        self.found: dict[str, Part] = {}

    def add(self, part: Part) -> str:
        mark = f"ebb{self.sign}n{len(self.found)}e"
        self.found[mark] = part
        return mark

    def take_out(self, text: str) -> str:
        """Return the line with its outermost parts replaced with marks. Parts that are not understood stay."""
        if not _OPENS.search(text) or len(text) > LONG_LINE_CHARS or is_too_much(text):
            return text
        try:
            source = text.encode()
        except UnicodeEncodeError:
            return text
        root = tree_of(source)
        if root is None or root.has_error:
            return text
        places = list[tuple[int, int, bytes]]()
        waiting = [(root, False)]
        while waiting:
            node, is_quoted = waiting.pop()
            part = self._part(source, node, is_quoted=is_quoted)
            if part is not None:
                places.append((_start(source, node), node.end_byte, self.add(part).encode()))
            elif node.type in _PART_HOLDERS:
                waiting += [(child, is_quoted or node.type == "string") for child in reversed(node.children)]
        return _splice(source, sorted(places)).decode()

    def _part(self, source: bytes, node: "Node", *, is_quoted: bool) -> Part | None:
        kind, text = node.type, source[_start(source, node) : node.end_byte].decode()
        if kind == "process_substitution" and text.startswith("<("):
            return Part("file", ("<( ", " )"), (text[2:-1],))
        if kind == "command_substitution" and text.startswith("$("):
            return Part("output", ("$( ", " )"), (text[2:-1],), is_quoted)
        if kind in _EXPANSIONS and (_NUMBER.fullmatch(text) or _TEXT.fullmatch(text)):
            return Part("value", (text,), (), is_quoted or _NUMBER.fullmatch(text) is not None)
        if kind == "compound_statement" and text[:1] == "{" and text[1:2].isspace() and text[-1:] == "}":
            return Part("group", ("{ ", "\n}"), (text[1:-1],))
        if kind == "subshell":
            return Part("subshell", ("( ", "\n)"), (text[1:-1],))
        if kind == "negated_command" and text[:1] == "!" and text[1:2].isspace():
            return Part("group", ("! ", ""), (text[1:],))
        if kind == "for_statement":
            lines = _bodies(source, node, self.names)
            if lines is None:
                return self._loop_over_output(source, node)
            variable = node.child_by_field_name("variable")
            names = (_text(source, variable),) if variable is not None else ()
            return Part("group", ("{ ", *["\n"] * (len(lines) - 1), "\n}"), tuple(lines), names=names)
        if kind == "while_statement":
            return self._loop(source, node)
        return _condition(source, node) if kind == "if_statement" else None

    def _loop(self, source: bytes, node: "Node") -> Part | None:
        """Return the part for `while read x; do …; done`, with marks for the variables."""
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        if condition is None or body is None or node.children[0].type != "while":
            return None
        found = _READ.fullmatch(_text(source, condition))
        inside = _body_span(source, body)
        if found is None or inside is None or len(node.children_by_field_name("condition")) > 2:
            return None
        if source[node.start_byte : condition.start_byte].strip() != b"while":
            return None
        if source[condition.end_byte : body.start_byte].strip() not in (b";", b""):
            return None
        names = tuple(found["names"].split())
        line = self._mark_variables(source, body, inside, names)
        return Part("loop", (f"while {found[0]}\ndo ", "\ndone"), (line,), names=names)

    def _loop_over_output(self, source: bytes, node: "Node") -> Part | None:
        """Return the part for `for x in $(…); do …; done`, with marks for the variable."""
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        if variable is None or body is None or [value.type for value in values] != ["command_substitution"]:
            return None
        name, output = _text(source, variable), _text(source, values[0])
        inside = _body_span(source, body)
        if inside is None or not _OWN_NAME.fullmatch(name) or not output.startswith("$("):
            return None
        line = self._mark_variables(source, body, inside, [name])
        return Part("words", (f"for {name} in $( ", " )\ndo ", "\ndone"), (output[2:-1], line), names=(name,))

    def _mark_variables(self, source: bytes, body: "Node", inside: tuple[int, int], names: Sequence[str]) -> str:
        """Return the body of a loop, with marks for its variables."""
        start, end = inside
        uses = list[tuple[int, int, bytes]]()
        for name in names:
            for first, last, is_quoted in _uses(source, body, name.encode()):
                mark = self.add(Part("value", (f"${name}",), (), is_quoted))
                uses.append((first - start, last - start, mark.encode()))
        return _splice(source[start:end], sorted(uses)).decode()


def _start(source: bytes, node: "Node") -> int:
    """Return the start of a node without leading blanks, which the grammar counts to a variable that follows
    another."""
    text = source[node.start_byte : node.end_byte]
    return node.end_byte - len(text.lstrip(b" \t\n"))


def _text(source: bytes, node: "Node") -> str:
    return source[node.start_byte : node.end_byte].decode()


def _condition(source: bytes, node: "Node") -> Part | None:
    """Return the part for `if …; then …; else …; fi`."""
    around, lines, at = list[str](), list[str](), node.start_byte
    for child in _words_of_condition(node):
        if around:
            lines.append(source[at : child.start_byte].decode().strip().removesuffix(";"))
        around.append(f"\n{child.type} " if around else f"{child.type} ")
        at = child.end_byte
    return Part("group", tuple(around), tuple(lines)) if len(around) > 2 else None


def _words_of_condition(node: "Node") -> Iterator["Node"]:
    for child in node.children:
        if child.type in ("if", "then", "elif", "else", "fi"):
            yield child
        elif child.type in ("elif_clause", "else_clause"):
            yield from _words_of_condition(child)


def _bodies(source: bytes, loop: "Node", names: Names) -> list[str] | None:
    """Return the unrolled bodies of a loop over words, or None if the words are unknown."""
    variable, body = loop.child_by_field_name("variable"), loop.child_by_field_name("body")
    if variable is None or body is None or source[loop.start_byte : loop.start_byte + 3] != b"for":
        return None
    values = list[str]()
    for node in loop.children_by_field_name("value"):
        written = _text(source, node)
        is_pattern = "*" in written or "?" in written
        if (counted := _numbers(written)) is not None:
            values += counted
            continue
        if node.type in ("string", "raw_string") and _QUOTABLE.fullmatch(written[1:-1]):
            values.append(written[1:-1])
            continue
        if not _PATTERN.fullmatch(written):
            return None
        values += names(written) if is_pattern else (written,)
        if is_pattern and not names(written):
            return None
    inside = _body_span(source, body)
    if not values or len(values) > _MAX_LOOP_ROUNDS or inside is None:
        return None
    start, end = inside
    uses = list(_uses(source, body, source[variable.start_byte : variable.end_byte]))
    kind = _QUOTABLE if all(is_quoted for _, _, is_quoted in uses) else _PLAIN
    if not all(map(kind.fullmatch, values)):
        return None
    return [
        _splice(source[start:end], [(a - start, b - start, value.encode()) for a, b, _ in uses]).decode()
        for value in values
    ]


def _numbers(written: str) -> Sequence[str] | None:
    """Return the numbers of `{1..3}` or `$(seq 3)`."""
    found = _SEQUENCE.fullmatch(written)
    if found is None:
        return None
    first, last = int(found["a"] or found["from"] or 1), int(found["b"] or found["to"])
    return [str(number) for number in range(first, min(last, first + _MAX_LOOP_ROUNDS) + 1)]


def _body_span(source: bytes, body: "Node") -> tuple[int, int] | None:
    """Return start and end of the text between `do` and `done`."""
    inside = [node for node in body.children if node.type not in ("do", "done", ";")]
    if body.type != "do_group" or not inside or any(node.type == "comment" for node in inside):
        return None
    return inside[0].start_byte, inside[-1].end_byte


def _uses(source: bytes, body: "Node", name: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield the uses of a variable in order, and whether each is in double quotes."""
    waiting = [(body, False)]
    while waiting:
        node, is_quoted = waiting.pop()
        is_variable, start = node.type in ("simple_expansion", "expansion"), _start(source, node)
        if is_variable and source[start : node.end_byte] in (b"$" + name, b"${" + name + b"}"):
            yield start, node.end_byte, is_quoted
        else:
            waiting += [(child, node.type == "string") for child in reversed(node.children)]


def replace_values(text: str, values: Sequence[tuple[str, str]]) -> str:
    """Return the line with variables replaced by their values. Values that are not plain words are replaced only in
    quotes."""
    if "$" not in text or len(text) > LONG_LINE_CHARS or is_too_much(text):
        return text
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return text
    root = tree_of(source)
    if root is None or root.has_error:
        return text
    places = list[tuple[int, int, bytes]]()
    for name, value in values:
        for start, end, is_quoted in _uses(source, root, name.encode()):
            if (_QUOTABLE if is_quoted else _PLAIN).fullmatch(value):
                places.append((start, end, value.encode()))
    return _splice(source, sorted(places)).decode()


def take_assignments(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the line without its leading assignments, and those, last one first."""
    values = list[tuple[str, str]]()
    while (found := _ASSIGNMENT.match(text)) is not None:
        value = found["value"].strip("\"'")
        values = [(found["name"], value), *((name, old) for name, old in values if name != found["name"])]
        text = text[found.end() :]
    is_set_again = any(re.search(rf"\b(?:for|read|in|-r)\s+(?:\w+\s+)*{name}\b", text) for name, _ in values)
    return ("", []) if is_set_again else (text, values)


def _splice(text: bytes, places: Sequence[tuple[int, int, bytes]]) -> bytes:
    parts, last = list[bytes](), 0
    for start, end, value in places:
        parts += [text[last:start], value]
        last = end
    return b"".join((*parts, text[last:]))

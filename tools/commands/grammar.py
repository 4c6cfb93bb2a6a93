"""A command line as bash parses it: all commands in it, and whether it consists only of literal words and operators.
Pure."""

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ebbtide.tools.bash_tree import syntax_tree
from ebbtide.tools.commands.command_line import CommandLine, Redirection, SimpleCommand, Word
from ebbtide.tools.commands.line_limits import (
    LONG_LINE_CHARS,
    MAX_LINE_CHARS,
    MAX_NODES,
    MAX_WORDS_IN_LONG,
    is_too_complex,
    max_nodes,
)
from ebbtide.tools.lazy import regex

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SUBSTITUTION_DEPTH = 20
"""Maximum nesting depth of substitutions."""

RESERVED_WORDS = {
    "if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in",
    "function", "{", "}", "!", "[[", "]]", "coproc", "time",
}  # fmt: skip
_COMMAND_NODES = {"command", "declaration_command", "unset_command", "variable_assignments"}
_GROUPING_NODES = {"program", "list", "pipeline", "redirected_statement"}
"""Syntax nodes that may join the commands of a proved line."""
_NODE_LABELS = {
    "simple_expansion": "a variable", "expansion": "a variable", "arithmetic_expansion": "arithmetic",
    "command_substitution": "a command's output", "process_substitution": "a command's output", "subshell": "a group",
    "compound_statement": "a group", "ERROR": "invalid syntax",
}  # fmt: skip
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_BLANK = ord(" ")
_EXIT_STATUS = "$?"
_BETWEEN_WORDS = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANKS_AND_COMMENTS = rb"(?:[ \t\n]|\\\n|(?<![^\s;|&])(?<!\\\n)#[^\n]*+)*+"
_BETWEEN_COMMANDS = re.compile(_BLANKS_AND_COMMENTS + rb"(?P<joint>&&|\|\||\|&|\||;)?" + _BLANKS_AND_COMMENTS)
"""Blanks and comments around at most one operator."""
_OPERATORS = (b"||", b"|&", b"|", b"&&", b"&", b";", b"(", b"{", b"`")
_BRACKETS = regex(r"\[(?P<two>\[)?[ \t]+(?P<words>[^#\n]*[^#\n\\ \t])[ \t]+\](?(two)\])")
_DOUBLE_BRACKET_OPERATORS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~"))
"""Operators that have another meaning in `[[ … ]]` than in `test`."""
_UNQUOTED_TEXT = regex(r"[\w./:=,+%@^!{}*?\[\]#~-]*(?:\\[^\n][\w./:=,+%@^!{}*?\[\]#~-]*)*")
_SIMPLE_WORD = regex(r"[\w./:=,+%@*?-]+")
"""A word of characters without special meaning to the shell, except that they may form a pattern."""
_LITERAL_WORD = regex(r"[\w./,:+%@=-]+")
_PLAIN_WORDS = re.compile(rb"[A-Za-z0-9_./,+%@\x80-\xff-]+(?: [A-Za-z0-9_./,+%@\x80-\xff-]+)*")
_ESCAPE = regex(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{1,4})|U(?P<U>[0-9a-fA-F]{1,8})|(?P<oct>[0-7]{1,3})"
    r"|c(?P<control>.)|(?P<one>.))",
    re.DOTALL,
)
_BRACES = regex(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_HOME, _HOME_WITHIN_WORD = regex(r"(?:\A|[=:])~"), regex("[=:]~")
_ESCAPED_ANY = regex(r"\\.", re.DOTALL)
_ESCAPED_SIGN = re.compile(r"\\(?:\n|([^\n]))")
_ESCAPE_VALUES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


@lru_cache(maxsize=64)  # cached, because each rule examines the same few lines
def parse_command_line(text: str) -> CommandLine:
    """Parse a line into commands, and note whether it consists only of literal commands."""
    if len(text) > MAX_LINE_CHARS:
        return CommandLine((), f"it is longer than {MAX_LINE_CHARS:,} characters", is_unparsable=True)
    if is_too_complex(text):  # meaningless lines take longest to parse
        return CommandLine((), "it is too complex", is_unparsable=True)
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return CommandLine((), "it contains characters that programs cannot accept", is_unparsable=True)
    root = syntax_tree(source, with_time_limit=len(text) > MAX_NODES)
    if root is None or root.descendant_count > max_nodes(text):
        return CommandLine((), "it is too complex", is_unparsable=True)
    return _TreeReader(text, source).read_line(root)


_NO_TARGET = Word("", has_expansion=True)


class _TreeReader:
    """Reads one syntax tree. The first problem that is found becomes the line's problem."""

    def __init__(self, text: str, source: bytes) -> None:
        self.text, self.source = text, source
        self.problem = ""
        if not text.replace("\n", "").replace("\t", "").isprintable():
            self.add_problem("it contains invisible characters")
        self.is_in_background = self.is_too_deep = self.has_loop = False
        self.found: list[SimpleCommand] = []
        self.redirections: list[Redirection] = []
        self.depth = 0
        self.last_position = 0, 0
        """The byte offset looked up last, and its position in the text."""
        self.spans: list[tuple[int, int]] = []
        """Byte spans of the commands, including their redirections."""

    def read_line(self, root: "Node") -> CommandLine:
        if root.has_error:
            self.add_problem("it is not a complete command line")
        self.walk(root, is_inner=False)
        order = sorted(range(len(self.found)), key=lambda at: self.found[at].start)
        commands = tuple(self.found[at] for at in order)
        if not self.problem:
            joints = self.operators_between([self.spans[at] for at in order])
            commands = tuple(
                command if command.preceding_operator == joint else replace(command, preceding_operator=joint)
                for command, joint in zip(commands, joints, strict=False)
            )
        if not commands:
            self.add_problem("there is no command in it")
        if len(self.text) > LONG_LINE_CHARS and sum(len(command.words) for command in commands) > MAX_WORDS_IN_LONG:
            self.add_problem("it is complex")
        is_broken = root.has_error or self.is_too_deep
        redirections = tuple(self.redirections)
        return CommandLine(commands, self.problem, is_broken, redirections, self.is_in_background, self.has_loop)

    def add_problem(self, problem: str) -> None:
        self.problem = self.problem or problem

    def source_text(self, start: int, end: int) -> str:
        return self.source[start:end].decode()

    def text_position(self, at: int) -> int:
        """Return the position in the text for a byte offset."""
        if len(self.text) == len(self.source):
            return at
        before, place = self.last_position  # consecutive calls then decode each part only once
        place += len(self.source_text(before, at)) if at >= before else -len(self.source_text(at, before))
        self.last_position = at, place
        return place

    def operators_between(self, spans: list[tuple[int, int]]) -> list[str]:
        """Return the operators between commands. All bytes between commands must be accounted for."""
        last, joints = 0, list[str]()
        for start, end in (*spans, (len(self.source), 0)):
            gap = _BETWEEN_COMMANDS.fullmatch(self.source, last, start)
            is_joined = gap is not None and (gap["joint"] or b"\n" in gap[0].replace(b"\\\n", b""))
            is_edge = last == 0 or end == 0
            if gap is None or not (is_joined or is_edge) or (is_edge and gap["joint"] not in (None, b";")):
                self.add_problem("its commands are joined in an unusual way")
            joints.append((gap["joint"] or b"\n").decode() if gap is not None and last else "")
            last = end
        return joints

    def walk(self, node: "Node", *, is_inner: bool) -> None:
        """Find the commands in a node. Recursive only for words, because lists are nested as deeply as they are
        long."""
        pending: list[tuple[Node, bool, tuple[Node, ...]]] = [(node, is_inner, ())]
        while pending:
            node, is_inner, redirections = pending.pop()
            kind = node.type
            if kind in _COMMAND_NODES or kind == "variable_assignment":
                self.read_command(node, is_inner, redirections)
                continue
            if kind == "redirected_statement":
                body, *redirection_nodes = node.children
                if body.type.endswith("redirect"):
                    self.add_problem("there is a redirection without a command")
                    self.redirections += map(self.read_redirection, node.children)
                    continue
                redirections = (*redirection_nodes, *redirections)
                pending += [(other, is_inner, ()) for other in redirection_nodes if _has_commands(other)]
                pending.append((body, is_inner, redirections))
                continue
            if kind == "test_command" and not redirections and self.read_brackets(node, is_inner=is_inner):
                continue
            if node.is_named and kind not in _GROUPING_NODES and kind != "comment":
                self.has_loop = self.has_loop or kind == "for_statement"
                self.add_problem(f"there is {_NODE_LABELS.get(kind) or 'a ' + kind.replace('_', ' ')} in it")
            if kind == "file_redirect":  # a redirection next to a here-document
                self.redirections.append(self.read_redirection(node))
                continue
            if kind == "&":
                self.is_in_background = True
                self.add_problem("it continues in the background")
            children = node.children
            last = len(children) - 1
            if redirections and kind not in ("list", "pipeline"):
                self.redirections += map(self.read_redirection, redirections)
            for at, child in enumerate(children):
                child_redirections = redirections if at == last and kind in ("list", "pipeline") else ()
                pending.append((child, is_inner or kind in _SUBSTITUTIONS, child_redirections))

    def read_brackets(self, node: "Node", *, is_inner: bool) -> bool:
        """Read `[ … ]` and `[[ … ]]` as `test …`, which is equivalent if there are only words in between."""
        found = _BRACKETS.fullmatch(self.source_text(node.start_byte, node.end_byte))
        line = parse_command_line(f"test {found['words']}") if found is not None else None
        if line is None or line.problem or len(line.commands) != 1 or line.commands[0].redirections:
            return False
        if (
            found is not None
            and found["two"]
            and not _DOUBLE_BRACKET_OPERATORS.isdisjoint(word.text for word in line.commands[0].words)
        ):
            return False
        start, end = self.text_position(node.start_byte), self.text_position(node.end_byte)
        words, texts = line.commands[0].words, line.commands[0].texts
        self.found.append(SimpleCommand(words, texts, (), self.operator_before(node), is_inner, start, end))
        self.spans.append((node.start_byte, node.end_byte))
        return True

    def operator_before(self, node: "Node") -> str:
        """Return the operator between this command and the previous one."""
        before = self.source[max(0, node.start_byte - 400) : node.start_byte]
        written = before.rstrip()
        for sign in _OPERATORS:
            if written.endswith(sign):
                return sign.decode()
        return "\n" if b"\n" in before[len(written) :] else ""

    def read_command(self, node: "Node", is_inner: bool, outer: tuple["Node", ...]) -> None:
        words, redirections = list[Word](), list[Redirection]()
        last = node.end_byte
        if _PLAIN_WORDS.fullmatch(self.source, node.start_byte, last) and not outer:
            words += [Word(text) for text in self.source_text(node.start_byte, last).split(" ")]
        else:
            last = self.collect_words(node, outer, words, redirections)
        start, end = self.text_position(node.start_byte), self.text_position(node.end_byte)
        texts = tuple([word.text for word in words])
        self.found.append(
            SimpleCommand(tuple(words), texts, tuple(redirections), self.operator_before(node), is_inner, start, end)
        )
        self.spans.append((node.start_byte, last))
        first = words[0] if words else Word("")
        if not first.is_plain or (first.is_bare and first.text in RESERVED_WORDS):
            self.add_problem("what it runs is not in the text")
        if any(word.has_expansion for word in words):
            self.add_problem("the shell expands words in it")
        if not all(one.is_harmless for one in redirections):
            self.add_problem("it redirects what is read or written")

    def collect_words(
        self, node: "Node", outer: tuple["Node", ...], words: list[Word], redirections: list[Redirection]
    ) -> int:
        """Collect the words and redirections of a command; return the offset at which the last of them ends."""
        last = -1
        own = (node,) if node.type == "variable_assignment" else node.children
        for child in (*own, *outer):
            kind, start, end = child.type, child.start_byte, child.end_byte
            if kind == "comment":
                continue
            is_word = kind not in ("file_redirect", "heredoc_redirect", "herestring_redirect")
            is_blank = start == last + 1 and self.source[last] == _BLANK
            if last >= 0 and not is_blank and not _BETWEEN_WORDS.fullmatch(self.source, last, start):
                is_sign = not is_word and start == last and self.source[last : last + 1] in (b"<", b">", b"&")
                before = self.source[last - 1 : last]
                if not is_sign or before.isdigit() or before == b"}":  # `{PATH}>a` sets the variable to a number
                    self.add_problem("its words are written in an unusual way")
            last = end
            if is_word and (word := self.simple_word(kind, start, end)) is not None:
                words.append(word)
            elif is_word:
                words.append(
                    self.read_word(child.children[0] if kind == "command_name" and child.child_count else child)
                )
            else:
                redirections.append(self.read_redirection(child))
                words += map(self.read_word, _misplaced_words(child))
        return last

    def read_redirection(self, node: "Node") -> Redirection:
        descriptor = sign = ""
        target = _NO_TARGET
        last = end = node.start_byte
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.source_text(child.start_byte, child.end_byte)
                if not re.fullmatch("[0-9]", descriptor):
                    self.add_problem("it redirects in an unknown way")
            elif not child.is_named and not sign:
                sign = child.type
            elif node.type == "file_redirect" and target is _NO_TARGET:
                target, end = self.read_word(child), child.end_byte
                if self.source_text(last, child.start_byte).strip(" \t"):
                    self.add_problem("it redirects in an unknown way")
            elif node.type == "file_redirect" and not _BETWEEN_WORDS.fullmatch(self.source, last, child.start_byte):
                self.add_problem("its words are written in an unusual way")
            elif node.type == "herestring_redirect" or child.type == "heredoc_start":
                target, end = self.read_word(child), child.end_byte
            last = child.end_byte
        if node.type != "file_redirect":
            self.add_problem("it contains a here-document")
        return Redirection(sign, target, descriptor, self.text_position(node.start_byte), self.text_position(end))

    def simple_word(self, kind: str, start: int, end: int) -> Word | None:
        """Return the word of a node in the common simple cases, without examining its parts; otherwise None."""
        if kind == "raw_string":
            return Word(self.source_text(start + 1, end - 1), False, False, False)
        text = self.source_text(start, end)
        if kind == "word" and _SIMPLE_WORD.fullmatch(text):
            return Word(text, False, "*" in text or "?" in text)
        is_literal = kind in ("variable_assignment", "concatenation") and _LITERAL_WORD.fullmatch(text)
        return Word(text) if is_literal else None

    def read_word(self, node: "Node") -> Word:
        """Return the word that a node represents, and find the commands in it."""
        pieces = node.children if node.type in ("concatenation", "variable_assignment") else [node]
        texts, expands, globs, is_bare, last, opens = list[str](), False, False, True, node.start_byte, False
        has_status, is_mixed = False, False
        for piece in pieces:
            if piece.start_byte != last:
                self.add_problem("its words are written in an unusual way")
            last = piece.end_byte
            text, kind = self.source_text(piece.start_byte, piece.end_byte), piece.type
            if kind == "raw_string":
                texts.append(text[1:-1])
                is_bare, is_mixed = False, is_mixed or _EXIT_STATUS in text
            elif kind == "simple_expansion" and text == _EXIT_STATUS:
                texts.append(text)
                has_status = True
            elif kind in ("string", "translated_string"):
                text_piece, has_expansion = self.read_double_quoted(piece, text)
                texts.append(text_piece)
                expands, is_bare = expands or has_expansion, False
                has_status = has_status or _EXIT_STATUS in _ESCAPED_ANY.sub("", text)
                is_mixed = is_mixed or text_piece.count(_EXIT_STATUS) != _ESCAPED_ANY.sub("", text).count(_EXIT_STATUS)
            elif kind == "ansi_c_string":
                texts.append(unescape_ansi_c(text[2:-1]))
                is_bare = False
                self.add_problem("there are escapes such as `$'…'` in it")
            elif piece.child_count:
                texts.append(text)
                expands = True
                self.walk_inner(piece)
            else:
                text_piece, before = _without_escapes(text), texts[-1][-1:] if texts else ""
                if not _UNQUOTED_TEXT.fullmatch(text) or (not texts and text[:1] == "#"):
                    expands = expands or kind not in ("(", ")", "=", "+=", "variable_name")
                bare = _ESCAPED_ANY.sub("", text) if "\\" in text else text
                is_bare = is_bare and text_piece == text
                globs = globs or any(sign in bare for sign in "*?[")
                opens = opens or "{" in bare
                at_start = not before or before in "=:"
                expands = expands or ("~" in bare and bool((_HOME if at_start else _HOME_WITHIN_WORD).search(bare)))
                texts.append(text_piece)
        text = "".join(texts)
        braces = opens and ("," in text or ".." in text) and _BRACES.search(text) is not None
        is_odd = has_status and (is_mixed or globs)
        return Word(text, expands or braces or is_odd, globs and text not in ("[", "[["), is_bare, has_status)

    def read_double_quoted(self, node: "Node", text: str) -> tuple[str, bool]:
        """Return the text between the quotes, and whether the shell expands it."""
        if node.type == "translated_string":
            self.add_problem('there are strings such as `$"…"` in it')
            text = text[1:]
        self.walk_inside(node)
        inside = text[1:-1]
        bare = (_ESCAPED_ANY.sub("", inside) if "\\" in inside else inside).replace(_EXIT_STATUS, "")
        return re.sub(r"\\(\n|[\"\\$`])", lambda sign: sign[1].strip("\n"), inside), "$" in bare or "`" in bare

    def walk_inside(self, node: "Node") -> None:
        for child in node.children:
            if child.child_count and self.source[child.start_byte : child.end_byte] != _EXIT_STATUS.encode():
                self.walk_inner(child)

    def walk_inner(self, node: "Node") -> None:
        if self.depth == MAX_SUBSTITUTION_DEPTH:
            self.is_too_deep = True
            self.add_problem("it is nested too deeply")
            return
        self.depth += 1
        self.walk(node, is_inner=True)
        self.depth -= 1


def _misplaced_words(node: "Node") -> list["Node"]:
    """Return the words of the command that the grammar wrongly assigns to a redirection before them."""
    return node.children_by_field_name("destination")[1:] if node.type == "file_redirect" else []


def _has_commands(node: "Node") -> bool:
    return node.type == "heredoc_redirect" and node.named_child_count > 0


def _without_escapes(text: str) -> str:
    return "".join(filter(None, _ESCAPED_SIGN.split(text))) if "\\" in text else text


def unescape_ansi_c(text: str) -> str:
    """Replace escapes as in `$'…'` and printf."""
    return _ESCAPE.sub(_unescape_match, text)


def _unescape_match(match: re.Match[str]) -> str:
    number = match["hex"] or match["u"] or match["U"]
    if number or match["oct"]:
        code = int(number, 16) if number else int(match["oct"], 8) & 0xFF
        return chr(code) if code <= 0x10FFFF else ""
    if match["control"]:
        return chr(ord(match["control"]) & 0x1F)
    return _ESCAPE_VALUES.get(match["one"], match[0])  # an unknown escape keeps its backslash

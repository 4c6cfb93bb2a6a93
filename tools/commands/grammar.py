"""Parses a command line as bash does: finds all commands in it, and whether it consists only of literal words and
operators."""

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

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
from ebbtide.tools.process.bash_syntax import parse_syntax_tree

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
"""Syntax nodes that may join the commands of a line known to be read-only."""
_NODE_LABELS = {
    "simple_expansion": "a variable", "expansion": "a variable", "arithmetic_expansion": "arithmetic",
    "command_substitution": "a command's output", "process_substitution": "a command's output", "subshell": "a group",
    "compound_statement": "a group", "if_statement": "an if statement", "ERROR": "invalid syntax",
}  # fmt: skip
_SUBSTITUTIONS = {"command_substitution", "process_substitution"}
_SPACE = ord(" ")
_EXIT_STATUS = "$?"
_BETWEEN_WORDS = re.compile(rb"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")
_WHITESPACE_AND_COMMENTS = rb"(?:[ \t\n]|\\\n|(?<![^\s;|&])(?<!\\\n)#[^\n]*+)*+"
_BETWEEN_COMMANDS = re.compile(_WHITESPACE_AND_COMMENTS + rb"(?P<joint>&&|\|\||\|&|\||;)?" + _WHITESPACE_AND_COMMENTS)
"""Matches whitespace and comments, with at most one operator between them."""
_OPERATORS = (b"||", b"|&", b"|", b"&&", b"&", b";", b"(", b"{", b"`")
_BRACKETS = regex(r"\[(?P<two>\[)?[ \t]+(?P<words>[^#\n]*[^#\n\\ \t])[ \t]+\](?(two)\])")
_DOUBLE_BRACKET_OPERATORS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~"))
"""Operators whose meaning in `[[ … ]]` differs from that in `test`."""
_UNQUOTED_TEXT = regex(r"[\w./:=,+%@^!{}*?\[\]#~-]*(?:\\[^\n][\w./:=,+%@^!{}*?\[\]#~-]*)*")
_SIMPLE_WORD = regex(r"[\w./:=,+%@*?-]+")
"""Matches a word without characters that are special to the shell, except those used in patterns."""
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
_ESCAPED_CHARACTER = re.compile(r"\\(?:\n|([^\n]))")
_ESCAPE_VALUES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


@lru_cache(maxsize=64)  # cached, because each rule examines the same few lines
def parse_command_line(text: str) -> CommandLine:
    """Parse a line into commands, and determine whether it consists only of literal commands and operators."""
    if len(text) > MAX_LINE_CHARS:
        return CommandLine((), f"it is longer than {MAX_LINE_CHARS:,} characters", is_unparsable=True)
    if is_too_complex(text):  # meaningless lines take longest to parse
        return CommandLine((), "it is too complex", is_unparsable=True)
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return CommandLine((), "it contains characters that programs cannot accept", is_unparsable=True)
    root = parse_syntax_tree(source, with_time_limit=len(text) > MAX_NODES)
    if root is None or root.descendant_count > max_nodes(text):
        return CommandLine((), "it is too complex", is_unparsable=True)
    return _TreeReader(text, source).read_line(root)


_NO_TARGET = Word("", has_expansion=True)


class _TreeReader:
    """Reads one syntax tree. The first problem found becomes the line's problem."""

    def __init__(self, text: str, source: bytes) -> None:
        self.text, self.source = text, source
        self.problem = ""
        if not text.replace("\n", "").replace("\t", "").isprintable():
            self.add_problem("it contains invisible characters")
        self.is_in_background = self.is_too_deep = self.has_loop = False
        self.found_commands: list[SimpleCommand] = []
        self.redirections: list[Redirection] = []
        self.depth = 0
        self.last_offsets = 0, 0
        """The last byte offset converted, and the corresponding offset in the text."""
        self.spans: list[tuple[int, int]] = []
        """Byte spans of the commands, including their redirections."""

    def read_line(self, root: "Node") -> CommandLine:
        if root.has_error:
            self.add_problem("it is not a complete command line")
        self.walk(root, is_in_substitution=False)
        order = sorted(range(len(self.found_commands)), key=lambda index: self.found_commands[index].start)
        commands = tuple(self.found_commands[index] for index in order)
        if not self.problem:
            operators = self.operators_between([self.spans[index] for index in order])
            commands = tuple(
                command if command.preceding_operator == operator else replace(command, preceding_operator=operator)
                for command, operator in zip(commands, operators, strict=False)
            )
        if not commands:
            self.add_problem("it contains no command")
        if len(self.text) > LONG_LINE_CHARS and sum(len(command.words) for command in commands) > MAX_WORDS_IN_LONG:
            self.add_problem("it is complex")
        is_unparsable = root.has_error or self.is_too_deep
        redirections = tuple(self.redirections)
        return CommandLine(commands, self.problem, is_unparsable, redirections, self.is_in_background, self.has_loop)

    def add_problem(self, problem: str) -> None:
        self.problem = self.problem or problem

    def source_text(self, start: int, end: int) -> str:
        return self.source[start:end].decode()

    def text_offset(self, byte_offset: int) -> int:
        """Convert a byte offset to an offset in the text."""
        if len(self.text) == len(self.source):
            return byte_offset
        last_byte_offset, offset = self.last_offsets  # so that consecutive calls decode each part only once
        offset += (
            len(self.source_text(last_byte_offset, byte_offset))
            if byte_offset >= last_byte_offset
            else -len(self.source_text(byte_offset, last_byte_offset))
        )
        self.last_offsets = byte_offset, offset
        return offset

    def operators_between(self, spans: list[tuple[int, int]]) -> list[str]:
        """Return the operator before each command. Adds a problem if there is anything else between the commands."""
        last, operators = 0, list[str]()
        for start, end in (*spans, (len(self.source), 0)):
            gap = _BETWEEN_COMMANDS.fullmatch(self.source, last, start)
            is_joined = gap is not None and (gap["joint"] or b"\n" in gap[0].replace(b"\\\n", b""))
            is_edge = last == 0 or end == 0
            if gap is None or not (is_joined or is_edge) or (is_edge and gap["joint"] not in (None, b";")):
                self.add_problem("its commands are joined in an unusual way")
            operators.append((gap["joint"] or b"\n").decode() if gap is not None and last else "")
            last = end
        return operators

    def walk(self, node: "Node", *, is_in_substitution: bool) -> None:
        """Find the commands in a node. Recursion is used only for words, because the nodes of a list are nested as
        deeply as the list is long."""
        pending: list[tuple[Node, bool, tuple[Node, ...]]] = [(node, is_in_substitution, ())]
        while pending:
            node, is_in_substitution, redirections = pending.pop()
            kind = node.type
            if kind in _COMMAND_NODES or kind == "variable_assignment":
                self.read_command(node, is_in_substitution, redirections)
                continue
            if kind == "redirected_statement":
                body, *redirection_nodes = node.children
                if body.type.endswith("redirect"):
                    self.add_problem("it contains a redirection without a command")
                    self.redirections += map(self.read_redirection, node.children)
                    continue
                redirections = (*redirection_nodes, *redirections)
                pending += [
                    (redirection_node, is_in_substitution, ())
                    for redirection_node in redirection_nodes
                    if _has_commands(redirection_node)
                ]
                pending.append((body, is_in_substitution, redirections))
                continue
            if (
                kind == "test_command"
                and not redirections
                and self.read_brackets(node, is_in_substitution=is_in_substitution)
            ):
                continue
            if node.is_named and kind not in _GROUPING_NODES and kind != "comment":
                self.has_loop = self.has_loop or kind == "for_statement"
                self.add_problem(f"it contains {_NODE_LABELS.get(kind) or 'a ' + kind.replace('_', ' ')}")
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
            for index, child in enumerate(children):
                child_redirections = redirections if index == last and kind in ("list", "pipeline") else ()
                pending.append((child, is_in_substitution or kind in _SUBSTITUTIONS, child_redirections))

    def read_brackets(self, node: "Node", *, is_in_substitution: bool) -> bool:
        """Read `[ … ]` or `[[ … ]]` as `test …`. The two are equivalent if there are only words between the
        brackets."""
        match = _BRACKETS.fullmatch(self.source_text(node.start_byte, node.end_byte))
        line = parse_command_line(f"test {match['words']}") if match is not None else None
        if line is None or line.problem or len(line.commands) != 1 or line.commands[0].redirections:
            return False
        if (
            match is not None
            and match["two"]
            and not _DOUBLE_BRACKET_OPERATORS.isdisjoint(word.text for word in line.commands[0].words)
        ):
            return False
        start, end = self.text_offset(node.start_byte), self.text_offset(node.end_byte)
        words, texts = line.commands[0].words, line.commands[0].texts
        self.found_commands.append(
            SimpleCommand(words, texts, (), self.operator_before(node), is_in_substitution, start, end)
        )
        self.spans.append((node.start_byte, node.end_byte))
        return True

    def operator_before(self, node: "Node") -> str:
        """Return the operator between this command and the previous one."""
        preceding_bytes = self.source[max(0, node.start_byte - 400) : node.start_byte]
        stripped_bytes = preceding_bytes.rstrip()
        for operator in _OPERATORS:
            if stripped_bytes.endswith(operator):
                return operator.decode()
        return "\n" if b"\n" in preceding_bytes[len(stripped_bytes) :] else ""

    def read_command(self, node: "Node", is_in_substitution: bool, outer_redirections: tuple["Node", ...]) -> None:
        words, redirections = list[Word](), list[Redirection]()
        end_offset = node.end_byte
        if _PLAIN_WORDS.fullmatch(self.source, node.start_byte, end_offset) and not outer_redirections:
            words += [Word(text) for text in self.source_text(node.start_byte, end_offset).split(" ")]
        else:
            end_offset = self.collect_words(node, outer_redirections, words, redirections)
        start, end = self.text_offset(node.start_byte), self.text_offset(node.end_byte)
        texts = tuple([word.text for word in words])
        self.found_commands.append(
            SimpleCommand(
                tuple(words), texts, tuple(redirections), self.operator_before(node), is_in_substitution, start, end
            )
        )
        self.spans.append((node.start_byte, end_offset))
        first = words[0] if words else Word("")
        if not first.is_plain or (first.is_unquoted and first.text in RESERVED_WORDS):
            self.add_problem("what it runs is not in the text")
        if any(word.has_expansion for word in words):
            self.add_problem("the shell expands words in it")
        if not all(redirection.is_harmless for redirection in redirections):
            self.add_problem("it redirects what is read or written")

    def collect_words(
        self, node: "Node", outer_redirections: tuple["Node", ...], words: list[Word], redirections: list[Redirection]
    ) -> int:
        """Append a command's words and redirections to `words` and `redirections`. Return the byte offset at which the
        last of them ends."""
        last_end = -1
        command_nodes = (node,) if node.type == "variable_assignment" else node.children
        for child in (*command_nodes, *outer_redirections):
            kind, start, end = child.type, child.start_byte, child.end_byte
            if kind == "comment":
                continue
            is_word = kind not in ("file_redirect", "heredoc_redirect", "herestring_redirect")
            follows_space = start == last_end + 1 and self.source[last_end] == _SPACE
            if last_end >= 0 and not follows_space and not _BETWEEN_WORDS.fullmatch(self.source, last_end, start):
                starts_redirection = (
                    not is_word and start == last_end and self.source[last_end : last_end + 1] in (b"<", b">", b"&")
                )
                previous_byte = self.source[last_end - 1 : last_end]
                if (
                    not starts_redirection or previous_byte.isdigit() or previous_byte == b"}"
                ):  # `{PATH}>a` sets the variable to a number
                    self.add_problem("its words are written in an unusual way")
            last_end = end
            if is_word and (word := self.simple_word(kind, start, end)) is not None:
                words.append(word)
            elif is_word:
                words.append(
                    self.read_word(child.children[0] if kind == "command_name" and child.child_count else child)
                )
            else:
                redirections.append(self.read_redirection(child))
                words += map(self.read_word, _misplaced_words(child))
        return last_end

    def read_redirection(self, node: "Node") -> Redirection:
        descriptor = operator = ""
        target = _NO_TARGET
        last_end = end = node.start_byte
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.source_text(child.start_byte, child.end_byte)
                if not re.fullmatch("[0-9]", descriptor):
                    self.add_problem("it redirects in an unknown way")
            elif not child.is_named and not operator:
                operator = child.type
            elif node.type == "file_redirect" and target is _NO_TARGET:
                target, end = self.read_word(child), child.end_byte
                if self.source_text(last_end, child.start_byte).strip(" \t"):
                    self.add_problem("it redirects in an unknown way")
            elif node.type == "file_redirect" and not _BETWEEN_WORDS.fullmatch(self.source, last_end, child.start_byte):
                self.add_problem("its words are written in an unusual way")
            elif node.type == "herestring_redirect" or child.type == "heredoc_start":
                target, end = self.read_word(child), child.end_byte
            last_end = child.end_byte
        if node.type != "file_redirect":
            self.add_problem("it contains a here-document")
        return Redirection(operator, target, descriptor, self.text_offset(node.start_byte), self.text_offset(end))

    def simple_word(self, kind: str, start: int, end: int) -> Word | None:
        """Read a word from a node so simple that its children can be skipped. None for any other node."""
        if kind == "raw_string":
            return Word(self.source_text(start + 1, end - 1), False, False, False)
        text = self.source_text(start, end)
        if kind == "word" and _SIMPLE_WORD.fullmatch(text):
            return Word(text, False, "*" in text or "?" in text)
        is_literal = kind in ("variable_assignment", "concatenation") and _LITERAL_WORD.fullmatch(text)
        return Word(text) if is_literal else None

    def read_word(self, node: "Node") -> Word:
        """Read the word that a node represents, and find the commands inside it."""
        parts = node.children if node.type in ("concatenation", "variable_assignment") else [node]
        texts = list[str]()
        expands = False
        has_wildcard = False
        is_bare = True
        last_end = node.start_byte
        has_brace = False
        has_status, is_mixed = False, False
        for part in parts:
            if part.start_byte != last_end:
                self.add_problem("its words are written in an unusual way")
            last_end = part.end_byte
            text, kind = self.source_text(part.start_byte, part.end_byte), part.type
            if kind == "raw_string":
                texts.append(text[1:-1])
                is_bare, is_mixed = False, is_mixed or _EXIT_STATUS in text
            elif kind == "simple_expansion" and text == _EXIT_STATUS:
                texts.append(text)
                has_status = True
            elif kind in ("string", "translated_string"):
                part_text, has_expansion = self.read_double_quoted(part, text)
                texts.append(part_text)
                expands, is_bare = expands or has_expansion, False
                has_status = has_status or _EXIT_STATUS in _ESCAPED_ANY.sub("", text)
                is_mixed = is_mixed or part_text.count(_EXIT_STATUS) != _ESCAPED_ANY.sub("", text).count(_EXIT_STATUS)
            elif kind == "ansi_c_string":
                texts.append(unescape_ansi_c(text[2:-1]))
                is_bare = False
                self.add_problem("it contains escapes such as `$'…'`")
            elif part.child_count:
                texts.append(text)
                expands = True
                self.walk_inner(part)
            else:
                part_text, previous_character = _without_escapes(text), texts[-1][-1:] if texts else ""
                if not _UNQUOTED_TEXT.fullmatch(text) or (not texts and text[:1] == "#"):
                    expands = expands or kind not in ("(", ")", "=", "+=", "variable_name")
                unescaped_text = _ESCAPED_ANY.sub("", text) if "\\" in text else text
                is_bare = is_bare and part_text == text
                has_wildcard = has_wildcard or any(wildcard in unescaped_text for wildcard in "*?[")
                has_brace = has_brace or "{" in unescaped_text
                at_start = not previous_character or previous_character in "=:"
                expands = expands or (
                    "~" in unescaped_text and bool((_HOME if at_start else _HOME_WITHIN_WORD).search(unescaped_text))
                )
                texts.append(part_text)
        text = "".join(texts)
        has_brace_expansion = has_brace and ("," in text or ".." in text) and _BRACES.search(text) is not None
        is_ambiguous = has_status and (is_mixed or has_wildcard)
        return Word(
            text,
            expands or has_brace_expansion or is_ambiguous,
            has_wildcard and text not in ("[", "[["),
            is_bare,
            has_status,
        )

    def read_double_quoted(self, node: "Node", text: str) -> tuple[str, bool]:
        """Return the text between the quotes, and whether the shell expands it."""
        if node.type == "translated_string":
            self.add_problem('it contains strings such as `$"…"`')
            text = text[1:]
        self.walk_children(node)
        quoted_text = text[1:-1]
        unescaped_text = (_ESCAPED_ANY.sub("", quoted_text) if "\\" in quoted_text else quoted_text).replace(
            _EXIT_STATUS, ""
        )
        return re.sub(
            r"\\(\n|[\"\\$`])", lambda match: match[1].strip("\n"), quoted_text
        ), "$" in unescaped_text or "`" in unescaped_text

    def walk_children(self, node: "Node") -> None:
        for child in node.children:
            if child.child_count and self.source[child.start_byte : child.end_byte] != _EXIT_STATUS.encode():
                self.walk_inner(child)

    def walk_inner(self, node: "Node") -> None:
        if self.depth == MAX_SUBSTITUTION_DEPTH:
            self.is_too_deep = True
            self.add_problem("it is nested too deeply")
            return
        self.depth += 1
        self.walk(node, is_in_substitution=True)
        self.depth -= 1


def _misplaced_words(node: "Node") -> list["Node"]:
    """Return the words that belong to the command but that the grammar wrongly assigns to the redirection before
    them."""
    return node.children_by_field_name("destination")[1:] if node.type == "file_redirect" else []


def _has_commands(node: "Node") -> bool:
    return node.type == "heredoc_redirect" and node.named_child_count > 0


def _without_escapes(text: str) -> str:
    return "".join(filter(None, _ESCAPED_CHARACTER.split(text))) if "\\" in text else text


def unescape_ansi_c(text: str) -> str:
    """Replace escapes in the syntax of `$'…'` and of printf formats."""
    return _ESCAPE.sub(_unescape_match, text)


def _unescape_match(match: re.Match[str]) -> str:
    code_digits = match["hex"] or match["u"] or match["U"]
    if code_digits or match["oct"]:
        code = int(code_digits, 16) if code_digits else int(match["oct"], 8) & 0xFF
        return chr(code) if code <= 0x10FFFF else ""
    if match["control"]:
        return chr(ord(match["control"]) & 0x1F)
    return _ESCAPE_VALUES.get(match["one"], match[0])  # an unknown escape keeps its backslash

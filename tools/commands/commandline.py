"""A command line as bash reads it, as far as the text alone tells. It runs nothing and decides nothing."""

import re
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from tools.lazy import dataclass, regex

DEEPEST = 20
"""Substitutions inside substitutions, beyond which nobody reads on."""

_BLANKS = " \t"
_SIGNS = (
    "<<<", "<<-", "&>>", ";;&", "&&", "||", "|&", ";;", ";&", "<<", ">>", ">|", "<>", "<&", ">&", "&>",
    ";", "&", "|", "<", ">", "(", ")", "\n",
)  # fmt: skip
_SIGN_STARTS = frozenset(sign[0] for sign in _SIGNS)
JOINTS = (";", "&&", "||", "|", "|&", "\n")
RESERVED = {
    "if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in",
    "function", "{", "}", "!", "[[", "]]", "coproc",
}  # fmt: skip
_PLAIN_RUN = regex(r"[\w./:=,+%@^-]+")
_QUOTED_RUN = regex(r"[^\"\\$`]+")
_ESCAPE = regex(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{1,4})|U(?P<U>[0-9a-fA-F]{1,8})|(?P<oct>[0-7]{1,3})"
    r"|c(?P<control>.)|(?P<one>.))",
    re.DOTALL,
)
_ESCAPED = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


class UnreadableError(ValueError):
    """The text is no complete command line, or one that is nested too deeply."""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Without quotes and escapes; expansions stand in it as they were written."""
    expands: bool = False
    """Whether the shell puts something else in its place: a variable, a command's output, alternatives in braces."""
    globs: bool = False
    """Whether the shell may put names of files in its place."""
    is_bare: bool = True
    """Whether nothing in it was quoted, so that it can be a reserved word."""

    @property
    def is_plain(self) -> bool:
        """Whether the program gets exactly this text."""
        return not self.expands and not self.globs


Token: TypeAlias = Word | str
"""A word, or a sign such as `&&`."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    tokens: tuple[Token, ...]
    inner: tuple["CommandLine", ...] = ()
    """The commands in substitutions, wherever in the line they stand."""

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(token for token in self.tokens if isinstance(token, Word))


@lru_cache(maxsize=8)  # every rule looks at the same few lines
def scan(text: str) -> CommandLine:
    """The words and signs of a command line. Raises `UnreadableError`."""
    return _Scanner(text, 0, 0).line()


def simple_commands(text: str) -> tuple[tuple[Word, ...], ...]:
    """The words of each command in a line joined by `;`, `&&`, `||`, `|` or line ends; nothing when it is more.

    Expansions, sub-shells, background jobs, control structures and redirections that write are more: what they do
    cannot be told from the text. Characters that nobody sees are more, too.
    """
    if not all(sign.isprintable() or sign in "\t\n" for sign in text):
        return ()
    try:
        line = scan(text)
    except UnreadableError:
        return ()
    found: list[list[Word]] = [[]]
    tokens = iter(line.tokens)
    for token in tokens:
        if isinstance(token, Word):
            found[-1].append(token)
        elif token in JOINTS:
            found.append([])
        elif not _is_harmless(token, next(tokens, "")):
            return ()
    commands = tuple(tuple(words) for words in found if words)
    return commands if all(map(_is_simple, commands)) else ()


def _is_simple(words: tuple[Word, ...]) -> bool:
    first = words[0]
    if not first.is_plain or (first.is_bare and first.text in RESERVED):
        return False
    return not any(word.expands for word in words)


def _is_harmless(sign: str, target: Token) -> bool:
    """Whether a redirection only discards output, joins two outputs, or reads a file of the working folder."""
    if not isinstance(target, Word) or not target.is_plain:
        return False
    if sign == "<":
        return not target.text.startswith(("/", "~", "-")) and ".." not in target.text.split("/")
    if sign == ">&" and target.text in ("1", "2"):
        return True
    return sign in (">", ">>", "&>", "&>>", ">&") and target.text == "/dev/null"


@dataclass(slots=True)
class _Scanner:
    text: str
    at: int
    depth: int
    tokens: list[Token] = field(default_factory=list)
    inner: list[CommandLine] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    """Ends of the here-documents whose text begins at the next line."""
    piece: list[str] = field(default_factory=list)
    begun: bool = False
    expands: bool = False
    globs: bool = False
    is_bare: bool = True
    opens_brace: bool = False

    def line(self, until: str = "") -> CommandLine:
        """Everything up to the sign `until` that has no partner before it, or up to the end of the text."""
        if self.depth > DEEPEST:
            raise UnreadableError("nested too deeply")
        open_groups = 0
        while self.at < len(self.text):
            sign = self._sign()
            if sign == until and sign and not open_groups:
                self._finish()
                self.at += len(sign)
                return CommandLine(tuple(self.tokens), tuple(self.inner))
            open_groups += (sign == "(") - (sign == ")")
            if sign:
                self._take_sign(sign)
            else:
                self._take(self.text[self.at])
        if until:
            raise UnreadableError(f"there is no `{until}`")
        self._finish()
        return CommandLine(tuple(self.tokens), tuple(self.inner))

    def _sign(self) -> str:
        if self.text[self.at] not in _SIGN_STARTS or self.text.startswith(("<(", ">("), self.at):
            return ""
        return next(sign for sign in _SIGNS if self.text.startswith(sign, self.at))

    def _take_sign(self, sign: str) -> None:
        number = "".join(self.piece)
        if sign[0] in "<>" and self.is_bare and number.isascii() and number.isdecimal():
            self._reset()  # the number says which descriptor is redirected
        self._finish()
        self.tokens.append(sign)
        self.at += len(sign)
        if sign == "\n" and self.documents:
            self._skip_documents()

    def _take(self, sign: str) -> None:
        if sign in _BLANKS:
            self._finish()
            self.at += 1
        elif sign == "#" and not self.begun:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif sign == "\\":
            self._take_escaped()
        elif sign == "'":
            self._add(self._up_to("'", self.at + 1), quoted=True)
        elif sign == '"':
            self.at += 1
            self._take_double_quoted()
        elif sign in "$`<>":
            self._take_expansion(quoted=False)
        elif run := _PLAIN_RUN.match(self.text, self.at):
            self.at = run.end()
            self._add(run[0])
        else:
            self.globs = self.globs or sign in "*?["
            self.opens_brace = self.opens_brace or sign == "{"
            self.at += 1
            self._add(sign)

    def _take_escaped(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following != "\n":  # a line that goes on: both characters vanish
            self._add(following or "\\", quoted=True)

    def _take_double_quoted(self) -> None:
        self._add("", quoted=True)
        while self.at < len(self.text):
            sign, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if sign == '"':
                self.at += 1
                return
            if sign == "\\" and following and following in '"\\$`\n':
                self.at += 2
                self._add(following.strip("\n"))
            elif sign in "$`":
                self._take_expansion(quoted=True)
            else:
                run = _QUOTED_RUN.match(self.text, self.at)
                text = run[0] if run else sign
                self.at += len(text)
                self._add(text)
        raise UnreadableError("a quote is open")

    def _take_expansion(self, quoted: bool) -> None:
        """Takes what begins with a dollar sign, a backtick or a process substitution."""
        sign, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
        if sign == "`":
            code = re.sub(r"\\([\\`$])", r"\1", self._up_to_backtick())
            self.inner.append(_Scanner(code, 0, self.depth + 1).line())
        elif following == "(":
            inside = _Scanner(self.text, self.at + 2, self.depth + 1)
            self.inner.append(inside.line(until=")"))
            self.at = inside.at
        elif following == "'" and not quoted:
            self._take_ansi_quoted()
            return
        elif following == '"' and not quoted:
            self.at += 1
            return
        else:
            self.at += 1
        self.expands = True
        self._add(sign)

    def _take_ansi_quoted(self) -> None:
        end = self.at + 2
        while self.text[end : end + 1] not in ("'", ""):
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnreadableError("a quote is open")
        self._add(_ESCAPE.sub(_unescaped, self.text[self.at + 2 : end]), quoted=True)
        self.at = end + 1

    def _up_to(self, sign: str, start: int) -> str:
        end = self.text.find(sign, start)
        if end < 0:
            raise UnreadableError("a quote is open")
        self.at = end + 1
        return self.text[start:end]

    def _up_to_backtick(self) -> str:
        found = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL).match(self.text, self.at + 1)
        if found is None:
            raise UnreadableError("a substitution is open")
        self.at = found.end()
        return found[0][:-1]

    def _add(self, text: str, quoted: bool = False) -> None:
        self.piece.append(text)
        self.begun = True
        self.is_bare = self.is_bare and not quoted

    def _finish(self) -> None:
        if self.begun:
            text = "".join(self.piece)
            braces = self.opens_brace and ("," in text or ".." in text)
            globs = self.globs and text not in ("[", "[[")
            self.tokens.append(Word(text, self.expands or braces, globs, self.is_bare))
            if len(self.tokens) > 1 and self.tokens[-2] in ("<<", "<<-"):
                self.documents.append(text)
        self._reset()

    def _reset(self) -> None:
        self.piece = []
        self.begun = self.expands = self.globs = self.opens_brace = False
        self.is_bare = True

    def _skip_documents(self) -> None:
        for end in self.documents:
            while self.at < len(self.text):
                start, found = self.at, self.text.find("\n", self.at)
                self.at = len(self.text) if found < 0 else found + 1
                if self.text[start : self.at].strip("\t\n") == end:
                    break
        self.documents = []


def _unescaped(match: re.Match[str]) -> str:
    number = match["hex"] or match["u"] or match["U"]
    if number or match["oct"]:
        code = int(number, 16) if number else int(match["oct"], 8) & 0xFF
        return chr(code) if code <= 0x10FFFF else ""
    if match["control"]:
        return chr(ord(match["control"]) & 0x1F)
    return _ESCAPED.get(match["one"], match[0])  # what means nothing keeps its backslash

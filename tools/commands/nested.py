"""What a command line may run besides what it names first: in substitutions, through wrappers, from texts that are
commands themselves. It would rather see too much, and decides nothing.

What it cannot see: a text that is decoded first, a copy of a shell under another name, a name that a variable holds."""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.grammar import RESERVED_WORDS, parse_command_line, unescape
from ebbtide.tools.commands.line_limits import LONG_LINE_CHARS
from ebbtide.tools.lazy import dataclass, regex

WRAPPERS = {
    "time", "command", "builtin", "exec", "env", "sudo", "doas", "nice", "nohup", "timeout", "xargs", "busybox",
    "toybox", "setsid", "stdbuf", "ionice", "chroot", "unshare", "chrt", "taskset", "setarch", "nsenter", "flock",
    "pkexec", "runuser", "watch", "parallel", "strace", "ltrace", "coproc", "then", "do", "else", "!",
    "setpriv", "prlimit", "numactl", "systemd-run", "unbuffer", "fakeroot", "dbus-run-session", "cpulimit", "catchsegv",
    "proot", "firejail", "entr", "linux32", "linux64", "capsh", "ssh-agent", "torsocks", "proxychains", "chronic",
}  # fmt: skip
"""Programs that another command follows."""
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_RUN_TEXTS = {"script", "su", "runuser", "flock", "sg"}
"""They give a text to a shell, behind `-c`."""
_GIVES_WORDS = {"xargs", "parallel"}
"""They give a program words that stand nowhere in the line."""
GIT_VALUES = ("-c", "-C", "--git-dir", "--work-tree", "--exec-path", "--namespace", "--config-env", "--super-prefix")
"""Options of git behind which a value stands."""
_KEEPS_PLACE = RESERVED_WORDS - {"case", "for", "select", "in", "function", "[[", "]]"} | WRAPPERS
_ASSIGNMENT = regex(r"[A-Za-z_]\w*(\[.*?\])?\+?=", re.DOTALL)
_DURATION = regex(r"[0-9.]+[smhd]?")
_VARIABLE = regex(r"\$\{?([A-Za-z_]\w*)\}?")
_HEX, _BASE64 = regex(r"(?:[0-9a-fA-F]{2}){4,1000}"), regex(r"[A-Za-z0-9+/]{6,2000}={0,2}")
_MAY_BE_LINE = regex(r"[\s;&|`$]")
_OPTION = regex(r"^-\w+?(?=[^-\w]|$)|^-\w")
_ESCAPE_SEQUENCE = regex(r"\\(?:x[0-9a-fA-F]|[0-7]{2})")
_UNSET = regex(r"\$(?:[A-Za-z_]\w*|[@*#?!0-9-]|\{[\w@*]+\})|\$\{\w+:?[-=+?](?P<other>[^{}$`]*)\}")
"""What stands for nothing where nothing has a value, or for the value that is said beside it."""
_BRACES = regex(r"\{([^{}\s]*,[^{}\s]*)\}")
_MAX_ALTERNATIVES = 8
_DECODERS = ("base64", "b64", "xxd", "openssl", "hex")
MAX_TEXT_CHARS = 1_000
"""Characters of a text inside a line, beyond which it is not read as commands: what is none takes the grammar long."""
_MAX_DEPTH = 3
"""Texts inside texts, beyond which nobody reads on."""
MAX_TEXTS, _MAX_CHARS_IN_TEXTS, _MAX_CHARS_IN_LONG = 6, 600, 300
"""Texts in a line that are read as commands, also what is decoded, and characters of all of them."""


class TextBudget:
    """How much of the texts in one line is read as commands. It is spent once, wherever they stand: in other texts,
    too."""

    def __init__(self, line: str) -> None:
        self._texts, self._size = MAX_TEXTS, _MAX_CHARS_IN_TEXTS if len(line) <= LONG_LINE_CHARS else _MAX_CHARS_IN_LONG
        self.is_spent = False
        """Whether there were more than are read."""
        self.leaves_some = False
        """Whether one of them is not read to its end, as who reads them found."""

    def take(self, texts: Iterable[str]) -> Sequence[str]:
        """Those of one word, if they are still read. The first of a line is, however long."""
        found = tuple(texts)
        if not found or self.is_spent:
            return ()
        is_first, self._size = self._texts == MAX_TEXTS, self._size - sum(map(len, found))
        self.is_spent = not self._texts or (self._size < 0 and not is_first)
        self._texts -= 1
        return () if self.is_spent else found


@dataclass(frozen=True, slots=True)
class _Readings:
    words: Sequence[tuple[str, ...]]
    commands: Sequence[SimpleCommand]
    """All of the line and of the texts in it."""
    is_cut: bool
    """Whether there were more texts than are read."""


def behind_assignments(command: Sequence[str]) -> int:
    """Where in a command its program stands; beyond the end when there is none."""
    for at, word in enumerate(command):
        if "=" not in word or not _ASSIGNMENT.match(word):
            return at
    return len(command)


def program_of(command: Sequence[str]) -> str:
    """The name of what is run, wherever it lies; empty when nothing is."""
    start = behind_assignments(command)
    return command[start].rpartition("/")[2] if start < len(command) else ""


def wrapped_at(command: Sequence[str]) -> int | None:
    """Where a program stands that another one runs, as far as that shows; None when there is none."""
    start = behind_assignments(command)
    if program_of(command) not in WRAPPERS:
        return None
    follows_option = False
    for at in range(start + 1, len(command)):
        word = command[at]
        if word[:1] == "-":
            follows_option = True
        elif not (_ASSIGNMENT.match(word) or _DURATION.fullmatch(word)):
            if not follows_option:
                return at
            follows_option = False  # it may be the option's value: the command comes later then
    return len(command)


def pattern_at(command: Sequence[str]) -> int | None:
    """Where a pattern stands in the place of the program that is run, with wrappers before it or without."""
    start = behind_assignments(command)
    while start < len(command) and (inner := wrapped_at(command[start:])) is not None:
        start += max(inner, 1)
    is_pattern = start < len(command) and any(sign in command[start] for sign in "*?]")
    return start if is_pattern and command[start] not in ("?", "]", "]]") else None


@lru_cache(maxsize=64)  # every deny rule asks
def hides_a_command(text: str) -> bool:
    """Whether the name of something that is run cannot be read in the text: it comes from a variable, a pattern, a
    command's output or a pipe into a shell."""
    line = parse_command_line(text)
    return line.is_broken or any(map(_hides, line.commands))


@lru_cache(maxsize=64)
def hides_the_rest(text: str, program: str) -> bool:
    """Whether a line runs a program that is told what to do by words that cannot be read in it: `git $x`."""
    return any(_hides_rest(command, program) for command in _all_readings(text).commands)


def _hides_rest(command: SimpleCommand, program: str) -> bool:
    start = next((at for at, word in enumerate(command.texts) if word.rpartition("/")[2].casefold() == program), None)
    if start is None:
        return False
    follows_option = is_hidden = False
    for word in command.words[start + 1 :]:
        if word.is_plain and word.text[:1] == "-":
            follows_option = program != "git" or word.text in GIT_VALUES
        elif not follows_option or (word.is_plain and program != "git"):
            return not word.is_plain or word.text == "{}"
        else:
            is_hidden, follows_option = is_hidden or not word.is_plain, False
    return is_hidden or not _GIVES_WORDS.isdisjoint(word.rpartition("/")[2] for word in command.texts[:start])


def readings(text: str) -> Sequence[tuple[str, ...]]:
    """The words of each command of the line, and of the texts in it that may be commands themselves: with the values
    that the line gives to variables, too, and as what the line decodes."""
    return _all_readings(text).words


def has_unread_texts(text: str) -> bool:
    """Whether there are more such texts in it than are read."""
    return _all_readings(text).is_cut


@lru_cache(maxsize=64)  # every rule looks at the same few lines
def _all_readings(text: str) -> _Readings:
    waiting, found, budget = [(text, 0)], list[tuple[str, ...]](), TextBudget(text)
    every = list[SimpleCommand]()
    while waiting:
        text, depth = waiting.pop()
        commands = parse_command_line(text).commands
        every += commands
        found += _with_known_values(commands)
        decodes = any(sign in text for sign in _DECODERS) or (("printf" in text or "echo" in text) and "\\" in text)
        for command in commands:
            found.append(command.texts)
            if command.texts[:1] == ("git",) and any("=" in text for text in command.texts):
                found.append(tuple(" ".join(command.texts).replace("=", " ").split()))  # an alias is its command
            words = (*command.words, *[one.target for one in command.redirections])
            may_hold_text = depth < _MAX_DEPTH and (decodes or not all([word.is_bare for word in words]))
            for word in words if may_hold_text else ():
                if budget.is_spent:
                    break
                inner = [decoded] if decodes and (decoded := _decode_word(word.text)) else []
                inner += texts_in(word.text) if not word.is_bare else ()
                waiting += [(each, depth + 1) for each in budget.take(inner)]
    return _Readings(found, every, budget.is_spent)


def _with_known_values(commands: Sequence[SimpleCommand]) -> Iterator[tuple[str, ...]]:
    """The words of commands in which variables stand that the line itself gives a value, with those values."""
    values = dict[str, str]()
    for command in commands:
        values |= values_in(command)
        if any(word.expands for word in command.words):
            texts = [with_values(text, values) for text in command.texts]
            if values:
                yield tuple(" ".join(texts).split())
            bare = [_UNSET.sub(lambda found: found["other"] or "", text) for text in texts]
            for at, text in enumerate(bare):
                bare[at] = " ".join(alternatives(text)) if "{" in text else text
            yield tuple(" ".join(bare).split())


def values_in(command: SimpleCommand) -> Mapping[str, str]:
    """The variables that a command gives a value."""
    pairs = (word.text.partition("=") for word in command.words[: behind_assignments(command.texts)])
    return {name: value for name, sign, value in pairs if sign and name.isidentifier()}


def with_values(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def alternatives(word: str) -> Sequence[str]:
    """What braces in a word stand for, the first few."""
    waiting, found = [word], list[str]()
    while waiting and len(found) < _MAX_ALTERNATIVES:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            found.append(text)
        else:
            parts = braces[1].split(",")[:_MAX_ALTERNATIVES]
            waiting += [text[: braces.start()] + part + text[braces.end() :] for part in reversed(parts)]
    return found


def _decode_word(word: str) -> str:
    """The text that a word stands for in base64, in hexadecimal digits or by escapes; empty when it stands for none."""
    if "\\" in word:
        text = unescape(word) if len(word) <= MAX_TEXT_CHARS and _ESCAPE_SEQUENCE.search(word) else ""
        return text if text.replace("\n", " ").isprintable() else ""
    try:
        if _HEX.fullmatch(word):
            text = bytes.fromhex(word).decode()
        elif _BASE64.fullmatch(word) and len(word) % 4 == 0:
            text = base64.b64decode(word).decode()
        else:
            return ""
    except ValueError:
        return ""
    return text if text.replace("\n", " ").isprintable() else ""


def texts_in(word: str) -> Iterator[str]:
    """What in a word may be a command line: all of it, what stands behind the letters of an option, or behind a `!`."""
    if len(word) > MAX_TEXT_CHARS:
        return
    behind_option = _OPTION.sub("", word) if word[:1] == "-" else word
    for text in dict.fromkeys((word, behind_option, word.rpartition("!")[2])):
        if _MAY_BE_LINE.search(text):
            yield text


def _hides(command: SimpleCommand) -> bool:
    if any(map(_hides, _run_by_find(command))) or any(map(_is_hidden_text, _run_by_option(command))):
        return True
    wrapped = follows_option = False
    is_given_words, last = False, ""
    for place, word in enumerate(command.words):
        name = word.text.rpartition("/")[2]
        if word.is_plain and name in _KEEPS_PLACE:
            wrapped, last = True, name
            is_given_words = is_given_words or name in _GIVES_WORDS
        elif _ASSIGNMENT.match(word.text) or (wrapped and (word.text[:1] == "-" or _DURATION.fullmatch(word.text))):
            follows_option = word.text[:1] == "-"
        elif not word.is_plain or word.text == "{}":
            return True
        elif follows_option:
            follows_option = False  # it may be the option's value: the command comes later then
        else:
            given = command.words[place + 1 :]
            texts = _texts(name, given)
            is_too_much = sum(not word.is_bare for word in texts) > MAX_TEXTS
            is_told = command.is_fed or (is_given_words and all(text.text[:1] == "-" for text in texts))
            return (is_told and name in SHELLS) or is_too_much or any(map(_is_hidden_text, texts))
    return is_given_words and last != "xargs"  # alone it repeats what it reads


def _run_by_find(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """What find runs for each file."""
    starts = [at + 1 for at, text in enumerate(command.texts) if text in _FIND_RUNS]
    for start in starts if program_of(command.texts) in ("find", "gfind") else ():
        yield replace(command, words=command.words[start:], texts=command.texts[start:], joint="", redirections=())


def _run_by_option(command: SimpleCommand) -> Iterator[Word]:
    """The text that some programs give to a shell."""
    if program_of(command.texts) in _RUN_TEXTS:
        options = (at for at, text in enumerate(command.texts[:-1]) if re.fullmatch("-[a-z]*c|--command", text))
        yield from (command.words[at + 1] for at in options)


def _texts(name: str, given: Sequence[Word]) -> Sequence[Word]:
    """Those of a command's arguments that it runs, as a text or as a file."""
    if name in ("eval", "trap") or (name in SHELLS and any(re.match("-[a-z]*c", word.text) for word in given)):
        return given
    if name in SHELLS or name in ("source", "."):
        return [word for word in given if word.text[:1] != "-"][:1]
    return ()


def _is_hidden_text(word: Word) -> bool:
    return not word.is_plain or (not word.is_bare and (len(word.text) > MAX_TEXT_CHARS or hides_a_command(word.text)))

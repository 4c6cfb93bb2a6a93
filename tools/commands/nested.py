"""What a command line may run besides the programs it names directly: in substitutions, through wrappers, from strings
that are commands themselves. It errs on the side of finding too much.

Not detected: decoded text, a renamed copy of a shell, a program name in a variable.
"""

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
"""Programs that run the command after them."""
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_RUN_TEXTS = {"script", "su", "runuser", "flock", "sg"}
"""Programs that pass a string to a shell, after `-c`."""
_GIVES_WORDS = {"xargs", "parallel"}
"""Programs that pass another program words that are not in the line."""
GIT_VALUES = ("-c", "-C", "--git-dir", "--work-tree", "--exec-path", "--namespace", "--config-env", "--super-prefix")
"""Options of git that take a value."""
_KEEPS_PLACE = RESERVED_WORDS - {"case", "for", "select", "in", "function", "[[", "]]"} | WRAPPERS
_ASSIGNMENT = regex(r"[A-Za-z_]\w*(\[.*?\])?\+?=", re.DOTALL)
_DURATION = regex(r"[0-9.]+[smhd]?")
_VARIABLE = regex(r"\$\{?([A-Za-z_]\w*)\}?")
_HEX, _BASE64 = regex(r"(?:[0-9a-fA-F]{2}){4,1000}"), regex(r"[A-Za-z0-9+/]{6,2000}={0,2}")
_MAY_BE_LINE = regex(r"[\s;&|`$]")
_OPTION = regex(r"^-\w+?(?=[^-\w]|$)|^-\w")
_ESCAPE_SEQUENCE = regex(r"\\(?:x[0-9a-fA-F]|[0-7]{2})")
_UNSET = regex(r"\$(?:[A-Za-z_]\w*|[@*#?!0-9-]|\{[\w@*]+\})|\$\{\w+:?[-=+?](?P<other>[^{}$`]*)\}")
"""Expands to nothing if no variable is set, or to its default value."""
_BRACES = regex(r"\{([^{}\s]*,[^{}\s]*)\}")
_MAX_ALTERNATIVES = 8
_DECODERS = ("base64", "b64", "xxd", "openssl", "hex")
MAX_TEXT_CHARS = 1_000
"""Maximum length of a string in a line that is parsed as commands, since parsing other text is slow."""
_MAX_DEPTH = 3
"""Maximum nesting depth of strings."""
MAX_TEXTS, _MAX_CHARS_IN_TEXTS, _MAX_CHARS_IN_LONG = 6, 600, 300
"""Maximum number of strings of a line parsed as commands, including decoded ones, and of characters in them."""


class TextBudget:
    """Limits how many of a line's strings are parsed as commands. The budget is shared by all nesting levels."""

    def __init__(self, line: str) -> None:
        self._texts, self._size = MAX_TEXTS, _MAX_CHARS_IN_TEXTS if len(line) <= LONG_LINE_CHARS else _MAX_CHARS_IN_LONG
        self.is_spent = False
        """Whether there were more strings than the budget allows."""
        self.leaves_some = False
        """Whether a string could not be parsed to its end, as reported by its reader."""

    def take(self, texts: Iterable[str]) -> Sequence[str]:
        """Return the strings of one word if the budget allows. The first ones of a line are always allowed."""
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
    """All commands of the line and of the strings in it."""
    is_cut: bool
    """Whether there were more strings than the budget allows."""


def behind_assignments(command: Sequence[str]) -> int:
    """Return the index of the program in a command, or the number of words if there is none."""
    for at, word in enumerate(command):
        if "=" not in word or not _ASSIGNMENT.match(word):
            return at
    return len(command)


def program_of(command: Sequence[str]) -> str:
    """Return the base name of the program, or an empty string if there is none."""
    start = behind_assignments(command)
    return command[start].rpartition("/")[2] if start < len(command) else ""


def wrapped_at(command: Sequence[str]) -> int | None:
    """Return the index of the program that a wrapper runs, or None if there is none."""
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
            follows_option = False  # it may be the option's value, with the command after it
    return len(command)


def pattern_at(command: Sequence[str]) -> int | None:
    """Return the index of a pattern in place of the program, with or without wrappers, or None."""
    start = behind_assignments(command)
    while start < len(command) and (inner := wrapped_at(command[start:])) is not None:
        start += max(inner, 1)
    is_pattern = start < len(command) and any(sign in command[start] for sign in "*?]")
    return start if is_pattern and command[start] not in ("?", "]", "]]") else None


@lru_cache(maxsize=64)  # every deny rule calls this
def hides_a_command(text: str) -> bool:
    """Whether the name of a program that runs is not in the text: it comes from a variable, a pattern, command output
    or a pipe into a shell."""
    line = parse_command_line(text)
    return line.is_broken or any(map(_hides, line.commands))


@lru_cache(maxsize=64)
def hides_the_rest(text: str, program: str) -> bool:
    """Whether a line runs the program with arguments that are not in the text, such as `git $x`."""
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
    """Return the words of each command of the line and of strings that may be commands, also with the line's variables
    expanded and its encoded strings decoded."""
    return _all_readings(text).words


def has_unread_texts(text: str) -> bool:
    """Whether the line has more such strings than the budget allows."""
    return _all_readings(text).is_cut


@lru_cache(maxsize=64)  # every rule examines the same few lines
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
                found.append(tuple(" ".join(command.texts).replace("=", " ").split()))  # an alias defines a command
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
    """Yield the words of commands with variables that the line itself sets, expanded."""
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
    """Return the variables that a command sets."""
    pairs = (word.text.partition("=") for word in command.words[: behind_assignments(command.texts)])
    return {name: value for name, sign, value in pairs if sign and name.isidentifier()}


def with_values(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)


def alternatives(word: str) -> Sequence[str]:
    """Return the first few brace expansions of a word."""
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
    """Decode a word that is base64, hexadecimal or has escapes. Empty if it is none of these."""
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
    """Yield what may be a command line in a word: all of it, the part after option letters, or the part after `!`."""
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
            follows_option = False  # it may be the option's value, with the command after it
        else:
            given = command.words[place + 1 :]
            texts = _texts(name, given)
            is_too_much = sum(not word.is_bare for word in texts) > MAX_TEXTS
            is_told = command.is_fed or (is_given_words and all(text.text[:1] == "-" for text in texts))
            return (is_told and name in SHELLS) or is_too_much or any(map(_is_hidden_text, texts))
    return is_given_words and last != "xargs"  # on its own, xargs echoes its input


def _run_by_find(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield the commands that find runs for each file."""
    starts = [at + 1 for at, text in enumerate(command.texts) if text in _FIND_RUNS]
    for start in starts if program_of(command.texts) in ("find", "gfind") else ():
        yield replace(command, words=command.words[start:], texts=command.texts[start:], joint="", redirections=())


def _run_by_option(command: SimpleCommand) -> Iterator[Word]:
    """Yield the strings that some programs pass to a shell."""
    if program_of(command.texts) in _RUN_TEXTS:
        options = (at for at, text in enumerate(command.texts[:-1]) if re.fullmatch("-[a-z]*c|--command", text))
        yield from (command.words[at + 1] for at in options)


def _texts(name: str, given: Sequence[Word]) -> Sequence[Word]:
    """Return the arguments that a command runs, as strings or as files."""
    if name in ("eval", "trap") or (name in SHELLS and any(re.match("-[a-z]*c", word.text) for word in given)):
        return given
    if name in SHELLS or name in ("source", "."):
        return [word for word in given if word.text[:1] != "-"][:1]
    return ()


def _is_hidden_text(word: Word) -> bool:
    return not word.is_plain or (not word.is_bare and (len(word.text) > MAX_TEXT_CHARS or hides_a_command(word.text)))

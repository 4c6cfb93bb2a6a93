"""Finds what a command line might run besides the programs that it names directly: in substitutions, through wrappers,
and in strings that are themselves commands. When in doubt, it reports too much.

Not detected: decoded text, a renamed copy of a shell, a program name in a variable.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.grammar import RESERVED_WORDS, parse_command_line, unescape_ansi_c
from ebbtide.tools.commands.line_limits import LONG_LINE_CHARS
from ebbtide.tools.lazy import dataclass, regex

WRAPPERS = {
    "time", "command", "builtin", "exec", "env", "sudo", "doas", "nice", "nohup", "timeout", "xargs", "busybox",
    "toybox", "setsid", "stdbuf", "ionice", "chroot", "unshare", "chrt", "taskset", "setarch", "nsenter", "flock",
    "pkexec", "runuser", "watch", "parallel", "strace", "ltrace", "coproc", "then", "do", "else", "!",
    "setpriv", "prlimit", "numactl", "systemd-run", "unbuffer", "fakeroot", "dbus-run-session", "cpulimit", "catchsegv",
    "proot", "firejail", "entr", "linux32", "linux64", "capsh", "ssh-agent", "torsocks", "proxychains", "chronic",
}  # fmt: skip
"""Programs and shell keywords that run the command after them."""
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}
_FIND_EXEC_OPTIONS = ("-exec", "-execdir", "-ok", "-okdir")
_STRING_RUNNERS = {"script", "su", "runuser", "flock", "sg"}
"""Programs that pass the string after `-c` to a shell."""
_WORD_PASSING_PROGRAMS = {"xargs", "parallel"}
"""Programs that run another program with extra arguments that are not in the line."""
GIT_VALUE_OPTIONS = (
    "-c",
    "-C",
    "--git-dir",
    "--work-tree",
    "--exec-path",
    "--namespace",
    "--config-env",
    "--super-prefix",
)
"""Git options that take a value."""
_WORDS_BEFORE_PROGRAM = RESERVED_WORDS - {"case", "for", "select", "in", "function", "[[", "]]"} | WRAPPERS
_ASSIGNMENT = regex(r"[A-Za-z_]\w*(\[.*?\])?\+?=", re.DOTALL)
_DURATION = regex(r"[0-9.]+[smhd]?")
_VARIABLE = regex(r"\$\{?([A-Za-z_]\w*)\}?")
_HEX, _BASE64 = regex(r"(?:[0-9a-fA-F]{2}){4,1000}"), regex(r"[A-Za-z0-9+/]{6,2000}={0,2}")
_LINE_CHARACTER = regex(r"[\s;&|`$]")
_OPTION = regex(r"^-\w+?(?=[^-\w]|$)|^-\w")
_ESCAPE_SEQUENCE = regex(r"\\(?:x[0-9a-fA-F]|[0-7]{2})")
_UNSET_VARIABLE = regex(r"\$(?:[A-Za-z_]\w*|[@*#?!0-9-]|\{[\w@*]+\})|\$\{\w+:?[-=+?](?P<other>[^{}$`]*)\}")
"""Matches an expansion that yields nothing, or its default value, if the variable is not set."""
_BRACES = regex(r"\{([^{}\s]*,[^{}\s]*)\}")
_MAX_ALTERNATIVES = 8
_DECODERS = ("base64", "b64", "xxd", "openssl", "hex")
MAX_STRING_CHARS = 1_000
"""Maximum length of a string that is parsed as commands. Longer text would take too long to parse."""
_MAX_STRING_DEPTH = 3
"""Maximum nesting depth of strings that are parsed as commands."""
MAX_STRINGS, _MAX_CHARS_IN_TEXTS, _MAX_CHARS_IN_LONG = 6, 600, 300
"""Limits for the strings in a line that are parsed as commands, including decoded strings: their maximum number, and
the maximum number of characters in them, first for a normal line and then for a long line."""


class StringBudget:
    """Limits how many strings in a line are parsed as commands. All nesting levels share the budget."""

    def __init__(self, line: str) -> None:
        self._remaining_texts = MAX_STRINGS
        self._remaining_chars = _MAX_CHARS_IN_TEXTS if len(line) <= LONG_LINE_CHARS else _MAX_CHARS_IN_LONG
        self.is_spent = False
        """Whether the line had more strings than the budget allows."""
        self.has_unparsed_text = False
        """Whether a string could not be parsed completely. Set by the code that parses it."""

    def take_texts(self, texts: Iterable[str]) -> Sequence[str]:
        """Return the strings found in a word, or none if they would exceed the budget. The first word's strings are
        always allowed."""
        strings = tuple(texts)
        if not strings or self.is_spent:
            return ()
        is_first = self._remaining_texts == MAX_STRINGS
        self._remaining_chars -= sum(map(len, strings))
        self.is_spent = not self._remaining_texts or (self._remaining_chars < 0 and not is_first)
        self._remaining_texts -= 1
        return () if self.is_spent else strings


@dataclass(frozen=True, slots=True)
class _ParsedVariants:
    variants: Sequence[tuple[str, ...]]
    commands: Sequence[SimpleCommand]
    """All commands of the line and of the strings in it."""
    is_over_budget: bool
    """Whether there were more strings than the budget allows."""


def program_index(command: Sequence[str]) -> int:
    """Return the index of the program in a command. If there is none, return the number of words."""
    for index, word in enumerate(command):
        if "=" not in word or not _ASSIGNMENT.match(word):
            return index
    return len(command)


def program_name(command: Sequence[str]) -> str:
    """Return the base name of the program, or an empty string if there is none."""
    start = program_index(command)
    return command[start].rpartition("/")[2] if start < len(command) else ""


def wrapped_program_index(command: Sequence[str]) -> int | None:
    """Return the index of the program that a wrapper runs; None if the program is not a wrapper."""
    start = program_index(command)
    if program_name(command) not in WRAPPERS:
        return None
    follows_option = False
    for index in range(start + 1, len(command)):
        word = command[index]
        if word[:1] == "-":
            follows_option = True
        elif not (_ASSIGNMENT.match(word) or _DURATION.fullmatch(word)):
            if not follows_option:
                return index
            follows_option = False  # may be the option's value, followed by the command
    return len(command)


def pattern_program_index(command: Sequence[str]) -> int | None:
    """Return the index of the program if it is given as a file name pattern, possibly after wrappers. None if it is
    not."""
    start = program_index(command)
    while start < len(command) and (wrapped_index := wrapped_program_index(command[start:])) is not None:
        start += max(wrapped_index, 1)
    is_pattern = start < len(command) and any(wildcard in command[start] for wildcard in "*?]")
    return start if is_pattern and command[start] not in ("?", "]", "]]") else None


@lru_cache(maxsize=64)  # cached, because it is called for every deny rule
def has_hidden_program(text: str) -> bool:
    """Whether the line would run a program that it does not name, because the name comes from a variable, a pattern, a
    command's output or a pipe into a shell."""
    line = parse_command_line(text)
    return line.is_unparsable or any(map(_hides_program, line.commands))


@lru_cache(maxsize=64)
def has_hidden_arguments(text: str, program: str) -> bool:
    """Whether a line runs the program with arguments that are not written in the line, as in `git $x`."""
    return any(_hides_arguments(command, program) for command in _parse_variants(text).commands)


def _hides_arguments(command: SimpleCommand, program: str) -> bool:
    start = next(
        (index for index, word in enumerate(command.texts) if word.rpartition("/")[2].casefold() == program), None
    )
    if start is None:
        return False
    follows_option = is_hidden = False
    for word in command.words[start + 1 :]:
        if word.is_plain and word.text[:1] == "-":
            follows_option = program != "git" or word.text in GIT_VALUE_OPTIONS
        elif not follows_option or (word.is_plain and program != "git"):
            return not word.is_plain or word.text == "{}"
        else:
            is_hidden, follows_option = is_hidden or not word.is_plain, False
    return is_hidden or not _WORD_PASSING_PROGRAMS.isdisjoint(word.rpartition("/")[2] for word in command.texts[:start])


def command_variants(text: str) -> Sequence[tuple[str, ...]]:
    """Return the words of each command in the line, and of each command in a string that might be run. Also return
    variants in which the line's variables are expanded or encoded strings are decoded."""
    return _parse_variants(text).variants


def has_unparsed_strings(text: str) -> bool:
    """Whether the line has more possible command strings than the budget allows."""
    return _parse_variants(text).is_over_budget


@lru_cache(maxsize=64)  # cached, because each rule examines the same few lines
def _parse_variants(text: str) -> _ParsedVariants:
    pending, variants, budget = [(text, 0)], list[tuple[str, ...]](), StringBudget(text)
    all_commands = list[SimpleCommand]()
    while pending:
        text, depth = pending.pop()
        commands = parse_command_line(text).commands
        all_commands += commands
        variants += _with_known_values(commands)
        decodes = any(decoder in text for decoder in _DECODERS) or (
            ("printf" in text or "echo" in text) and "\\" in text
        )
        for command in commands:
            variants.append(command.texts)
            if command.texts[:1] == ("git",) and any("=" in text for text in command.texts):
                variants.append(tuple(" ".join(command.texts).replace("=", " ").split()))  # it may define an alias
            words = (*command.words, *[redirection.target for redirection in command.redirections])
            may_contain_lines = depth < _MAX_STRING_DEPTH and (decodes or not all([word.is_unquoted for word in words]))
            for word in words if may_contain_lines else ():
                if budget.is_spent:
                    break
                inner_texts = [decoded] if decodes and (decoded := _decode_word(word.text)) else []
                inner_texts += possible_command_lines(word.text) if not word.is_unquoted else ()
                pending += [(inner_text, depth + 1) for inner_text in budget.take_texts(inner_texts)]
    return _ParsedVariants(variants, all_commands, budget.is_spent)


def _with_known_values(commands: Sequence[SimpleCommand]) -> Iterator[tuple[str, ...]]:
    """Yield the words of commands that contain variables: first with the values that the line itself sets, then also
    with all other variables removed."""
    values = dict[str, str]()
    for command in commands:
        values |= assigned_variables(command)
        if any(word.has_expansion for word in command.words):
            texts = [expand_variables(text, values) for text in command.texts]
            if values:
                yield tuple(" ".join(texts).split())
            bare_texts = [_UNSET_VARIABLE.sub(lambda match: match["other"] or "", text) for text in texts]
            for index, text in enumerate(bare_texts):
                bare_texts[index] = " ".join(brace_expansions(text)) if "{" in text else text
            yield tuple(" ".join(bare_texts).split())


def assigned_variables(command: SimpleCommand) -> Mapping[str, str]:
    """Return the variables that a command sets."""
    pairs = (word.text.partition("=") for word in command.words[: program_index(command.texts)])
    return {name: value for name, equals, value in pairs if equals and name.isidentifier()}


def expand_variables(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), text)


def brace_expansions(word: str) -> Sequence[str]:
    """Return the first few brace expansions of a word."""
    pending, expansions = [word], list[str]()
    while pending and len(expansions) < _MAX_ALTERNATIVES:
        text = pending.pop()
        braces = _BRACES.search(text)
        if braces is None:
            expansions.append(text)
        else:
            alternatives = braces[1].split(",")[:_MAX_ALTERNATIVES]
            pending += [
                text[: braces.start()] + alternative + text[braces.end() :] for alternative in reversed(alternatives)
            ]
    return expansions


def _decode_word(word: str) -> str:
    """Decode a word in base64 or hexadecimal, or with escapes. Empty if it is none of these."""
    if "\\" in word:
        text = unescape_ansi_c(word) if len(word) <= MAX_STRING_CHARS and _ESCAPE_SEQUENCE.search(word) else ""
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


def possible_command_lines(word: str) -> Iterator[str]:
    """Yield the parts of a word that may be command lines: the whole word, the text after an option letter, and the
    text after `!`."""
    if len(word) > MAX_STRING_CHARS:
        return
    option_value = _OPTION.sub("", word) if word[:1] == "-" else word
    for text in dict.fromkeys((word, option_value, word.rpartition("!")[2])):
        if _LINE_CHARACTER.search(text):
            yield text


def _hides_program(command: SimpleCommand) -> bool:
    if any(map(_hides_program, _commands_run_by_find(command))) or any(
        map(_is_hidden_text, _strings_run_by_option(command))
    ):
        return True
    wrapped = follows_option = False
    is_passed_words, last_wrapper = False, ""
    for index, word in enumerate(command.words):
        name = word.text.rpartition("/")[2]
        if word.is_plain and name in _WORDS_BEFORE_PROGRAM:
            wrapped, last_wrapper = True, name
            is_passed_words = is_passed_words or name in _WORD_PASSING_PROGRAMS
        elif _ASSIGNMENT.match(word.text) or (wrapped and (word.text[:1] == "-" or _DURATION.fullmatch(word.text))):
            follows_option = word.text[:1] == "-"
        elif not word.is_plain or word.text == "{}":
            return True
        elif follows_option:
            follows_option = False  # may be the option's value, followed by the command
        else:
            arguments = command.words[index + 1 :]
            executed_words = _executed_arguments(name, arguments)
            exceeds_limit = sum(not word.is_unquoted for word in executed_words) > MAX_STRINGS
            reads_input = command.has_input or (
                is_passed_words and all(text.text[:1] == "-" for text in executed_words)
            )
            return (reads_input and name in SHELLS) or exceeds_limit or any(map(_is_hidden_text, executed_words))
    return is_passed_words and last_wrapper != "xargs"  # without a command, xargs only echoes its input


def _commands_run_by_find(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """Yield the commands that `find` runs on its results."""
    starts = [index + 1 for index, text in enumerate(command.texts) if text in _FIND_EXEC_OPTIONS]
    for start in starts if program_name(command.texts) in ("find", "gfind") else ():
        yield replace(
            command, words=command.words[start:], texts=command.texts[start:], preceding_operator="", redirections=()
        )


def _strings_run_by_option(command: SimpleCommand) -> Iterator[Word]:
    """Yield the strings that programs such as `su` pass to a shell."""
    if program_name(command.texts) in _STRING_RUNNERS:
        options = (index for index, text in enumerate(command.texts[:-1]) if re.fullmatch("-[a-z]*c|--command", text))
        yield from (command.words[index + 1] for index in options)


def _executed_arguments(name: str, arguments: Sequence[Word]) -> Sequence[Word]:
    """Return the arguments that a command runs, either as command strings or as script files."""
    if name in ("eval", "trap") or (name in SHELLS and any(re.match("-[a-z]*c", word.text) for word in arguments)):
        return arguments
    if name in SHELLS or name in ("source", "."):
        return [word for word in arguments if word.text[:1] != "-"][:1]
    return ()


def _is_hidden_text(word: Word) -> bool:
    return not word.is_plain or (
        not word.is_unquoted and (len(word.text) > MAX_STRING_CHARS or has_hidden_program(word.text))
    )

"""What a command line may run besides what it names first: in substitutions, through wrappers, from texts that are
commands themselves. It would rather see too much, and decides nothing."""

import re
from collections.abc import Iterator, Sequence

from tools.commands.commandline import JOINTS, RESERVED, CommandLine, UnreadableError, Word, scan
from tools.lazy import dataclass, regex

_STARTS = {*JOINTS, "&", "(", ")", ";;", ";&", ";;&"}
WRAPPERS = {
    "time", "command", "builtin", "exec", "env", "sudo", "doas", "nice", "nohup", "timeout", "xargs", "busybox",
    "setsid", "stdbuf", "ionice", "chroot", "unshare",
}  # fmt: skip
"""Programs that another command follows."""
_KEEPS_PLACE = RESERVED - {"case", "for", "select", "in", "function", "[[", "]]"} | WRAPPERS
"""What another command follows."""
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}
_ASSIGNMENT = regex(r"[A-Za-z_]\w*(\[.*?\])?\+?=", re.DOTALL)
_DURATION = regex(r"[0-9.]+[smhd]?")


@dataclass(frozen=True, slots=True)
class _Command:
    words: tuple[Word, ...]
    is_fed: bool
    """Whether its input comes from a pipe or from the line itself."""


def hides_a_command(text: str) -> bool:
    """Whether the name of something that is run cannot be read in the text: it comes from a variable, a pattern, a
    command's output or a pipe into a shell."""
    try:
        line = scan(text)
    except UnreadableError:
        return True
    return any(_hides(command) for command in _commands(line))


def readings(text: str) -> Iterator[tuple[str, ...]]:
    """The words of the line, of what is substituted in it, and of the texts in it that may be commands themselves."""
    try:
        line = scan(text)
    except UnreadableError:
        return
    for each in _lines(line, 0):
        yield tuple(word.text for word in each.words)


def _lines(line: CommandLine, depth: int) -> Iterator[CommandLine]:
    yield line
    for inner in line.inner:
        yield from _lines(inner, depth)
    for word in line.words:
        if depth < 3 and not word.is_bare and re.search(r"[\s;&|`$]", word.text):
            try:
                yield from _lines(scan(word.text), depth + 1)
            except UnreadableError:
                continue  # then it is no command either


def _commands(line: CommandLine) -> Iterator[_Command]:
    words: list[Word] = []
    is_fed = False
    tokens = iter((*line.tokens, ";"))
    for token in tokens:
        if isinstance(token, Word):
            words.append(token)
        elif token in _STARTS:
            yield _Command(tuple(words), is_fed)
            words, is_fed = [], token in ("|", "|&")
        else:
            is_fed = is_fed or token in ("<<<", "<<", "<<-")
            next(tokens, "")  # where a redirection leads
    for inner in line.inner:
        yield from _commands(inner)


def _hides(command: _Command) -> bool:
    wrapped = follows_option = False
    for place, word in enumerate(command.words):
        name = word.text.rpartition("/")[2]
        if word.is_plain and name in _KEEPS_PLACE:
            wrapped = True
        elif _ASSIGNMENT.match(word.text) or (wrapped and (word.text[:1] == "-" or _DURATION.fullmatch(word.text))):
            follows_option = word.text[:1] == "-"
        elif not word.is_plain or word.text == "{}":
            return True
        elif follows_option:
            follows_option = False  # it may be the option's value: the command comes later then
        else:
            given = command.words[place + 1 :]
            return (command.is_fed and name in SHELLS) or any(map(_is_hidden_text, _texts(name, given)))
    return False


def _texts(name: str, given: Sequence[Word]) -> Sequence[Word]:
    """Those of a command's arguments that it runs, as a text or as a file."""
    if name in ("eval", "trap") or (name in SHELLS and any(re.match("-[a-z]*c", word.text) for word in given)):
        return given
    if name in SHELLS or name in ("source", "."):
        return [word for word in given if word.text[:1] != "-"][:1]
    return ()


def _is_hidden_text(word: Word) -> bool:
    return not word.is_plain or (not word.is_bare and hides_a_command(word.text))

"""Whether a command line shows files and does nothing else, as far as its text tells. It runs nothing and decides
nothing."""

from collections.abc import Iterator, Sequence

from tools.commands.command_line import CommandLine, Redirection
from tools.commands.grammar import read
from tools.commands.nested import SHELLS, behind_assignments

_VIEWERS = {
    "cat",
    "bat",
    "batcat",
    "nl",
    "tac",
    "head",
    "tail",
    "less",
    "more",
    "sed",
    "rg",
    "grep",
    "egrep",
    "fgrep",
    "ag",
}
_GIT = {"show", "diff", "grep", "blame"}
_FILTERS = _VIEWERS | {"awk", "column", "cut", "fold", "jq", "sort", "tr", "uniq", "wc"}
"""What may stand behind a viewer."""
_ASIDE = {"cd", "echo", "printf", "pwd", "true", ":", "test", "wc", "ls"}
"""What may stand beside one: it prints a line or so."""
_GIT_VALUES = ("-C", "-c")
"""Options of git before its command that another word follows."""


def shows_files(text: str) -> bool:
    """Whether what the command prints is the text of files, or of parts of them: `sed -n 1,80p a.py`, `cat a | head`,
    `cd x && git show HEAD:a`. Where that cannot be told it is not."""
    return _shows(text, is_outer=True)


def shown_names(text: str) -> tuple[str, ...]:
    """The words of such a command line that may name the files it shows; none of another one."""
    if not shows_files(text):
        return ()
    views = [line[0] for line in _pipelines(read(text)) if _is_viewer(line[0])]
    return tuple(dict.fromkeys(word for words in views for word in words[1:] if not word.startswith("-")))


def _shows(text: str, *, is_outer: bool) -> bool:
    line = read(text)
    redirections = (*line.redirections, *(one for command in line.commands for one in command.redirections))
    if line.is_broken or line.is_in_background or not all(map(_is_aside, redirections)):
        return False
    if any(word.expands and word.text.startswith(("<", ">")) for command in line.commands for word in command.words):
        return False  # what is read comes from a program
    pipelines = tuple(_pipelines(line))
    if is_outer and len(pipelines) == 1 and (inner := _given_to_a_shell(pipelines[0])) is not None:
        return _shows(inner, is_outer=False)
    views = [line for line in pipelines if _is_viewer(line[0])]
    others = [line for line in pipelines if not _is_viewer(line[0])]
    return (
        bool(views)
        and all(_is_filter(command) for line in views for command in line[1:])
        and all(line[0][0] in _ASIDE for line in others)
    )


def _pipelines(line: CommandLine) -> Iterator[list[tuple[str, ...]]]:
    """The commands of each pipeline, by their words."""
    pipeline = list[tuple[str, ...]]()
    for command in line.commands:
        words = command.texts[behind_assignments(command.texts) :]
        if command.is_inner or not words:
            continue
        if pipeline and command.joint not in ("|", "|&"):
            yield pipeline
            pipeline = []
        pipeline.append(words)
    if pipeline:
        yield pipeline


def _is_aside(one: Redirection) -> bool:
    """Whether a redirection leaves what is printed as it is: one of complaints, or of what is read."""
    return (
        one.sign == "<"
        or (one.sign in (">", ">>") and one.target.text == "/dev/null")
        or (one.sign == ">&" and one.target.text == "1")
    )


def _given_to_a_shell(line: Sequence[tuple[str, ...]]) -> str | None:
    """The text that is run in `bash -lc '…'`."""
    match line:
        case [(shell, option, text)] if shell.rpartition("/")[2] in SHELLS and option in ("-c", "-lc"):
            return text
    return None


def _is_viewer(words: tuple[str, ...]) -> bool:
    match words:
        case ["git", *rest]:
            return _git_command(rest) in _GIT
        case ["sed", *options]:
            return _has(options, "n", "--quiet", "--silent") and not _has(options, "i", "--in-place")
        case [name, *_]:
            return name in _VIEWERS
    return False


def _has(options: Sequence[str], letter: str, *names: str) -> bool:
    """Whether one of the options is that letter, alone or among others, or begins as a long name."""
    return any(one.startswith(names) if one.startswith("--") else one[:1] == "-" and letter in one for one in options)


def _is_filter(words: tuple[str, ...]) -> bool:
    return words[0] in _FILTERS


def _git_command(words: Sequence[str]) -> str:
    rest = iter(words)
    for word in rest:
        if word in _GIT_VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""

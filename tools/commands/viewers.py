"""Whether a command line only shows files, judged by its text. Pure."""

from collections.abc import Iterator, Sequence

from ebbtide.tools.commands.command_line import CommandLine, Redirection
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import SHELLS, behind_assignments, wrapped_at
from ebbtide.tools.lazy import regex

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
_POWERSHELL = {"get-content", "gc", "type", "select-string", "sls"}
"""Viewers of PowerShell, in lower case, since case does not matter there. In other shells, `type` describes a
command."""
_GIT = {"show", "diff", "grep", "blame", "cat-file"}
_BEFORE = {"command", "env", "nice", "stdbuf", "sudo", "time", "timeout"}
"""Programs that run another one and add nothing to its output."""
_FILTERS = _VIEWERS | _POWERSHELL | {
    "awk", "column", "cut", "delta", "expand", "fold", "gawk", "jq", "mawk", "sort", "tr", "uniq", "wc", "yq",
    "out-string", "select", "select-object", "sort-object", "measure-object",
}  # fmt: skip
"""Programs that may follow a viewer in a pipe."""
_BRIEF_COMMANDS = {
    "cd", "echo", "printf", "pwd", "true", ":", "test", "[", "wc", "ls", "set", "export", "date", "file", "stat",
    "sleep", "dirname", "basename", "realpath", "write-host", "write-output",
}  # fmt: skip
"""Programs that may accompany a viewer, since they print about a line."""
_BRIEF_GIT_COMMANDS = {"status", "branch", "rev-parse"}
_LISTERS = {"find", "fd", "ls", "rg", "grep", "echo", "printf", "sort", "head", "cat"}
"""Programs that may name the files that `xargs` passes to a viewer."""
_PLAIN_AWK = regex(r"(?!.*(getline|system))[^{}]*(\{\s*print(\s+(\$0|NR[^{}|>]{0,12}\$0))?\s*;?\s*\})?\s*")
"""An awk program that prints lines unchanged or numbered."""
_GIT_VALUES = ("-C", "-c")
"""Options of git before the subcommand that take a value."""


def shows_files(text: str) -> bool:
    """Whether the command's output is the text of files or parts of them: `sed -n 1,80p a.py`, `cat a | head`, `cd x &&
    git show HEAD:a`. False if unclear."""
    return _shows(text, is_outer=True)


def viewed_names(text: str) -> tuple[str, ...]:
    """Return the words of such a command line that may name the files shown, or none for other lines."""
    if not shows_files(text):
        return ()
    views = [line[0] for line in _pipelines(parse_command_line(text)) if _shows_whole(line)]
    return tuple(dict.fromkeys(word for words in views for word in words[1:] if not word.startswith("-")))


def _shows(text: str, *, is_outer: bool) -> bool:
    line = parse_command_line(text)
    redirections = (*line.redirections, *(one for command in line.commands for one in command.redirections))
    if line.is_broken or line.is_in_background or not all(map(_keeps_stdout, redirections)):
        return False
    if any(word.expands and word.text.startswith(("<", ">")) for command in line.commands for word in command.words):
        return False  # the input comes from a program
    pipelines = tuple(_pipelines(line))
    if is_outer and len(pipelines) == 1 and (inner := _given_to_a_shell(pipelines[0])) is not None:
        return _shows(inner, is_outer=False)
    others = [line for line in pipelines if not _shows_whole(line)]
    return len(others) < len(pipelines) and all(_prints_little(line[0]) for line in others)


def _pipelines(line: CommandLine) -> Iterator[list[tuple[str, ...]]]:
    """Yield the commands of each pipeline, as words."""
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


def _keeps_stdout(one: Redirection) -> bool:
    """Whether a redirection leaves standard output unchanged."""
    return (
        one.sign == "<"
        or (one.sign in (">", ">>") and one.target.text == "/dev/null")
        or (one.sign == ">&" and one.target.text == "1")
    )


def _given_to_a_shell(line: Sequence[tuple[str, ...]]) -> str | None:
    """Return the string that `bash -lc '…'` runs."""
    match line:
        case [(shell, option, text)] if _name(shell) in SHELLS and option in ("-c", "-lc"):
            return text
        case [(shell, *_, option, text)] if _name(shell) in ("pwsh", "powershell") and option.lower() in (
            "-c",
            "-command",
        ):
            return text
    return None


def _shows_whole(line: Sequence[tuple[str, ...]]) -> bool:
    """Whether a pipeline shows files: the viewer comes first or receives file names, and only filters follow."""
    given = next((at for at, words in enumerate(line) if _name(words[0]) == "xargs"), 0)
    are_named = all(_name(words[0]) in _LISTERS or tuple(words[:2]) == ("git", "ls-files") for words in line[:given])
    shows = _runs_viewer(line[given]) if given else _is_viewer(line[0])
    return are_named and shows and all(map(_is_filter, line[given + 1 :]))


def _runs_viewer(words: Sequence[str]) -> bool:
    """Whether the program passes its input to a viewer, named after its options and their values."""
    for at in range(1, len(words)):
        if words[at].startswith("-"):
            continue
        if _is_viewer(words[at:]):
            return True
        if not words[at - 1].startswith("-"):
            return False
    return False


def _is_viewer(words: Sequence[str]) -> bool:
    match [_name(words[0]), *words[1:]]:
        case ["git", *rest]:
            return _is_git_view(*_git_command(rest))
        case ["gh", "pr", "diff", *_]:
            return True
        case ["sed", *options]:
            return _has(options, "n", "--quiet", "--silent") and not _has(options, "i", "--in-place")
        case [("awk" | "gawk" | "mawk"), program, _, *_]:
            return bool(_PLAIN_AWK.fullmatch(program))
        case [("jq" | "yq"), *rest]:
            return sum(not word.startswith("-") for word in rest) > 1
        case ["find", *rest]:
            return _is_given(rest, ("-exec", "-execdir"))
        case [("fd" | "fdfind"), *rest]:
            return _is_given(rest, ("-x", "-X", "--exec", "--exec-batch"))
        case [("diff" | "delta" | "difft"), _, *_]:
            return True
        case [name, *_] if name in _BEFORE:
            at = wrapped_at(words)
            return at is not None and at < len(words) and _is_viewer(words[at:])
        case [name, *_]:
            return name in _VIEWERS or name.lower() in _POWERSHELL
    return False


def _is_given(words: Sequence[str], options: Sequence[str]) -> bool:
    """Whether a program that finds files passes them to a viewer, after one of these options."""
    at = next((at for at, word in enumerate(words) if word in options), len(words))
    return at + 1 < len(words) and _is_viewer(words[at + 1 :])


def _is_git_view(command: str, rest: Sequence[str]) -> bool:
    match command:
        case "log":
            return _has(rest, "p", "--patch")
        case "stash":
            return rest[:1] == ["show"] and _has(rest, "p", "--patch")
    return command in _GIT


def _prints_little(words: Sequence[str]) -> bool:
    match words:
        case ["git", *rest]:
            return _git_command(rest)[0] in _BRIEF_GIT_COMMANDS
    return _name(words[0]).lower() in _BRIEF_COMMANDS


def _name(program: str) -> str:
    """Return the base name of a program."""
    return program.rpartition("/")[2]


def _has(options: Sequence[str], letter: str, *names: str) -> bool:
    """Whether an option is that letter, alone or combined, or starts with a long name."""
    return any(one.startswith(names) if one.startswith("--") else one[:1] == "-" and letter in one for one in options)


def _is_filter(words: tuple[str, ...]) -> bool:
    return _name(words[0]).lower() in _FILTERS


def _git_command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the git subcommand and its arguments."""
    rest = iter(words)
    for word in rest:
        if word in _GIT_VALUES:
            next(rest, None)
        elif not word.startswith("-"):
            return word, list(rest)
    return "", ()

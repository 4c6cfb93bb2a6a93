"""Recognises command lines that only show files, judging by their text."""

from collections.abc import Iterator, Sequence

from ebbtide.tools.commands.command_line import CommandLine, Redirection
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.nested import SHELLS, program_index, wrapped_program_index
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
"""PowerShell commands that show files, in lower case because PowerShell ignores case. In other shells, `type` describes
a command."""
_GIT_VIEW_COMMANDS = {"show", "diff", "grep", "blame", "cat-file"}
_TRANSPARENT_WRAPPERS = {"command", "env", "nice", "stdbuf", "sudo", "time", "timeout"}
"""Programs that run another program and add nothing to its output."""
_FILTERS = _VIEWERS | _POWERSHELL | {
    "awk", "column", "cut", "delta", "expand", "fold", "gawk", "jq", "mawk", "sort", "tr", "uniq", "wc", "yq",
    "out-string", "select", "select-object", "sort-object", "measure-object",
}  # fmt: skip
"""Programs that may come after a viewer in a pipe."""
_BRIEF_COMMANDS = {
    "cd", "echo", "printf", "pwd", "true", ":", "test", "[", "wc", "ls", "set", "export", "date", "file", "stat",
    "sleep", "dirname", "basename", "realpath", "write-host", "write-output",
}  # fmt: skip
"""Programs that may be used together with a viewer, because they print only about one line."""
_BRIEF_GIT_COMMANDS = {"status", "branch", "rev-parse"}
_NAME_SOURCES = {"find", "fd", "ls", "rg", "grep", "echo", "printf", "sort", "head", "cat"}
"""Programs that may print the file names that `xargs` passes to a viewer."""
_PLAIN_AWK = regex(r"(?!.*(getline|system))[^{}]*(\{\s*print(\s+(\$0|NR[^{}|>]{0,12}\$0))?\s*;?\s*\})?\s*")
"""Matches an awk program that prints lines unchanged or with line numbers."""
_GIT_VALUE_OPTIONS = ("-C", "-c")
"""Git options that come before the subcommand and take a value."""


def shows_files(text: str) -> bool:
    """Whether the command prints text from files, as in `sed -n 1,80p a.py`, `cat a | head` or `cd x && git show
    HEAD:a`. False if this is unclear."""
    return _line_shows_files(text, is_outer=True)


def viewed_names(text: str) -> tuple[str, ...]:
    """Return the words that may name the shown files, if the line only shows files. Empty for any other line."""
    if not shows_files(text):
        return ()
    pipelines = list(_pipelines(parse_command_line(text)))
    if len(pipelines) == 1 and (shell_line := _shell_string(pipelines[0])) is not None:
        pipelines = list(_pipelines(parse_command_line(shell_line)))
    first_commands = [pipeline[0] for pipeline in pipelines if _pipeline_shows_files(pipeline)]
    return tuple(dict.fromkeys(word for words in first_commands for word in words[1:] if not word.startswith("-")))


def _line_shows_files(text: str, *, is_outer: bool) -> bool:
    line = parse_command_line(text)
    redirections = (
        *line.redirections,
        *(redirection for command in line.commands for redirection in command.redirections),
    )
    if line.is_unparsable or line.is_in_background or not all(map(_keeps_stdout, redirections)):
        return False
    if any(
        word.has_expansion and word.text.startswith(("<", ">")) for command in line.commands for word in command.words
    ):
        return False  # its input comes from a program
    pipelines = tuple(_pipelines(line))
    if is_outer and len(pipelines) == 1 and (shell_line := _shell_string(pipelines[0])) is not None:
        return _line_shows_files(shell_line, is_outer=False)
    other_pipelines = [pipeline for pipeline in pipelines if not _pipeline_shows_files(pipeline)]
    return len(other_pipelines) < len(pipelines) and all(_is_brief(pipeline[0]) for pipeline in other_pipelines)


def _pipelines(line: CommandLine) -> Iterator[list[tuple[str, ...]]]:
    """Yield the commands of each pipeline, as words."""
    pipeline = list[tuple[str, ...]]()
    for command in line.commands:
        words = command.texts[program_index(command.texts) :]
        if command.is_in_substitution or not words:
            continue
        if pipeline and command.preceding_operator not in ("|", "|&"):
            yield pipeline
            pipeline = []
        pipeline.append(words)
    if pipeline:
        yield pipeline


def _keeps_stdout(redirection: Redirection) -> bool:
    """Whether a redirection leaves standard output as it is."""
    return (
        redirection.operator == "<"
        or (redirection.operator in (">", ">>") and redirection.target.text == "/dev/null")
        or (redirection.operator == ">&" and redirection.target.text == "1")
    )


def _shell_string(pipeline: Sequence[tuple[str, ...]]) -> str | None:
    """Return the string that `bash -lc '…'` runs. None for other commands."""
    match pipeline:
        case [(shell, option, text)] if _base_name(shell) in SHELLS and option in ("-c", "-lc"):
            return text
        case [(shell, *_, option, text)] if _base_name(shell) in ("pwsh", "powershell") and option.lower() in (
            "-c",
            "-command",
        ):
            return text
    return None


def _pipeline_shows_files(pipeline: Sequence[tuple[str, ...]]) -> bool:
    """Whether a pipeline shows files. A viewer must come first or receive file names, and only filters may follow."""
    xargs_index = next((index for index, words in enumerate(pipeline) if _base_name(words[0]) == "xargs"), 0)
    has_name_source = all(
        _base_name(words[0]) in _NAME_SOURCES or tuple(words[:2]) == ("git", "ls-files")
        for words in pipeline[:xargs_index]
    )
    has_viewer = _runs_viewer(pipeline[xargs_index]) if xargs_index else _is_viewer(pipeline[0])
    return has_name_source and has_viewer and all(map(_is_filter, pipeline[xargs_index + 1 :]))


def _runs_viewer(words: Sequence[str]) -> bool:
    """Whether the program passes its input to a viewer. The viewer's name comes after the program's options and their
    values."""
    for index in range(1, len(words)):
        if words[index].startswith("-"):
            continue
        if _is_viewer(words[index:]):
            return True
        if not words[index - 1].startswith("-"):
            return False
    return False


def _is_viewer(words: Sequence[str]) -> bool:
    match [_base_name(words[0]), *words[1:]]:
        case ["git", *arguments]:
            return _is_git_view(*_git_command(arguments))
        case ["gh", "pr", "diff", *_]:
            return True
        case ["sed", *options]:
            return _has_option(options, "n", "--quiet", "--silent") and not _has_option(options, "i", "--in-place")
        case [("awk" | "gawk" | "mawk"), program, _, *_]:
            return bool(_PLAIN_AWK.fullmatch(program))
        case [("jq" | "yq"), *arguments]:
            return sum(not word.startswith("-") for word in arguments) > 1
        case ["find", *arguments]:
            return _passes_to_viewer(arguments, ("-exec", "-execdir"))
        case [("fd" | "fdfind"), *arguments]:
            return _passes_to_viewer(arguments, ("-x", "-X", "--exec", "--exec-batch"))
        case [("diff" | "delta" | "difft"), _, *_]:
            return True
        case [name, *_] if name in _TRANSPARENT_WRAPPERS:
            wrapped_index = wrapped_program_index(words)
            return wrapped_index is not None and wrapped_index < len(words) and _is_viewer(words[wrapped_index:])
        case [name, *_]:
            return name in _VIEWERS or name.lower() in _POWERSHELL
    return False


def _passes_to_viewer(words: Sequence[str], options: Sequence[str]) -> bool:
    """Whether a program that finds files passes them to a viewer. The viewer's name comes after one of these
    options."""
    index = next((index for index, word in enumerate(words) if word in options), len(words))
    return index + 1 < len(words) and _is_viewer(words[index + 1 :])


def _is_git_view(command: str, arguments: Sequence[str]) -> bool:
    match command:
        case "log":
            return _has_option(arguments, "p", "--patch")
        case "stash":
            return arguments[:1] == ["show"] and _has_option(arguments, "p", "--patch")
    return command in _GIT_VIEW_COMMANDS


def _is_brief(words: Sequence[str]) -> bool:
    match words:
        case ["git", *arguments]:
            return _git_command(arguments)[0] in _BRIEF_GIT_COMMANDS
    return _base_name(words[0]).lower() in _BRIEF_COMMANDS


def _base_name(program: str) -> str:
    return program.rpartition("/")[2]


def _has_option(options: Sequence[str], letter: str, *names: str) -> bool:
    """Whether one of the options contains the letter, alone or combined, or starts with one of the long names."""
    return any(
        option.startswith(names) if option.startswith("--") else option[:1] == "-" and letter in option
        for option in options
    )


def _is_filter(words: tuple[str, ...]) -> bool:
    return _base_name(words[0]).lower() in _FILTERS


def _git_command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the git subcommand and its arguments."""
    remaining_words = iter(words)
    for word in remaining_words:
        if word in _GIT_VALUE_OPTIONS:
            next(remaining_words, None)
        elif not word.startswith("-"):
            return word, list(remaining_words)
    return "", ()

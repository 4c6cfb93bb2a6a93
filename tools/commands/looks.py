"""Recognises command lines that probably only read. They are tried in a read-only sandbox.

This is a guess from the programs' names. Safety does not depend on it: the sandbox prevents everything except reading,
and a wrong guess only costs a failed attempt.
"""

from collections.abc import Mapping, Sequence
from re import Pattern

from ebbtide.tools.commands.command_line import CommandLine, SimpleCommand, Word
from ebbtide.tools.commands.dangers import find_dangers
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.named_files import find_named_files
from ebbtide.tools.commands.nested import program_index
from ebbtide.tools.commands.programs import READ_ONLY_ROWS, VERSION_OPTIONS, split_words
from ebbtide.tools.commands.proof import PROGRAM_ALIASES, check_read_only
from ebbtide.tools.commands.scripts import MAX_SCRIPT_CHARS
from ebbtide.tools.lazy import regex

BUILTINS = split_words(
    "cd set exit break continue read shift local declare export unset shopt let wait return [ [[ test true false : echo"
    " printf pwd type command mapfile readarray time"
)
"""Commands that are built into the shell."""
_OTHER_VIEWERS = split_words(
    "find sed awk jq yq xmllint xargs join shuf pr fmt numfmt tsort tee zcat bzcat xzcat zgrep iconv locale lscpu size "
    "ldd c++filt ps tokei cloc bat batcat eza exa cal bc"
)
_READ_ONLY_PROGRAMS = frozenset(name for name in READ_ONLY_ROWS if " " not in name) | BUILTINS | _OTHER_VIEWERS
_WRAPPING_PROGRAMS: Mapping[str, str] = {
    "xargs": "-n -I -L -P -d -s -E", "time": "", "timeout": "-k -s", "nice": "-n", "stdbuf": "-i -o -e", "command": "",
}  # fmt: skip
"""Programs that run another program, each with its options whose value is the next word."""
_READ_ONLY_GIT_COMMANDS = split_words(
    "status diff log show blame ls-files ls-tree grep rev-parse rev-list describe merge-base shortlog name-rev"
    " diff-index diff-tree diff-files cat-file for-each-ref show-ref count-objects check-ignore whatchanged cherry"
    " range-diff"
)
"""Git commands that only read, unless an option names an output file."""
_FIND_EXEC_OPTIONS = ("-exec", "-execdir")
_CHANGING_ARGUMENTS: Mapping[str, Pattern[str]] = {
    "find": regex(r"-delete|-fprint\w*|-fls|-ok(?:dir)?"), "sort": regex(r"-[a-zA-Z]*o.*|--output.*|--compress-.*"),
    "date": regex(r"-s.*|--set.*|\d+"), "hostname": regex("[^-].*|-F|--file.*|-b"),
    "fd": regex("-[a-z0-9]*[xX]|--exec.*"),
    "rg": regex("--pre.*"), "tree": regex("-o.*"), "tee": regex("(?!/dev/null$)[^-].*"), "xxd": regex("-[a-z]*r.*"),
    "awk": regex(r"(?s).*?(?:\bsystem\b|\||@load|\bclose\b|print(?:[^;}\np]|p(?!rint))*>).*|-i|--in.*|-[a-z]*[lEf].*"),
    "sed": regex(r"(?s)-[a-zA-Z]*[if].*|--file.*|--in-place.*|(?:.*[;{}/|#,$\d\s][gpiImM\d]*)?[we](?:\s.*)?"),
    "yq": regex("-[a-zA-Z]*i.*|--inplace.*"), "shuf": regex("-o.*|--output.*"), "xmllint": regex("--output.*|-o.*"),
    "ps": regex("[a-zA-Z]*e[a-zA-Z]*|.*environ.*"),
}  # fmt: skip
"""Known arguments with which these programs do more than read. A line with such an argument is not tried: a failed
attempt to write could go unnoticed. The user is asked instead."""
_LOADING_VARIABLE = regex("(?:PATH|LD_|DYLD_|BASH|ENV|GIT_(?!PAGER=cat)|GCONV|LOCPATH|PYTHON|NODE|PERL|PS[0-9])")
"""Matches the beginnings of variable names that make programs load or run something."""
_STANDARD_STREAMS = ("/dev/null", "/dev/stderr", "/dev/stdout", "1", "2")
_SHELLS = ("bash", "sh", "dash")


def parse_probably_read_only(text: str) -> CommandLine | None:
    """Parse a line if all its programs seem only to read and it names no file that it would write. None for any other
    line."""
    line = parse_command_line(text)
    is_readable = bool(line.commands) and not (line.is_unparsable or line.is_in_background)
    if not is_readable or find_dangers(text, "/") or _names_written_files(text, line):
        return None
    redirections = (
        *line.redirections,
        *(redirection for command in line.commands for redirection in command.redirections),
    )
    writes_no_files = all(
        redirection.operator not in ("<>", ">|")
        and _is_harmless_redirect(redirection.operator, redirection.target.text)
        for redirection in redirections
    )
    return line if writes_no_files and all(map(_is_read_only_command, line.commands)) else None


def _names_written_files(text: str, line: CommandLine) -> bool:
    """Whether the line names files that it writes. Possible file names inside scripts are ignored."""
    words = {word for command in line.commands for word in command.texts if " " not in word}
    has_script = any("sed" in command.texts for command in line.commands)
    return any(
        file.is_changed and file.path not in _STANDARD_STREAMS and (file.path in words or not has_script)
        for file in find_named_files(text)
    )


def _is_harmless_redirect(operator: str, target: str) -> bool:
    return ">" not in operator or target in _STANDARD_STREAMS


def _is_read_only_command(command: SimpleCommand) -> bool:
    start = program_index(command.texts)
    return not any(map(_LOADING_VARIABLE.match, command.texts[:start])) and is_probably_read_only(command.words[start:])


def is_probably_read_only(words: Sequence[Word]) -> bool:
    """Whether a program probably only reads when given these arguments."""
    if not words:
        return True
    texts = [word.text for word in words]
    if not words[0].is_plain:
        return False
    name = PROGRAM_ALIASES.get(texts[0], texts[0])
    if name in _WRAPPING_PROGRAMS:
        wrapped_index = _wrapped_program_index(name, texts)
        return (
            texts[1:2] in (["-v"], ["-V"])
            or (name == "xargs" and not texts[wrapped_index:])
            or is_probably_read_only(words[wrapped_index:])
        )
    if len(texts) == 2 and texts[1] in VERSION_OPTIONS.get(name, "").split():
        return True
    if name == "git":
        return _is_read_only_git(words)
    if name in _SHELLS:
        return len(texts) == 3 and texts[1] == "-n"
    if name == "npm":
        return texts[1:2] in (["ls"], ["list"])
    if name == "tar":
        return bool(texts[1:]) and regex("-?[a-zA-Z]*t[a-zA-Z]*|--list").fullmatch(texts[1]) is not None
    if name == "find" and not all(
        is_probably_read_only(words[index + 1 :]) for index, text in enumerate(texts) if text in _FIND_EXEC_OPTIONS
    ):
        return False
    changes = _CHANGING_ARGUMENTS.get(name)
    if name not in _READ_ONLY_PROGRAMS or changes is None:
        return name in _READ_ONLY_PROGRAMS
    return not any(len(text) > MAX_SCRIPT_CHARS or changes.fullmatch(text) for text in texts[1:])


def _wrapped_program_index(name: str, texts: Sequence[str]) -> int:
    """Return the index of the program that a wrapper runs."""
    index = 1
    while index < len(texts) and texts[index][:1] == "-":
        index += 2 if texts[index] in _WRAPPING_PROGRAMS[name].split() else 1
    return index + 1 if name == "timeout" else index


def _is_read_only_git(words: Sequence[Word]) -> bool:
    """Whether a git command only reads: either its subcommand always does, or this form of it is known to."""
    texts = [word.text for word in words if word.text != "--no-pager"]
    if texts[1:2] and texts[1] in _READ_ONLY_GIT_COMMANDS:
        return not any(text.startswith(("--output", "--ext-diff", "--open-files", "-O")) for text in texts[2:])
    proof = check_read_only(words)
    return proof is not None and proof.is_read_only_program and not proof.unproved_indices

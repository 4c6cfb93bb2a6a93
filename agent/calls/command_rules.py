"""Applies rules to command lines. No file is accessed.

An allow rule covers only those commands of a line that begin with the rule's words. A deny rule is matched against
everything that the line might mean.
"""

import posixpath
from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.git_commands import find_uncovered_git_word, runs_without_repository_programs
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.here_documents import inline_here_documents
from ebbtide.tools.commands.known_tools import is_folder_independent, min_rule_words
from ebbtide.tools.commands.launchers import find_tool_launch, find_wrapped_git_call, venv_bin_folder
from ebbtide.tools.commands.nested import (
    SHELLS,
    command_variants,
    has_hidden_program,
    pattern_program_index,
    program_index,
    program_name,
    wrapped_program_index,
)
from ebbtide.tools.commands.proof import check_read_only, searches_hidden
from ebbtide.tools.commands.tool_options import escapes_rule, has_option
from ebbtide.tools.files.autorun import find_autorun_file
from ebbtide.tools.files.command_paths import CommandPaths
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.files import may_contain_secrets

_SHELL_CHANGING_BUILTINS = {
    "read", "mapfile", "readarray", "unset", "declare", "typeset", "local", "export", "readonly", "let", "getopts",
    "wait", "eval", "source", ".", "trap", "alias", "unalias", "hash", "enable", "exec", "set", "shopt", "bind",
    "complete", "compgen", "compopt", "fc", "coproc", "ulimit", "umask", "pushd", "popd", "builtin",
}  # fmt: skip
"""Shell builtins that evaluate their operands, or whose operands change the meaning of words later in the line."""
_RUNS_CONFIGURED_PROGRAMS = {"less", "more", "man", "most"}
"""Programs that run other programs named by an environment variable or a settings file."""
_MAX_WORDS_BEFORE_SUBCOMMAND = 40
"""Maximum number of words between a program and its subcommand, as in `git -c a=b -C x push`."""
_MAX_PROGRAM_CHARS = 4_096
"""Maximum length of a word that might be the path of a program, in characters."""
_GLOB_CHARACTER = regex(r"[*?\]]")
_WORD_BREAKS = ";&|()`<>{}\"'$=,"


@dataclass(frozen=True, slots=True)
class Coverage:
    """One command of a line, and the rule that covers it."""

    command: SimpleCommand
    prefix: tuple[str, ...] | None
    """The words of the rule that covers the command. Empty if the command needs no rule; None if it needs a rule but no
    rule covers it."""


def find_coverage(
    line: str,
    prefixes: Sequence[tuple[str, ...]],
    trusted_launches: Collection[tuple[str, ...]] = frozenset(),
    root: str = "",
) -> tuple[Coverage, ...]:
    """Return each command of a line with the first rule that covers it. Empty if the line contains anything but literal
    commands and the operators between them.

    A rule that covers `cd` does not cover the commands after it. A `cd` needs no rule if the other commands mean the
    same in any folder, or if it leads to the working folder `root`. Read-only commands need no rule, unless another
    program reads their output. Text that the line feeds to a program needs no approval, since it could just as well
    come from a file in the working folder.
    """
    parsed_line = parse_command_line(inline_here_documents(line))
    if parsed_line.problem:
        return ()
    exempt_indexes = _find_harmless_commands(parsed_line.commands)
    exempt_indexes |= {
        index
        for index, command in enumerate(parsed_line.commands)
        if command.texts in trusted_launches and venv_bin_folder(command.texts)
    }
    if (
        parsed_line.commands[0].texts in (("cd", root), ("cd", "."), ("cd", f"{root}/"))
        and len(parsed_line.commands) > 1
    ):
        exempt_indexes.add(0)
    if _can_run_in_any_folder(parsed_line.commands):
        exempt_indexes |= {index for index, command in enumerate(parsed_line.commands) if command.texts[0] == "cd"}
    matching_prefixes = (
        _first_covering_prefix(prefixes, _without_own_folder_option(command, root), trusted_launches)
        for command in parsed_line.commands
    )
    return tuple(
        Coverage(command, () if prefix is None and index in exempt_indexes else prefix)
        for index, (command, prefix) in enumerate(zip(parsed_line.commands, matching_prefixes, strict=True))
    )


def _without_own_folder_option(command: SimpleCommand, root: str) -> SimpleCommand:
    """Remove a `-C` that leads to the working folder from a git command. Read-only commands keep it, because they are
    handled differently."""
    texts = command.texts
    if texts[:2] != ("git", "-C") or len(texts) < 4 or texts[2] not in (".", "./", root, f"{root}/"):
        return command
    words = (command.words[0], *command.words[3:])
    return (
        command
        if runs_without_repository_programs(words)
        else replace(command, words=words, texts=(texts[0], *texts[3:]))
    )


def _find_harmless_commands(commands: Sequence[SimpleCommand]) -> set[int]:
    """Find the commands that need no rule if all other commands of the line have one: they are read-only, and their
    output goes to the user or to another such command. Git is excluded, since a repository's settings can make it run
    programs. Return their indexes."""
    harmless_indexes = set[int]()
    for index, command in reversed(list(enumerate(commands))):
        is_by_name = command.words[0].is_unquoted and "/" not in command.texts[0]
        proof = (
            check_read_only(command.words, has_input=command.has_input or bool(command.redirections))
            if is_by_name
            else None
        )
        is_read_only = (
            proof is not None and proof.is_read_only_program and not proof.unproved_indices and not proof.needs_input
        )
        feeds_next = index + 1 < len(commands) and commands[index + 1].preceding_operator in ("|", "|&")
        if (
            is_read_only
            and proof is not None
            and not proof.name.startswith("git")
            and (not feeds_next or index + 1 in harmless_indexes)
        ):
            harmless_indexes.add(index)
    has_other_commands = any(
        index not in harmless_indexes and command.texts[0] != "cd" for index, command in enumerate(commands)
    )
    return harmless_indexes if has_other_commands else set()


def prefix_covers(
    prefix: Sequence[str], words: Sequence[Word], trusted_launches: Collection[tuple[str, ...]] = frozenset()
) -> bool:
    """Whether a rule covers a command. The command, or the tool that it launches indirectly, must begin with the rule's
    words, and its other words must not make it do something else. `trusted_launches`: as
    `PermissionRequest.trusted_launches`."""
    if _has_prefix(prefix, words):
        return True
    if (git_words := find_wrapped_git_call(words)) is not None:
        return not runs_without_repository_programs(git_words) and _has_prefix(prefix, git_words)
    launch = find_tool_launch(words)
    if launch is None or (launch.needs_file_check and tuple(word.text for word in words) not in trusted_launches):
        return False
    launched_by_prefix = find_tool_launch(tuple(map(Word, prefix)))
    return _has_prefix(
        prefix if launched_by_prefix is None else [word.text for word in launched_by_prefix.words], launch.words
    )


def _has_prefix(prefix: Sequence[str], words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if texts[:2] == ["git", "--no-pager"] and list(prefix[1:2]) != texts[1:2]:
        words, texts = (*words[:1], *words[2:]), [texts[0], *texts[2:]]  # the same git command runs
    if texts[: len(prefix)] != list(prefix) or any(word.is_glob for word in words[: len(prefix)]):
        return False
    if list(prefix[:2]) == ["make", "-n"]:
        return False  # `make -n` should only print commands, but make runs some of them nevertheless
    if list(prefix) == texts:
        return True
    if list(prefix) == ["git"] and not runs_without_repository_programs(words):
        return find_uncovered_git_word(words) is None
    start, name = program_index(texts), program_name(texts)
    if len(prefix) <= start or name in _SHELL_CHANGING_BUILTINS or name in _RUNS_CONFIGURED_PROGRAMS:
        return False
    if (required_words := min_rule_words(texts[start:])) and start + required_words > len(prefix):
        return False
    proof = check_read_only(words[start:], has_input=True)
    if proof is not None and (name != "command" or proof.last_unproved_index is None):
        return proof.last_unproved_index is None or proof.last_unproved_index + start < len(prefix)
    wrapped_index = wrapped_program_index(texts)
    if wrapped_index is not None:
        return wrapped_index < len(prefix) and _has_prefix(prefix[wrapped_index:], words[wrapped_index:])
    if escapes_rule(texts[start:], len(prefix) - start):
        return False
    # A rule for a shell does not cover a script passed to the shell, for example with `-c`.
    return not (name in SHELLS and any(text[:1] in "-+" for text in texts[start + 1 :]))


def is_partial_cover(
    prefix: Sequence[str], command: SimpleCommand, trusted_launches: Collection[tuple[str, ...]]
) -> bool:
    """Whether a rule covers only a command's first words, so that its remaining words can differ."""
    proof = check_read_only(command.words, has_input=True)
    return prefix_covers(prefix, command.words, trusted_launches) and (
        proof is None or proof.last_unproved_index is None
    )


def stays_in_workspace(line: str, root: str) -> bool:
    """Whether the commands stay in the working folder, judging by their text. Running git in a subfolder does not count
    as staying: the subfolder could be someone else's repository, whose settings make git run programs."""
    folder = root
    for command in parse_command_line(inline_here_documents(line)).commands:
        words = command.words[program_index(command.texts) :]
        name = words[0].text if words else ""
        if name in ("cd", "pushd"):
            targets = [word for word in words[1:] if word.text not in ("--", "-P", "-L")]
            if len(targets) != 1 or not targets[0].is_plain or targets[0].text[:1] in "-~+":
                return False
            if ".." in targets[0].text.split("/"):
                return False  # if an earlier `cd` fails, `..` leads out of the working folder
            folder = posixpath.normpath(posixpath.join(folder, targets[0].text))
        if name == "popd" or not is_within(folder, (root,)):
            return False
        if folder != root and any(posixpath.basename(word.text) == "git" for word in words):
            return False
    return True


def is_fully_visible(line: str, root: str) -> bool:
    """Whether a line shows everything that it runs, so that it does the same each time."""
    return not parse_command_line(line).problem and not has_hidden_program(line) and stays_in_workspace(line, root)


def reason_to_ask_about_files(coverages: Sequence[Coverage], root: str, readable_folders: Sequence[str]) -> str:
    """Check the files that the line's programs read. Return why a reading tool would need approval for one of them;
    empty if it would not. Files named by a rule are exempt."""
    folder = root
    for coverage in coverages:
        proof, rule_length = check_read_only(coverage.command.words, has_input=True), len(coverage.prefix or ())
        only_names = proof is not None and proof.shows_only_names
        for file in proof.files if proof is not None else ():
            path = posixpath.normpath(posixpath.join(folder, file.text))
            if file.index < rule_length or path == "/dev/null":
                continue
            if not is_within(path, (root, *readable_folders)) or (folder != root and ".." in file.text.split("/")):
                return f"`{file.text}` is outside the working folder"
            if not only_names and may_contain_secrets(posixpath.relpath(path, root)):
                return f"`{file.text}` may hold secrets"
        if coverage.command.texts[0] == "cd":
            folder = posixpath.normpath(posixpath.join(folder, coverage.command.texts[-1]))
    return ""


def reason_to_ask_about_search(coverages: Sequence[Coverage]) -> str:
    """Return why a search in the line needs approval; empty if it does not. Approval is needed if a program that
    searches folders is combined with other commands, because files with secrets cannot be excluded from such a
    search."""
    program = next(filter(None, (_recursive_search_program(coverage.command.words) for coverage in coverages)), "")
    reason = "together with other commands may show files with secrets; on its own it skips them"
    return program and f"`{program}` {reason}"


def _recursive_search_program(words: Sequence[Word]) -> str:
    """Return the program that searches folders, even if a wrapper runs it; empty if there is none."""
    wrapped_index = wrapped_program_index([word.text for word in words])
    if wrapped_index is not None:
        return _recursive_search_program(words[wrapped_index:]) if wrapped_index < len(words) else ""
    return words[0].text if searches_hidden(words) else ""


def reason_to_always_ask(
    read_paths: Sequence[str], named_paths: CommandPaths, root: str, allowed_paths: Collection[str] = frozenset()
) -> str:
    """Return why a call needs approval in every mode; empty if it does not. Approval is needed if a call reads a file
    that might contain secrets, or if a command names such a file or changes a file that makes other programs run
    commands. `allowed_paths`: paths named by a rule."""
    secret_paths = (
        path
        for path in (*read_paths, *named_paths.secret_files)
        if path not in allowed_paths and may_contain_secrets(_display_path(path, root))
    )
    if (path := next(secret_paths, None)) is not None:
        return f"`{_display_path(path, root)}` may hold secrets"
    autorun_file = find_autorun_file((path for path in named_paths.autorun_files if path not in allowed_paths), root)
    if autorun_file is None and named_paths.is_incomplete:
        return "it is too long to check every file that it names; a script in a file avoids this question"
    if autorun_file is None:
        return ""
    path, reason = autorun_file
    return f"`{_display_path(path, root)}` can make other programs run commands: {reason}"


def rule_paths(coverages: Sequence[Coverage], root: str) -> set[str]:
    """Return the absolute paths among the rules' words, and `/dev/null`."""
    return {
        posixpath.normpath(posixpath.join(root, text))
        for coverage in coverages
        for text in (*(coverage.prefix or ()), "/dev/null")
    }


def _display_path(path: str, root: str) -> str:
    return posixpath.relpath(path, root) if is_within(path, (root,)) else path


def is_within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _first_covering_prefix(
    prefixes: Sequence[tuple[str, ...]], command: SimpleCommand, trusted_launches: Collection[tuple[str, ...]]
) -> tuple[str, ...] | None:
    return next((prefix for prefix in prefixes if prefix_covers(prefix, command.words, trusted_launches)), None)


def _can_run_in_any_folder(commands: Sequence[SimpleCommand]) -> bool:
    """Whether all commands other than `cd` are known to mean the same in every folder."""
    other_commands = [command for command in commands if command.texts[0] != "cd"]
    return bool(other_commands) and not any(depends_on_its_folder(command) for command in other_commands)


def depends_on_its_folder(command: SimpleCommand) -> bool:
    """Whether the same words might mean a different command in another folder."""
    proof = check_read_only(command.words, has_input=True)
    is_read_only = proof is not None and proof.is_read_only_program and "/" not in command.texts[0]
    launch = find_tool_launch(command.words)
    launched_words = command.texts if launch is None else [word.text for word in launch.words]
    return not is_read_only and not is_folder_independent(launched_words)


class ShellInterpretation:
    """One way that a shell might read a command, in lower case."""

    def __init__(self, text: str, words: Sequence[str] | None = None) -> None:
        self.text = text
        """All words that might name a program, as one string."""
        self._words = words
        self.is_command = words is not None
        """Whether the words are those of one command, not of a whole line."""
        self.program_glob_index = (
            pattern_program_index(words) if words is not None and _GLOB_CHARACTER.search(text) else None
        )
        """The index of the program's word if that is a glob pattern; None otherwise."""

    @property
    def words(self) -> Sequence[str]:
        """The words of the interpretation. If it was not parsed, its text is split at every special character."""
        if self._words is None:  # split on demand, because few rules need the words
            text = self.text
            for character in _WORD_BREAKS:
                text = text.replace(character, " ")
            self._words = text.split()
        return self._words


@lru_cache(maxsize=64)  # cached, because every deny rule examines the same few lines
def shell_interpretations(command: str) -> Sequence[ShellInterpretation]:
    """Return the command as written, and every way that a shell might read it."""
    as_written = ShellInterpretation(command.casefold().replace("\\\n", "").replace("\\", ""))
    distinct_word_lists = dict.fromkeys(tuple(map(str.casefold, words)) for words in command_variants(command))
    return (
        as_written,
        *(ShellInterpretation("\n".join(filter(_may_be_program, words)), words) for words in distinct_word_lists),
    )


def _may_be_program(word: str) -> bool:
    return len(word) <= _MAX_PROGRAM_CHARS


def matches_deny_rule(interpretation: ShellInterpretation, rule_words: Sequence[str]) -> bool:
    """Whether an interpretation contains the program and arguments of a deny rule, with or without options in between.
    Options match in any order and form."""
    if rule_words[0] not in interpretation.text and interpretation.program_glob_index is None:
        return False
    words = interpretation.words
    for start, word in enumerate(words):
        is_name = word.endswith(rule_words[0]) and rule_words[0] in (word, posixpath.basename(word))
        is_name = is_name or (
            start == interpretation.program_glob_index and fnmatchcase(rule_words[0], posixpath.basename(word))
        )
        if is_name and _match_in_order(words, start + 1, rule_words[1:]):
            return True
        if is_name and interpretation.is_command and has_all_arguments(rule_words[0], words, start + 1, rule_words[1:]):
            return True
    return False


def _match_in_order(words: Sequence[str], start: int, rule_words: Sequence[str]) -> bool:
    for rule_word in rule_words:
        start = _index_after(words, start, rule_word)
    return start <= len(words)


def has_all_arguments(program: str, words: Sequence[str], start: int, rule_words: Sequence[str]) -> bool:
    """Whether a command has all arguments of a rule: words in the rule's order, options anywhere after the program."""
    options = [word for word in rule_words if word[:1] == "-" and word.strip("-")]
    if not options or not all(has_option(program, words[start:], word) for word in options):
        return False
    return _match_in_order(words, start, [word for word in rule_words if word not in options])


def _index_after(words: Sequence[str], index: int, target: str) -> int:
    """Return the index after the word `target`. Options, with at most one value each, are skipped. If the word is
    missing, the index is beyond the end."""
    last_index = index + _MAX_WORDS_BEFORE_SUBCOMMAND
    while index < len(words) and words[index] != target:
        if words[index][:1] != "-" or index > last_index:
            return len(words) + 1
        value = words[index + 1] if index + 1 < len(words) else target
        index += 1 if value == target or value[:1] == "-" else 2
    return index + 1

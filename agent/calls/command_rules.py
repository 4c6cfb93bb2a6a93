"""Applies rules to command lines. An allow rule covers a command that begins with its words, and no other command of
the line; a deny rule is matched against everything the line may mean. Pure: no file is accessed."""

import posixpath
from collections.abc import Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.git_commands import git_doubt, is_git_look
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.here_documents import without_here_documents
from ebbtide.tools.commands.known_tools import further_from, is_the_same_anywhere
from ebbtide.tools.commands.launchers import git_behind, tool_launch, venv_bin_folder
from ebbtide.tools.commands.nested import (
    SHELLS,
    behind_assignments,
    hides_a_command,
    pattern_at,
    program_of,
    readings,
    wrapped_at,
)
from ebbtide.tools.commands.option_forms import gives_option
from ebbtide.tools.commands.proof import check_read_only, searches_hidden
from ebbtide.tools.commands.tool_options import leads_elsewhere
from ebbtide.tools.files.autorun import first_that_runs_later
from ebbtide.tools.files.command_paths import CommandPaths
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.secrets.files import holds_secrets

_CHANGES_SHELL = {
    "read", "mapfile", "readarray", "unset", "declare", "typeset", "local", "export", "readonly", "let", "getopts",
    "wait", "eval", "source", ".", "trap", "alias", "unalias", "hash", "enable", "exec", "set", "shopt", "bind",
    "complete", "compgen", "compopt", "fc", "coproc", "ulimit", "umask", "pushd", "popd", "builtin",
}  # fmt: skip
"""Shell builtins whose operands change the meaning of later words, or are evaluated themselves."""
_RUNS_ITS_SETTINGS = {"less", "more", "man", "most"}
"""Programs that run what a variable or file names."""
_MOST_OPTIONS = 40
"""Words examined between a program and its subcommand, as in `git -c a=b -C x push`."""
_LONGEST_NAME = 4_096
"""Longest path of a program, in characters."""
_PATTERN = regex(r"[*?\]]")
_WORD_BREAKS = ";&|()`<>{}\"'$=,"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the rules apply to one command of a line."""

    command: SimpleCommand
    prefix: tuple[str, ...] | None
    """The words of the rule that covers it; None if none does."""


def coverage_of(
    line: str,
    prefixes: Sequence[tuple[str, ...]],
    trusted: Collection[tuple[str, ...]] = frozenset(),
    root: str = "",
) -> tuple[Coverage, ...]:
    """For each command of a line, the first rule that covers it; empty unless the line consists of literal commands,
    joined. `cd` allows nothing by itself. It needs no rule if the other commands mean the same in any folder, or
    if it leads to the working folder `root`. Read-only commands need none either, unless another program reads
    their output. Text that the line feeds to a program counts as a file of the working folder, which could
    contain the same."""
    found = parse_command_line(without_here_documents(line))
    if found.problem:
        return ()
    free = _free_looks(found.commands)
    free |= {at for at, one in enumerate(found.commands) if one.texts in trusted and venv_bin_folder(one.texts)}
    if found.commands[0].texts in (("cd", root), ("cd", "."), ("cd", f"{root}/")) and len(found.commands) > 1:
        free.add(0)
    if _may_be_elsewhere(found.commands):
        free |= {at for at, command in enumerate(found.commands) if command.texts[0] == "cd"}
    covering = (_covering(prefixes, _in_own_folder(command, root), trusted) for command in found.commands)
    return tuple(
        Coverage(command, () if prefix is None and at in free else prefix)
        for at, (command, prefix) in enumerate(zip(found.commands, covering, strict=True))
    )


def _in_own_folder(command: SimpleCommand, root: str) -> SimpleCommand:
    """A git command without a `-C` that leads to the working folder; a read-only git command is unchanged, since it
    may not be run as one."""
    texts = command.texts
    if texts[:2] != ("git", "-C") or len(texts) < 4 or texts[2] not in (".", "./", root, f"{root}/"):
        return command
    words = (command.words[0], *command.words[3:])
    return command if is_git_look(words) else replace(command, words=words, texts=(texts[0], *texts[3:]))


def _free_looks(commands: Sequence[SimpleCommand]) -> set[int]:
    """The commands that need no rule beside others: they are read-only, and their output goes to the user or to
    another such command. Git is excluded, since a repository's settings can make it run programs here."""
    free = set[int]()
    for at, command in reversed(list(enumerate(commands))):
        is_by_name = command.words[0].is_bare and "/" not in command.texts[0]
        proof = (
            check_read_only(command.words, is_fed=command.is_fed or bool(command.redirections)) if is_by_name else None
        )
        is_look = proof is not None and proof.only_looks and not proof.unproved and not proof.needs_input
        feeds = at + 1 < len(commands) and commands[at + 1].joint in ("|", "|&")
        if is_look and proof is not None and not proof.name.startswith("git") and (not feeds or at + 1 in free):
            free.add(at)
    is_beside_others = any(at not in free and command.texts[0] != "cd" for at, command in enumerate(commands))
    return free if is_beside_others else set()


def covers(prefix: Sequence[str], words: Sequence[Word], trusted: Collection[tuple[str, ...]] = frozenset()) -> bool:
    """Whether a rule is a prefix of a command, up to where the command does more than its name says, or of the tool
    that the command launches another way. `trusted`: see `PermissionRequest`."""
    if _begins(prefix, words):
        return True
    if (of_git := git_behind(words)) is not None:
        return not is_git_look(of_git) and _begins(prefix, of_git)
    launch = tool_launch(words)
    if launch is None or (launch.is_in_doubt and tuple(word.text for word in words) not in trusted):
        return False
    meant = tool_launch(tuple(map(Word, prefix)))
    return _begins(prefix if meant is None else [word.text for word in meant.words], launch.words)


def _begins(prefix: Sequence[str], words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if texts[:2] == ["git", "--no-pager"] and list(prefix[1:2]) != texts[1:2]:
        words, texts = (*words[:1], *words[2:]), [texts[0], *texts[2:]]  # it does not change which git command runs
    if texts[: len(prefix)] != list(prefix) or any(word.globs for word in words[: len(prefix)]):
        return False
    if list(prefix[:2]) == ["make", "-n"]:
        return False  # such a rule expects that nothing runs, but make does not guarantee that
    if list(prefix) == texts:
        return True
    if list(prefix) == ["git"] and not is_git_look(words):
        return git_doubt(words) is None
    start, name = behind_assignments(texts), program_of(texts)
    if len(prefix) <= start or name in _CHANGES_SHELL or name in _RUNS_ITS_SETTINGS:
        return False
    if (further := further_from(texts[start:])) and start + further > len(prefix):
        return False
    proof = check_read_only(words[start:], is_fed=True)
    if proof is not None and (name != "command" or proof.beyond is None):
        return proof.beyond is None or proof.beyond + start < len(prefix)
    inner = wrapped_at(texts)
    if inner is not None:
        return inner < len(prefix) and _begins(prefix[inner:], words[inner:])
    if leads_elsewhere(texts[start:], len(prefix) - start):
        return False
    # The script that a shell runs is a separate command.
    return not (name in SHELLS and any(text[:1] in "-+" for text in texts[start + 1 :]))


def only_begins(prefix: Sequence[str], command: SimpleCommand, trusted: Collection[tuple[str, ...]]) -> bool:
    """Whether a rule covers a command by its beginning, rather than by naming all of it."""
    proof = check_read_only(command.words, is_fed=True)
    return covers(prefix, command.words, trusted) and (proof is None or proof.beyond is None)


def stays_in_workspace(line: str, root: str) -> bool:
    """Whether the commands stay in the working folder, as far as the text shows. A subfolder may be a foreign
    repository, whose settings make git run programs."""
    at = root
    for command in parse_command_line(without_here_documents(line)).commands:
        words = command.words[behind_assignments(command.texts) :]
        name = words[0].text if words else ""
        if name in ("cd", "pushd"):
            given = [word for word in words[1:] if word.text not in ("--", "-P", "-L")]
            if len(given) != 1 or not given[0].is_plain or given[0].text[:1] in "-~+":
                return False
            if ".." in given[0].text.split("/"):
                return False  # it leads elsewhere if an earlier `cd` failed
            at = posixpath.normpath(posixpath.join(at, given[0].text))
        if name == "popd" or not is_within(at, (root,)):
            return False
        if at != root and any(posixpath.basename(word.text) == "git" for word in words):
            return False
    return True


def can_be_read(line: str, root: str) -> bool:
    """Whether everything a line runs is visible in it, so that it always does the same."""
    return not parse_command_line(line).problem and not hides_a_command(line) and stays_in_workspace(line, root)


def uncertain_file(covered: Sequence[Coverage], root: str, readable: Sequence[str]) -> str:
    """Why a reading tool would ask about a file that the line's programs read; empty if it would not. Files named by
    a rule are exempt."""
    at = root
    for one in covered:
        proof, named = check_read_only(one.command.words, is_fed=True), len(one.prefix or ())
        only_names = proof is not None and proof.only_names
        for file in proof.files if proof is not None else ():
            path = posixpath.normpath(posixpath.join(at, file.text))
            if file.at < named or path == "/dev/null":
                continue
            if not is_within(path, (root, *readable)) or (at != root and ".." in file.text.split("/")):
                return f"`{file.text}` is outside the working folder"
            if not only_names and holds_secrets(posixpath.relpath(path, root)):
                return f"`{file.text}` may hold secrets"
        if one.command.texts[0] == "cd":
            at = posixpath.normpath(posixpath.join(at, one.command.texts[-1]))
    return ""


def uncertain_search(covered: Sequence[Coverage]) -> str:
    """Why a line needs approval whose programs search whole folders beside or after other commands, so that files
    with secrets cannot be excluded; empty if none does."""
    program = next(filter(None, (_hidden_search(one.command.words) for one in covered)), "")
    why = "together with other commands may show files with secrets; on its own it skips them"
    return program and f"`{program}` {why}"


def _hidden_search(words: Sequence[Word]) -> str:
    """The searching program, also if another program runs it; empty if there is none."""
    inner = wrapped_at([word.text for word in words])
    if inner is not None:
        return _hidden_search(words[inner:]) if inner < len(words) else ""
    return words[0].text if searches_hidden(words) else ""


def asked_in_every_mode(
    read_: Sequence[str], named: CommandPaths, root: str, allowed: Collection[str] = frozenset()
) -> str:
    """Why a call needs approval in every mode: it reads a file that may contain secrets, or a command names such a
    file or changes one that other programs execute. `allowed`: paths named by a rule."""
    secret = (
        path for path in (*read_, *named.secret) if path not in allowed and holds_secrets(_display_path(path, root))
    )
    if (path := next(secret, None)) is not None:
        return f"`{_display_path(path, root)}` may hold secrets"
    later = first_that_runs_later((path for path in named.obeyed if path not in allowed), root)
    if later is None and named.is_cut:
        return "it is too long to check every file that it names; a script in a file avoids this question"
    return (
        f"`{_display_path(later[0], root)}` can make other programs run commands: {later[1]}"
        if later is not None
        else ""
    )


def named_files(covered: Sequence[Coverage], root: str) -> set[str]:
    """The files that the rules themselves name."""
    return {
        posixpath.normpath(posixpath.join(root, text)) for one in covered for text in (*(one.prefix or ()), "/dev/null")
    }


def _display_path(path: str, root: str) -> str:
    return posixpath.relpath(path, root) if is_within(path, (root,)) else path


def is_within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _covering(
    prefixes: Sequence[tuple[str, ...]], command: SimpleCommand, trusted: Collection[tuple[str, ...]]
) -> tuple[str, ...] | None:
    return next((prefix for prefix in prefixes if covers(prefix, command.words, trusted)), None)


def _may_be_elsewhere(commands: Sequence[SimpleCommand]) -> bool:
    """Whether the commands beside `cd` are known and the same in every folder."""
    others = [command for command in commands if command.texts[0] != "cd"]
    return bool(others) and not any(depends_on_its_folder(command) for command in others)


def depends_on_its_folder(command: SimpleCommand) -> bool:
    """Whether the same words may be another command in another folder."""
    proof = check_read_only(command.words, is_fed=True)
    is_look = proof is not None and proof.only_looks and "/" not in command.texts[0]
    launch = tool_launch(command.words)
    meant = command.texts if launch is None else [word.text for word in launch.words]
    return not is_look and not is_the_same_anywhere(meant)


class Reading:
    """The words of a command in lower case, in one of their possible readings."""

    def __init__(self, text: str, words: Sequence[str] | None = None) -> None:
        self.text = text
        """All words that may name a program."""
        self._words = words
        self.is_command = words is not None
        """Whether the words are those of one command, not of a whole line."""
        self.pattern = pattern_at(words) if words is not None and _PATTERN.search(text) else None
        """The index of a glob pattern in the position of the program."""

    @property
    def words(self) -> Sequence[str]:
        """For a text without parsed words: split at every special character."""
        if self._words is None:  # few rules need this
            text = self.text
            for sign in _WORD_BREAKS:
                text = text.replace(sign, " ")
            self._words = text.split()
        return self._words


@lru_cache(maxsize=64)  # every deny rule examines the same few lines
def all_readings(command: str) -> Sequence[Reading]:
    """A command as written, and in every way a shell may read it."""
    written = Reading(command.casefold().replace("\\\n", "").replace("\\", ""))
    as_read = dict.fromkeys(tuple(map(str.casefold, words)) for words in readings(command))
    return (written, *(Reading("\n".join(filter(_may_be_name, words)), words) for words in as_read))


def _may_be_name(word: str) -> bool:
    return len(word) <= _LONGEST_NAME


def holds_words(reading: Reading, wanted: Sequence[str]) -> bool:
    """Whether the words contain a program with the arguments of a deny rule, with or without options in between.
    Options match in any order and form."""
    if wanted[0] not in reading.text and reading.pattern is None:
        return False
    words = reading.words
    for start, word in enumerate(words):
        is_name = word.endswith(wanted[0]) and wanted[0] in (word, posixpath.basename(word))
        is_name = is_name or (start == reading.pattern and fnmatchcase(wanted[0], posixpath.basename(word)))
        if is_name and _stand_in_order(words, start + 1, wanted[1:]):
            return True
        if is_name and reading.is_command and matches_all_words(wanted[0], words, start + 1, wanted[1:]):
            return True
    return False


def _stand_in_order(words: Sequence[str], at: int, wanted: Sequence[str]) -> bool:
    for each in wanted:
        at = _after(words, at, each)
    return at <= len(words)


def matches_all_words(program: str, words: Sequence[str], at: int, wanted: Sequence[str]) -> bool:
    """Whether a command has all wanted arguments: words in order, options anywhere after its name."""
    options = [each for each in wanted if each[:1] == "-" and each.strip("-")]
    if not options or not all(gives_option(program, words[at:], each) for each in options):
        return False
    return _stand_in_order(words, at, [each for each in wanted if each not in options])


def _after(words: Sequence[str], at: int, wanted: str) -> int:
    """The index after the wanted word, skipping options with up to one value each; beyond the end if it is missing."""
    last = at + _MOST_OPTIONS
    while at < len(words) and words[at] != wanted:
        if words[at][:1] != "-" or at > last:
            return len(words) + 1
        value = words[at + 1] if at + 1 < len(words) else wanted
        at += 1 if value == wanted or value[:1] == "-" else 2
    return at + 1

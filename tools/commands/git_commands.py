"""Which git commands the rule `bash(git)` covers, and why it does not cover the others."""

import re
from collections.abc import Mapping, Sequence

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.programs import (
    GIT_DANGEROUS_OPTIONS,
    GIT_KNOWN_COMMANDS,
    GIT_PROGRAM_RUNNERS,
    READ_ONLY_ROWS,
    split_words,
)
from ebbtide.tools.commands.scripts import may_be_option
from ebbtide.tools.commands.tool_options import find_unsafe_argument_indices
from ebbtide.tools.lazy import regex

READ_ONLY_FORMS_REASON = "is covered only in forms known to be read-only"
_SETS_USER_IDENTITY = regex(r"(?:--local )?user\.(?:name|email) [^-].*", re.DOTALL)
_HARMLESS_GLOBAL_OPTIONS = split_words(
    "--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --no-advice"
)
_SAFE_SETTING = regex(
    r"(?:user\.name|user\.email|core\.quotepath|core\.autocrlf|core\.abbrev|init\.defaultbranch|merge\.conflictstyle"
    r"|advice\.\w+|color\.\w+|(?:commit|tag)\.gpgsign=false|core\.pager=cat)(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
_CHANGING_COMMANDS = split_words("branch tag remote clean symbolic-ref hash-object reflog")
"""Git subcommands that are sometimes read-only. Their other forms change something but run no programs."""
_COMMANDS_WITH_SAFE_FORM = (
    {name.split()[1] for name in READ_ONLY_ROWS if name.startswith("git ")}
    - _CHANGING_COMMANDS
    - {"sparse-checkout", "stash"}
)
"""Git subcommands that are covered only in forms known to be read-only. They run without the programs that the
repository's settings name."""
_SUBCOMMANDS: Mapping[str, tuple[str, str]] = {
    "bisect": ("start good bad new old skip reset log terms", "can run other programs"),
    "remote": ("add remove rm rename set-url set-branches get-url", "connects to a server: use `git fetch`"),
}
"""Commands that are covered only with certain subcommands. Maps each command to those subcommands and to what its other
subcommands can do."""
_REBASE_OPTIONS = split_words(
    "-q --quiet -v --verbose --abort --quit --onto --autostash --no-autostash -f --force-rebase --no-ff --keep-base "
    "--root -n --no-stat --stat -r --rebase-merges --update-refs --no-update-refs --autosquash --no-autosquash "
    "--fork-point --no-fork-point"
)
_REBASE_REASONS: Mapping[str, str] = {
    "--continue": "runs the commands in the rebase's to-do list",
    "--skip": "runs the commands in the rebase's to-do list",
    "-i": "runs an editor named in the settings",
    "--interactive": "runs an editor named in the settings",
}
_SIGNING_OPTION = regex(r"-[a-zA-Z]*S.*|--gpg-sign.*")
_TAG_SIGNING_OPTION = regex(r"-[a-z]*[suv].*|--(?:si|loc|ver).*")
_ASKS_FOR_SIGNATURE = regex(r".*%[(*]*(?:G|\W*sig).*", re.DOTALL)
_REPOSITORY_OPTIONS = ("-C", "--git-dir", "--work-tree")
_REMOTE_URL = regex(r"(?:https?|ssh|git)://[^-].*|(?:[\w.-]+@)?\w[\w.-]+:(?!:|//).*")


def find_uncovered_git_word(words: Sequence[Word]) -> tuple[int, str] | None:
    """Find the word that keeps the rule `bash(git)` from covering the call. Return its index and the reason, worded to
    follow the word in a sentence. None if the rule covers the call."""
    command_index = _find_subcommand(words)
    if isinstance(command_index, tuple):
        return command_index
    if command_index >= len(words):
        return None
    command, argument_indices = words[command_index].text, range(command_index + 1, len(words))
    if runs_without_repository_programs(words):
        return command_index, READ_ONLY_FORMS_REASON
    uncovered_word = _find_uncovered_word(words, command_index)
    if uncovered_word is not None:
        return uncovered_word
    for index in argument_indices:
        if may_be_option(words[index]):
            return index, "can become an option; write `--` before it"
        if reason := _uncovered_option_reason(command, words[index].text):
            return index, reason
    unknown_indices = find_unsafe_argument_indices(["git", *(word.text for word in words[command_index:])])
    return (
        (
            unknown_indices[0] + command_index - 1,
            _unknown_word_reason(words[unknown_indices[0] + command_index - 1].text),
        )
        if unknown_indices
        else None
    )


def runs_without_repository_programs(words: Sequence[Word]) -> bool:
    """Whether this git command runs in guarded form when it is read-only."""
    command_index = _find_subcommand(words)
    if isinstance(command_index, tuple) or command_index >= len(words):
        return False
    arguments = [word.text for word in words[command_index + 1 :]]
    sets_name = len(arguments) in (2, 3) and _SETS_USER_IDENTITY.fullmatch(" ".join(arguments)) is not None
    return words[command_index].text in _COMMANDS_WITH_SAFE_FORM and not (
        words[command_index].text == "config" and (sets_name or not _only_reads_config(arguments))
    )


def _only_reads_config(arguments: Sequence[str]) -> bool:
    """Whether a call to `git config` only reads."""
    return len(arguments) == 1 or bool(
        {"--get", "--get-all", "--get-regexp", "-l", "--list", "get", "list"} & set(arguments)
    )


def _find_subcommand(words: Sequence[Word]) -> int | tuple[int, str]:
    """Return the index of the git subcommand. If a word before it prevents coverage, return that word's index and the
    reason."""
    index = 1
    while index < len(words) and words[index].text[:1] == "-":
        text, value = words[index].text, words[index + 1].text if index + 1 < len(words) else ""
        if (text == "-C" and value in (".", "./")) or (text == "-c" and _SAFE_SETTING.fullmatch(value)):
            index += 2
        elif text in _HARMLESS_GLOBAL_OPTIONS:
            index += 1
        elif text.startswith(_REPOSITORY_OPTIONS):
            return index, "may lead to another repository, whose settings can run programs"
        else:
            return index, "can make git run other programs"
    return index


def _find_uncovered_word(words: Sequence[Word], command_index: int) -> tuple[int, str] | None:
    command = words[command_index].text
    subcommand = words[command_index + 1].text if command_index + 1 < len(words) else ""
    if command in _SUBCOMMANDS:
        covered, reason = _SUBCOMMANDS[command]
        is_option = subcommand[:1] == "-" and command == "remote"
        if subcommand and not is_option and subcommand not in covered.split():
            return command_index + 1, reason
        return (
            _uncovered_remote_word(words, command_index + 1)
            if command == "remote" and subcommand in ("add", "set-url")
            else None
        )
    if command == "rebase":
        options = (index for index in range(command_index + 1, len(words)) if words[index].text[:1] == "-")
        unknown_index = next(
            (index for index in options if words[index].text.partition("=")[0] not in _REBASE_OPTIONS), None
        )
        return (
            None
            if unknown_index is None
            else (unknown_index, _REBASE_REASONS.get(words[unknown_index].text, "can make git run other programs"))
        )
    if command == "fetch":
        return _uncovered_fetch_word(words, command_index)
    if command == "submodule":
        return command_index, "runs git in submodules, whose settings can run programs"
    if command == "config":
        sets_name = _SETS_USER_IDENTITY.fullmatch(" ".join(word.text for word in words[command_index + 1 :]))
        return None if sets_name else (command_index, "can set programs that git runs later")
    if command in GIT_PROGRAM_RUNNERS:
        return command_index, "can run other programs"
    return (
        None
        if command in GIT_KNOWN_COMMANDS
        else (command_index, "is not a git command, but an alias or another program")
    )


def _uncovered_fetch_word(words: Sequence[Word], command_index: int) -> tuple[int, str] | None:
    operands = [index for index in range(command_index + 1, len(words)) if words[index].text[:1] != "-"]
    remote = words[operands[0]].text if operands else ""
    if remote[:1] in ("/", "~", ".") or (":" in remote and not _REMOTE_URL.fullmatch(remote)):
        return operands[0], "may be another repository, whose settings can run programs"
    return None


def _uncovered_remote_word(words: Sequence[Word], subcommand_index: int) -> tuple[int, str] | None:
    """Find a remote's address that might name another program or a local folder. Return the word's index and the
    reason. Pushing to a folder runs the folder's hooks."""
    operands = [index for index in range(subcommand_index + 1, len(words)) if words[index].text[:1] != "-"]
    local_index = next((index for index in operands[1:] if not _REMOTE_URL.fullmatch(words[index].text)), None)
    if local_index is None:
        return None
    has_helper = "::" in words[local_index].text
    return local_index, "can run another program" if has_helper else "may be another repository, whose hooks would run"


def _uncovered_option_reason(command: str, text: str) -> str:
    """Explain why a command's option is not covered. Empty if it is covered."""
    name = text.partition("=")[0]
    is_abbreviation = (
        name[:2] == "--" and len(name) > 2 and any(option.startswith(name) for option in GIT_DANGEROUS_OPTIONS)
    )
    if is_abbreviation or (text.startswith(GIT_DANGEROUS_OPTIONS) and not text.startswith("-x")):
        return "can run another program, or write a file"
    if command == "init" and name.startswith("--te"):
        return "installs hooks"
    if command == "remote" and (text == "-f" or name == "--fetch"):
        return _SUBCOMMANDS["remote"][1]
    if (command == "tag" and _TAG_SIGNING_OPTION.fullmatch(text)) or (
        command == "commit" and _SIGNING_OPTION.fullmatch(text)
    ):
        return "runs the signing program named in the settings"
    if command in ("branch", "tag") and _ASKS_FOR_SIGNATURE.fullmatch(text):
        return "runs the signing program named in the settings"
    return ""


def _unknown_word_reason(text: str) -> str:
    if text == "--no-verify":
        return "skips the repository's hooks"
    if text in ("-p", "--patch", "-i", "--interactive", "-e", "--edit"):
        return "waits for answers at a terminal"
    is_option = text[:1] == "-"
    return "is not a known harmless option" if is_option else "is outside the working folder"

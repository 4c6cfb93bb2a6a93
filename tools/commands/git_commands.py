"""Which git commands the rule `bash(git)` covers, and why it does not cover the others. Pure."""

import re
from collections.abc import Mapping, Sequence

from ebbtide.tools.commands.command_line import Word
from ebbtide.tools.commands.programs import GIT_KNOWN, GIT_RUNS_OTHERS, GIT_RUNS_WITH, ROWS, set_of
from ebbtide.tools.commands.scripts import may_be_option
from ebbtide.tools.commands.tool_options import unknown_at
from ebbtide.tools.lazy import regex

LOOKS_ONLY = "is covered only in forms known to be read-only"
_SETS_NAME = regex(r"(?:--local )?user\.(?:name|email) [^-].*", re.DOTALL)
_PLAIN_GLOBALS = set_of("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --no-advice")
_SAFE_SETTING = regex(
    r"(?:user\.name|user\.email|core\.quotepath|core\.autocrlf|core\.abbrev|init\.defaultbranch|merge\.conflictstyle"
    r"|advice\.\w+|color\.\w+|(?:commit|tag)\.gpgsign=false|core\.pager=cat)(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
_CHANGES = set_of("branch tag remote clean symbolic-ref hash-object reflog")
"""Commands with read-only forms, whose other forms change something but run no program."""
_LOOKS = {name.split()[1] for name in ROWS if name.startswith("git ")} - _CHANGES - {"sparse-checkout", "stash"}
"""Commands covered only in forms known to be read-only, which run without programs named in the repository's
settings."""
_SUBCOMMANDS: Mapping[str, tuple[str, str]] = {
    "bisect": ("start good bad new old skip reset log terms", "can run other programs"),
    "remote": ("add remove rm rename set-url set-branches get-url", "connects to a server: use `git fetch`"),
}
"""Commands of which only some forms are covered, and what the others do."""
_REBASE_OPTIONS = set_of(
    "-q --quiet -v --verbose --abort --quit --onto --autostash --no-autostash -f --force-rebase --no-ff --keep-base "
    "--root -n --no-stat --stat -r --rebase-merges --update-refs --no-update-refs --autosquash --no-autosquash "
    "--fork-point --no-fork-point"
)
_WHY_REBASE: Mapping[str, str] = {
    "--continue": "runs the commands in the rebase's to-do list",
    "--skip": "runs the commands in the rebase's to-do list",
    "-i": "runs an editor named in the settings",
    "--interactive": "runs an editor named in the settings",
}
_SIGNS = regex(r"-[a-zA-Z]*S.*|--gpg-sign.*")
_TAG_SIGNS = regex(r"-[a-z]*[suv].*|--(?:si|loc|ver).*")
_ASKS_FOR_SIGNATURE = regex(r".*%[(*]*(?:G|\W*sig).*", re.DOTALL)
_OTHER_FOLDER = ("-C", "--git-dir", "--work-tree")
_REMOTE_URL = regex(r"(?:https?|ssh|git)://[^-].*|(?:[\w.-]+@)?\w[\w.-]+:(?!:|//).*")


def git_doubt(words: Sequence[Word]) -> tuple[int, str] | None:
    """Return the index of the word that keeps the rule `bash(git)` from covering the call, and the reason, as the part
    of a sentence after that word. None if the rule covers it."""
    found = _doubt_in_globals(words)
    if isinstance(found, tuple):
        return found
    if found >= len(words):
        return None
    command, given = words[found].text, range(found + 1, len(words))
    if is_git_look(words):
        return found, LOOKS_ONLY
    doubt = _doubt_in_command(words, found)
    if doubt is not None:
        return doubt
    for at in given:
        if may_be_option(words[at]):
            return at, "can become an option; write `--` before it"
        if why := _why_option(command, words[at].text):
            return at, why
    unknown = unknown_at(["git", *(word.text for word in words[found:])])
    return (unknown[0] + found - 1, _why_unknown(words[unknown[0] + found - 1].text)) if unknown else None


def is_git_look(words: Sequence[Word]) -> bool:
    """Whether the call is a git command that runs guarded if it is read-only."""
    at = _doubt_in_globals(words)
    if isinstance(at, tuple) or at >= len(words):
        return False
    told = [word.text for word in words[at + 1 :]]
    sets_name = len(told) in (2, 3) and _SETS_NAME.fullmatch(" ".join(told)) is not None
    return words[at].text in _LOOKS and not (words[at].text == "config" and (sets_name or not _reads(told)))


def _reads(config: Sequence[str]) -> bool:
    """Whether a call of `git config` only reads."""
    return len(config) == 1 or bool({"--get", "--get-all", "--get-regexp", "-l", "--list", "get", "list"} & set(config))


def _doubt_in_globals(words: Sequence[Word]) -> int | tuple[int, str]:
    """Return the index of the git subcommand, or the doubtful word before it with the reason."""
    at = 1
    while at < len(words) and words[at].text[:1] == "-":
        text, value = words[at].text, words[at + 1].text if at + 1 < len(words) else ""
        if (text == "-C" and value in (".", "./")) or (text == "-c" and _SAFE_SETTING.fullmatch(value)):
            at += 2
        elif text in _PLAIN_GLOBALS:
            at += 1
        elif text.startswith(_OTHER_FOLDER):
            return at, "can lead to another repository, whose settings can run programs"
        else:
            return at, "can make git run other programs"
    return at


def _doubt_in_command(words: Sequence[Word], at: int) -> tuple[int, str] | None:
    command, told = words[at].text, words[at + 1].text if at + 1 < len(words) else ""
    if command in _SUBCOMMANDS:
        covered, why = _SUBCOMMANDS[command]
        is_option = told[:1] == "-" and command == "remote"
        if told and not is_option and told not in covered.split():
            return at + 1, why
        return _doubt_in_remote(words, at + 1) if command == "remote" and told in ("add", "set-url") else None
    if command == "rebase":
        options = (each for each in range(at + 1, len(words)) if words[each].text[:1] == "-")
        odd = next((each for each in options if words[each].text.partition("=")[0] not in _REBASE_OPTIONS), None)
        return None if odd is None else (odd, _WHY_REBASE.get(words[odd].text, "can make git run other programs"))
    if command == "fetch":
        return _doubt_in_fetch(words, at)
    if command == "submodule":
        return at, "runs git in submodules, whose settings can run programs"
    if command == "config":
        sets_name = _SETS_NAME.fullmatch(" ".join(word.text for word in words[at + 1 :]))
        return None if sets_name else (at, "can set programs that git runs later")
    if command in GIT_RUNS_OTHERS:
        return at, "can run other programs"
    return None if command in GIT_KNOWN else (at, "is not a git command, but an alias or another program")


def _doubt_in_fetch(words: Sequence[Word], at: int) -> tuple[int, str] | None:
    operands = [each for each in range(at + 1, len(words)) if words[each].text[:1] != "-"]
    place = words[operands[0]].text if operands else ""
    if place[:1] in ("/", "~", ".") or (":" in place and not _REMOTE_URL.fullmatch(place)):
        return operands[0], "can be another repository, whose settings can run programs"
    return None


def _doubt_in_remote(words: Sequence[Word], at: int) -> tuple[int, str] | None:
    """Return a doubt if the address is a local folder: pushing to it runs its hooks."""
    operands = [each for each in range(at + 1, len(words)) if words[each].text[:1] != "-"]
    odd = next((each for each in operands[1:] if not _REMOTE_URL.fullmatch(words[each].text)), None)
    if odd is None:
        return None
    has_helper = "::" in words[odd].text
    return odd, "can run another program" if has_helper else "can be another repository, whose hooks can run"


def _why_option(command: str, text: str) -> str:
    """Return why an option of a command is not covered, or an empty string."""
    name = text.partition("=")[0]
    is_begun = name[:2] == "--" and len(name) > 2 and any(one.startswith(name) for one in GIT_RUNS_WITH)
    if is_begun or (text.startswith(GIT_RUNS_WITH) and not text.startswith("-x")):
        return "can run another program, or writes a file"
    if command == "init" and name.startswith("--te"):
        return "installs hooks"
    if command == "remote" and (text == "-f" or name == "--fetch"):
        return _SUBCOMMANDS["remote"][1]
    if (command == "tag" and _TAG_SIGNS.fullmatch(text)) or (command == "commit" and _SIGNS.fullmatch(text)):
        return "runs the program for signatures that is named in the settings"
    if command in ("branch", "tag") and _ASKS_FOR_SIGNATURE.fullmatch(text):
        return "runs the program for signatures that is named in the settings"
    return ""


def _why_unknown(text: str) -> str:
    if text == "--no-verify":
        return "skips the repository's hooks"
    if text in ("-p", "--patch", "-i", "--interactive", "-e", "--edit"):
        return "waits for answers at a terminal"
    is_option = text[:1] == "-"
    return "is not a known harmless option" if is_option else "is outside the working folder"

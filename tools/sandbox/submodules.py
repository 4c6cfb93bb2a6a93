"""Commands that remove a submodule: which of them work in the sandbox, and why others are not run."""

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.git import SETTINGS, GitError, program_outside, run_git
from ebbtide.tools.sandbox.git_metadata import submodules

_WORD = r"""(?:[ \t]+(?:[\w./:@=+,-]+|'[^'\n]*'|"[^"$`\\!\n]*"))"""
_END = r"[ \t]*(?:2>&1[ \t]*)?(?:&&[ \t]*|;[ \t]*|\Z)"
_REMOVAL = rf"git[ \t]+rm{_WORD}+{_END}"
_COMMIT = rf"git[ \t]+commit(?:[ \t]+-q)?[ \t]+(?:-q?m|--message){_WORD}(?:[ \t]+-q)?{_END}"
_ALONE = regex(rf"[ \t]*(?:{_REMOVAL})+(?:{_COMMIT})?")
_COMMITS = regex(r"\bcommit\b")
_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-rewrite", "pre-auto-gc",
    "post-index-change", "reference-transaction",
)  # fmt: skip
"""Hooks that a commit runs."""
_MAY_CONCERN = regex(r"\bdeinit\b|\bgit\b[^\n]*\brm\b")


def can_remove_submodules(command: str, folder: Path) -> bool:
    """Whether a line only removes files with Git, and then commits if no hook runs, so that nothing can replace a
    submodule with another repository meanwhile."""
    if not _ALONE.fullmatch(command):
        return False
    return not _COMMITS.search(command) or not _runs_hooks(folder)


def why_not_removed(command: str, folder: Path) -> str:
    """Return why a line that removes a submodule is not run in the sandbox, where it would fail halfway. Empty if it
    removes none, or can."""
    if not _MAY_CONCERN.search(command):
        return ""
    calls = [
        command.texts
        for command in parse_command_line(command).commands
        if posixpath.basename(command.texts[0]) == "git"
    ]
    if any(words[at : at + 2] == ("submodule", "deinit") for words in calls for at in range(len(words))):
        return "`git submodule deinit` cannot change `core.worktree`: `git rm` removes a submodule"
    removed = [words for words in calls if words[1:2] == ("rm",) and "--cached" not in words]
    named = next((path for words in removed for path in _submodules_in(words[2:], folder)), "")
    if not named or can_remove_submodules(command, folder):
        return ""
    return f"the submodule `{named}` can be removed only by a command with nothing but `git rm`: run that first"


def _submodules_in(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words that are submodules or folders containing some."""
    places = [str(link.parent) for link in submodules(folder)]
    found = list[str]()
    for word in words:
        path = os.path.normpath(os.path.join(folder, word))
        if word[:1] != "-" and any(place == path or place.startswith(f"{path}/") for place in places):
            found.append(word)
    return found


def _runs_hooks(folder: Path) -> bool:
    git = program_outside("git", folder)
    if git is None:
        return True
    settings = {name: value for name, value in SETTINGS.items() if name != "core.hooksPath"}
    try:
        found = os.fsdecode(run_git(git, folder, settings, "rev-parse", "--git-path", "hooks").removesuffix(b"\n"))
    except GitError:
        return True
    hooks = os.path.join(folder, found)
    return any(os.access(os.path.join(hooks, name), os.X_OK) for name in _HOOKS)

"""Decides which commands that remove a submodule can run in the sandbox, and says why others cannot."""

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.git import SAFE_SETTINGS, GitError, find_program_outside, run_git
from ebbtide.tools.sandbox.git_metadata import submodule_git_files

_WORD = r"""(?:[ \t]+(?:[\w./:@=+,-]+|'[^'\n]*'|"[^"$`\\!\n]*"))"""
_COMMAND_END = r"[ \t]*(?:2>&1[ \t]*)?(?:&&[ \t]*|;[ \t]*|\Z)"
_REMOVAL = rf"git[ \t]+rm{_WORD}+{_COMMAND_END}"
_COMMIT = rf"git[ \t]+commit(?:[ \t]+-q)?[ \t]+(?:-q?m|--message){_WORD}(?:[ \t]+-q)?{_COMMAND_END}"
_REMOVAL_ONLY = regex(rf"[ \t]*(?:{_REMOVAL})+(?:{_COMMIT})?")
_COMMIT_WORD = regex(r"\bcommit\b")
_COMMIT_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-rewrite", "pre-auto-gc",
    "post-index-change", "reference-transaction",
)  # fmt: skip
"""Hooks that a commit runs."""
_REMOVAL_WORDS = regex(r"\bdeinit\b|\bgit\b[^\n]*\brm\b")


def can_remove_submodules(command: str, folder: Path) -> bool:
    """Whether a command line consists of Git commands that remove files, optionally followed by a commit that runs no
    hooks. Then nothing can replace a submodule with another repository between the removal and the commit."""
    if not _REMOVAL_ONLY.fullmatch(command):
        return False
    return not _COMMIT_WORD.search(command) or not _runs_hooks(folder)


def removal_problem(command: str, folder: Path) -> str:
    """Explain why a command line that removes a submodule must not run, because it would fail halfway in the sandbox.
    Empty if it removes none or would succeed."""
    if not _REMOVAL_WORDS.search(command):
        return ""
    calls = [
        command.texts
        for command in parse_command_line(command).commands
        if posixpath.basename(command.texts[0]) == "git"
    ]
    if any(words[index : index + 2] == ("submodule", "deinit") for words in calls for index in range(len(words))):
        return "`git submodule deinit` cannot change `core.worktree`: `git rm` removes a submodule"
    removals = [words for words in calls if words[1:2] == ("rm",) and "--cached" not in words]
    submodule = next((path for words in removals for path in _words_naming_submodules(words[2:], folder)), "")
    if not submodule or can_remove_submodules(command, folder):
        return ""
    return (
        f"the submodule `{submodule}` can be removed only by a command that runs nothing but `git rm`: run that first"
    )


def _words_naming_submodules(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words that name submodules, or folders that contain submodules."""
    work_trees = [str(link.parent) for link in submodule_git_files(folder)]
    naming_words = list[str]()
    for word in words:
        path = os.path.normpath(os.path.join(folder, word))
        if word[:1] != "-" and any(work_tree == path or work_tree.startswith(f"{path}/") for work_tree in work_trees):
            naming_words.append(word)
    return naming_words


def _runs_hooks(folder: Path) -> bool:
    git = find_program_outside("git", folder)
    if git is None:
        return True
    settings = {name: value for name, value in SAFE_SETTINGS.items() if name != "core.hooksPath"}
    try:
        hooks_path = os.fsdecode(run_git(git, folder, settings, "rev-parse", "--git-path", "hooks").removesuffix(b"\n"))
    except GitError:
        return True
    hooks = os.path.join(folder, hooks_path)
    return any(os.access(os.path.join(hooks, name), os.X_OK) for name in _COMMIT_HOOKS)

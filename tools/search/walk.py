"""Lists the files in a folder that git would not ignore, in path order. Symbolic links are not followed.

`.gitignore` in any folder and `.git/info/exclude` are respected, even outside a repository. Hidden files are included,
but `.git` is not.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide.tools.files.bounded import read_prefix

_TOKEN = re.compile(r"/\*\*/|\A\*\*/|/\*\*\Z|\*+|\?|\[[!^]?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    pattern: re.Pattern[str]
    """Matches a complete path, relative to the folder of the rules."""
    matches_only_folders: bool
    ignores: bool
    """Whether the rule ignores what it matches; False for a negated rule."""


def parse_ignore_rules(lines: Iterable[str]) -> tuple[IgnoreRule, ...]:
    """Parse the rules in a file's lines, in order. Invalid lines are skipped."""
    return tuple(rule for line in lines if (rule := _parse_rule(line)) is not None)


def ignore_decision(rules: tuple[IgnoreRule, ...], path: str, is_folder: bool) -> bool | None:
    """Return whether the last matching rule ignores the path; None if no rule matches."""
    for rule in reversed(rules):
        if (is_folder or not rule.matches_only_folders) and rule.pattern.fullmatch(path):
            return rule.ignores
    return None


def _parse_rule(line: str) -> IgnoreRule | None:
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    pattern = line.removeprefix("!") if not ignores else line
    matches_only_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    prefix = "" if "/" in pattern else "(?:.*/)?"
    try:
        expression = re.compile(prefix + _pattern_regex(pattern.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return IgnoreRule(expression, matches_only_folders, ignores)


def _pattern_regex(pattern: str) -> str:
    return "".join(_token_regex(token) for token in _TOKEN.findall(pattern))


def _token_regex(token: str) -> str:
    match token:
        case "/**/":
            return "/(?:.*/)?"
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "?":
            return "[^/]"
    if token.startswith("*"):
        return "[^/]*"
    if token.startswith("[") and len(token) > 1:
        is_negated = token[1] in "!^"
        characters = token[1 + is_negated : -1].replace("[", r"\[")
        return f"(?!/)[{'^' if is_negated else ''}{characters}]"
    return re.escape(token.removeprefix("\\") or "\\")


GENERATED_NAMES = frozenset(
    {
        *("__pycache__", "node_modules", ".venv", "venv", ".tox", ".nox", ".DS_Store", "Thumbs.db"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints", ".hg", ".svn"),
    }
)


@dataclass(frozen=True, slots=True)
class FolderRules:
    """The ignore rules of a folder."""

    folder: str
    rules: tuple[IgnoreRule, ...]


@dataclass(frozen=True, slots=True)
class WalkScope:
    """The rules that apply in the searched folder."""

    uses_repository_rules: bool
    """Whether the rules of the enclosing repository apply. They do not if the repository ignores the searched folder
    itself, because a folder that is named explicitly must be searched."""
    outer_rules: tuple[FolderRules, ...] = ()


def is_generated(path: str) -> bool:
    """Whether a path is a generated file of a kind that is commonly ignored, even if no `.gitignore` lists it."""
    return any(map(is_generated_name, path.split("/")))


def is_generated_name(name: str) -> bool:
    """Like `is_generated`, for one name of a path."""
    return name in GENERATED_NAMES or name.endswith((".pyc", ".pyo"))


def walk_scope(root: str) -> WalkScope:
    """Find out whether the folder belongs to a repository. Also return the rules of the folders above it, up to the top
    of the repository."""
    folders = []
    current = root
    while not is_repository(current):
        if os.path.dirname(current) == current:
            return WalkScope(False)
        current = os.path.dirname(current)
        folders.append(current)
    rules: tuple[FolderRules, ...] = ()
    for folder in reversed(folders):
        rules = rules_in_folder(folder, rules, True)
    return WalkScope(False) if is_ignored(root, True, rules) else WalkScope(True, rules)


def walk_files(root: str, *, includes_ignored: bool = False) -> Iterator[str]:
    """Yield the paths of all files, relative to the root. Unreadable folders are skipped."""
    scope = walk_scope(root)
    pending: list[tuple[str, tuple[FolderRules, ...], bool]] = [(root, scope.outer_rules, True)]
    while pending:
        path, rules, is_folder = pending.pop()
        if not is_folder:
            yield path[len(root.rstrip("/")) + 1 :]
            continue
        inner_rules = rules_in_folder(path, rules, scope.uses_repository_rules)
        for entry in reversed(_list_entries(path)):
            is_subfolder = entry.is_dir(follow_symlinks=False)
            is_listed = is_subfolder or entry.is_file(follow_symlinks=False)
            if (
                is_listed
                and entry.name != ".git"
                and (includes_ignored or not is_ignored(entry.path, is_subfolder, inner_rules))
            ):
                pending.append((entry.path, inner_rules, is_subfolder))


def walk_nearest_first(root: str) -> Iterator[str]:
    """Yield paths relative to the root, nearest first. Folders are included, and end in a slash."""
    scope = walk_scope(root)
    pending: deque[tuple[str, str, tuple[FolderRules, ...]]] = deque([(root, "", scope.outer_rules)])
    while pending:
        path, prefix, rules = pending.popleft()
        inner_rules = rules_in_folder(path, rules, scope.uses_repository_rules)
        for entry in _list_entries(path):
            is_folder = entry.is_dir(follow_symlinks=False)
            is_listed = is_folder or entry.is_file(follow_symlinks=False)
            if is_listed and entry.name != ".git" and not is_ignored(entry.path, is_folder, inner_rules):
                relative_path = f"{prefix}{entry.name}{'/' if is_folder else ''}"
                yield relative_path
                if is_folder:
                    pending.append((entry.path, relative_path, inner_rules))


def visible_entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the names in a folder that are not ignored, in order, and whether each is a folder."""
    scope = walk_scope(folder)
    rules = rules_in_folder(folder, scope.outer_rules, scope.uses_repository_rules)
    for entry in _list_entries(folder):
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name != ".git" and not is_ignored(entry.path, is_folder, rules):
            yield entry.name, is_folder


def rules_in_folder(folder: str, outer_rules: tuple[FolderRules, ...], is_tracked: bool) -> tuple[FolderRules, ...]:
    """Return the rules that apply inside the folder, outermost first. The enclosing repository's rules do not apply to
    a nested repository."""
    lines: list[str] = []
    if is_repository(folder):
        outer_rules = () if is_tracked else outer_rules
        lines += _read_lines(os.path.join(folder, ".git", "info", "exclude"))
    lines += _read_lines(os.path.join(folder, ".gitignore"))
    return (*outer_rules, FolderRules(folder, parse_ignore_rules(lines))) if lines else outer_rules


def is_ignored(path: str, is_folder: bool, rules: tuple[FolderRules, ...]) -> bool:
    """Whether the path is ignored. The innermost matching rule decides. Names are compared byte by byte, as in git."""
    for rule in reversed(rules):
        relative_path = path[len(rule.folder.rstrip("/")) + 1 :]
        decision = ignore_decision(rule.rules, os.fsencode(relative_path).decode("latin-1"), is_folder)
        if decision is not None:
            return decision
    return False


def is_repository(folder: str) -> bool:
    """Whether a folder is the top of a repository's work tree."""
    return os.path.lexists(os.path.join(folder, ".git"))


def _list_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []


def _read_lines(path: str) -> list[str]:
    """Return the lines of a regular file. Empty if it is not a regular file."""
    try:
        return read_prefix(path, 1 << 20).decode("latin-1").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except OSError:
        return []

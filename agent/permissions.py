"""Whether a call may run. Pure policy: it knows rules, modes and names, and touches no file and no user.

A rule is `TOOL` or `TOOL(PREFIX)`. TOOL may hold `*`. For a tool that works on files, PREFIX is a file or folder,
relative to the working folder. For shell, it is the beginning of a command, in whole words: `bash(git status)`.
Deny rules come first, then what always asks, then allow rules, then the mode.
"""

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from agent.config import Mode
from agent.errors import ConfigError
from tools.base import Effect

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*.-]+)(\((?P<prefix>.+)\))?", re.DOTALL)
_RUNS_LATER = (
    ".git", ".ebb", ".vscode", ".idea", ".husky", ".envrc", ".bashrc", ".bash_profile", ".profile", ".zshrc",
    ".zprofile", ".zshenv", ".npmrc", ".mcp.json", ".pre-commit-config.yaml",
)  # fmt: skip
_RUNS_ANYTHING = {
    "bash", "sh", "zsh", "env", "sudo", "doas", "xargs", "eval", "exec", "python", "python3", "node", "perl", "ruby",
    "npx", "uvx", "find", "rm", "dd", "curl", "wget", "ssh", "docker", "nohup", "time", "timeout", "watch", "make",
}  # fmt: skip
_WORD_BREAK = re.compile(r"[\s;&|()`<>{}\"'$=,]+")


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.prefix})" if self.prefix else self.tool


def parse_rule(text: str) -> Rule:
    """The rule that a text stands for. Raises `ConfigError`."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"`{text}` is not a rule; write `TOOL` or `TOOL(PREFIX)`, such as `bash(git status)`")
    return Rule(match["tool"], (match["prefix"] or "").removesuffix(":*").strip())


@dataclass(frozen=True, slots=True)
class Policy:
    """All that decides about calls, apart from the calls themselves."""

    root: str
    """The working folder, absolute and resolved."""
    mode: Mode = "ask"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    readable: tuple[str, ...] = ()
    """Folders outside the working folder that may be read without a question, absolute and resolved."""
    no_shell: str = ""
    """Why shell commands may not run at all, when they may not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as the policy sees it."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...]
    """A command line, or absolute resolved paths."""


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    rule: str
    """What decided: a rule, or the mode in words."""
    offers: tuple[str, ...] = ()
    """Rules that would allow this call and its like, when the verdict is ask."""


def decide(asked: Asked, policy: Policy) -> Ruling:
    """Whether the call may run, and what decided it."""
    for rule in policy.deny:
        if _names(rule, asked) and _denies(rule, asked, policy.root):
            return Ruling("deny", f"deny rule {rule}")
    if asked.effect == "run" and policy.no_shell:
        return Ruling("deny", policy.no_shell)
    if policy.mode == "plan" and asked.effect in ("write", "run"):
        return Ruling("deny", "plan mode changes nothing")
    for rule in policy.allow:
        if _names(rule, asked) and _allows(rule, asked, policy):
            return Ruling("allow", f"allow rule {rule}")
    return _by_mode(asked, policy)


def _by_mode(asked: Asked, policy: Policy) -> Ruling:
    offers = _offers(asked, policy.root)
    if asked.effect == "write":
        later = next((path for path in asked.subjects if _runs_later(path, policy.root)), None)
        if later is not None:
            only = (_rule_for(asked.tool, later, policy.root),) if len(asked.subjects) == 1 else ()
            return Ruling("ask", f"`{later}` can make other programs run commands", only)
    if asked.effect == "none":
        return Ruling("allow", "it stays inside the session")
    if policy.mode == "auto":
        return Ruling("allow", "auto mode")
    if asked.effect == "run":
        return Ruling("ask", f"{policy.mode} mode asks before a command runs", offers)
    outside = next((path for path in asked.subjects if not _is_within(path, (policy.root,))), None)
    if asked.effect == "read":
        if all(_is_within(path, (policy.root, *policy.readable)) for path in asked.subjects):
            return Ruling("allow", "reading inside the working folder")
        return Ruling("ask", f"`{outside}` is outside the working folder", offers)
    if outside is not None:
        return Ruling("ask", f"`{outside}` is outside the working folder", offers)
    if policy.mode == "accept-edits":
        return Ruling("allow", "accept-edits mode")
    return Ruling("ask", f"{policy.mode} mode asks before a file changes", offers)


def _names(rule: Rule, asked: Asked) -> bool:
    return fnmatchcase(asked.tool, rule.tool)


def _denies(rule: Rule, asked: Asked, root: str) -> bool:
    """A deny rule looks at every word of a command, however it is wrapped; it would rather refuse too much."""
    if not rule.prefix:
        return True
    if asked.effect != "run":
        place = posixpath.normpath(posixpath.join(root, rule.prefix))
        return any(_is_within(path, (place,)) or _is_within(place, (path,)) for path in asked.subjects)
    wanted = rule.prefix.split()
    for command in asked.subjects:
        words = [word for word in _WORD_BREAK.split(command.replace("\\", "")) if word]
        names = [posixpath.basename(word) for word in words]
        for start in range(len(words)):
            if [names[start], *words[start + 1 : start + len(wanted)]] == wanted:
                return True
            if words[start : start + len(wanted)] == wanted:
                return True
    return False


def _allows(rule: Rule, asked: Asked, policy: Policy) -> bool:
    if asked.effect == "run":
        return not rule.prefix or _covers_command(asked, policy)
    place = posixpath.normpath(posixpath.join(policy.root, rule.prefix))
    runs_later = asked.effect == "write" and any(_runs_later(path, policy.root) for path in asked.subjects)
    # A rule for a folder is no rule for such a file in it: it takes one that names the file or its kind of folder.
    if runs_later and not (rule.prefix and _runs_later(place, policy.root)):
        return False
    return not rule.prefix or (bool(asked.subjects) and all(_is_within(path, (place,)) for path in asked.subjects))


def _covers_command(asked: Asked, policy: Policy) -> bool:
    """Whether the allow rules together cover every command of the line."""
    rules = [rule for rule in policy.allow if _names(rule, asked)]
    return all(
        bool(parts) and all(any(_begins(part, rule) for rule in rules) for part in parts)
        for parts in (simple_commands(command) for command in asked.subjects)
    )


def _begins(words: Sequence[str], rule: Rule) -> bool:
    wanted = rule.prefix.split()
    return list(words[: len(wanted)]) == wanted


def simple_commands(command: str) -> tuple[tuple[str, ...], ...]:
    """The words of each command in a line joined by `;`, `&&`, `||` or `|`; nothing when it is more than that.

    Expansions, redirections, sub-shells, background jobs and several lines are more than that: what they run cannot be
    told from the text, so no allow rule covers them.
    """
    if any(sign in command for sign in "$`\n\\{}<>"):
        return ()
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    parts: list[list[str]] = [[]]
    try:
        for token in lexer:
            if token in (";", "&&", "||", "|"):
                parts.append([])
            elif token and set(token) <= set("();<>|&"):
                return ()
            else:
                parts[-1].append(token)
    except ValueError:
        return ()
    if not parts[-1] and len(parts) > 1:
        parts.pop()
    return tuple(tuple(part) for part in parts) if all(parts) else ()


def _offers(asked: Asked, root: str) -> tuple[str, ...]:
    if asked.effect == "run":
        offers = []
        for words in (words for command in asked.subjects for words in simple_commands(command)):
            if not all(words) or any(re.search(r"[()\s]", word) for word in words):
                return ()
            has_verb = len(words) > 1 and not words[1].startswith("-")
            short = words if words[0] in _RUNS_ANYTHING else words[: 2 if has_verb else 1]
            offers.append(str(Rule(asked.tool, " ".join(short))))
        return tuple(dict.fromkeys(offers)) if len(set(offers)) == 1 else ()
    folders = dict.fromkeys(posixpath.dirname(path) for path in asked.subjects)
    if len(folders) != 1:
        return ()
    return (_rule_for(asked.tool, next(iter(folders)), root),)


def _rule_for(tool: str, path: str, root: str) -> str:
    return str(Rule(tool, posixpath.relpath(path, root) if _is_within(path, (root,)) else path))


def _is_within(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _runs_later(path: str, root: str) -> bool:
    inside = posixpath.relpath(path, root) if _is_within(path, (root,)) else path
    return any(part in _RUNS_LATER for part in inside.split("/"))

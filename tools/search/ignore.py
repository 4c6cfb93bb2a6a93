"""The rules of a `.gitignore` file. Pure; a path is asked about by itself, what lies in an ignored folder is not.

A library for this (pathspec) says of a path whether it or a folder above it is meant. A walk that leaves out ignored
folders must know it of the path alone, or a rule that takes one folder back takes back everything in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TOKEN = re.compile(r"/\*\*/|\A\*\*/|/\*\*\Z|\*+|\?|\[[!^]?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\\.|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    expression: re.Pattern[str]
    """Matches a whole path, relative to the folder of the rules."""
    only_folders: bool
    ignores: bool
    """False for a rule that takes a path back."""


def rules_of(lines: Iterable[str]) -> tuple[IgnoreRule, ...]:
    """The rules of the lines of a file, in order. A line that makes no sense is no rule."""
    return tuple(rule for line in lines if (rule := _rule(line)) is not None)


def says(rules: tuple[IgnoreRule, ...], path: str, folder: bool) -> bool | None:
    """Whether the last rule that means the path ignores it; None when no rule does."""
    for rule in reversed(rules):
        if (folder or not rule.only_folders) and rule.expression.fullmatch(path):
            return rule.ignores
    return None


def _rule(line: str) -> IgnoreRule | None:
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    pattern = line.removeprefix("!") if not ignores else line
    only_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    prefix = "" if "/" in pattern else "(?:.*/)?"
    try:
        expression = re.compile(prefix + _translated(pattern.removeprefix("/")), re.DOTALL)
    except re.error:
        return None
    return IgnoreRule(expression, only_folders, ignores)


def _translated(pattern: str) -> str:
    return "".join(_piece(token) for token in _TOKEN.findall(pattern))


def _piece(token: str) -> str:
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
        negated = token[1] in "!^"
        inside = token[1 + negated : -1].replace("[", r"\[")
        return f"(?!/)[{'^' if negated else ''}{inside}]"
    return re.escape(token.removeprefix("\\") or "\\")

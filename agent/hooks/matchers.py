"""Decides whether a hook's `matcher` applies to a call or, for other events, to a name such as the trigger of a
compaction."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache

from ebbtide.agent.hooks.conditions import command_lines, may_match
from ebbtide.agent.hooks.tool_names import PATH_ARGUMENTS, ClaudeToolCall, has_claude_name

_NAME_LIST = re.compile(r"[\w |,-]*")
"""A matcher that is a list of names."""
_PERMISSION_RULE = re.compile(r"(?P<name>[A-Za-z_][\w-]*)\((?P<pattern>.*)\)", re.DOTALL)
_MAX_NAME_CHARS = 200
"""Maximum length of a name to which a regular expression is applied, in characters."""


def matches_names(matcher: str, names: Sequence[str], native_tool_name: str = "") -> bool:
    """Whether the matcher applies to one of `names`. An event without names always matches. `native_tool_name`: this
    program's name for the tool, which may appear in a list of names; regular expressions are only applied to
    `names`."""
    matcher = matcher.strip()
    if matcher in ("", "*") or not names:
        return True
    if not _NAME_LIST.fullmatch(matcher):
        search = _compile_search(matcher)
        return search is not None and any(search(name[:_MAX_NAME_CHARS]) for name in names)
    listed_names = _split_alternatives(matcher)
    server_prefixes = tuple(f"{listed_name}__" for listed_name in listed_names if listed_name.startswith("mcp__"))
    return not {*listed_names}.isdisjoint((*names, native_tool_name or names[0])) or any(
        name.startswith(server_prefixes) for name in names
    )


def matches_call(matcher: str, claude_call: ClaudeToolCall, root: str, project: str, home: str) -> bool:
    """Whether the matcher applies to a call. Users also write permission rules such as `Bash(git push:*)` as matchers
    (https://github.com/anthropics/claude-code/issues/36389); the part in parentheses may be a regular expression
    (https://github.com/anthropics/claude-code/issues/22423)."""
    if matches_names(matcher, claude_call.names, claude_call.our_name):
        return True
    return any(
        may_match(rule, claude_call, root, project, home)
        or _matches_as_regex(match["pattern"], rule, claude_call, root, project, home)
        for rule, match in _rules_in_matcher(matcher)
    )


def matcher_problem(matcher: str, *, is_for_calls: bool) -> str:
    """Return why the matcher can never match, as a clause; empty if it can."""
    matcher = matcher.strip()
    if matcher in ("", "*"):
        return ""
    if not _NAME_LIST.fullmatch(matcher):
        is_valid = _compile_search(matcher) is not None or (is_for_calls and _rules_in_matcher(matcher))
        return "" if is_valid else f"its matcher `{matcher[:80]}` is not a valid pattern"
    if not is_for_calls or any(map(_may_be_tool_name, _split_alternatives(matcher))):
        return ""
    return (
        f"its matcher `{matcher[:80]}` never matches: it is compared with tool names such as `Bash`. "
        "To match commands, use `if` with `Bash(git *)`"
    )


def _may_be_tool_name(name: str) -> bool:
    """Whether this could be the name of a tool: it contains no space, and is not a known tool's name in the wrong
    case."""
    has_wrong_case = not has_claude_name(name) and any(
        has_claude_name(variant) for variant in (name.capitalize(), name.lower())
    )
    return bool(name) and " " not in name and not has_wrong_case


def _matches_as_regex(pattern: str, rule: str, claude_call: ClaudeToolCall, root: str, project: str, home: str) -> bool:
    """Whether the part of a rule in parentheses, interpreted as a regular expression, matches a path or the start of a
    command."""
    if not may_match(rule.partition("(")[0], claude_call, root, project, home):
        return False
    if isinstance(command := claude_call.input.get("command"), str):
        search = _compile_search(f"^(?:{pattern})")
        return search is not None and any(search(line) for line in command_lines(command))
    search = _compile_search(pattern)
    return search is not None and any(
        search(path) for key in PATH_ARGUMENTS if isinstance(path := claude_call.input.get(key), str)
    )


@lru_cache(maxsize=256)
def _rules_in_matcher(matcher: str) -> tuple[tuple[str, re.Match[str]], ...]:
    """Return the alternatives of a matcher that are permission rules."""
    candidates = (
        (alternative, _PERMISSION_RULE.fullmatch(alternative)) for alternative in _split_alternatives(matcher)
    )
    return tuple((rule, match) for rule, match in candidates if match is not None)


def _split_alternatives(matcher: str) -> list[str]:
    """Split a matcher at each `|` and `,` outside parentheses."""
    alternatives, depth = [""], 0
    for character in matcher:
        depth = max(0, depth + {"(": 1, ")": -1}.get(character, 0))
        if character in "|," and depth == 0:
            alternatives.append("")
        else:
            alternatives[-1] += character
    return [alternative.strip() for alternative in alternatives]


@lru_cache(maxsize=256)
def _compile_search(pattern: str) -> Callable[[str], object] | None:
    """Return a search function for a regular expression; None if it is invalid. With `re2`, which cannot do
    look-around, the search takes linear time."""
    with suppress(ImportError):
        import re2  # noqa: PLC0415  # deferred: most matchers are names

        options = re2.Options()
        options.log_errors = False
        with suppress(re2.error):
            search: Callable[[str], object] = re2.compile(pattern, options).search
            return search
    with suppress(re.error):
        return re.compile(pattern).search
    return None

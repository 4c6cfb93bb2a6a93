"""Decides which calls, sources, triggers and kinds a hook's `matcher` applies to. Pure."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache

from ebbtide.agent.hooks.conditions import is_met, programs_in
from ebbtide.agent.hooks.tool_names import PATHS, ToolView, is_known

_LIST = re.compile(r"[\w |,-]*")
"""A matcher that is a list of names."""
_RULE = re.compile(r"(?P<name>[A-Za-z_][\w-]*)\((?P<pattern>.*)\)", re.DOTALL)
_MAX_NAME = 200
"""Maximum length of a name that a pattern is searched in, in characters."""


def is_for(matcher: str, names: Sequence[str], ours: str = "") -> bool:
    """Whether the matcher applies to one of `names`; events without names always match. `ours` is the tool's name here,
    which a list may contain; patterns are written for the other names."""
    matcher = matcher.strip()
    if matcher in ("", "*") or not names:
        return True
    if not _LIST.fullmatch(matcher):
        search = _searcher(matcher)
        return search is not None and any(search(name[:_MAX_NAME]) for name in names)
    listed = _alternatives(matcher)
    servers = tuple(f"{each}__" for each in listed if each.startswith("mcp__"))
    return not {*listed}.isdisjoint((*names, ours or names[0])) or any(name.startswith(servers) for name in names)


def is_for_call(matcher: str, view: ToolView, root: str, project: str, home: str) -> bool:
    """Whether the matcher applies to a call. It may also be a permission rule such as `Bash(git push:*)`, which people
    write there (https://github.com/anthropics/claude-code/issues/36389), and the part in parentheses may be a regular
    expression (https://github.com/anthropics/claude-code/issues/22423)."""
    if is_for(matcher, view.names, view.ours):
        return True
    return any(
        is_met(rule, view, root, project, home) or _is_found(found["pattern"], rule, view, root, project, home)
        for rule, found in _rules(matcher)
    )


def why_never(matcher: str, *, is_of_calls: bool) -> str:
    """Why the matcher can never match, as half a sentence; empty if it can."""
    matcher = matcher.strip()
    if matcher in ("", "*"):
        return ""
    if not _LIST.fullmatch(matcher):
        is_readable = _searcher(matcher) is not None or (is_of_calls and _rules(matcher))
        return "" if is_readable else f"its matcher `{matcher[:80]}` is not a valid pattern"
    if not is_of_calls or any(map(_may_be_name, _alternatives(matcher))):
        return ""
    return (
        f"its matcher `{matcher[:80]}` never matches: it is compared with tool names such as `Bash`. "
        "To match commands, use `if` with `Bash(git *)`"
    )


def _may_be_name(name: str) -> bool:
    """Whether this may be a tool name: not if it contains a space or is a known name in the wrong case."""
    is_miswritten = not is_known(name) and any(is_known(other) for other in (name.capitalize(), name.lower()))
    return bool(name) and " " not in name and not is_miswritten


def _is_found(pattern: str, rule: str, view: ToolView, root: str, project: str, home: str) -> bool:
    """Whether the part in parentheses, as a regular expression, matches the start of a command, or a path."""
    if not is_met(rule.partition("(")[0], view, root, project, home):
        return False
    if isinstance(command := view.input.get("command"), str):
        search = _searcher(f"^(?:{pattern})")
        return search is not None and any(search(line) for line in programs_in(command))
    search = _searcher(pattern)
    return search is not None and any(search(path) for key in PATHS if isinstance(path := view.input.get(key), str))


@lru_cache(maxsize=256)
def _rules(matcher: str) -> tuple[tuple[str, re.Match[str]], ...]:
    """The permission rules among the alternatives of a matcher."""
    found = ((each, _RULE.fullmatch(each)) for each in _alternatives(matcher))
    return tuple((rule, match) for rule, match in found if match is not None)


def _alternatives(matcher: str) -> list[str]:
    """Split at `|` and `,` outside parentheses."""
    parts, depth = [""], 0
    for letter in matcher:
        depth = max(0, depth + {"(": 1, ")": -1}.get(letter, 0))
        if letter in "|," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


@lru_cache(maxsize=256)
def _searcher(pattern: str) -> Callable[[str], object] | None:
    """Return a search function for a pattern; None if the pattern is invalid. Runs in linear time, unless the pattern
    uses look-around."""
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

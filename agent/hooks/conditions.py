"""Evaluates the `if` condition of a hook: a permission rule in Claude Code's syntax, such as `Bash(git push *)`,
`Edit(src/**/*.ts)` or `WebFetch(domain:example.org)`. Pure."""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from ebbtide.agent.hooks.tool_names import PATHS, ToolView
from ebbtide.tools.commands.nested import (
    WRAPPERS,
    behind_assignments,
    has_unread_texts,
    hides_a_command,
    program_of,
    readings,
)
from ebbtide.tools.search.globs import GlobError, parse

ConditionResult: TypeAlias = Literal["no", "unclear", "yes"]


def is_met(condition: str, view: ToolView, root: str, project: str, home: str) -> bool:
    """Whether the condition matches. An unclear result counts as a match, since a guard should rather run once too
    often. `root` is the working folder."""
    return condition_result(condition, view, root, project, home) != "no"


def condition_result(condition: str, view: ToolView, root: str, project: str, home: str) -> ConditionResult:
    """Evaluate a condition. The result is "unclear" if the command hides what it runs or the rule cannot be parsed."""
    name, _, rest = condition.partition("(")
    if not any(fnmatchcase(each, name) or each.startswith(f"{name}__") for each in (*view.names, view.ours)):
        return "no"
    pattern = rest.removesuffix(")").strip()
    if pattern in ("", "*", "**"):
        return "yes"
    if isinstance(command := view.input.get("command"), str):
        if any(_fits(pattern, line) for line in programs_in(command)):
            return "yes"
        return "unclear" if hides_a_command(command) or has_unread_texts(command) else "no"
    if pattern.startswith("domain:"):
        return _is_of_domain(str(view.input.get("url", "")), pattern.removeprefix("domain:"))
    for key in PATHS:
        if isinstance(path := view.input.get(key), str):
            return _is_file(pattern, path, root, project, home)
    is_said = any(isinstance(value, str) and _fits(pattern, value) for value in view.input.values())
    return "yes" if is_said else "no"


def programs_in(command: str) -> Iterator[str]:
    """Yield the command line and each command in it, with and without its variable assignments. Behind a wrapper such
    as `sudo`, every possible command is included."""
    yield command
    for words in readings(command):
        program = behind_assignments(words)
        ends = range(program, len(words)) if program_of(words) in WRAPPERS else (program,)
        yield from (" ".join(words[at:]) for at in (0, *ends))


def _fits(pattern: str, text: str) -> bool:
    """Match a pattern in which `*` matches any text; a final ` *` or `:*` also matches nothing."""
    begins = re.sub(r"(?::| )\*\Z", "", pattern)
    said = ".*".join(map(re.escape, begins.split("*")))
    more = r"(?:\s.*)?" if begins != pattern else ""
    return re.fullmatch(f"{said}{more}", text.strip(), re.DOTALL) is not None


def _is_of_domain(url: str, domain: str) -> ConditionResult:
    from urllib.parse import urlsplit  # noqa: PLC0415  # deferred: few conditions are about hosts

    try:
        is_there = fnmatchcase((urlsplit(url).hostname or "").lower(), domain.strip().lower())
    except ValueError:
        return "unclear"
    return "yes" if is_there else "no"


def _is_file(pattern: str, path: str, root: str, project: str, home: str) -> ConditionResult:
    """Match a file pattern. A leading `//` makes it absolute, `~/` relative to the home folder, `/` relative to the
    project. A pattern without `/` matches names at any depth, and a folder pattern matches everything in the folder."""
    if pattern.startswith("//"):
        folder, pattern = "/", pattern[2:]
    elif pattern.startswith("~/"):
        folder, pattern = home, f"./{pattern[2:]}"
    elif pattern.startswith("/"):
        folder, pattern = project, f".{pattern}"
    else:
        folder = root if "/" in pattern else "/"
    name = posixpath.relpath(path, folder)
    parts = name.split("/")
    try:
        glob = parse(pattern.rstrip("/"))
    except GlobError:
        return "unclear"
    is_named = any(glob.covers("/".join(parts[:end])) for end in range(len(parts), 0, -1))
    return "yes" if is_named else "no"

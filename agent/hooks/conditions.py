"""Evaluates the `if` condition of a hook: a permission rule in Claude Code's syntax, such as `Bash(git push *)`,
`Edit(src/**/*.ts)` or `WebFetch(domain:example.org)`."""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from ebbtide.agent.hooks.tool_names import PATH_ARGUMENTS, ClaudeToolCall
from ebbtide.tools.commands.nested import (
    WRAPPERS,
    command_variants,
    has_hidden_program,
    has_unparsed_strings,
    program_index,
    program_name,
)
from ebbtide.tools.search.globs import GlobError, parse_glob

ConditionResult: TypeAlias = Literal["no", "unclear", "yes"]


def may_match(condition: str, view: ClaudeToolCall, root: str, project: str, home: str) -> bool:
    """Whether the condition matches or might match. An unclear result counts as a match, since it is safer to run a
    guard hook once too often. `root` is the working folder."""
    return evaluate_condition(condition, view, root, project, home) != "no"


def evaluate_condition(condition: str, view: ClaudeToolCall, root: str, project: str, home: str) -> ConditionResult:
    """Evaluate a condition. The result is "unclear" if the command hides what it runs or the rule cannot be parsed."""
    tool_pattern, _, pattern_text = condition.partition("(")
    if not any(
        fnmatchcase(tool_name, tool_pattern) or tool_name.startswith(f"{tool_pattern}__")
        for tool_name in (*view.names, view.our_name)
    ):
        return "no"
    pattern = pattern_text.removesuffix(")").strip()
    if pattern in ("", "*", "**"):
        return "yes"
    if isinstance(command := view.input.get("command"), str):
        if any(_matches_pattern(pattern, line) for line in command_lines(command)):
            return "yes"
        return "unclear" if has_hidden_program(command) or has_unparsed_strings(command) else "no"
    if pattern.startswith("domain:"):
        return _domain_result(str(view.input.get("url", "")), pattern.removeprefix("domain:"))
    for key in PATH_ARGUMENTS:
        if isinstance(path := view.input.get(key), str):
            return _file_result(pattern, path, root, project, home)
    is_match = any(isinstance(value, str) and _matches_pattern(pattern, value) for value in view.input.values())
    return "yes" if is_match else "no"


def command_lines(command: str) -> Iterator[str]:
    """Yield the command line, and each command in it with and without its variable assignments. After a wrapper such as
    `sudo`, also yield the rest of the command from each word on, since any of these words might begin the actual
    command."""
    yield command
    for words in command_variants(command):
        program_start = program_index(words)
        start_indices = range(program_start, len(words)) if program_name(words) in WRAPPERS else (program_start,)
        yield from (" ".join(words[start:]) for start in (0, *start_indices))


def _matches_pattern(pattern: str, text: str) -> bool:
    """Whether text matches a pattern, in which `*` matches anything. A ` *` or `:*` at the end also matches the empty
    string."""
    stem = re.sub(r"(?::| )\*\Z", "", pattern)
    prefix = ".*".join(map(re.escape, stem.split("*")))
    optional_suffix = r"(?:\s.*)?" if stem != pattern else ""
    return re.fullmatch(f"{prefix}{optional_suffix}", text.strip(), re.DOTALL) is not None


def _domain_result(url: str, domain: str) -> ConditionResult:
    from urllib.parse import urlsplit  # noqa: PLC0415  # deferred: few conditions are about hosts

    try:
        is_match = fnmatchcase((urlsplit(url).hostname or "").lower(), domain.strip().lower())
    except ValueError:
        return "unclear"
    return "yes" if is_match else "no"


def _file_result(pattern: str, path: str, root: str, project: str, home: str) -> ConditionResult:
    """Check whether a path matches a file pattern. A leading `//` makes the pattern absolute, `~/` relative to the home
    folder, `/` relative to the project. A pattern without `/` matches names at any depth; a pattern for a folder
    matches everything in it."""
    if pattern.startswith("//"):
        folder, pattern = "/", pattern[2:]
    elif pattern.startswith("~/"):
        folder, pattern = home, f"./{pattern[2:]}"
    elif pattern.startswith("/"):
        folder, pattern = project, f".{pattern}"
    else:
        folder = root if "/" in pattern else "/"
    relative_path = posixpath.relpath(path, folder)
    components = relative_path.split("/")
    try:
        glob = parse_glob(pattern.rstrip("/"))
    except GlobError:
        return "unclear"
    is_match = any(glob.matches_path_or_parent("/".join(components[:end])) for end in range(len(components), 0, -1))
    return "yes" if is_match else "no"

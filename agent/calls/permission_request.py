"""A call as the policy sees it: the most it may do, and to what."""

import os
import posixpath
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from ebbtide.agent.config.options import Mode
from ebbtide.tools.base import Effect, ReadOnlyAccess, ReadsOnly, Tool, ToolError, VariesEffect, Workspace
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.files.command_paths import CommandPaths, command_paths
from ebbtide.tools.files.paths import has_other_names
from ebbtide.tools.files.project_programs import trusted_launches
from ebbtide.tools.lazy import dataclass

_AS_THEY_ARE = frozenset(("fetch", "ls-remote", "archive"))
"""Git commands that rules cover and that run unchanged."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call as the policy sees it."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...]
    """A command line, or absolute resolved paths."""
    read_only: ReadOnlyAccess | None = None
    """What a command reads in plan mode, if it is proved to do nothing else."""
    linked: tuple[str, ...] = ()
    """Files to be changed that have hard links: the other name may be any file."""
    named: CommandPaths = CommandPaths()
    """Files named by a command that always need approval."""
    trusted: frozenset[tuple[str, ...]] = frozenset()
    """The words of commands that launch a tool of the project and are known to be that tool."""
    by_settings: str = ""
    """What the settings of the repository, or of one pushed to, make a covered git command run, in words."""


def request_for(tool: Tool, arguments: Mapping[str, object], workspace: Workspace, mode: Mode) -> PermissionRequest:
    """Build the request for a call. Raises `ToolError`."""
    subjects = tool.subjects(arguments, workspace)
    effect = cast(VariesEffect, tool).effect_of(arguments) if _is(type(tool), VariesEffect) else tool.effect
    linked = tuple(path for path in subjects if has_other_names(path)) if effect == "write" else ()
    shown = None
    if _is(type(tool), ReadsOnly):
        shown = _read_only_access(cast(ReadsOnly, tool), arguments, workspace, mode)
    named, by_settings, trusted = CommandPaths(), "", frozenset[tuple[str, ...]]()
    if tool.effect == "run" and mode != "plan":
        named = command_paths("\n".join(subjects), str(workspace.root))
        trusted = frozenset().union(*(trusted_launches(line, workspace) for line in subjects))
        by_settings = next(filter(None, (_run_by_settings(line, workspace) for line in subjects)), "")
    return PermissionRequest(tool.name, effect, subjects, shown, linked, named, trusted, by_settings)


def _run_by_settings(line: str, workspace: Workspace) -> str:
    texts = [command.texts for command in parse_command_line(line).commands]
    of_git = [words for words in texts if "git" in map(posixpath.basename, words)]
    pushed = (word for words in of_git if "push" in words for word in words[words.index("push") + 1 :])
    if hooked := next((word for word in pushed if _is_repository(workspace.root, word)), ""):
        return f"the hooks of `{hooked}`"
    told = {word for words in of_git for word in _AS_THEY_ARE.intersection(words)}
    if not told:
        return ""
    from ebbtide.tools.process.git import run_by_settings  # noqa: PLC0415  # deferred: few commands are such

    return next(filter(None, (run_by_settings(workspace.root, command) for command in sorted(told))), "")


def _is_repository(root: Path, word: str) -> bool:
    """Whether git may take a word for the path of a local repository."""
    path = os.path.join(root, os.path.expanduser(word.removeprefix("--repo=").removeprefix("file://")))
    return word[:2] not in ("", "-") and any(os.path.lexists(os.path.join(path, name)) for name in ("HEAD", ".git"))


@lru_cache(maxsize=256)
def _is(kind: type, seam: type) -> bool:
    """Whether a tool's class implements a protocol, cached: checking each time takes a tenth of a decision."""
    return issubclass(kind, seam)


def _read_only_access(
    tool: ReadsOnly, arguments: Mapping[str, object], workspace: Workspace, mode: Mode
) -> ReadOnlyAccess | None:
    try:
        return tool.read_only_access(arguments, workspace)
    except ToolError:
        if mode == "plan":
            raise
        return ReadOnlyAccess("read", ("/",))  # no rule about files covers it

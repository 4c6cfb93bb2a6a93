"""A tool call as the policy sees it: its effect and the paths or command lines it affects."""

import os
import posixpath
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from ebbtide.agent.config.options import PermissionMode
from ebbtide.tools import commands, files, process
from ebbtide.tools.base import Effect, HasCallEffect, ReadOnlyAccess, SupportsReadOnly, Tool, ToolError, Workspace
from ebbtide.tools.files.command_paths import CommandPaths, find_command_paths
from ebbtide.tools.files.paths import has_other_hard_links
from ebbtide.tools.lazy import dataclass

_UNCHANGED_GIT_COMMANDS = frozenset(("fetch", "ls-remote", "archive"))
"""Git commands that run unchanged when rules cover them; the repository's settings are checked first."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A tool call about which the policy decides."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...]
    """What the call affects: a command line, or absolute resolved paths."""
    read_only_access: ReadOnlyAccess | None = None
    """The files that a command reads. None unless the command is known to be read-only, or runs where it can only
    read."""
    hard_linked_paths: tuple[str, ...] = ()
    """Files that the call would change and that have other hard links. A change also affects the other links, which can
    be in any folder."""
    named_paths: CommandPaths = CommandPaths()
    """Files that the command names and that always need approval."""
    trusted_launches: frozenset[tuple[str, ...]] = frozenset()
    """The words of commands that are known to launch a tool of the project."""
    git_settings_programs: str = ""
    """The programs that git would run because of settings in this repository, or in a repository that it pushes to;
    empty if there are none."""

    @property
    def proved_access(self) -> ReadOnlyAccess | None:
        """The files that a command reads, if it is known to be read-only; None if only the sandbox enforces that."""
        return None if self.runs_in_read_only_sandbox else self.read_only_access

    @property
    def runs_in_read_only_sandbox(self) -> bool:
        """Whether the command would run in a sandbox in which it can only read."""
        return self.read_only_access is not None and self.read_only_access.runs_in_read_only_sandbox

    @property
    def is_read_only(self) -> bool:
        """Whether the call cannot change files."""
        return self.effect not in ("write", "run", "serve") or self.read_only_access is not None


def build_permission_request(
    tool: Tool, arguments: Mapping[str, object], workspace: Workspace, mode: PermissionMode
) -> PermissionRequest:
    """Build the request for a call. Raises `ToolError`."""
    subjects = tool.subjects(arguments, workspace)
    effect = cast(HasCallEffect, tool).effect_of(arguments) if _implements(type(tool), HasCallEffect) else tool.effect
    hard_linked = tuple(path for path in subjects if has_other_hard_links(path)) if effect == "write" else ()
    read_only_access = None
    if _implements(type(tool), SupportsReadOnly):
        read_only_access = _find_read_only_access(cast(SupportsReadOnly, tool), arguments, workspace, mode)
    named_paths = CommandPaths()
    git_settings_programs = ""
    launches = frozenset[tuple[str, ...]]()
    if tool.effect == "run" and mode != "plan":
        named_paths = find_command_paths("\n".join(subjects), str(workspace.root))
        launches = frozenset().union(*(files.project_programs.trusted_launches(line, workspace) for line in subjects))
        git_settings_programs = next(filter(None, (_git_settings_programs(line, workspace) for line in subjects)), "")
    return PermissionRequest(
        tool.name, effect, subjects, read_only_access, hard_linked, named_paths, launches, git_settings_programs
    )


def _git_settings_programs(line: str, workspace: Workspace) -> str:
    word_lists = [command.texts for command in commands.grammar.parse_command_line(line).commands]
    git_commands = [words for words in word_lists if "git" in map(posixpath.basename, words)]
    push_arguments = (word for words in git_commands if "push" in words for word in words[words.index("push") + 1 :])
    if hooked_repository := next((word for word in push_arguments if _is_repository(workspace.root, word)), ""):
        return f"the hooks of `{hooked_repository}`"
    subcommands = {word for words in git_commands for word in _UNCHANGED_GIT_COMMANDS.intersection(words)}
    if not subcommands:
        return ""
    return next(
        filter(
            None, (process.git.find_setting_running_program(workspace.root, command) for command in sorted(subcommands))
        ),
        "",
    )


def _is_repository(root: Path, word: str) -> bool:
    """Whether git might interpret a word as the path of a local repository."""
    path = os.path.join(root, os.path.expanduser(word.removeprefix("--repo=").removeprefix("file://")))
    return word[:2] not in ("", "-") and any(os.path.lexists(os.path.join(path, name)) for name in ("HEAD", ".git"))


@lru_cache(maxsize=256)
def _implements(tool_type: type, protocol: type) -> bool:
    """Whether a tool's class implements a protocol. Cached, because the check would otherwise take a tenth of the time
    for a ruling."""
    return issubclass(tool_type, protocol)


def _find_read_only_access(
    tool: SupportsReadOnly, arguments: Mapping[str, object], workspace: Workspace, mode: PermissionMode
) -> ReadOnlyAccess | None:
    try:
        return tool.read_only_access(arguments, workspace)
    except ToolError:
        if mode == "plan":
            raise
        return ReadOnlyAccess("read", ("/",))  # `/` is not covered by any rule about files

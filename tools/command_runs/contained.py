"""Runs commands that are probably but not certainly read-only. They are tried without approval in a read-only sandbox
(`ebbtide.tools.sandbox.look_only`). If a command needs more access, it is run again normally after approval."""

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.tools import process, sandbox
from ebbtide.tools.base import ReadOnlyAccess, ToolError, Workspace
from ebbtide.tools.command_runs.read_only import git_readable_paths
from ebbtide.tools.commands.command_line import CommandLine, SimpleCommand
from ebbtide.tools.commands.looks import BUILTINS, parse_probably_read_only
from ebbtide.tools.commands.nested import assigned_variables, expand_variables, program_index
from ebbtide.tools.commands.proof import check_read_only
from ebbtide.tools.files.command_paths import find_command_paths
from ebbtide.tools.files.paths import check_granted, display_path
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.shell import Launch, child_environment, is_passed_on, shell_argv
from ebbtide.tools.sandbox.boundary import Boundary
from ebbtide.tools.sandbox.git_metadata import is_in

_WORK_TREE_COMMANDS = frozenset(("status", "diff", "diff-files", "diff-index"))
"""Git commands that would report files as changed because the sandbox hides them."""
_GIT_SETTINGS = {**process.git.SAFE_SETTINGS, "diff.ignoreSubmodules": "none"}
"""Git settings in this sandbox. They also let git read submodules."""
_PATH_IN_TEXT = regex(r"(?<![^\s'\"=(;&|`])(?:~|/|\.\.)[^\s'\"`;&|<>()]*")
"""Matches a word that may be a path outside the folder."""
_ELF_MAGIC = b"\x7fELF"


def contained_access(line: str, folder: Path, workspace: Workspace) -> ReadOnlyAccess | None:
    """Return what the command is allowed to read. None if it does not seem to be read-only, or if the system cannot
    contain it. `folder`: the folder that it starts in."""
    if workspace.sandbox is None or (parsed := parse_probably_read_only(line)) is None:
        return None
    if sandbox.system.sandbox_kind() != "bubblewrap" or _needs_hidden_variables(line, workspace):
        return None
    if None in (_path_to_mount(name, workspace) for name in _program_names(parsed)):
        return None
    root = str(workspace.root)
    outside_paths = dict.fromkeys(
        path for path in _named_paths(parsed, line, folder, workspace) if _exists_outside(path, workspace)
    )
    if _runs_git(parsed):
        outside_paths |= dict.fromkeys(path for path in git_readable_paths(workspace.root) if not is_in(path, (root,)))
    secret_files = find_command_paths(line, root).secret_files
    secret_name = display_path(Path(secret_files[0]), workspace.root) if secret_files else ""
    return ReadOnlyAccess("grep", (root, *outside_paths, *secret_files), secret_name, runs_in_read_only_sandbox=True)


def launch_contained(line: str, folder: Path, workspace: Workspace) -> tuple[Launch, Boundary]:
    """Return the command's launch and its boundary. Raises `ToolError` if it cannot be contained."""
    access, parsed = contained_access(line, folder, workspace), parse_probably_read_only(line)
    if access is None or parsed is None or workspace.sandbox is None:
        raise ToolError("the command is no longer read-only: check it again")
    for path in access.paths:
        check_granted(Path(path), workspace)
    environment, runs_git = _contained_environment(workspace), _runs_git(parsed)
    programs = (_path_to_mount(name, workspace) for name in _program_names(parsed))
    visible_paths = [*access.paths[1:], *filter(None, programs)]
    if runs_git:
        environment = process.git.git_environment(_GIT_SETTINGS, environment)
        visible_paths += sandbox.look_only.user_git_settings_paths(Path.home(), environment)
        visible_paths += _git_folders(workspace.root)
    try:
        launch, boundary = workspace.sandbox.wrap_read_only(
            Launch(shell_argv(line), environment), folder, visible_paths, runs_git=runs_git
        )
    except OSError as error:
        raise ToolError(f"it could not be tried read-only: {error}") from error
    if runs_git and _compares_work_tree(parsed) and "locked file" in boundary.access_by_path.values():
        raise ToolError("it could not be tried read-only: git would report hidden files with secrets as changed")
    return launch, boundary


def _contained_environment(workspace: Workspace) -> dict[str, str]:
    """Return the environment for contained commands. It omits variables that the user passes on, because they may
    contain secrets. It also omits variables that name libraries to load, because contained commands may be unable to
    see those libraries."""
    environment = {
        name: value
        for name, value in child_environment().items()
        if not (is_passed_on(name) or name.startswith(("LD_", "DYLD_")))
    }
    path = workspace.environment_variables.get("PATH") or environment.get("PATH", os.defpath)
    environment["PATH"] = process.git.search_path_outside(workspace.root, path)
    environment.pop("RIPGREP_CONFIG_PATH", None)
    return environment | {"npm_config_logs_max": "0"}


def _needs_hidden_variables(line: str, workspace: Workspace) -> bool:
    """Whether the line mentions a variable that is hidden from contained commands."""
    hidden = {name for name in os.environ if is_passed_on(name)} | workspace.environment_variables.keys()
    return "$" in line and any(name in line for name in hidden)


def _program_names(line: CommandLine) -> Iterator[str]:
    """Yield the names of the programs that a line runs, except shell builtins."""
    for command in line.commands:
        words = command.texts[program_index(command.texts) :]
        yield from (word for word in words[:1] if word not in BUILTINS)


def _path_to_mount(name: str, workspace: Workspace) -> str | None:
    """Return the program's path if the sandbox must mount it. Empty if the program is already visible, None if it
    cannot run contained."""
    program_path = process.git.find_program_outside(name, workspace.root)
    if program_path is None:
        return None
    if sandbox.look_only.is_system_path(os.path.realpath(program_path)) and sandbox.look_only.is_system_path(
        program_path
    ):
        return ""
    try:
        with open(program_path, "rb") as file:
            return (
                program_path if file.read(len(_ELF_MAGIC)) == _ELF_MAGIC else None
            )  # a script needs more than its own file
    except OSError:
        return None


def _named_paths(line: CommandLine, text: str, folder: Path, workspace: Workspace) -> Iterator[str]:
    """Yield the resolved paths that the line may name."""
    folders, values = [str(folder)], _contained_environment(workspace) | {"PWD": str(folder)}
    for command in line.commands:
        values |= assigned_variables(command)
        words = [expand_variables(word, values) for word in _possible_paths(command)]
        yield from (_resolved_path(start_folder, word) for word in words for start_folder in folders)
        if command.texts[:1] == ("cd",):
            folders += [_resolved_path(start_folder, word) for word in words for start_folder in folders]
    for word in _PATH_IN_TEXT.findall(text) if line.has_loop else ():
        yield _resolved_path(str(folder), expand_variables(word, values))


def _resolved_path(folder: str, word: str) -> str:
    """Return the resolved path that a word refers to. For a pattern, return the folder in which it matches names."""
    literal_part, special_character, _ = word.partition(next(filter(word.__contains__, "*?[{$"), "\0"))
    return os.path.realpath(
        posixpath.join(
            folder, os.path.expanduser(posixpath.dirname(literal_part) if special_character else literal_part)
        )
    )


def _possible_paths(command: SimpleCommand) -> Iterator[str]:
    """Yield the words that might be paths. For a known program, these are the files that it reads; for an unknown
    program, all words."""
    words = command.words[program_index(command.texts) :]
    yield from (redirection.target.text for redirection in command.redirections if redirection.operator == "<")
    proof = check_read_only(words, has_input=True) if words else None
    if proof is not None and not proof.unproved_indices:
        yield from (file.text for file in proof.files)
        return
    if command.texts == ("cd",):
        yield "~"
    for word in words[1:]:
        yield from {word.text, word.text.partition("=")[2]} - {""}


def _exists_outside(path: str, workspace: Workspace) -> bool:
    """Whether the path exists and is outside the working folders."""
    roots = (workspace.root, *(workspace.sandbox.added_roots if workspace.sandbox is not None else ()))
    return not is_in(path, tuple(map(str, roots))) and path != "/dev/null" and os.path.lexists(path)


def _runs_git(line: CommandLine) -> bool:
    return any("git" in command.texts for command in line.commands)


def _compares_work_tree(line: CommandLine) -> bool:
    return any(
        "git" in command.texts and not _WORK_TREE_COMMANDS.isdisjoint(command.texts) for command in line.commands
    )


def _git_folders(root: Path) -> Sequence[str]:
    """Return the folders with the repository's metadata. For a linked work tree, they are outside `root`."""
    top = process.git.find_repository_top(root)
    return [str(path) for path in (sandbox.git_metadata.claimed_metadata(top) or ())] if top is not None else []

"""Read-only command lines: which files they show, and how to run them so that nothing from the working folder is
executed. Programs must come from outside the working folder, and git gets the same settings as when Ebbtide itself
calls it."""

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import which

from ebbtide.tools import process, sandbox
from ebbtide.tools.base import ReadOnlyAccess, ToolError, Workspace
from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.line_proof import ProvedStep, prove_line, render_line
from ebbtide.tools.commands.scripts import Operand, Proof
from ebbtide.tools.files.paths import check_granted, display_path, locate_path
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.process.shell import Launch, child_environment, shell_argv
from ebbtide.tools.secrets.files import (
    SECRET_FILE_PATTERNS,
    SECRET_FOLDERS,
    SECRET_GLOBS,
    case_insensitive_pattern,
    may_contain_secrets,
)

_SAFE_DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""Git options that turn off certain features. A repository can turn these on for single files or submodules, and git
settings cannot turn them off.

One such feature is the ignore-revs file of `git blame`: it can be any file, and git prints its invalid lines. Another
is the check for uncommitted changes in a submodule: git would run inside the submodule, with the submodule's settings
and filters. With these options, git only reads which commit is checked out in the submodule.
"""
_GUARD_OPTIONS: Mapping[str, Sequence[str]] = {
    "git status": _SAFE_DIFF_OPTIONS[2:],
    "git diff": _SAFE_DIFF_OPTIONS,
    "git log": _SAFE_DIFF_OPTIONS,
    "git show": _SAFE_DIFF_OPTIONS,
    "git diff-index": _SAFE_DIFF_OPTIONS,
    "git blame": ("--no-textconv", "--no-ignore-revs-file"),
    "git grep": ("--no-textconv",),
    "rg": ("--no-config", *(f"--iglob=!{glob}" for glob in SECRET_GLOBS)),
}
_GREP_GUARD_OPTIONS = (
    *(f"--exclude={case_insensitive_pattern(name)}" for name in SECRET_FILE_PATTERNS),
    *(f"--exclude-dir={case_insensitive_pattern(name)}" for name in SECRET_FOLDERS),
)
_BUILTINS = {"echo", "printf", "test", "true", "false", ":", "pwd", "type", "command", "cd"}
"""Commands that are built into the shell."""
_PROGRAM_LOOKUPS = {"type", "command", "which"}
"""Commands that only say which program a name refers to."""
_DRIVE_PREFIX = regex("[A-Za-z]:")
_UNQUOTED_PATH = regex(r"[\w./@+-]+")
"""Matches a path that the shell does not expand."""
_PIPES = ("|", "|&")
_PUBLIC_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Devices whose content is never private."""
_NO_REPOSITORY = "git was not run: this folder is not in a git repository that git can read"
_MAX_NAMED_SUBMODULES = 5
_MAX_EXPANDED_NAMES = 2_000
"""Maximum number of names in a folder that are matched against a pattern."""


def read_only_access(line: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """Return the files whose content the command may reveal. None if the command is not known to be read-only. Raises
    `ToolError`."""
    steps = _proved_steps(line, workspace)
    if not steps:
        return None
    files = _DisplayedFiles(workspace)
    files.add(steps, [""])
    if files.shows_folder:
        files.paths[str(workspace.root)] = None
    has_search = any(step.proof.shows_unnamed_files for step in steps)
    return ReadOnlyAccess("grep" if has_search else "read", tuple(files.paths), files.secret_path)


class _DisplayedFiles:
    """Collects the files that commands would show."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.secret_path, self.shows_folder = workspace, "", False
        self.paths = dict[str, None]()

    def add(self, steps: Sequence[ProvedStep], folders: list[str]) -> None:
        """Add the files that these commands show. `folders`: the folders in which they might run. Raises
        `ToolError`."""
        for index, step in enumerate(steps):
            command, proof = step.command, step.proof
            _program_path(command, proof, self.workspace)  # fail now rather than after the user has approved
            if (
                len(folders) == 1
                and folders != [""]
                and command.preceding_operator not in ("&&", *(_PIPES if index > 1 else ()))
            ):
                folders.append("")  # if `cd` fails, the command runs in the previous folder
            paths_by_operand = (
                _operand_paths(file, folder, self.workspace) for file in proof.files for folder in folders
            )
            named_paths = [path for paths in paths_by_operand for path in paths]
            self.add_files(named_paths, proof)
            if proof.name == "cd":
                folders[:] = [posixpath.join(folder, proof.files[0].text) for folder in folders]
            self.shows_folder = self.shows_folder or not (named_paths or proof.name.startswith("git"))
            if proof.name.startswith("git"):
                self.paths |= dict.fromkeys(git_readable_paths(self.workspace.root))

    def add_files(self, paths_and_names: Sequence[tuple[Path, str]], proof: Proof) -> None:
        for path, name in paths_and_names:
            self.paths[str(path)] = None
            is_secret = may_contain_secrets(str(path)) or may_contain_secrets(name)
            if is_secret and not (self.secret_path or proof.shows_only_names):
                self.secret_path = display_path(path, self.workspace.root)


def _proved_steps(line: str, workspace: Workspace) -> tuple[ProvedStep, ...]:
    """Return the commands of a line, each with its proof. Empty if the line is not known to be read-only."""
    return prove_line(_without_root_prefix(line, workspace.root))


def _without_root_prefix(line: str, root: Path) -> str:
    """Remove a leading `cd ROOT &&` or `git -C ROOT`, which has no effect in the working folder."""
    if not _UNQUOTED_PATH.fullmatch(str(root)):
        return line
    root_pattern = re.escape(str(root))
    line = re.sub(rf"\A\s*cd (['\"]?){root_pattern}/?\1 *&& *(?=\w)", "", line)
    return re.sub(rf"\A\s*git +-C +(['\"]?)(?:{root_pattern}/?|\.)\1 +(?=[a-z])", "git ", line)


def git_readable_paths(root: Path) -> Iterator[str]:
    top = process.git.find_repository_top(root)
    yield str(top or root)
    for metadata in dict.fromkeys(sandbox.git_metadata.claimed_metadata(top) or ()) if top is not None else ():
        yield from map(str, process.git.metadata_link_targets(metadata))
        yield from sandbox.git_metadata.included_settings_files(metadata)  # git prints lines of invalid settings files


def _operand_paths(file: Operand, folder: str, workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """Yield the files that a word refers to, each with its name as written in the command. Raises `ToolError`."""
    # Programs take names literally: a leading `~` or `@` is not expanded.
    relative_path = posixpath.join(folder, file.text)
    if relative_path in _PUBLIC_DEVICES:
        return
    if _DRIVE_PREFIX.match(file.text):
        raise ToolError(f"`{file.text}` may be on another drive: use read")
    names = [relative_path, *_expand_pattern(relative_path, workspace.root)] if file.is_glob else [relative_path]
    for name in names:
        yield locate_path(name if name.startswith("/") else f"./{name}", workspace), name


def _expand_pattern(pattern: str, root: Path) -> Sequence[str]:
    """Return the files to which the shell may expand a pattern. Raises `ToolError` if there are too many or they cannot
    be determined."""
    if "[" in pattern:
        raise ToolError("patterns with `[…]` are not expanded: name the files, or use glob")
    paths, remaining_names = ["/" if pattern.startswith("/") else ""], _MAX_EXPANDED_NAMES
    for name_pattern in filter(None, pattern.split("/")):
        if not ("*" in name_pattern or "?" in name_pattern):
            paths = [posixpath.join(folder, name_pattern) for folder in paths]
            continue
        matching_paths = list[str]()
        for folder in paths:
            names = _list_folder(root / folder, remaining_names)
            remaining_names -= len(names)
            matching_paths += [posixpath.join(folder, name) for name in names if _matches_pattern(name_pattern, name)]
        paths = matching_paths
    if pattern.endswith("/"):
        return [f"{name}/" for name in paths if (root / name).is_dir()]
    return [name for name in paths if os.path.lexists(root / name)]


def _matches_pattern(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) and (name[:1] != "." or pattern[:1] == ".")


def _list_folder(folder: Path, max_names: int) -> Sequence[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    if len(names) > max_names:
        raise ToolError("the pattern may match too many files: name them, or use glob")
    return names


def read_only_launch(command: str, workspace: Workspace) -> Launch:
    """Decide how to run the command. Raises `ToolError` if it is no longer read-only, for example because a link now
    points elsewhere."""
    steps, access = _proved_steps(command, workspace), read_only_access(command, workspace)
    if not steps or access is None:
        raise ToolError("the command is no longer read-only: check it again")
    for path in access.paths:
        check_granted(Path(path), workspace)
    environment = child_environment()
    path = _search_path(workspace)
    environment |= {"PATH": process.git.search_path_outside(workspace.root, path)}
    environment.pop("RIPGREP_CONFIG_PATH", None)
    if any(step.proof.name.startswith("git") for step in steps):
        environment = _build_git_environment(workspace.root, environment)
    (step, *other_steps), words = steps, _argv(steps[0], workspace)
    needs_shell = other_steps or step.proof.name in _PROGRAM_LOOKUPS | _BUILTINS
    if needs_shell or step.command.redirections or any(word.is_glob for word in words):
        return Launch(
            shell_argv(render_line(steps, lambda shell_step: _render_step(shell_step, workspace, path))), environment
        )
    return Launch(tuple(word.text for word in words), environment)


def _render_step(step: ProvedStep, workspace: Workspace, path: str) -> tuple[str, Sequence[Word]]:
    """Split a command into its variable assignment (empty if none) and its words."""
    return f"PATH={shlex.quote(path)}" if step.proof.name in _PROGRAM_LOOKUPS else "", _argv(step, workspace)


def submodule_changes_note(command: str, workspace: Workspace) -> str:
    """Build a note that `git status` and `git diff` do not show uncommitted changes in submodules here. Empty for other
    commands, or if there are no submodules."""
    steps = _proved_steps(command, workspace)
    option_sets = (set(step.command.texts) for step in steps if step.proof.name in ("git status", "git diff"))
    if all(words & {"--cached", "--staged"} for words in option_sets):
        return ""
    top = process.git.find_repository_top(workspace.root)
    names = sandbox.git_metadata.submodule_paths(top) if top is not None else []
    return (
        f"not shown: uncommitted changes inside submodules ({join_limited(names, _MAX_NAMED_SUBMODULES)})"
        if names
        else ""
    )


def _search_path(workspace: Workspace) -> str:
    """Return the `PATH` that the session's shells use."""
    return workspace.environment_variables.get("PATH") or os.environ.get("PATH", os.defpath)


def _program_path(command: SimpleCommand, proof: Proof, workspace: Workspace) -> str:
    """Return the path of the program, or the name of a shell builtin. The path must be outside the working folder.
    Raises `ToolError`."""
    name, root, path = command.texts[0], workspace.root, _search_path(workspace)
    program = name if proof.name in _BUILTINS else process.git.find_program_outside(name, root)
    if program is None:
        raise ToolError(f"there is no program `{name}` outside the working folder: use read, grep or glob")
    if proof.name == "version" and which(name, path=path) != which(
        name, path=process.git.search_path_outside(root, path)
    ):
        raise ToolError(f"`{name}` is in the working folder, whose programs are not run")
    if proof.name.startswith("git") and process.git.find_repository_top(root) is None:
        raise ToolError(_NO_REPOSITORY)
    return program


def _argv(step: ProvedStep, workspace: Workspace) -> Sequence[Word]:
    """Return the command to run, with an absolute program path and the options that keep it read-only. Raises
    `ToolError`."""
    command, proof = step.command, step.proof
    program = Word(_program_path(command, proof, workspace))
    arguments = command.words[1:]
    texts = command.texts[1:]
    if proof.name in _BUILTINS:
        return command.words
    guards = _GUARD_OPTIONS.get(proof.name, ())
    if proof.name in ("grep", "egrep", "fgrep"):
        guards = _GREP_GUARD_OPTIONS if any(text.startswith("-") and "r" in text for text in texts) else ()
    if proof.name.startswith("git"):
        arguments = arguments[1:] if texts[:1] == ("--no-pager",) else arguments
        subcommand_word_count = proof.name.count(" ")
        return (program, *arguments[:subcommand_word_count], *map(Word, guards), *arguments[subcommand_word_count:])
    end = texts.index("--") if "--" in texts else len(texts)
    # The guards come last, because the last of several contradictory patterns applies.
    return (program, *arguments[:end], *map(Word, guards), *arguments[end:])


def _build_git_environment(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    program = process.git.find_program_outside("git", root)
    if program is None:
        raise ToolError("there is no program `git` outside the working folder: use read, grep or glob")
    top = process.git.find_repository_top(root)
    try:
        metadata = process.git.run_git(
            program, root, process.git.SAFE_SETTINGS, "rev-parse", "--absolute-git-dir"
        ).removesuffix(b"\n")
        settings = {**process.git.SAFE_SETTINGS, **process.git.filter_disabling_settings(program, root)}
    except process.git.GitError as error:
        raise ToolError(f"git was not run: {error}") from error
    metadata_folder = None if top is None else top / ".git"
    if metadata_folder is None or (
        metadata_folder.is_dir() and os.path.realpath(os.fsdecode(metadata)) != os.path.realpath(metadata_folder)
    ):
        # Outside a repository, `git diff` would compare any two folders.
        raise ToolError(_NO_REPOSITORY)
    environment_with_settings = process.git.git_environment(settings, environment)
    # The repository's settings may name another folder as its work tree.
    return {
        **environment_with_settings,
        "GIT_WORK_TREE": str(metadata_folder.parent),
        "GIT_CEILING_DIRECTORIES": str(metadata_folder.parent.parent),
    }

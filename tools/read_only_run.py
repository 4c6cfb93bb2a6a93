"""A command line that is proved to look: what it shows, and how it is run so that nothing that lies in the working
folder runs with it: its programs come from outside, and git gets the settings that the session's own calls of it
have."""

import os
import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tools.base import ReadOnlyAccess, ToolError, Workspace
from tools.commands.command_line import Command
from tools.commands.proof import proved
from tools.commands.scripts import Operand, Proof
from tools.files.paths import display, granted, locate
from tools.process.shell import Launch, argv_of, child_environment
from tools.secrets.files import SECRET_FILES, SECRET_FOLDERS, SECRET_GLOBS, holds_secrets

_NO_CHILD = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
"""What a repository may turn on for some files or one submodule, which settings do not reach; nor do they the file of
commits that a blame leaves out, which may be any, and of which git tells the lines that are none."""
_GUARDS: Mapping[str, Sequence[str]] = {
    "git status": _NO_CHILD[2:], "git diff": _NO_CHILD, "git log": _NO_CHILD, "git show": _NO_CHILD,
    "git diff-index": _NO_CHILD, "git blame": ("--no-textconv", "--no-ignore-revs-file"),
    "git grep": ("--no-textconv",),
    "rg": ("--no-config", *(f"--iglob=!{glob}" for glob in SECRET_GLOBS)),
}  # fmt: skip
_GREP_GUARDS = (*(f"--exclude={name}" for name in SECRET_FILES), *(f"--exclude-dir={name}" for name in SECRET_FOLDERS))
_BUILTINS = {"echo", "printf", "test", "true", "false", ":", "pwd", "type", "command", "cd"}
"""What the shell itself does."""
_MOST_NAMES = 2_000
"""Names in a folder that a pattern is tried on."""


def read_only_access(command: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """What the command shows; None where it is not proved that it only looks. Raises `ToolError`."""
    found = proved(command)
    if not found:
        return None
    paths, secret = dict[str, None](), ""
    place, shows_folder = "", False
    for _, proof in found:
        named = [path for file in proof.files for path in _paths_of(file, place, workspace)]
        for path, name in named:
            paths[str(path)] = None
            if not (secret or proof.only_names) and (holds_secrets(str(path)) or holds_secrets(name)):
                secret = display(path, workspace.root)
        if proof.name == "cd":
            place = proof.files[0].text
        shows_folder = shows_folder or not (named or proof.name.startswith("git"))
        if proof.name.startswith("git"):
            paths |= dict.fromkeys(_shown_by_git(workspace.root))
    if shows_folder:
        paths[str(workspace.root)] = None
    searches = any(proof.searches for _, proof in found)
    return ReadOnlyAccess("grep" if searches else "read", tuple(paths), secret)


def _shown_by_git(root: Path) -> Iterator[str]:
    from tools.process.git import files_behind_links, top_of_repository  # noqa: PLC0415  # deferred: few sessions plan
    from tools.sandbox.git_metadata import included_settings, metadata_of  # noqa: PLC0415  # deferred: as above

    top = top_of_repository(root)
    yield str(top or root)
    for metadata in dict.fromkeys(metadata_of(top) or ()) if top is not None else ():
        yield from map(str, files_behind_links(metadata))
        yield from included_settings(metadata)  # Git tells a line of such a file that is no setting


def _paths_of(file: Operand, place: str, workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """The files that a word means, with the name that each was called by. Raises `ToolError`."""
    # The program takes a name as it is, so nothing is made of `~` and `@` at its beginning.
    written = posixpath.join(place, file.text)
    folder, pattern = posixpath.split(written)
    names = [written]
    if file.globs:
        if any(sign in folder for sign in "*?[") or "[" in pattern:
            raise ToolError("patterns in the names of folders and `[…]` are not read: name the files, or use glob")
        try:
            inside = os.listdir(workspace.root / folder)[: _MOST_NAMES + 1]
        except OSError:
            inside = []
        if len(inside) > _MOST_NAMES:
            raise ToolError("the pattern may stand for too many files: name them, or use glob")
        names += [posixpath.join(folder, name) for name in inside if fnmatchcase(name, pattern)]
    for name in names:
        yield locate(name if name.startswith("/") else f"./{name}", workspace), name


def launch(command: str, workspace: Workspace) -> Launch:
    """How the command is run. Raises `ToolError`, also where a link leads elsewhere by now."""
    from tools.process.git import folders_outside  # noqa: PLC0415  # deferred: as above

    found, shown = proved(command), read_only_access(command, workspace)
    if not found or shown is None:
        raise ToolError("the command does more than look by now: look at it again")
    for path in shown.paths:
        granted(Path(path), workspace)
    environment = child_environment()
    environment |= {"PATH": folders_outside(workspace.root, environment.get("PATH", ""))}
    environment.pop("RIPGREP_CONFIG_PATH", None)
    if any(proof.name.startswith("git") for _, proof in found):
        environment = _environment_of_git(workspace.root, environment)
    argvs = [_argv(each, proof, workspace.root) for each, proof in found]
    (first, proof), is_shell = found[0], len(found) > 1
    if is_shell or proof.name in _BUILTINS or first.redirections or any(word.globs for word in first.words):
        return Launch(argv_of(_as_line([each for each, _ in found], argvs)), environment)
    return Launch(tuple(argvs[0]), environment)


def _argv(command: Command, proof: Proof, root: Path) -> Sequence[str]:
    """The command as it is run: by its whole path, with what keeps it looking. Raises `ToolError`."""
    from tools.process.git import program_outside  # noqa: PLC0415  # deferred: as above

    name, *given = command.texts
    if proof.name in _BUILTINS:
        return command.texts
    program = program_outside(name, root)
    if program is None:
        raise ToolError(f"there is no program `{name}` outside the working folder: use read, grep or glob")
    guards = _GUARDS.get(proof.name, ())
    if proof.name in ("grep", "egrep", "fgrep"):
        guards = _GREP_GUARDS if any(word.startswith("-") and "r" in word for word in given) else ()
    if proof.name.startswith("git"):
        given = given[1:] if given[:1] == ["--no-pager"] else given
        words = proof.name.count(" ")
        return (program, *given[:words], *guards, *given[words:])
    end = given.index("--") if "--" in given else len(given)
    return (program, *given[:end], *guards, *given[end:])  # of patterns that contradict each other the last one holds


def _as_line(commands: Sequence[Command], argvs: Sequence[Sequence[str]]) -> str:
    """The commands joined as they were, each word quoted but for patterns, which have nothing to quote."""
    parts = list[str]()
    for command, argv in zip(commands, argvs, strict=True):
        patterns = {word.text for word in command.words if word.globs}
        words = [word if word in patterns else shlex.quote(word) for word in argv]
        aside = [f"{one.descriptor}{one.sign}{shlex.quote(one.target.text)}" for one in command.redirections]
        parts += [command.joint if parts else "", *words, *aside]
    return " ".join(part for part in parts if part)


def _environment_of_git(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    from tools.process.git import (  # noqa: PLC0415  # deferred: as above
        SETTINGS,
        GitError,
        git_environment,
        program_outside,
        run_git,
        top_of_repository,
        without_filters,
    )

    program = program_outside("git", root)
    if program is None:
        raise ToolError("there is no program `git` outside the working folder: use read, grep or glob")
    top = top_of_repository(root)
    try:
        metadata = run_git(program, root, SETTINGS, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")
        settings = {**SETTINGS, **without_filters(program, root)}
    except GitError as error:
        raise ToolError(f"git was not run: {error}") from error
    kept = None if top is None else top / ".git"
    if kept is None or (kept.is_dir() and os.path.realpath(os.fsdecode(metadata)) != os.path.realpath(kept)):
        # Outside a repository git compares whatever two folders hold.
        raise ToolError("git was not run: this folder is in no git repository that git can read")
    made = git_environment(settings, environment)
    # Its settings may name another folder as the one whose files it shows.
    return {**made, "GIT_WORK_TREE": str(kept.parent), "GIT_CEILING_DIRECTORIES": str(kept.parent.parent)}

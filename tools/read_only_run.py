"""A command line that is proved to look: what it shows, and how it is run so that nothing that lies in the working
folder runs with it: its programs come from outside, and git gets the settings that the session's own calls of it
have."""

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import which

from tools.base import ReadOnlyAccess, ToolError, Workspace
from tools.commands.command_line import Command
from tools.commands.loops import written_out
from tools.commands.proof import proved
from tools.commands.scripts import Operand, Proof
from tools.files.paths import display, granted, locate
from tools.lazy import regex
from tools.outputs.extent import listed
from tools.process.shell import Launch, argv_of, child_environment
from tools.secrets.files import SECRET_FILES, SECRET_FOLDERS, SECRET_GLOBS, holds_secrets

_NO_CHILD = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""What a repository may turn on for some files or one submodule, which settings do not reach; nor do they the file of
commits that a blame leaves out, which may be any, and of which git tells the lines that are none. To tell whether
something in a submodule is not committed, git would run itself there, with the settings and filters of that one; which
commit is checked out there it reads by itself."""
_GUARDS: Mapping[str, Sequence[str]] = {
    "git status": _NO_CHILD[2:], "git diff": _NO_CHILD, "git log": _NO_CHILD, "git show": _NO_CHILD,
    "git diff-index": _NO_CHILD, "git blame": ("--no-textconv", "--no-ignore-revs-file"),
    "git grep": ("--no-textconv",),
    "rg": ("--no-config", *(f"--iglob=!{glob}" for glob in SECRET_GLOBS)),
}  # fmt: skip
_GREP_GUARDS = (*(f"--exclude={name}" for name in SECRET_FILES), *(f"--exclude-dir={name}" for name in SECRET_FOLDERS))
_BUILTINS = {"echo", "printf", "test", "true", "false", ":", "pwd", "type", "command", "cd", "set"}
"""What the shell itself does."""
_LOOKUPS = {"type", "command", "which"}
"""What says which program a name stands for, and runs none."""
_DRIVE = regex("[A-Za-z]:")
_PLAIN_PATH = regex(r"[\w./@+-]+")
"""A path that the shell reads as it is written."""
_PIPES = ("|", "|&")
_ENDLESS = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Devices that show nothing of anybody."""
_NO_REPOSITORY = "git was not run: this folder is in no git repository that git can read"
_MOST_SUBMODULES = 5
_MOST_NAMES = 2_000
"""Names in a folder that a pattern is tried on."""


def read_only_access(line: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """What the command shows; None where it is not proved that it only looks. Raises `ToolError`."""
    found = proved(_written_out(line, workspace))
    if not found:
        return None
    paths, secret = dict[str, None](), ""
    places, shows_folder = [""], False
    for at, (command, proof) in enumerate(found):
        _program_of(command, proof, workspace)  # who is not asked must not be told afterwards that it did not run
        if places != [""] and command.joint not in ("&&", *(_PIPES if at > 1 else ())):
            places.append("")  # it also runs where the folder was not entered
        named = [path for file in proof.files for place in places for path in _paths_of(file, place, workspace)]
        for path, name in named:
            paths[str(path)] = None
            if not (secret or proof.only_names) and (holds_secrets(str(path)) or holds_secrets(name)):
                secret = display(path, workspace.root)
        if proof.name == "cd":
            places = [proof.files[0].text]
        shows_folder = shows_folder or not (named or proof.name.startswith("git"))
        if proof.name.startswith("git"):
            paths |= dict.fromkeys(_shown_by_git(workspace.root))
    if shows_folder:
        paths[str(workspace.root)] = None
    searches = any(proof.searches for _, proof in found)
    return ReadOnlyAccess("grep" if searches else "read", tuple(paths), secret)


def _written_out(line: str, workspace: Workspace) -> str:
    """The line without `cd` into the working folder at its start, and with its loops written out. A pattern behind `cd`
    stands for other names, so none is looked up there."""
    line = _without_own_folder(line, workspace.root)
    is_moved = re.search(r"\bcd\b", line) is not None

    def names(pattern: str) -> Sequence[str]:
        folder, _, name = pattern.rpartition("/")
        if is_moved or any(sign in folder for sign in "*?"):
            return ()
        try:
            inside = os.listdir(workspace.root / folder)
        except OSError:
            return ()
        found = (each for each in inside if fnmatchcase(each, name) and (each[:1] != "." or name[:1] == "."))
        return sorted(posixpath.join(folder, each) for each in found)

    return written_out(line, names)


def _without_own_folder(line: str, root: Path) -> str:
    """The line without `cd ROOT &&` at its start, which changes nothing where it begins in that folder."""
    if not _PLAIN_PATH.fullmatch(str(root)):
        return line
    return re.sub(rf"\A\s*cd (['\"]?){re.escape(str(root))}/?\1 *&& *(?=\w)", "", line)


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
    if written in _ENDLESS:
        return
    if _DRIVE.match(file.text):
        raise ToolError(f"`{file.text}` may be on another drive: use read")
    folder, pattern = posixpath.split(written.rstrip("/") if file.globs else written)
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

    found, shown = proved(_written_out(command, workspace)), read_only_access(command, workspace)
    if not found or shown is None:
        raise ToolError("the command does more than look by now: look at it again")
    for path in shown.paths:
        granted(Path(path), workspace)
    environment = child_environment()
    path = _search_path(workspace)
    environment |= {"PATH": folders_outside(workspace.root, path)}
    environment.pop("RIPGREP_CONFIG_PATH", None)
    if any(proof.name.startswith("git") for _, proof in found):
        environment = _environment_of_git(workspace.root, environment)
    argvs = [_argv(each, proof, workspace) for each, proof in found]
    (first, proof), is_shell = found[0], len(found) > 1 or found[0][1].name in _LOOKUPS
    if is_shell or proof.name in _BUILTINS or first.redirections or any(word.globs for word in first.words):
        return Launch(argv_of(_as_line(found, argvs, path)), environment)
    return Launch(tuple(argvs[0]), environment)


def unseen_changes(command: str, workspace: Workspace) -> str:
    """Which changes a look of git at files does not show, in words: those in submodules that are not committed there.
    Empty where there are no submodules, and of other commands."""
    found = proved(_written_out(command, workspace))
    looks = (set(each.texts) for each, proof in found if proof.name in ("git status", "git diff"))
    if all(words & {"--cached", "--staged"} for words in looks):
        return ""
    from tools.process.git import top_of_repository  # noqa: PLC0415  # deferred: as above
    from tools.sandbox.git_metadata import submodule_paths  # noqa: PLC0415  # deferred: as above

    top = top_of_repository(workspace.root)
    names = submodule_paths(top) if top is not None else []
    return f"not shown: uncommitted changes inside submodules ({listed(names, _MOST_SUBMODULES)})" if names else ""


def _search_path(workspace: Workspace) -> str:
    """Where a shell of the session looks for programs."""
    return workspace.variables.get("PATH") or os.environ.get("PATH", os.defpath)


def _program_of(command: Command, proof: Proof, workspace: Workspace) -> str:
    """The path of the program that is run, outside the working folder; the name of what the shell does itself. Raises
    `ToolError`."""
    from tools.process.git import folders_outside, program_outside, top_of_repository  # noqa: PLC0415  # deferred: as above

    name, root, path = command.texts[0], workspace.root, _search_path(workspace)
    program = name if proof.name in _BUILTINS else program_outside(name, root)
    if program is None:
        raise ToolError(f"there is no program `{name}` outside the working folder: use read, grep or glob")
    if proof.name == "version" and which(name, path=path) != which(name, path=folders_outside(root, path)):
        raise ToolError(f"`{name}` lies in the working folder, whose programs are not run")
    if proof.name.startswith("git") and top_of_repository(root) is None:
        raise ToolError(_NO_REPOSITORY)
    return program


def _argv(command: Command, proof: Proof, workspace: Workspace) -> Sequence[str]:
    """The command as it is run: by its whole path, with what keeps it looking. Raises `ToolError`."""
    program, given = _program_of(command, proof, workspace), command.texts[1:]
    if proof.name in _BUILTINS:
        return command.texts
    if proof.names_from:
        end = proof.names_from - 1
        return (program, *given[:end], "--", *given[end:])  # no name is taken for an option
    guards = _GUARDS.get(proof.name, ())
    if proof.name in ("grep", "egrep", "fgrep"):
        guards = _GREP_GUARDS if any(word.startswith("-") and "r" in word for word in given) else ()
    if proof.name.startswith("git"):
        given = given[1:] if given[:1] == ("--no-pager",) else given
        words = proof.name.count(" ")
        return (program, *given[:words], *guards, *given[words:])
    end = given.index("--") if "--" in given else len(given)
    return (program, *given[:end], *guards, *given[end:])  # of patterns that contradict each other the last one holds


def _as_line(found: Sequence[tuple[Command, Proof]], argvs: Sequence[Sequence[str]], path: str) -> str:
    """The commands joined as they were, each word quoted but for patterns, which have nothing to quote."""
    parts = list[str]()
    for (command, proof), argv in zip(found, argvs, strict=True):
        patterns = {word.text for word in command.words if word.globs}
        with_status = {word.text for word in command.words if word.has_status}
        words = [
            word if word in patterns else _with_status(word) if word in with_status else shlex.quote(word)
            for word in argv
        ]
        aside = [f"{one.descriptor}{one.sign}{shlex.quote(one.target.text)}" for one in command.redirections]
        sought = f"PATH={shlex.quote(path)}" if proof.name in _LOOKUPS else ""
        parts += [command.joint if parts else "", sought, *words, *aside]
    return " ".join(part for part in parts if part)


def _with_status(word: str) -> str:
    """A word in which `$?` stands for the exit code of the command before, quoted but for that."""
    return '"$?"'.join(shlex.quote(part) if part else "" for part in word.split("$?"))


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
        raise ToolError(_NO_REPOSITORY)
    made = git_environment(settings, environment)
    # Its settings may name another folder as the one whose files it shows.
    return {**made, "GIT_WORK_TREE": str(kept.parent), "GIT_CEILING_DIRECTORIES": str(kept.parent.parent)}

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

from ebbtide.tools.base import ReadOnlyAccess, ToolError, Workspace
from ebbtide.tools.commands.command_line import SimpleCommand, Word
from ebbtide.tools.commands.line_proof import ProvedStep, all_steps, prove_line
from ebbtide.tools.commands.line_text import render_line
from ebbtide.tools.commands.parts import replace_values, take_assignments
from ebbtide.tools.commands.scripts import Operand, Proof
from ebbtide.tools.files.paths import check_granted, display, locate
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.process.shell import Launch, argv_of, child_environment
from ebbtide.tools.secrets.files import SECRET_FILES, SECRET_FOLDERS, SECRET_GLOBS, any_case_pattern, holds_secrets

_NO_CHILD = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
"""What a repository may turn on for some files or one submodule, which settings do not reach; nor do they the file of
commits that a blame leaves out, which may be any, and of which git tells the lines that are none. To tell whether
something in a submodule is not committed, git would run itself there, with the settings and filters of that one; which
commit is checked out there it reads by itself."""
_GUARDS: Mapping[str, Sequence[str]] = {
    "git status": _NO_CHILD[2:], "git diff": _NO_CHILD, "git log": _NO_CHILD, "git show": _NO_CHILD,
    "git diff-index": _NO_CHILD, "git blame": ("--no-textconv", "--no-ignore-revs-file"),
    "git grep": ("--no-textconv",),
    "npm ls": ("--logs-max=0", "--no-update-notifier"),
    "rg": ("--no-config", *(f"--iglob=!{glob}" for glob in SECRET_GLOBS)),
}  # fmt: skip
_GREP_GUARDS = (
    *(f"--exclude={any_case_pattern(name)}" for name in SECRET_FILES),
    *(f"--exclude-dir={any_case_pattern(name)}" for name in SECRET_FOLDERS),
)
_BUILTINS = {"echo", "printf", "test", "true", "false", ":", "pwd", "type", "command", "cd", "set", "exit", "group"}
"""What the shell itself does."""
_LOOKUPS = {"type", "command", "which"}
"""What says which program a name stands for, and runs none."""
_DRIVE = regex("[A-Za-z]:")
_PLAIN_PATH = regex(r"[\w./@+-]+")
"""A path that the shell reads as it is written."""
_HARMLESS = ("HOME", "USER", "LOGNAME", "SHELL", "LANG")
"""Variables whose values anybody may read."""
_MEANS_SOMETHING = regex(
    "(?:BASH|LC_|HIST|COMP|OPT|PS[0-9]|LANG|PATH|IFS|ENV|CDPATH|GLOB|POSIX|HOME|PWD|OLDPWD|TZ|TIME|TMOUT|RANDOM|SECONDS"
    "|LINENO|REPLY|SHELL|UID|EUID|PPID|FUN|GREP_|GIT_|LS_|TERM|COLUMNS|LINES|MAIL|DIRSTACK|EPOCH|SRANDOM|HOST|EXECIGNORE)"
)
"""Variables that mean something to the shell, or to programs."""
_PIPES = ("|", "|&")
_ENDLESS = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Devices that show nothing of anybody."""
_NO_REPOSITORY = "git was not run: this folder is in no git repository that git can read"
_MAX_SUBMODULES = 5
_MAX_NAMES = 2_000
"""Names in a folder that a pattern is tried on."""


def read_only_access(line: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """What the command shows; None where it is not proved that it only looks. Raises `ToolError`."""
    steps = _prove(line, workspace)
    if not steps:
        return None
    shown = _ShownFiles(workspace)
    shown.add(steps, [""])
    if shown.shows_folder:
        shown.paths[str(workspace.root)] = None
    searches = any(step.proof.searches or step.proof.shows_found for step in all_steps(steps))
    return ReadOnlyAccess("grep" if searches else "read", tuple(shown.paths), shown.secret)


class _ShownFiles:
    """The files that commands show, collected."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.secret, self.shows_folder = workspace, "", False
        self.paths = dict[str, None]()

    def add(self, steps: Sequence[ProvedStep], places: list[str]) -> None:
        """`places`: the folders that the commands may be run in. Raises `ToolError`."""
        for at, step in enumerate(steps):
            command, proof = step.command, step.proof
            _program_of(command, proof, self.workspace)  # who is not asked is not told afterwards that it did not run
            if len(places) == 1 and places != [""] and command.joint not in ("&&", *(_PIPES if at > 1 else ())):
                places.append("")  # it also runs where the folder was not entered
            found = (_paths_of(file, place, self.workspace) for file in proof.files for place in places)
            named = [path for paths in found for path in paths]
            self.add_files(named, proof)
            for part in step.parts.values():
                for line in part.lines:
                    self.add(line, [*places])
            if proof.name == "cd":
                places[:] = [posixpath.join(place, proof.files[0].text) for place in places]
            self.shows_folder = self.shows_folder or not (named or step.is_group or proof.name.startswith("git"))
            if proof.name.startswith("git"):
                self.paths |= dict.fromkeys(_git_readable_paths(self.workspace.root))

    def add_files(self, named: Sequence[tuple[Path, str]], proof: Proof) -> None:
        for path, name in named:
            self.paths[str(path)] = None
            is_secret = holds_secrets(str(path)) or holds_secrets(name) or (proof.shows_found and path.name == ".git")
            if is_secret and not (self.secret or proof.only_names):
                self.secret = display(path, self.workspace.root)


def _prove(line: str, workspace: Workspace) -> tuple[ProvedStep, ...]:
    """The commands of a line with the values of its variables put in."""

    def names(pattern: str) -> Sequence[str]:
        try:
            return sorted(_names_for(pattern, workspace.root))
        except ToolError:
            return ()

    plain = _expand_values(_without_own_folder(line, workspace.root), workspace.root)
    return prove_line(plain, os.urandom(8).hex(), names)


def _expand_values(line: str, root: Path) -> str:
    """The line with the values of variables that it sets at its beginning, and of those that every session has."""
    if "$" not in line:
        return line
    environment = child_environment()
    text, values = take_assignments(line)
    names = {name for name, _ in values}
    if not names.isdisjoint(environment) or any(map(_MEANS_SOMETHING.match, names)):
        return line
    moves = re.search(r"\b(?:cd|read|for)\b", text) is not None
    known = [(name, environment[name]) for name in _HARMLESS if name in environment]
    return replace_values(text, [*values, *known, *(() if moves else [("PWD", str(root))])])


def _without_own_folder(line: str, root: Path) -> str:
    """The line without `cd ROOT &&` and `git -C ROOT` at its start, which change nothing where it begins there."""
    if not _PLAIN_PATH.fullmatch(str(root)):
        return line
    own = re.escape(str(root))
    line = re.sub(rf"\A\s*cd (['\"]?){own}/?\1 *&& *(?=\w)", "", line)
    return re.sub(rf"\A\s*git +-C +(['\"]?)(?:{own}/?|\.)\1 +(?=[a-z])", "git ", line)


def _git_readable_paths(root: Path) -> Iterator[str]:
    from ebbtide.tools.process.git import files_behind_links, top_of_repository  # noqa: PLC0415  # deferred: few sessions plan
    from ebbtide.tools.sandbox.git_metadata import included_settings, metadata_of  # noqa: PLC0415  # deferred: as above

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
    names = [written, *_names_for(written, workspace.root)] if file.globs else [written]
    for name in names:
        yield locate(name if name.startswith("/") else f"./{name}", workspace), name


def _names_for(pattern: str, root: Path) -> Sequence[str]:
    """The files that the shell may put in the place of a pattern. Raises `ToolError` where they are too many, or are
    not known."""
    if "[" in pattern:
        raise ToolError("patterns with `[…]` are not read: name the files, or use glob")
    found, left = ["/" if pattern.startswith("/") else ""], _MAX_NAMES
    for part in filter(None, pattern.split("/")):
        if not ("*" in part or "?" in part):
            found = [posixpath.join(folder, part) for folder in found]
            continue
        matched = list[str]()
        for folder in found:
            inside = _list_folder(root / folder, left)
            left -= len(inside)
            matched += [posixpath.join(folder, name) for name in inside if _stands_for(part, name)]
        found = matched
    if pattern.endswith("/"):
        return [f"{name}/" for name in found if (root / name).is_dir()]
    return [name for name in found if os.path.lexists(root / name)]


def _stands_for(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) and (name[:1] != "." or pattern[:1] == ".")


def _list_folder(folder: Path, most: int) -> Sequence[str]:
    try:
        inside = os.listdir(folder)
    except OSError:
        return ()
    if len(inside) > most:
        raise ToolError("the pattern may stand for too many files: name them, or use glob")
    return inside


def launch(command: str, workspace: Workspace) -> Launch:
    """How the command is run. Raises `ToolError`, also where a link leads elsewhere by now."""
    from ebbtide.tools.process.git import folders_outside  # noqa: PLC0415  # deferred: as above

    steps, shown = _prove(command, workspace), read_only_access(command, workspace)
    if not steps or shown is None:
        raise ToolError("the command does more than look by now: look at it again")
    for path in shown.paths:
        check_granted(Path(path), workspace)
    environment = child_environment()
    path = _search_path(workspace)
    environment |= {"PATH": folders_outside(workspace.root, path)}
    environment.pop("RIPGREP_CONFIG_PATH", None)
    if any(step.proof.name.startswith("git") for step in all_steps(steps)):
        environment = _environment_of_git(workspace.root, environment)
    (step, *others), words = steps, _argv(steps[0], workspace)
    is_shell = others or step.parts or step.settings or step.proof.name in _LOOKUPS | _BUILTINS
    if is_shell or step.command.redirections or any(word.globs for word in words):
        return Launch(argv_of(render_line(steps, lambda each: _write_step(each, workspace, path))), environment)
    return Launch(tuple(word.text for word in words), environment)


def _write_step(step: ProvedStep, workspace: Workspace, path: str) -> tuple[str, Sequence[Word]]:
    """What stands before a command in the line that is run, and its words."""
    sought = (f"PATH={shlex.quote(path)}",) if step.proof.name in _LOOKUPS else ()
    return " ".join((*step.settings, *sought)), _argv(step, workspace)


def unseen_changes(command: str, workspace: Workspace) -> str:
    """Which changes a look of git at files does not show, in words: those in submodules that are not committed there.
    Empty where there are no submodules, and of other commands."""
    steps = all_steps(_prove(command, workspace))
    looks = (set(step.command.texts) for step in steps if step.proof.name in ("git status", "git diff"))
    if all(words & {"--cached", "--staged"} for words in looks):
        return ""
    from ebbtide.tools.process.git import top_of_repository  # noqa: PLC0415  # deferred: as above
    from ebbtide.tools.sandbox.git_metadata import submodule_paths  # noqa: PLC0415  # deferred: as above

    top = top_of_repository(workspace.root)
    names = submodule_paths(top) if top is not None else []
    return f"not shown: uncommitted changes inside submodules ({join_limited(names, _MAX_SUBMODULES)})" if names else ""


def _search_path(workspace: Workspace) -> str:
    """Where a shell of the session looks for programs."""
    return workspace.variables.get("PATH") or os.environ.get("PATH", os.defpath)


def _program_of(command: SimpleCommand, proof: Proof, workspace: Workspace) -> str:
    """The path of the program that is run, outside the working folder; the name of what the shell does itself. Raises
    `ToolError`."""
    from ebbtide.tools.process.git import folders_outside, program_outside, top_of_repository  # noqa: PLC0415  # deferred: as above

    name, root, path = command.texts[0], workspace.root, _search_path(workspace)
    program = name if proof.name in _BUILTINS else program_outside(name, root)
    if program is None:
        raise ToolError(f"there is no program `{name}` outside the working folder: use read, grep or glob")
    if proof.name == "version" and which(name, path=path) != which(name, path=folders_outside(root, path)):
        raise ToolError(f"`{name}` lies in the working folder, whose programs are not run")
    if proof.name == "npm ls":
        from ebbtide.tools.npm_packages import npm_doubt  # noqa: PLC0415  # deferred: few commands ask npm

        if doubt := npm_doubt(root):
            raise ToolError(f"npm was not run: {doubt}")
    if proof.name.startswith("git") and top_of_repository(root) is None:
        raise ToolError(_NO_REPOSITORY)
    return program


def _argv(step: ProvedStep, workspace: Workspace) -> Sequence[Word]:
    """The command as it is run: by its whole path, with what keeps it looking. Raises `ToolError`."""
    command, proof = step.command, step.proof
    program = Word(_program_of(command, proof, workspace))
    given = command.words[1:]
    texts = command.texts[1:]
    if proof.name in _BUILTINS or step.is_group:
        return command.words
    if proof.names_from:
        end = proof.names_from - 1
        return (program, *given[:end], Word("--"), *given[end:])  # no name is taken for an option
    guards = _GUARDS.get(proof.name, ())
    if proof.name in ("grep", "egrep", "fgrep"):
        guards = _GREP_GUARDS if any(text.startswith("-") and "r" in text for text in texts) else ()
    if proof.name.startswith("git"):
        given = given[1:] if texts[:1] == ("--no-pager",) else given
        words = proof.name.count(" ")
        return (program, *given[:words], *map(Word, guards), *given[words:])
    end = texts.index("--") if "--" in texts else len(texts)
    # Of patterns that contradict each other the last one holds.
    return (program, *given[:end], *map(Word, guards), *given[end:])


def _environment_of_git(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    from ebbtide.tools.process.git import (  # noqa: PLC0415  # deferred: as above
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

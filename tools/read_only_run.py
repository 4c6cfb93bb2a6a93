"""Read-only command lines: what they show, and how to run them so that nothing in the working folder is executed.
Programs come from outside it, and git gets the settings of the session's own git calls."""

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
"""Features that a repository may enable per file or submodule, out of reach of settings.

The same goes for the ignore-revs file of `git blame`, which may be any file, and whose invalid lines git prints. To
detect uncommitted changes in a submodule, git would run inside it with that submodule's settings and filters; the
commit checked out there it reads itself.
"""
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
"""Commands run by the shell itself."""
_LOOKUPS = {"type", "command", "which"}
"""Commands that say which program a name refers to, without running it."""
_DRIVE = regex("[A-Za-z]:")
_PLAIN_PATH = regex(r"[\w./@+-]+")
"""A path that the shell takes literally."""
_HARMLESS = ("HOME", "USER", "LOGNAME", "SHELL", "LANG")
"""Variables whose values are harmless to reveal."""
_MEANS_SOMETHING = regex(
    "(?:BASH|LC_|HIST|COMP|OPT|PS[0-9]|LANG|PATH|IFS|ENV|CDPATH|GLOB|POSIX|HOME|PWD|OLDPWD|TZ|TIME|TMOUT|RANDOM|SECONDS"
    "|LINENO|REPLY|SHELL|UID|EUID|PPID|FUN|GREP_|GIT_|LS_|TERM|COLUMNS|LINES|MAIL|DIRSTACK|EPOCH|SRANDOM|HOST|EXECIGNORE)"
)
"""Variables with a meaning to the shell or to programs."""
_PIPES = ("|", "|&")
_ENDLESS = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Devices whose content is private to no user."""
_NO_REPOSITORY = "git was not run: this folder is not in a git repository that git can read"
_MAX_SUBMODULES = 5
_MAX_NAMES = 2_000
"""Maximum number of names in a folder matched against a pattern."""


def read_only_access(line: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """Return what the command shows, or None if it is not proved to be read-only. Raises `ToolError`."""
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
    """Collects the files that commands show."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.secret, self.shows_folder = workspace, "", False
        self.paths = dict[str, None]()

    def add(self, steps: Sequence[ProvedStep], places: list[str]) -> None:
        """`places`: the folders that the commands may run in. Raises `ToolError`."""
        for at, step in enumerate(steps):
            command, proof = step.command, step.proof
            _program_of(command, proof, self.workspace)  # fail now rather than after the user has approved
            if len(places) == 1 and places != [""] and command.joint not in ("&&", *(_PIPES if at > 1 else ())):
                places.append("")  # it also runs if `cd` failed
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
    """Return the commands of a line with its variables expanded."""

    def names(pattern: str) -> Sequence[str]:
        try:
            return sorted(_names_for(pattern, workspace.root))
        except ToolError:
            return ()

    plain = _expand_values(_without_own_folder(line, workspace.root), workspace.root)
    return prove_line(plain, os.urandom(8).hex(), names)


def _expand_values(line: str, root: Path) -> str:
    """Return the line with its own leading assignments and the session's variables expanded."""
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
    """Return the line without a leading `cd ROOT &&` or `git -C ROOT`, which change nothing there."""
    if not _PLAIN_PATH.fullmatch(str(root)):
        return line
    own = re.escape(str(root))
    line = re.sub(rf"\A\s*cd (['\"]?){own}/?\1 *&& *(?=\w)", "", line)
    return re.sub(rf"\A\s*git +-C +(['\"]?)(?:{own}/?|\.)\1 +(?=[a-z])", "git ", line)


def _git_readable_paths(root: Path) -> Iterator[str]:
    from ebbtide.tools.process.git import files_behind_links, top_of_repository  # noqa: PLC0415  # deferred: rare
    from ebbtide.tools.sandbox.git_metadata import included_settings, metadata_of  # noqa: PLC0415  # deferred: as above

    top = top_of_repository(root)
    yield str(top or root)
    for metadata in dict.fromkeys(metadata_of(top) or ()) if top is not None else ():
        yield from map(str, files_behind_links(metadata))
        yield from included_settings(metadata)  # git prints invalid lines of such files


def _paths_of(file: Operand, place: str, workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """Yield the files that a word refers to, with the name each was given. Raises `ToolError`."""
    # Programs take names literally, so a leading `~` or `@` is not expanded.
    written = posixpath.join(place, file.text)
    if written in _ENDLESS:
        return
    if _DRIVE.match(file.text):
        raise ToolError(f"`{file.text}` may be on another drive: use read")
    names = [written, *_names_for(written, workspace.root)] if file.globs else [written]
    for name in names:
        yield locate(name if name.startswith("/") else f"./{name}", workspace), name


def _names_for(pattern: str, root: Path) -> Sequence[str]:
    """Return the files that the shell may expand a pattern to. Raises `ToolError` if they are too many or unknown."""
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
        raise ToolError("the pattern may match too many files: name them, or use glob")
    return inside


def launch(command: str, workspace: Workspace) -> Launch:
    """Return how the command is run. Raises `ToolError`, also if a link now leads elsewhere."""
    from ebbtide.tools.process.git import folders_outside  # noqa: PLC0415  # deferred: as above

    steps, shown = _prove(command, workspace), read_only_access(command, workspace)
    if not steps or shown is None:
        raise ToolError("the command is no longer read-only: check it again")
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
    """Return the assignments before a command in the line that is run, and its words."""
    sought = (f"PATH={shlex.quote(path)}",) if step.proof.name in _LOOKUPS else ()
    return " ".join((*step.settings, *sought)), _argv(step, workspace)


def unseen_changes(command: str, workspace: Workspace) -> str:
    """Return which changes `git status` and `git diff` do not show: uncommitted ones in submodules. Empty if there are
    no submodules, and for other commands."""
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
    """Return the `PATH` of the session's shells."""
    return workspace.variables.get("PATH") or os.environ.get("PATH", os.defpath)


def _program_of(command: SimpleCommand, proof: Proof, workspace: Workspace) -> str:
    """Return the path of the program, outside the working folder, or the name of a shell builtin. Raises
    `ToolError`."""
    from ebbtide.tools.process.git import folders_outside, program_outside, top_of_repository  # noqa: PLC0415  # deferred: as above

    name, root, path = command.texts[0], workspace.root, _search_path(workspace)
    program = name if proof.name in _BUILTINS else program_outside(name, root)
    if program is None:
        raise ToolError(f"there is no program `{name}` outside the working folder: use read, grep or glob")
    if proof.name == "version" and which(name, path=path) != which(name, path=folders_outside(root, path)):
        raise ToolError(f"`{name}` is in the working folder, whose programs are not run")
    if proof.name == "npm ls":
        from ebbtide.tools.npm_packages import npm_doubt  # noqa: PLC0415  # deferred: few commands use npm

        if doubt := npm_doubt(root):
            raise ToolError(f"npm was not run: {doubt}")
    if proof.name.startswith("git") and top_of_repository(root) is None:
        raise ToolError(_NO_REPOSITORY)
    return program


def _argv(step: ProvedStep, workspace: Workspace) -> Sequence[Word]:
    """Return the command as it is run: with its absolute path and the options that keep it read-only. Raises
    `ToolError`."""
    command, proof = step.command, step.proof
    program = Word(_program_of(command, proof, workspace))
    given = command.words[1:]
    texts = command.texts[1:]
    if proof.name in _BUILTINS or step.is_group:
        return command.words
    if proof.names_from:
        end = proof.names_from - 1
        return (program, *given[:end], Word("--"), *given[end:])  # so that no name is read as an option
    guards = _GUARDS.get(proof.name, ())
    if proof.name in ("grep", "egrep", "fgrep"):
        guards = _GREP_GUARDS if any(text.startswith("-") and "r" in text for text in texts) else ()
    if proof.name.startswith("git"):
        given = given[1:] if texts[:1] == ("--no-pager",) else given
        words = proof.name.count(" ")
        return (program, *given[:words], *map(Word, guards), *given[words:])
    end = texts.index("--") if "--" in texts else len(texts)
    # With contradictory patterns, the last one wins.
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
        # Outside a repository, git compares any two folders.
        raise ToolError(_NO_REPOSITORY)
    made = git_environment(settings, environment)
    # Its settings may name another folder as the work tree.
    return {**made, "GIT_WORK_TREE": str(kept.parent), "GIT_CEILING_DIRECTORIES": str(kept.parent.parent)}

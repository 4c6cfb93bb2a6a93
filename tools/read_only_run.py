"""A command that is proved to look: what it shows, and how it is run so that nothing that lies in the working folder
runs with it: its programs come from outside, and git gets the settings that the session's own calls of it have."""

import os
from collections.abc import Mapping
from pathlib import Path

from tools.base import ReadOnlyAccess, ToolError, Workspace
from tools.commands.read_only import SECRET_GLOBS, ReadOnlyCommand, holds_secrets, read_only_command
from tools.files.paths import display, granted, locate
from tools.process.shell import Launch, child_environment

_NO_CHILD = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
"""What a repository may turn on for some files or one submodule, which settings do not reach."""


def read_only_access(command: str, workspace: Workspace) -> ReadOnlyAccess | None:
    """What the command shows; None where it is not proved that it only looks. Raises `ToolError`."""
    found = read_only_command(command)
    if found is None:
        return None
    # The program takes a name as it is, so nothing is made of `~` and `@` at its beginning.
    paths = [locate(name if name.startswith("/") else f"./{name}", workspace) for name in found.operands]
    names = dict(zip(map(str, paths), found.operands, strict=True))
    secret = next((path for path, name in names.items() if holds_secrets(path) or holds_secrets(name)), "")
    if found.program == "git":
        from tools.process.git import top_of_repository  # noqa: PLC0415  # deferred: few sessions plan

        paths.append(top_of_repository(workspace.root) or workspace.root)
    shown = tuple(dict.fromkeys(map(str, paths or [workspace.root])))
    secret = display(Path(secret), workspace.root) if secret else ""
    return ReadOnlyAccess("grep" if found.searches else "read", shown, secret)


def launch(command: str, workspace: Workspace) -> Launch:
    """How the command is run. Raises `ToolError`, also where a link leads elsewhere by now."""
    from tools.process.git import folders_outside, program_outside  # noqa: PLC0415  # deferred: as above

    found, shown = read_only_command(command), read_only_access(command, workspace)
    if found is None or shown is None:
        raise ToolError("the command does more than look by now: look at it again")
    for path in shown.paths:
        granted(Path(path), workspace)
    program = program_outside(found.program, workspace.root)
    if program is None:
        raise ToolError(f"there is no program `{found.program}` outside the working folder: use read, grep or glob")
    environment = child_environment()
    environment |= {"PATH": folders_outside(workspace.root, environment.get("PATH", ""))}
    environment.pop("RIPGREP_CONFIG_PATH", None)
    if found.program == "git":
        return _launch_of_git(found, program, workspace.root, environment)
    more = ("--no-config", *(f"--iglob=!{glob}" for glob in SECRET_GLOBS)) if found.program == "rg" else ()
    end = found.arguments.index("--") if "--" in found.arguments else len(found.arguments)
    return Launch((program, *found.arguments[:end], *more, *found.arguments[end:]), environment)


def _launch_of_git(found: ReadOnlyCommand, program: str, root: Path, environment: Mapping[str, str]) -> Launch:
    from tools.process.git import (  # noqa: PLC0415  # deferred: as above
        SETTINGS,
        GitError,
        git_environment,
        run_git,
        top_of_repository,
        without_filters,
    )

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
    made |= {"GIT_WORK_TREE": str(kept.parent), "GIT_CEILING_DIRECTORIES": str(kept.parent.parent)}
    command, *rest = found.arguments[1:] if found.arguments[0] == "--no-pager" else found.arguments
    guards = _NO_CHILD[2:] if command == "status" else _NO_CHILD
    return Launch((program, command, *guards, *rest), made)

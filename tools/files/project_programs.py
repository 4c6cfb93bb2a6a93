"""Checks that the project's programs started by a line are what their names say."""

import os
from collections.abc import Sequence

from ebbtide.tools.base import Workspace
from ebbtide.tools.commands.command_line import SimpleCommand
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.launchers import tool_launch, venv_bin_folder

_MOVES = {"cd", "pushd", "popd"}


def trusted_launches(line: str, workspace: Workspace) -> frozenset[tuple[str, ...]]:
    """Return the words of commands that start the tool they name although their words alone do not prove it
    (`ToolLaunch.is_in_doubt`), and of those that activate an environment."""
    commands = parse_command_line(line).commands
    is_here = not any(command.texts[:1] and command.texts[0] in _MOVES for command in commands)
    return frozenset(
        command.texts for command in commands if _is_as_named(command, commands, workspace, is_here=is_here)
    )


def _is_as_named(
    command: SimpleCommand, commands: Sequence[SimpleCommand], workspace: Workspace, *, is_here: bool
) -> bool:
    folder = venv_bin_folder(command.texts)
    if folder:
        words = {word for each in commands for word in each.texts if "/" not in word}
        started = (os.path.join(folder, name) for name in words if os.path.lexists(workspace.root / folder / name))
        return is_here and _are_older((f"{folder}/activate", *started), workspace)
    launch = tool_launch(command.words)
    if launch is None or not launch.is_in_doubt:
        return False
    is_installed = not launch.fetched or os.path.lexists(workspace.root / "node_modules" / ".bin" / launch.fetched)
    return (
        (is_here or not (launch.programs or launch.fetched))
        and is_installed
        and _are_older(launch.programs, workspace)
        and (not launch.runs_more or _is_sandboxed(workspace))
    )


def _are_older(programs: Sequence[str], workspace: Workspace) -> bool:
    """Whether the programs existed before the session and have not changed since: a program written by the model is not
    the tool of its name. No program can set back a file's change time."""
    try:
        paths = [workspace.root / program for program in programs]
        return all(status.st_ctime < workspace.since for path in paths for status in (path.lstat(), path.stat()))
    except OSError:
        return False


def _is_sandboxed(workspace: Workspace) -> bool:
    """Whether commands run in a sandbox."""
    from ebbtide.tools.sandbox.system import NoSandbox, found_sandbox  # noqa: PLC0415  # deferred: slow, rarely needed

    return workspace.sandbox is not None and not isinstance(found_sandbox(), NoSandbox)

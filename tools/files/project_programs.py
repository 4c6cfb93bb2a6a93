"""Whether the programs of a project that a line starts are what their names say, as far as files tell."""

import os
from collections.abc import Sequence

from ebbtide.tools.base import Workspace
from ebbtide.tools.commands.command_line import SimpleCommand
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.launchers import tool_launch, venv_bin_folder

_MOVES = {"cd", "pushd", "popd"}


def trusted_launches(line: str, workspace: Workspace) -> frozenset[tuple[str, ...]]:
    """The words of those commands in a line that start the tool that they name, although their words alone do not tell
    (`Launch.is_in_doubt`), and of those that activate an environment."""
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
    """Whether programs were there before the session began, and have not been changed since: what the model has made is
    not the tool that it is called. No program can set back the time of a change."""
    try:
        paths = [workspace.root / program for program in programs]
        return all(status.st_ctime < workspace.since for path in paths for status in (path.lstat(), path.stat()))
    except OSError:
        return False


def _is_sandboxed(workspace: Workspace) -> bool:
    """Whether a sandbox holds what commands run."""
    from ebbtide.tools.sandbox.system import NoSandbox, found_sandbox  # noqa: PLC0415  # deferred: it is tried, and few ask

    return workspace.sandbox is not None and not isinstance(found_sandbox(), NoSandbox)

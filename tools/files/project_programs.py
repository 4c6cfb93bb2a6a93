"""Checks whether the project's programs on a command line really are the tools that they are named after."""

import os
from collections.abc import Sequence

from ebbtide.tools import sandbox
from ebbtide.tools.base import Workspace
from ebbtide.tools.commands.command_line import SimpleCommand
from ebbtide.tools.commands.grammar import parse_command_line
from ebbtide.tools.commands.launchers import find_tool_launch, venv_bin_folder

_FOLDER_CHANGES = {"cd", "pushd", "popd"}


def trusted_launches(line: str, workspace: Workspace) -> frozenset[tuple[str, ...]]:
    """Find the commands that can be trusted once their files have been checked, and return them as words. Such a
    command either starts the tool that it names (`ToolLaunch.needs_file_check`) or activates a virtual environment."""
    commands = parse_command_line(line).commands
    stays_in_folder = not any(command.texts[:1] and command.texts[0] in _FOLDER_CHANGES for command in commands)
    return frozenset(
        command.texts
        for command in commands
        if _starts_named_tool(command, commands, workspace, stays_in_folder=stays_in_folder)
    )


def _starts_named_tool(
    command: SimpleCommand, commands: Sequence[SimpleCommand], workspace: Workspace, *, stays_in_folder: bool
) -> bool:
    folder = venv_bin_folder(command.texts)
    if folder:
        words = {word for other_command in commands for word in other_command.texts if "/" not in word}
        programs = (os.path.join(folder, name) for name in words if os.path.lexists(workspace.root / folder / name))
        return stays_in_folder and _predate_session((f"{folder}/activate", *programs), workspace)
    launch = find_tool_launch(command.words)
    if launch is None or not launch.needs_file_check:
        return False
    is_installed = not launch.fetched_tool or os.path.lexists(
        workspace.root / "node_modules" / ".bin" / launch.fetched_tool
    )
    return (
        (stays_in_folder or not (launch.programs or launch.fetched_tool))
        and is_installed
        and _predate_session(launch.programs, workspace)
        and (not launch.runs_other_project_code or _is_sandboxed(workspace))
    )


def _predate_session(programs: Sequence[str], workspace: Workspace) -> bool:
    """Whether the programs are older than the session and unchanged since, so that the model cannot have written them.
    Compares change times (`ctime`), because no program can set them back."""
    try:
        paths = [workspace.root / program for program in programs]
        return all(status.st_ctime < workspace.started_at for path in paths for status in (path.lstat(), path.stat()))
    except OSError:
        return False


def _is_sandboxed(workspace: Workspace) -> bool:
    """Whether commands run in a sandbox."""
    return workspace.sandbox is not None and not isinstance(sandbox.system.detect_sandbox(), sandbox.system.NoSandbox)

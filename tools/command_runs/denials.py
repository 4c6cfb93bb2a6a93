"""Determines what the sandbox denied to a command, mostly from the command's output."""

import os
import posixpath
from collections.abc import Iterator
from dataclasses import replace

from ebbtide.tools import sandbox
from ebbtide.tools.command_runs.launch import CommandRun
from ebbtide.tools.command_runs.results import output_tail
from ebbtide.tools.lazy import regex
from ebbtide.tools.process.program import Program
from ebbtide.tools.sandbox.boundary import Boundary, PathAccess

_MISSING_FILE_MESSAGE = regex(r"[^\n]{0,400}(?:No such file or directory|ENOENT|Permission denied|EACCES)")
_PRINTED_PATH = regex(r"[^\s'\"`:;,()<>\[\]’‘]+")
_NOT_RUNNABLE_CODES = (126, 127)
"""Exit codes with which a shell reports that it could not run a program."""


def find_sandbox_denials(run: CommandRun, program: Program) -> str:
    """Describe what the sandbox blocked or reverted. Empty if it blocked nothing. The end of the output is examined
    even on success, because exit code 0 only means that the last program on the line succeeded."""
    confining_sandbox, access = run.workspace.sandbox, run.access
    assert confining_sandbox is not None
    try:
        removed = confining_sandbox.remove_forbidden_files()
    except OSError as error:
        return f"a forbidden file could not be removed: {error}"
    setting_notes = tuple(run.settings.refusals) if run.settings is not None else ()
    if removed:
        return "; ".join((f"{removed} may not be created, and was removed", *setting_notes))
    printed = output_tail(program)
    if not program.code and (setting_notes or not sandbox.blocked.may_have_been_blocked(printed)):
        return "; ".join(setting_notes)
    try:
        boundary = confining_sandbox.boundary(may_write=not run.workspace.is_read_only, access=access)
    except OSError:  # a running program may change the folders being examined
        return "; ".join(setting_notes)
    if access is not None and access.failures:  # refused connections are already reported
        # Otherwise, the proxy's refusal would be reported a second time, this time as if the package registry had
        # refused.
        boundary = replace(boundary, network="open", settings_copies={})
    return "; ".join(setting_notes) or _denial_reasons(run, printed, program.code or 0, boundary)


def contained_denials(run: CommandRun, printed: str, code: int, boundary: Boundary) -> str:
    """Describe what a contained command was denied, as a phrase. Empty if the command does not seem to have needed more
    access."""
    reasons = _denial_reasons(run, printed, code, boundary)
    if reasons or not code:
        return reasons
    if hidden_path := _reported_path(run, printed, boundary, "hidden folder"):
        return f"it cannot see `{hidden_path}`"
    return "it cannot see a program that it runs" if code in _NOT_RUNNABLE_CODES else ""


def locked_file_note(run: CommandRun, output_text: str, boundary: Boundary) -> str:
    """Build a note about a file with secrets that a contained command tried to open. Empty if it did not try to."""
    locked_path = _reported_path(run, output_text, boundary, "locked file")
    return f"`{locked_path}` cannot be read, because it may contain secrets" if locked_path else ""


def missing_programs_note(run: CommandRun) -> str:
    """Build a note about installed programs that the command needs but cannot see in the sandbox. Empty if it needs
    none."""
    return sandbox.blocked.visibility_note(run.line) if sandbox.system.sandbox_kind() == "bubblewrap" else ""


def _denial_reasons(run: CommandRun, printed: str, code: int, boundary: Boundary) -> str:
    return sandbox.blocked.describe_denial(
        run.line, printed, boundary, str(run.folder), os.path.lexists, has_failed=bool(code)
    )


def _reported_path(run: CommandRun, printed: str, boundary: Boundary, access: PathAccess) -> str:
    """Find the first path with the given access that the command reports as missing or unreadable."""
    return next((path for path in _reported_paths(printed, str(run.folder)) if boundary.access_to(path) == access), "")


def _reported_paths(output_text: str, folder: str) -> Iterator[str]:
    """Yield the existing files that a program reports as missing or unreadable."""
    for match in _MISSING_FILE_MESSAGE.finditer(output_text):
        paths = (posixpath.normpath(posixpath.join(folder, name)) for name in _PRINTED_PATH.findall(match[0]))
        yield from (path for path in paths if path != "/" and os.path.lexists(path))

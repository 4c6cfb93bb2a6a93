"""Edits a text in the user's editor, which gets the terminal."""

import os
import shlex
import signal
import subprocess
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.signals import has_terminal, lend_terminal, line_settings

_USUAL = ("vim", "vi", "nano")
_SIGNAL_POLL_S = 0.2
"""Maximum seconds until a signal is noticed."""


def edit_with(command: Sequence[str], text: str, name: str) -> str:
    """Run the editor on a text and return the result. Raises `UsageError`."""
    try:
        with tempfile.TemporaryDirectory(prefix="ebb-") as folder:
            path = Path(folder) / f"text{Path(name).suffix[:20]}"
            path.write_bytes(_bytes(text))
            code = _wait_for_editor(command, path)
            if code:
                raise UsageError(f"`{command[0]}` ended with exit code {code}, so nothing was changed")
            return _with_original_ending(text, path.read_bytes().decode("utf-8", "surrogateescape"))
    except (OSError, ValueError) as error:
        raise UsageError(f"`{command[0]}` could not be used: {error}; set `VISUAL` or `EDITOR`") from error


def _wait_for_editor(command: Sequence[str], path: Path) -> int:
    """Wait for the editor and return its exit code."""
    before = line_settings()
    try:
        # By name, since keys are wiped out of the block that is handed on otherwise: it is the user's own program.
        with subprocess.Popen([*command, str(path)], env=os.environ) as editor, lend_terminal(editor):
            while True:
                # Not without end: a signal that another thread happens to take does not wake who waits here.
                with suppress(subprocess.TimeoutExpired):
                    return editor.wait(_SIGNAL_POLL_S)
    finally:
        if before is not None and has_terminal():  # one that was killed leaves the line as it had set it
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def ignore_interrupt_keys() -> Iterator[None]:
    r"""Ignore Ctrl-C and Ctrl-\ while the editor runs; the terminal sends them to both programs."""
    keys = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, lambda number, frame: None) for number in keys]
    try:
        yield
    finally:
        for number, handler in zip(keys, before, strict=True):
            signal.signal(number, handler)


def editor_of(environment: Mapping[str, str]) -> list[str]:
    """The user's editor command. Raises `UsageError`."""
    for name in ("VISUAL", "EDITOR"):
        try:
            command = shlex.split(environment.get(name, ""))
        except ValueError as error:
            raise UsageError(f"`{name}` is not a command: {error}") from error
        if command:
            return command
    found = next((one for one in _USUAL if which(one)), None)
    if found is None:
        raise UsageError("no editor is known; set `VISUAL` or `EDITOR`")
    return [found]


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _with_original_ending(text: str, edited: str) -> str:
    """Undo what editors add: a final line ending, Windows line endings, or a byte order mark that the text did not
    have."""
    if "\r" not in text:
        edited = edited.replace("\r\n", "\n")
    if not text.startswith("\ufeff"):
        edited = edited.removeprefix("\ufeff")
    return edited.removesuffix("\n") if not text.endswith("\n") else edited

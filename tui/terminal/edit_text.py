"""Edits text in the user's editor, which takes over the terminal."""

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
from ebbtide.tui.terminal.signals import forward_signals, get_line_settings, is_in_foreground

_DEFAULT_EDITORS = ("vim", "vi", "nano")
_SIGNAL_POLL_S = 0.2
"""Maximum seconds until a signal is noticed."""


def run_editor(command: Sequence[str], text: str, name: str) -> str:
    """Edit text with an editor command and return the result. Raises `UsageError`."""
    try:
        with tempfile.TemporaryDirectory(prefix="ebb-") as folder:
            path = Path(folder) / f"text{Path(name).suffix[:20]}"
            path.write_bytes(_encode(text))
            try:
                code = _wait_for_editor(command, path)
            except (OSError, ValueError) as error:
                raise UsageError(f"`{command[0]}` could not be started: {error}; set `VISUAL` or `EDITOR`") from error
            if code:
                raise UsageError(f"`{command[0]}` ended with exit code {code}, so nothing was changed")
            if not path.exists():
                raise UsageError(f"`{command[0]}` deleted the file, so nothing was changed")
            return _with_original_ending(text, path.read_bytes().decode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UsageError(f"the temporary file for the editor could not be used: {error}") from error


def _wait_for_editor(command: Sequence[str], path: Path) -> int:
    """Wait for the editor to exit and return its exit code."""
    settings = get_line_settings()
    try:
        # Pass the full environment, including API keys: this is the user's own program.
        with subprocess.Popen([*command, str(path)], env=os.environ) as editor, forward_signals(editor):
            while True:
                # The timeout is necessary, because a signal received by another thread does not wake this one.
                with suppress(subprocess.TimeoutExpired):
                    return editor.wait(_SIGNAL_POLL_S)
    finally:
        if settings is not None and is_in_foreground():  # a killed editor does not restore the settings
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, settings)


@contextmanager
def ignore_interrupt_keys() -> Iterator[None]:
    r"""Ignore Ctrl-C and Ctrl-Backslash while the editor runs. The terminal sends them to both programs."""
    signals = (signal.SIGINT, signal.SIGQUIT)
    previous_handlers = [signal.signal(number, lambda number, frame: None) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, previous_handlers, strict=True):
            signal.signal(number, handler)


def editor_command(environment: Mapping[str, str]) -> list[str]:
    """Get the user's editor command. Raises `UsageError`."""
    for name in ("VISUAL", "EDITOR"):
        try:
            command = shlex.split(environment.get(name, ""))
        except ValueError as error:
            raise UsageError(f"`{name}` is not a command: {error}") from error
        if command:
            return command
    editor = next((program for program in _DEFAULT_EDITORS if which(program)), None)
    if editor is None:
        raise UsageError("no editor found; set `VISUAL` or `EDITOR`")
    return [editor]


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _with_original_ending(text: str, edited: str) -> str:
    """Undo what editors add: a final line ending, Windows line endings, or a byte order mark that was not in the
    text."""
    if "\r" not in text:
        edited = edited.replace("\r\n", "\n")
    if not text.startswith("\ufeff"):
        edited = edited.removeprefix("\ufeff")
    ending = "\r\n" if "\r\n" in text and edited.endswith("\r\n") else "\n"
    return edited if text.endswith("\n") else edited.removesuffix(ending)

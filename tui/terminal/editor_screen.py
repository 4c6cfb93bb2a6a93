"""Runs the user's editor outside the screen."""

import asyncio
import os
from typing import Any

from textual.app import App, SuspendNotSupported

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.edit_text import editor_command, ignore_interrupt_keys, run_editor
from ebbtide.tui.terminal.terminal_features import released_terminal

_NO_TERMINAL = "cannot run an editor in this terminal"


def edit_in_editor(app: App[Any], text: str, name: str) -> str:
    """Edit text in a temporary file with the suffix of `name`. Returns the result. Raises `UsageError`."""
    command = editor_command(os.environ)
    try:
        with released_terminal(app), ignore_interrupt_keys():
            return run_editor(command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error


async def edit_while_running(app: App[Any], text: str, name: str) -> str:
    """Edit text as `edit_in_editor` does, but without stopping the session. Drawing resumes when the editor exits.
    Raises `UsageError`."""
    command = editor_command(os.environ)
    try:
        with released_terminal(app), app.batch_update(), ignore_interrupt_keys():
            return await asyncio.to_thread(run_editor, command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error

"""Runs the user's editor outside the screen."""

import asyncio
import os
from typing import Any

from textual.app import App, SuspendNotSupported

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.attention import suspended
from ebbtide.tui.terminal.edit_text import edit_with, editor_of, ignore_interrupt_keys

_NO_TERMINAL = "this terminal cannot be given to an editor and taken back"


def edit_in_editor(app: App[Any], text: str, name: str) -> str:
    """Edit a text in a file with the suffix `name`; return the result. Raises `UsageError`."""
    command = editor_of(os.environ)
    try:
        with suspended(app), ignore_interrupt_keys():
            return edit_with(command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error


async def edited_meanwhile(app: App[Any], text: str, name: str) -> str:
    """The same while the session continues; drawing resumes after the editor ends. Raises `UsageError`."""
    command = editor_of(os.environ)
    try:
        with suspended(app), app.batch_update(), ignore_interrupt_keys():
            return await asyncio.to_thread(edit_with, command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error

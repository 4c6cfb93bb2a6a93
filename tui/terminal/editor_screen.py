"""A text in the user's own editor, outside of the screen."""

import asyncio
import os
from typing import Any

from textual.app import App, SuspendNotSupported

from agent.errors import UsageError
from tui.terminal.attention import given_away
from tui.terminal.edit_text import changed_by, editor_of, keys_left_to_it

_NO_TERMINAL = "this terminal cannot be given to an editor and taken back"


def edited(app: App[Any], text: str, name: str) -> str:
    """What the user makes of the text, in a file whose name ends as `name` does. Raises `UsageError`."""
    command = editor_of(os.environ)
    try:
        with given_away(app), keys_left_to_it():
            return changed_by(command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error


async def edited_meanwhile(app: App[Any], text: str, name: str) -> str:
    """The same, while what runs goes on; nothing of it is drawn before the editor has ended. Raises `UsageError`."""
    command = editor_of(os.environ)
    try:
        with given_away(app), app.batch_update(), keys_left_to_it():
            return await asyncio.to_thread(changed_by, command, text, name)
    except SuspendNotSupported as error:
        raise UsageError(_NO_TERMINAL) from error

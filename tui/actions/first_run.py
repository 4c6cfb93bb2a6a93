"""The first run: asked which model it is to be, the user chooses one, which is written down; never a key."""

import asyncio
from contextlib import suppress

from textual.app import SuspendNotSupported

from agent.config.toml_file import put_value
from agent.errors import AgentError
from agent.providers.first_run import address, installed, is_first, keys_found
from agent.providers.setup import FIRST_CHOICE
from tui.actions.desk import CommandContext
from tui.actions.sessions import pick_model
from tui.screens.first_run import FirstRunScreen
from tui.session.demo import run_demo
from tui.terminal.attention import given_away
from tui.terminal.edit_text import keys_left_to_it
from tui.text.sanitise import visible_line
from tui.view.first_run import CHOOSE, DEMO, USE, WITH_KEY


async def first_model(desk: CommandContext) -> str | None:
    """The model that somebody chose who had none; None where one is known, or none was chosen."""
    settings = desk.settings
    if settings is None or not is_first(settings.config, settings.environment):
        return None
    local = await asyncio.to_thread(installed, address(settings.environment))
    keys = keys_found(settings.environment)
    while True:
        chosen = await desk.app.push_screen_wait(FirstRunScreen(keys, local, visible_line(str(settings.file))))
        model = ""
        if chosen == DEMO:
            await _show_demo(desk)
        elif chosen == CHOOSE:
            model = await pick_model(desk, "", "")
        elif chosen.startswith(USE):
            model = chosen.removeprefix(USE)
        elif chosen.startswith(WITH_KEY):
            provider, _, variable = chosen.removeprefix(WITH_KEY).partition(":")
            put_value(settings.file, f"providers.{provider}.api_key_env", variable)
            model = next(model for _, model in FIRST_CHOICE if model.startswith(f"{provider}/"))
        else:
            return None
        if model:
            try:
                settings.put("agent.model", model)
            except AgentError as error:
                desk.talk.fail(error)
            return model


async def _show_demo(desk: CommandContext) -> None:
    """Plays the demo where the terminal was before, and comes back."""
    try:
        with given_away(desk.app), keys_left_to_it():
            await asyncio.to_thread(run_demo, None)
            with suppress(EOFError):  # the terminal is gone
                await asyncio.to_thread(input, "\nEnter goes back. ")
    except SuspendNotSupported:
        desk.talk.notice("the demo needs a terminal: `ebb demo` plays it in one")

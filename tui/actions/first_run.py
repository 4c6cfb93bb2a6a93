"""The first run: asked which model it is to be, the user chooses one, which is written down; never a key."""

import asyncio
from typing import Protocol

from agent.config.toml_file import put_value
from agent.errors import AgentError
from agent.providers.first_run import address, installed, is_first, keys_found
from agent.providers.setup import FIRST_CHOICE
from tui.actions.command_context import CommandContext
from tui.actions.sessions import pick_model
from tui.text.sanitise import visible_line
from tui.view.first_run import CHOOSE, DEMO, USE, WITH_KEY, first_panel


class FirstRunContext(CommandContext, Protocol):
    async def play_demo(self) -> None: ...


async def first_model(context: FirstRunContext) -> str | None:
    """The model that somebody chose who had none; None where one is known, or none was chosen."""
    settings = context.settings
    if settings is None or not is_first(settings.config, settings.environment):
        return None
    local = await asyncio.to_thread(installed, address(settings.environment))
    panel = first_panel(keys_found(settings.environment), local, visible_line(str(settings.file)))
    while True:
        taken, model = await context.show(panel), ""
        if taken is None:
            return None
        chosen = taken.value
        if chosen == DEMO:
            await context.play_demo()
        elif chosen == CHOOSE:
            model = await pick_model(context, "", "")
        elif chosen.startswith(USE):
            model = chosen.removeprefix(USE)
        elif chosen.startswith(WITH_KEY):
            provider, _, variable = chosen.removeprefix(WITH_KEY).partition(":")
            put_value(settings.file, f"providers.{provider}.api_key_env", variable)
            model = next(model for _, model in FIRST_CHOICE if model.startswith(f"{provider}/"))
        if model:
            try:
                settings.put("agent.model", model)
            except AgentError as error:
                context.controller.fail(error)
            return model

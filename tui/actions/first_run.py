"""The first start: the user chooses a model, or enters an API key, which is tested and stored."""

import asyncio
from typing import Protocol

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.config.toml_file import put_value
from ebbtide.agent.errors import AgentError
from ebbtide.agent.providers.first_run import LocalModelServer, address, is_first, keys_found, local_servers
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.actions.provider_keys import KeyEntry, usual_model
from ebbtide.tui.actions.sessions import pick_model
from ebbtide.tui.session.greeter import from_home
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.first_run import CHOOSE, DEMO, KEY_PREFIX, LOCAL_PREFIX, LOOK_AGAIN, MODEL_PREFIX, first_panel


class FirstRunContext(CommandContext, Protocol):
    async def play_demo(self) -> None:
        """Play the demo outside the running interface."""


async def first_model(context: FirstRunContext) -> str | None:
    """Let the user choose a first model; None if one is configured, or none was chosen."""
    settings = context.settings
    if settings is None or not is_first(settings.config, settings.environment):
        return None
    entry, file = KeyEntry(settings), sanitised_line(from_home(settings.file))
    found = keys_found(settings.environment)
    said = ""
    while True:
        local = await asyncio.to_thread(local_servers, address(settings.environment))
        taken, model = await context.show(first_panel(found, local, file, entry.take, said)), ""
        said = ""
        if taken is None:
            return None
        if taken.value == DEMO:
            await context.play_demo()
        elif taken.value.startswith(LOOK_AGAIN):
            settings.reload()
            if settings.config.model is not None:
                return settings.config.model
            said = "Looked again; see the list for what is there now."
        elif taken.value == CHOOSE:
            model = await pick_model(context, "", "")
        else:
            model = _apply_choice(settings, local, taken.value)
        if model:
            try:
                settings.set_value("agent.model", model)
            except AgentError as error:
                context.controller.fail(error)
            return model


def _apply_choice(settings: Settings, local: tuple[LocalModelServer, ...], value: str) -> str:
    """The model of a row; saves the settings that it needs to the user's file."""
    if value.startswith(MODEL_PREFIX):
        return value.removeprefix(MODEL_PREFIX)
    if value.startswith(LOCAL_PREFIX):
        at, _, model = value.removeprefix(LOCAL_PREFIX).partition(":")
        put_value(settings.file, "providers.openai-chat.base_url", local[int(at)].url)
        return f"openai-chat/{model}"
    provider, _, variable = value.removeprefix(KEY_PREFIX).partition(":")
    if variable:
        put_value(settings.file, f"providers.{provider}.api_key_env", variable)
    return usual_model(provider)

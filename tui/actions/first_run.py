"""The first run: asked which model it is to be, the user chooses one, or hands over a key, which is tried and kept."""

import asyncio
from typing import Protocol

from agent.config.settings import Settings
from agent.config.toml_file import put_value
from agent.errors import AgentError, AuthFailed
from agent.providers.first_run import LocalServer, address, is_first, keys_found, local_servers, try_key
from agent.providers.keys import KeyStore, checked_key, origin_of, with_kept_keys
from agent.providers.setup import FIRST_CHOICE, address_of
from tui.actions.command_context import CommandContext
from tui.actions.sessions import pick_model
from tui.session.greeter import from_home
from tui.text.sanitise import visible_line
from tui.view.first_run import CHOOSE, DEMO, SERVED, USE, WITH_KEY, first_panel


class FirstRunContext(CommandContext, Protocol):
    async def play_demo(self) -> None:
        """Plays the demo where it is in nobody's way."""


async def first_model(context: FirstRunContext) -> str | None:
    """The model that somebody chose who had none; None where one is known, or none was chosen."""
    settings = context.settings
    if settings is None or not is_first(settings.config, settings.environment):
        return None
    local = await asyncio.to_thread(local_servers, address(settings.environment))
    handed = KeyHandedOver(settings)
    found = keys_found(settings.environment)
    panel = first_panel(found, local, visible_line(from_home(settings.file)), handed.take)
    while True:
        taken, model = await context.show(panel), ""
        if taken is None:
            return None
        if taken.value == DEMO:
            await context.play_demo()
        elif taken.value == CHOOSE:
            model = await pick_model(context, "", "")
        else:
            model = _chosen(settings, local, taken.value)
        if model:
            try:
                settings.put("agent.model", model)
            except AgentError as error:
                context.controller.fail(error)
            return model


def _chosen(settings: Settings, local: tuple[LocalServer, ...], value: str) -> str:
    """The model that a row stands for, with what it needs written into the user's file."""
    if value.startswith(USE):
        return value.removeprefix(USE)
    if value.startswith(SERVED):
        at, _, model = value.removeprefix(SERVED).partition(":")
        put_value(settings.file, "providers.openai-chat.base_url", local[int(at)].url)
        return f"openai-chat/{model}"
    provider, _, variable = value.removeprefix(WITH_KEY).partition(":")
    if variable:
        put_value(settings.file, f"providers.{provider}.api_key_env", variable)
    return _usual(provider)


def _usual(provider: str) -> str:
    return next(model for _, model in FIRST_CHOICE if model.startswith(f"{provider}/"))


class KeyHandedOver:
    """Takes keys of providers: each is tried by one short request, then kept."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._untried: tuple[str, str] | None = None
        """What could not be tried the last time: given once more, it is kept."""

    async def take(self, provider: str, written: str) -> None:
        """Raises `AgentError` where the key is none, is refused, or cannot be tried."""
        settings, key = self._settings, checked_key(written)
        if self._untried != (provider, key):
            try:
                await try_key(settings.config, settings.environment, _usual(provider), key)
            except AuthFailed:
                raise
            except AgentError as error:
                self._untried = (provider, key)
                said = str(error).rstrip(".")
                raise AgentError(f"the key could not be tried: {said}. Enter once more keeps it untried") from error
        origin = origin_of(address_of(provider, settings.config.provider(provider), settings.environment))
        folder = settings.config.folders.config
        await asyncio.to_thread(KeyStore(folder).put, provider, origin, key)
        settings.environment = with_kept_keys(folder, settings.environment)

"""API keys entered in a session: tested with a short request, then stored as by `ebb key set`."""

import asyncio

from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError, AuthFailed
from ebbtide.agent.providers.first_run import try_key
from ebbtide.agent.providers.keys import KeyStore, checked_key, origin_of, with_stored_keys
from ebbtide.agent.providers.setup import FIRST_CHOICE, address_of, key_variable
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.actions.sessions import has_messages
from ebbtide.tui.view.provider_keys import keys_panel

WITH_KEYS = tuple(name for name in PROVIDERS if name != "scripted")


def usual_model(provider: str) -> str:
    """The default model of a provider; empty if it has none."""
    return next((model for _, model in FIRST_CHOICE if model.startswith(f"{provider}/")), "")


class KeyEntry:
    """Tests and stores API keys."""

    def __init__(self, settings: Settings, model: str = "") -> None:
        """`model`: the current model, used to test a key of its provider."""
        self._settings, self._model = settings, model
        self._untried: tuple[str, str] | None = None
        """The provider and key that could not be tested: entered again, the key is stored."""

    async def take(self, provider: str, written: str) -> None:
        """Test a key, store it, and use it from now on. Raises `AgentError` if it is malformed or rejected, or
        cannot be tested."""
        settings, key = self._settings, checked_key(written)
        config = settings.config
        model = self._model if self._model.startswith(f"{provider}/") else usual_model(provider)
        if self._untried != (provider, key):
            try:
                if not model:
                    raise AgentError(f"no model of {provider} is in use")
                await try_key(config, settings.environment, model, key)
            except AuthFailed:
                raise
            except AgentError as error:
                self._untried = (provider, key)
                said = str(error).rstrip(".")
                raise AgentError(f"the key could not be tried: {said}. Enter once more keeps it untried") from error
        origin = origin_of(address_of(provider, config.provider(provider), settings.environment))
        folder = config.folders.config
        await asyncio.to_thread(KeyStore(folder).put, provider, origin, key)
        environment = with_stored_keys(folder, settings.environment)
        variable = set_variable(settings, provider)
        settings.use_environment({**environment, variable: key} if variable else environment)


def set_variable(settings: Settings, provider: str) -> str:
    """The environment variable that holds a provider's key; empty if none is set."""
    variable = key_variable(provider, settings.config.provider(provider))
    return variable if variable and settings.environment.get(variable) else ""


async def replace_key(context: CommandContext, argument: str) -> None:
    """Ask for a provider's key, and continue the session with it."""
    settings, session = context.settings, context.controller.session
    if settings is None:
        return context.controller.notice("keys cannot be changed here; use `ebb key set PROVIDER` in a shell")
    model = session.model if session is not None else context.model or settings.config.model or ""
    current = model.partition("/")[0]
    if argument and argument not in WITH_KEYS:
        # If it is a key, it is not repeated here; the history of the prompt leaves out what follows `/key`.
        known = ", ".join(WITH_KEYS)
        return context.controller.notice(
            f"`/key` takes the name of a provider: {known}. It asks for the key and does not show it"
        )
    offered = (argument,) if argument else (current, "anthropic", "openai")
    providers = tuple(dict.fromkeys(name for name in offered if name in WITH_KEYS))
    variables = {name: set_variable(settings, name) for name in providers}
    panel = keys_panel(providers, variables, KeyEntry(settings, model).take, argument)
    if (taken := await context.show(panel)) is None:
        return None
    provider = taken.value
    if provider == current or session is None:
        resume = session.id if session is not None and has_messages(context) else None
        if not await context.controller.open(resume=resume, model=model or usual_model(provider)):
            return None
        context.show_session()
    variable = variables[provider]
    later = f". {variable} holds another key and wins in later runs: change or unset it" if variable else ""
    context.controller.notice(f"the new key for {provider} works from now on and is stored{later}")
    return None

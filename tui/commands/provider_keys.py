"""API keys entered during a session. They are tested with a short request, then stored just as `ebb key set` does."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.settings import Settings
from ebbtide.agent.errors import AgentError, AuthFailed
from ebbtide.agent.providers.first_run import check_key
from ebbtide.agent.providers.keys import KeyStore, add_stored_keys, is_signed_in, url_origin, validate_key
from ebbtide.agent.providers.setup import DEFAULT_MODELS, find_base_url, key_variable
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.sessions import has_messages
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.panel import ActionOutcome, Panel, PanelAction, PanelRow, RowChosen, TextRequest


def key_request(get_provider: Callable[[PanelRow], str]) -> TextRequest:
    """Build a request for a key, which is hidden as it is typed."""
    return TextRequest(
        lambda row: "",
        "Enter test it with one short request and save it   Esc cancel",
        "API key",
        placeholder=lambda row: f"key for {get_provider(row)}: type or paste it (hidden)",
        is_hidden=True,
        progress_message="testing the key …",
    )


def build_keys_panel(
    providers: Sequence[str],
    variables: Mapping[str, str],
    test_and_store_key: Callable[[str, str], Awaitable[None]],
    search_text: str = "",
) -> Panel:
    """Build the panel of providers. `variables`: the environment variable that contains each provider's key, or an
    empty string. `test_and_store_key` tests and stores a key; it may raise `AgentError`."""

    async def enter_key(row: PanelRow, key: str) -> ActionOutcome:
        await test_and_store_key(row.value, key)
        return RowChosen(row.value)

    return Panel(
        "key",
        ((("Replace an API key", "accent"),),),
        tuple(_row(name, variables.get(name, "")) for name in providers),
        "Up, Down   Enter select   Esc cancel",
        actions=(PanelAction(("enter",), "key", enter_key, text_request=key_request(lambda row: row.value)),),
        search_text=search_text,
    )


def _row(name: str, variable: str) -> PanelRow:
    hint = f"the key in {variable} is in use" if variable else "type or paste a key"
    line: Line = (("  ", "text"), (f"{name:<14} ", "text"), (hint, "dim"))
    return PanelRow(name, line, search_text=name)


PROVIDERS_WITH_KEYS = tuple(name for name in PROVIDER_NAMES if name != "scripted")


def default_model(provider: str) -> str:
    """Get a provider's default model; empty if it has none."""
    return next((model for _, model in DEFAULT_MODELS if model.startswith(f"{provider}/")), "")


class KeySetup:
    """Tests and stores API keys."""

    def __init__(self, settings: Settings, model: str = "") -> None:
        """`model`: the current model. Keys for its provider are tested with it."""
        self._settings, self._model = settings, model
        self._untested_key: tuple[str, str] | None = None
        """The last provider and key whose test failed for a reason other than a rejected key. If the user enters them
        again, the key is stored untested."""

    async def test_and_store(self, provider: str, typed_key: str) -> None:
        """Test a key, store it and use it from now on. Raises `AgentError` if the key is malformed, is rejected or
        cannot be tested."""
        settings, key = self._settings, validate_key(typed_key)
        config = settings.config
        model = self._model if self._model.startswith(f"{provider}/") else default_model(provider)
        if self._untested_key != (provider, key):
            try:
                if not model:
                    raise AgentError(f"no model of {provider} is in use")
                await check_key(config, settings.environment, model, key)
            except AuthFailed:
                raise
            except AgentError as error:
                self._untested_key = (provider, key)
                reason = str(error).rstrip(".")
                raise AgentError(f"could not test the key: {reason}. Press Enter again to save it untested") from error
        origin = url_origin(find_base_url(provider, config.provider_config(provider), settings.environment))
        folder = config.folders.config
        await asyncio.to_thread(KeyStore(folder).store_key, provider, origin, key)
        environment = add_stored_keys(folder, settings.environment)
        variable = key_variable_in_use(settings, provider)
        if config.provider_config(provider).key_command is not None:  # it would take precedence over the stored key
            variable = key_variable(provider, config.provider_config(provider)) or ""
        settings.use_environment({**environment, variable: key} if variable else environment)


def key_variable_in_use(settings: Settings, provider: str) -> str:
    """Get the environment variable that contains a provider's key; empty if none is set."""
    variable = key_variable(provider, settings.config.provider_config(provider))
    return variable if variable and settings.environment.get(variable) else ""


def _sign_in_notice(settings: Settings, provider: str) -> str:
    """For a subscription, build a message about the sign-in that it needs instead of a key. Empty if a key can be
    typed. If the user has signed in from a shell, that sign-in is used from now on."""
    if provider not in SUBSCRIPTIONS:
        return ""
    title, provider_settings = SUBSCRIPTIONS[provider].title, settings.config.provider_config(provider)
    settings.use_environment(add_stored_keys(settings.config.folders.config, settings.environment))
    if is_signed_in(settings.environment, provider, find_base_url(provider, provider_settings, settings.environment)):
        return f"signed in to {title}: choose a model with `/model {provider}/`"
    if key_variable(provider, provider_settings) is None:
        return f"{title} has no keys: run `ebb key sign-in {provider}` in a shell, then type `/key {provider}` again"
    return ""


async def replace_key(context: CommandContext, argument: str) -> None:
    """Ask for a provider's key and continue the session with it."""
    settings, session = context.settings, context.controller.session
    if settings is None:
        return context.controller.show_notice("keys cannot be changed here. Run `ebb key set PROVIDER` in a shell.")
    model = session.model if session is not None else context.model or settings.config.model or ""
    current_provider = model.partition("/")[0]
    if argument and argument not in PROVIDERS_WITH_KEYS:
        # The argument may be a key, so do not repeat it here. The prompt history omits the argument of `/key` too.
        provider_names = ", ".join(PROVIDERS_WITH_KEYS)
        return context.controller.show_notice(
            f"Type `/key PROVIDER` ({provider_names}). The key is entered next, hidden."
        )
    if notice := _sign_in_notice(settings, argument):
        return context.controller.show_notice(notice)
    candidate_providers = (argument,) if argument else (current_provider, "anthropic", "openai")
    keyless = tuple(name for name in SUBSCRIPTIONS if key_variable(name, settings.config.provider_config(name)) is None)
    providers = tuple(
        dict.fromkeys(name for name in candidate_providers if name in PROVIDERS_WITH_KEYS and name not in keyless)
    )
    variables = {name: key_variable_in_use(settings, name) for name in providers}
    panel = build_keys_panel(providers, variables, KeySetup(settings, model).test_and_store, argument)
    if (choice := await context.show(panel)) is None:
        return None
    provider = choice.value
    if provider == current_provider or session is None:
        resume = session.id if session is not None and has_messages(context) else None
        if not await context.controller.open(session_id=resume, model=model or default_model(provider)):
            return None
        context.show_session()
    variable = variables[provider]
    override_note = ""
    if variable:
        override_note = f". {variable} contains another key that overrides it in later runs: change or unset it"
    elif settings.config.provider_config(provider).key_command is not None:
        override_note = f". `providers.{provider}.key_command` overrides it in later runs: remove that setting"
    context.controller.show_notice(f"the new key for {provider} is stored and in use{override_note}")
    return None

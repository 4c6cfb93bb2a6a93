"""The first start: the user chooses a model or enters an API key, which is tested and stored."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ebbtide.agent.config.settings import Settings
from ebbtide.agent.config.toml_edit import set_key
from ebbtide.agent.errors import AgentError
from ebbtide.agent.providers.first_run import (
    DetectedKey,
    LocalModelServer,
    detect_keys,
    detect_local_servers,
    find_ollama_url,
)
from ebbtide.agent.providers.setup import DEFAULT_MODELS
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.models import pick_model
from ebbtide.tui.commands.provider_keys import KeySetup, default_model, key_request
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import ActionOutcome, Panel, PanelAction, PanelRow, RowChosen, heading_row

DEMO = "demo"
CHOOSE_MODEL = "choose_model"
MODEL_PREFIX = "model:"
"""Prefix of row values that name a model."""
LOCAL_PREFIX = "local:"
"""Prefix of row values for a model on a local server other than Ollama."""
FOUND_KEY_PREFIX = "found_key:"
"""Prefix of row values that name a provider and the variable that contains its key."""
ENTER_KEY_PREFIX = "enter_key:"
"""Prefix of row values that name a provider whose key must be entered."""

OLLAMA = "Ollama"
_REFRESH_HINT = "then press Enter here to refresh"
REFRESH_PREFIX = "refresh:"
"""Prefix of row values for steps that the user takes outside the program. Choosing such a row refreshes the list."""


def build_first_run_panel(
    keys: Sequence[DetectedKey],
    servers: Sequence[LocalModelServer],
    test_and_store_key: Callable[[str, str], Awaitable[None]],
    message: str = "",
) -> Panel:
    """Build a panel with the models and keys that were found and ways to set one up. `test_and_store_key` tests and
    stores a provider's key; it may raise `AgentError`. `message` is shown above the list."""

    async def choose_row(row: PanelRow, _: str) -> ActionOutcome:
        return RowChosen(row.value)

    async def enter_key(row: PanelRow, key: str) -> ActionOutcome:
        provider = row.value.removeprefix(ENTER_KEY_PREFIX)
        await test_and_store_key(provider, key)
        return RowChosen(f"{FOUND_KEY_PREFIX}{provider}:")

    def needs_key(row: PanelRow) -> bool:
        return row.value.startswith(ENTER_KEY_PREFIX)

    text_request = key_request(lambda row: row.value.removeprefix(ENTER_KEY_PREFIX))
    explanation: Line = (("Choose a model. You can change it later with /model.", "text"),)
    message_lines: tuple[Line, ...] = (((message, "warn"),),) if message else ()
    return Panel(
        "first-run",
        ((("Welcome to Ebbtide", "accent"), ("  a coding agent in your terminal", "dim")), explanation, *message_lines),
        build_first_run_rows(keys, servers),
        "Up, Down   Enter select   Esc cancel",
        empty_message="No match.",
        actions=(
            PanelAction(("enter",), "select", choose_row, is_available=lambda row: not needs_key(row)),
            PanelAction(("enter",), "key", enter_key, is_available=needs_key, text_request=text_request),
        ),
    )


def build_first_run_rows(keys: Sequence[DetectedKey], servers: Sequence[LocalModelServer]) -> tuple[PanelRow, ...]:
    """Build the rows, available models first. `servers`: the servers running on this machine."""
    key_rows = (
        *map(_key_row, keys),
        *(_enter_key_row(variable, model.partition("/")[0]) for variable, model in DEFAULT_MODELS),
    )
    local_rows = tuple(
        _local_model_row(index, server, name) for index, server in enumerate(servers) for name in server.models
    )
    advice = (
        'in config.toml: [providers.openai-chat] base_url = "https://…/v1" and api_key_env = "NAME"; then press Enter'
    )
    other_rows = (
        _row(CHOOSE_MODEL, "another model", "pick from the list, or type PROVIDER/NAME"),
        *_ollama_setup_rows(next((server for server in servers if server.name == OLLAMA), None)),
        _row(f"{REFRESH_PREFIX}other", "another server", "any OpenAI-compatible server", advice),
    )
    demo_rows = (_row(DEMO, "the demo", "a scripted model fixes a real bug: one minute, nothing is sent"),)
    main_groups = (("With an API key", key_rows), ("On this machine", local_rows))
    return tuple(
        row
        for title, rows in (
            *(main_groups if keys else main_groups[::-1]),
            ("Just looking?", demo_rows),
            ("Other", other_rows),
        )
        if rows
        for row in (heading_row(title), *rows)
    )


def _key_row(key: DetectedKey) -> PanelRow:
    return _row(f"{FOUND_KEY_PREFIX}{key.provider}:{key.variable}", key.provider, f"key found in {key.variable}")


def _enter_key_row(variable: str, provider: str) -> PanelRow:
    details = f"The key is tested once, stored privately and sent only to {provider}. Or set {variable}."
    return _row(f"{ENTER_KEY_PREFIX}{provider}", provider, "type or paste your key", details)


def _local_model_row(server_index: int, server: LocalModelServer, name: str) -> PanelRow:
    is_ollama = server.name == OLLAMA
    value, label = (
        (f"{MODEL_PREFIX}ollama/{name}", f"ollama/{name}")
        if is_ollama
        else (f"{LOCAL_PREFIX}{server_index}:{name}", name)
    )
    return _row(value, label, f"{server.name}, free")


def _ollama_setup_rows(server: LocalModelServer | None) -> tuple[PanelRow, ...]:
    """Build a row that explains how to get a first model for Ollama; none if it already has a model."""
    if server is not None and server.models:
        return ()
    if server is not None:
        advice = f"run `ollama pull qwen3` in another terminal, {_REFRESH_HINT}"
        return (_row(f"{REFRESH_PREFIX}ollama", "ollama", "no models yet", advice),)
    advice = f"install it from ollama.com, run `ollama serve` and `ollama pull qwen3`, {_REFRESH_HINT}"
    return (_row(f"{REFRESH_PREFIX}ollama", "ollama", "not running on this machine", advice),)


def _row(value: str, name: str, description: str, details: str = "") -> PanelRow:
    name, description = sanitise_line(name), sanitise_line(description)
    line: Line = (("  ", "text"), (f"{name:<24} ", "text"), (description, "dim"))
    return PanelRow(
        value,
        line,
        search_text=f"{name} {description}",
        details=(parse_inline_code(details, "text"),) if details else (),
    )


class FirstRunContext(CommandContext, Protocol):
    async def play_demo(self) -> None:
        """Play the demo outside the interface."""


async def choose_first_model(context: FirstRunContext) -> str | None:
    """Let the user choose a first model. Returns None if none was chosen."""
    settings = context.settings
    assert settings is not None, "there are settings to write the choice to"
    key_setup = KeySetup(settings)
    keys = detect_keys(settings.environment)
    message = ""
    while True:
        local_servers = await asyncio.to_thread(detect_local_servers, find_ollama_url(settings.environment))
        choice = await context.show(build_first_run_panel(keys, local_servers, key_setup.test_and_store, message))
        model = message = ""
        if choice is None:
            return None
        if choice.value == DEMO:
            await context.play_demo()
        elif choice.value.startswith(REFRESH_PREFIX):
            settings.reload()
            if settings.config.model is not None:
                return settings.config.model
            message = "Refreshed the list."
        elif choice.value == CHOOSE_MODEL:
            model = await pick_model(context, "", "")
        else:
            model = _apply_choice(settings, local_servers, choice.value)
        if model:
            try:
                settings.set_value("agent.model", model)
            except AgentError as error:
                context.controller.show_failure(error)
            return model


def _apply_choice(settings: Settings, local_servers: tuple[LocalModelServer, ...], value: str) -> str:
    """Return the model of a row. If the model needs settings, they are saved in the user's file first."""
    if value.startswith(MODEL_PREFIX):
        return value.removeprefix(MODEL_PREFIX)
    if value.startswith(LOCAL_PREFIX):
        server_index, _, model = value.removeprefix(LOCAL_PREFIX).partition(":")
        set_key(settings.user_file, "providers.openai-chat.base_url", local_servers[int(server_index)].url)
        return f"openai-chat/{model}"
    provider, _, variable = value.removeprefix(FOUND_KEY_PREFIX).partition(":")
    if variable:
        set_key(settings.user_file, f"providers.{provider}.api_key_env", variable)
    return default_model(provider)

"""`ebb key`: store, list and remove API keys and sign-ins. Keys are never printed."""

import os
import sys
from collections.abc import Sequence

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.providers.keys import MAX_KEY_CHARS, KeyStore, sign_in_store, url_origin, validate_key
from ebbtide.agent.providers.setup import find_base_url, key_variable, uses_key_command
from ebbtide.tui import integration_registry
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.plain.reader import read_hidden
from ebbtide.tui.text.sanitise import sanitise_line

_PROVIDERS_WITH_KEYS = tuple(name for name in PROVIDER_NAMES if name != "scripted")


def run(arguments: Sequence[str]) -> int:
    """Run `ebb key set|list|remove|sign-in [PROVIDER]`; return the exit code. Raises `AgentError`."""
    action = next((word for word in arguments if word in integration_registry.KEY_ACTIONS), None)
    if action is not None:
        words = list(arguments)
        words.remove(action)
        return integration_registry.KEY_ACTIONS[action].load()(words)
    parser = create_subcommand_parser(
        "key",
        "Store API keys in the system keyring, or without one in a file that only you can read. `set` asks for the "
        "key without showing it, or reads it from stdin. `sign-in` signs in to a subscription (copilot, chatgpt).",
    )
    actions = ("set", "list", "remove", *integration_registry.KEY_ACTIONS)
    parser.add_argument("action", nargs="?", choices=actions, default="list")
    parser.add_argument("provider", nargs="?", choices=_PROVIDERS_WITH_KEYS)
    options = parse_subcommand_args(parser, arguments, "JSON")
    if options.action != "list" and options.provider is None:
        parser.error(
            f"name a provider: `ebb key {options.action} PROVIDER`, with one of {', '.join(_PROVIDERS_WITH_KEYS)}"
        )
    _, config = read_settings(options)
    store = KeyStore(config.folders.config)
    match options.action:
        case "set":
            result, message = _set_key(store, config, options.provider)
        case "remove":
            result, message = _remove_key(store, config, options.provider)
        case _:
            result, message = _list_keys(store, config)
    if options.json:
        print_json(sys.stdout, result)
    else:
        print(message)
    return 0


def _remove_key(store: KeyStore, config: Config, provider: str) -> tuple[dict[str, object], str]:
    had_key = store.remove_key(provider)
    was_signed_in = provider in SUBSCRIPTIONS and sign_in_store(config.folders.config).remove_key(provider)
    messages = [f"removed the key for {provider}"] if had_key else []
    if was_signed_in:
        title = SUBSCRIPTIONS[provider].title
        messages.append(f"removed the sign-in to {title}; to end the access itself, remove Ebbtide in its settings")
    message = "\n".join(messages) or f"no key stored for {provider}"
    return {"provider": provider, "removed": had_key or was_signed_in}, message


def _set_key(store: KeyStore, config: Config, provider: str) -> tuple[dict[str, object], str]:
    if provider in SUBSCRIPTIONS and key_variable(provider, config.provider_config(provider)) is None:
        raise UsageError(f"{SUBSCRIPTIONS[provider].title} has no keys; run `ebb key sign-in {provider}`")
    origin = url_origin(find_base_url(provider, config.provider_config(provider), os.environ))
    key = _read_key(provider)
    storage = store.store_key(provider, origin, key)
    location = "in the system keyring" if storage == "keyring" else f"in `{store.path}`, readable only by you"
    lines = [f"stored the key for {provider} {location}; it is sent only to {sanitise_line(origin)}"]
    variable = key_variable(provider, config.provider_config(provider))
    if variable and os.environ.get(variable):
        lines.append(f"{variable} is also set and takes precedence")
    elif uses_key_command(provider, config.provider_config(provider), os.environ):
        lines.append(f"`providers.{provider}.key_command` is also set and takes precedence")
    return {"provider": provider, "place": storage, "origin": origin}, "\n".join(lines)


def _list_keys(store: KeyStore, config: Config) -> tuple[dict[str, object], str]:
    stored, sign_ins = store.stored_keys(), sign_in_store(config.folders.config).stored_keys()
    rows: list[dict[str, object]] = []
    for name in _PROVIDERS_WITH_KEYS:
        variable = key_variable(name, config.provider_config(name))
        is_in_environment = bool(variable and os.environ.get(variable))
        is_from_command = uses_key_command(name, config.provider_config(name), os.environ)
        sign_in = sign_ins.get(name)
        if is_in_environment or is_from_command or name in stored:
            stored_key = stored.get(name)
            storage = stored_key.storage if stored_key else ""
            rows.append(
                {
                    "provider": name,
                    "from": variable if is_in_environment else "key_command" if is_from_command else storage,
                    "origin": stored_key.origin if stored_key else "",
                }
            )
        elif sign_in is not None:
            source = f"signed in as {sanitise_line(sign_in.account)}"
            rows.append({"provider": name, "from": source, "origin": sign_in.origin})
    lines = [f"{row['provider']:<12} {row['from']:<20} {sanitise_line(str(row['origin']))}".rstrip() for row in rows]
    return {"keys": rows}, "\n".join(lines) or "no keys yet; store one with `ebb key set PROVIDER`"


def _read_key(provider: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        key = read_hidden(f"API key for {provider} (hidden): ")
    else:
        key = sys.stdin.read(MAX_KEY_CHARS + 1) if sys.stdin is not None else ""
    if not key.strip():
        raise UsageError(f"no key given; type it when asked, or run `ebb key set {provider} < FILE`")
    return validate_key(key)

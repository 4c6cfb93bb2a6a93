"""`ebb key`: store, list and remove API keys. Keys are never printed."""

import os
import sys
from collections.abc import Sequence

from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.printing import print_json
from ebbtide.agent.providers.keys import MAX_KEY_CHARS, KeyStore, url_origin, validate_key
from ebbtide.agent.providers.setup import find_address, key_variable, uses_key_command
from ebbtide.tui.cli.arguments import create_subcommand_parser, parse_subcommand_args, read_settings
from ebbtide.tui.plain.reader import read_hidden
from ebbtide.tui.text.sanitise import sanitise_line

_KEYED_PROVIDERS = tuple(name for name in PROVIDERS if name != "scripted")


def run(arguments: Sequence[str]) -> int:
    """Run `ebb key set|list|remove [PROVIDER]`; return the exit code. Raises `AgentError`."""
    parser = create_subcommand_parser(
        "key",
        "Store API keys in the system keyring, or without one in a file that only you can read. `set` asks for the "
        "key without showing it, or reads it from stdin.",
    )
    parser.add_argument("action", nargs="?", choices=("set", "list", "remove"), default="list")
    parser.add_argument("provider", nargs="?", choices=_KEYED_PROVIDERS)
    options = parse_subcommand_args(parser, arguments, "JSON")
    if options.action != "list" and options.provider is None:
        parser.error(f"name a provider: `ebb key {options.action} PROVIDER`, with one of {', '.join(_KEYED_PROVIDERS)}")
    _, config = read_settings(options)
    store = KeyStore(config.folders.config)
    match options.action:
        case "set":
            result, message = _set_key(store, config, options.provider)
        case "remove":
            was_removed = store.remove_key(options.provider)
            result = {"provider": options.provider, "removed": was_removed}
            message = (
                f"removed the key for {options.provider}" if was_removed else f"no key stored for {options.provider}"
            )
        case _:
            result, message = _list_keys(store, config)
    if options.json:
        print_json(sys.stdout, result)
    else:
        print(message)
    return 0


def _set_key(store: KeyStore, config: Config, provider: str) -> tuple[dict[str, object], str]:
    origin = url_origin(find_address(provider, config.provider(provider), os.environ))
    key = _read_key(provider)
    storage = store.store_key(provider, origin, key)
    location = "in the system keyring" if storage == "keyring" else f"in `{store.path}`, readable only by you"
    lines = [f"stored the key for {provider} {location}; it is sent only to {sanitise_line(origin)}"]
    variable = key_variable(provider, config.provider(provider))
    if variable and os.environ.get(variable):
        lines.append(f"{variable} is also set and takes precedence")
    elif uses_key_command(provider, config.provider(provider), os.environ):
        lines.append(f"`providers.{provider}.key_command` is also set and takes precedence")
    return {"provider": provider, "place": storage, "origin": origin}, "\n".join(lines)


def _list_keys(store: KeyStore, config: Config) -> tuple[dict[str, object], str]:
    stored = store.stored_keys()
    rows: list[dict[str, object]] = []
    for name in _KEYED_PROVIDERS:
        variable = key_variable(name, config.provider(name))
        is_set = bool(variable and os.environ.get(variable))
        is_printed = uses_key_command(name, config.provider(name), os.environ)
        if is_set or is_printed or name in stored:
            stored_key = stored.get(name)
            storage = stored_key.storage if stored_key else ""
            rows.append(
                {
                    "provider": name,
                    "from": variable if is_set else "key_command" if is_printed else storage,
                    "origin": stored_key.origin if stored_key else "",
                }
            )
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

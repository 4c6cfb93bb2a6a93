"""`ebb key`: store, list and remove API keys. Keys are never printed."""

import os
import sys
from collections.abc import Sequence

from ebbtide.agent.config.options import PROVIDERS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.json_line import print_json
from ebbtide.agent.providers.keys import MAX_KEY_CHARS, KeyStore, checked_key, origin_of
from ebbtide.agent.providers.setup import address_of, key_variable
from ebbtide.tui.cli.arguments import parse_subcommand_args, parser_of, read_settings
from ebbtide.tui.plain.reader import read_hidden
from ebbtide.tui.text.sanitise import sanitised_line

_WITH_KEYS = tuple(name for name in PROVIDERS if name != "scripted")


def run(arguments: Sequence[str]) -> int:
    """Run `ebb key set|list|remove [PROVIDER]`; return the exit code. Raises `AgentError`."""
    parser = parser_of(
        "key",
        "Keeps the keys of providers: in the keyring of the system where there is one, otherwise in a file that only "
        "you can read. `set` reads the key without showing it, or from standard input.",
    )
    parser.add_argument("action", nargs="?", choices=("set", "list", "remove"), default="list")
    parser.add_argument("provider", nargs="?", choices=_WITH_KEYS)
    options = parse_subcommand_args(parser, arguments, "JSON")
    if options.action != "list" and options.provider is None:
        parser.error(f"which provider? write `ebb key {options.action} PROVIDER`; there are {', '.join(_WITH_KEYS)}")
    _, config = read_settings(options)
    store = KeyStore(config.folders.config)
    match options.action:
        case "set":
            said, told = _set_key(store, config, options.provider)
        case "remove":
            is_gone = store.remove(options.provider)
            said = {"provider": options.provider, "removed": is_gone}
            told = f"the key for {options.provider} is removed" if is_gone else f"no key for {options.provider} is kept"
        case _:
            said, told = _list(store, config)
    if options.json:
        print_json(sys.stdout, said)
    else:
        print(told)
    return 0


def _set_key(store: KeyStore, config: Config, provider: str) -> tuple[dict[str, object], str]:
    origin = origin_of(address_of(provider, config.provider(provider), os.environ))
    key = _read_key(provider)
    place = store.put(provider, origin, key)
    where = "in the keyring of this system" if place == "keyring" else f"in `{store.path}`, which only you can read"
    lines = [f"the key for {provider} is kept {where}; it is sent to {sanitised_line(origin)} alone"]
    variable = key_variable(provider, config.provider(provider))
    if variable and os.environ.get(variable):
        lines.append(f"{variable} is set, too, and wins")
    return {"provider": provider, "place": place, "origin": origin}, "\n".join(lines)


def _list(store: KeyStore, config: Config) -> tuple[dict[str, object], str]:
    kept = store.stored_keys()
    rows: list[dict[str, object]] = []
    for name in _WITH_KEYS:
        variable = key_variable(name, config.provider(name))
        is_set = bool(variable and os.environ.get(variable))
        if is_set or name in kept:
            found = kept.get(name)
            rows.append(
                {
                    "provider": name,
                    "from": variable if is_set else found.place if found else "",
                    "origin": found.origin if found else "",
                }
            )
    lines = [f"{row['provider']:<12} {row['from']:<20} {sanitised_line(str(row['origin']))}".rstrip() for row in rows]
    return {"keys": rows}, "\n".join(lines) or "no key is kept or set; `ebb key set PROVIDER` keeps one"


def _read_key(provider: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        key = read_hidden(f"Key for {provider} (it is not shown): ")
    else:
        key = sys.stdin.read(MAX_KEY_CHARS + 1) if sys.stdin is not None else ""
    if not key.strip():
        raise UsageError(f"no key was given; write it at the question, or `ebb key set {provider} < FILE`")
    return checked_key(key)

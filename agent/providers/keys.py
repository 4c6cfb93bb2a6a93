"""API keys and sign-ins that the user has stored: in the system keyring if there is one, otherwise in a file that only
its owner can read. Each is sent only to the address for which it was stored."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from ebbtide.agent.config.private_table import PrivateTable
from ebbtide.agent.errors import ConfigError, UsageError
from ebbtide.tools.lazy import dataclass

KeyStorage: TypeAlias = Literal["keyring", "file"]

KEY_FILE_NAME = "keys.json"
SIGN_IN_FILE_NAME = "sign-ins.json"
MAX_KEY_CHARS = 8_192
"""Maximum length of a key, in characters."""
_KEYRING_TIMEOUT_S = 2.0
"""Timeout of the keyring, in seconds. Without it, a locked keyring that asks an absent user for a password would block
every start."""
_KEY_PREFIX, _ADDRESS_PREFIX, _SIGN_IN_PREFIX = "EBB_STORED_KEY_", "EBB_STORED_URL_", "EBB_SIGNED_IN_"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """Where a key is stored, and the address that it may be sent to."""

    origin: str
    storage: KeyStorage
    account: str = ""
    """The account that is signed in; empty for a key."""


class KeyStore:
    """The stored keys of one user."""

    def __init__(
        self, folder: Path, file_name: str = KEY_FILE_NAME, service: str = "ebbtide", command: str = "ebb key set"
    ) -> None:
        """`service`: the name under which the keyring stores the keys. `command`: the command that stores a key again,
        for error messages."""
        self.path = folder / file_name
        self._service = service
        self._advice = f"remove it and run `{command}` again"
        self._table = PrivateTable(self.path, "keys", advice=self._advice)

    def stored_keys(self) -> dict[str, StoredKey]:
        """Return the stored keys by provider. Raises `ConfigError` if they cannot be read."""
        return {
            name: StoredKey(entry["origin"], entry["place"], str(entry.get("account", "")))
            for name, entry in self._read_entries().items()
        }

    def read_key(self, provider: str) -> str | None:
        """Return a provider's key; None if none is stored or if the keyring does not return it. Raises `ConfigError` if
        the stored keys cannot be read."""
        entry = self._read_entries().get(provider)
        if entry is None:
            return None
        return entry.get("key") if entry["place"] == "file" else _key_from_keyring(self._service, provider)

    def store_key(self, provider: str, origin: str, key: str, account: str = "") -> KeyStorage:
        """Store a key, replacing any earlier one, and return where it is stored. Raises `ConfigError` if that fails."""
        storage: KeyStorage = "keyring" if _store_in_keyring(self._service, provider, key) else "file"
        entry = {"origin": origin, "place": storage}
        entry |= ({"account": account} if account else {}) | ({"key": key} if storage == "file" else {})
        self._write(lambda entries: {**entries, provider: entry})
        return storage

    def remove_key(self, provider: str) -> bool:
        """Remove a provider's key. Return whether there was one. Raises `ConfigError` if that fails."""
        previous_entries = self._read_entries()
        if previous_entries.get(provider, {}).get("place") == "keyring":
            _remove_from_keyring(self._service, provider)
        self._write(lambda entries: {name: entry for name, entry in entries.items() if name != provider})
        return provider in previous_entries

    def _read_entries(self) -> dict[str, dict[str, Any]]:
        entries = self._table.read()
        if not all(map(_is_entry, entries.values())):
            raise ConfigError(f"`{self.path}` is not a valid key file; {self._advice}")
        return entries

    def _write(self, change: Callable[[dict[str, dict[str, Any]]], dict[str, dict[str, Any]]]) -> None:
        def change_private_file(entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            if self.path.exists():
                self.path.chmod(0o600)
            return change(entries)

        self._read_entries()
        self._table.update(change_private_file)


def sign_in_store(folder: Path) -> KeyStore:
    """Return the store for sign-ins. It holds each provider's tokens as one string."""
    return KeyStore(folder, SIGN_IN_FILE_NAME, "ebbtide sign-in", "ebb key sign-in")


def validate_key(text: str) -> str:
    """Return the key without surrounding whitespace. Raises `UsageError` if it is invalid."""
    key = text.strip()
    if not key or len(key) > MAX_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("not a valid key: expected one line without spaces")
    return key


def add_stored_keys(folder: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with two additions: the stored keys, and the addresses that the user is signed in to. The
    keys get names that only `read_stored_key` reads. If the files cannot be read, nothing is added; `ebb doctor`
    reports the reason."""
    variables = _key_variables(KeyStore(folder)) | _sign_in_variables(sign_in_store(folder))
    return {**environment, **variables} if variables else environment


def _key_variables(store: KeyStore) -> dict[str, str]:
    variables: dict[str, str] = {}
    if not os.path.lexists(store.path):
        return variables
    try:
        for provider, stored in store.stored_keys().items():
            if key := store.read_key(provider):
                name = _variable_suffix(provider)
                variables |= {f"{_KEY_PREFIX}{name}": key, f"{_ADDRESS_PREFIX}{name}": stored.origin}
    except ConfigError:
        return {}
    return variables


def _sign_in_variables(store: KeyStore) -> dict[str, str]:
    if not os.path.lexists(store.path):
        return {}
    try:
        sign_ins = store.stored_keys()
    except ConfigError:
        return {}
    return {f"{_SIGN_IN_PREFIX}{_variable_suffix(name)}": sign_in.origin for name, sign_in in sign_ins.items()}


def is_signed_in(environment: Mapping[str, str], provider: str, url: str) -> bool:
    """Whether the user is signed in to a provider at the address `url`."""
    return environment.get(f"{_SIGN_IN_PREFIX}{_variable_suffix(provider)}") == url_origin(url)


def read_stored_key(environment: Mapping[str, str], provider: str, url: str | None = None) -> str | None:
    """Return the key stored for a provider, if it was stored for the address `url`. If `url` is None, any address
    matches."""
    name = _variable_suffix(provider)
    key, origin = environment.get(f"{_KEY_PREFIX}{name}"), environment.get(f"{_ADDRESS_PREFIX}{name}")
    return key if key and (url is None or url_origin(url) == origin) else None


def without_stored_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove what `add_stored_keys` added to the environment."""
    prefixes = (_KEY_PREFIX, _ADDRESS_PREFIX, _SIGN_IN_PREFIX)
    return {name: value for name, value in environment.items() if not name.startswith(prefixes)}


def url_origin(url: str) -> str:
    """Return the scheme, host and port of a URL, without the user name and password."""
    split_url = urlsplit(url)
    has_default_port = split_url.port in (None, {"https": 443, "http": 80}.get(split_url.scheme))
    return (
        f"{split_url.scheme}://{(split_url.hostname or '').lower()}{'' if has_default_port else f':{split_url.port}'}"
    )


def _variable_suffix(provider: str) -> str:
    return provider.replace("-", "_").upper()


def _is_entry(entry: object) -> bool:
    match entry:
        case {"origin": str(), "place": "keyring"} | {"origin": str(), "place": "file", "key": str()}:
            return True
        case _:
            return False


class _Keyring(Protocol):
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def get_password(self, service: str, username: str) -> str | None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def _store_in_keyring(service: str, provider: str, key: str) -> bool:
    """Store a key in the system keyring. Return False if there is none, or if it stores keys as plain text."""

    def put() -> bool:
        keyring = _usable_keyring()
        if keyring is None:
            return False
        keyring.set_password(service, provider, key)
        return bool(keyring.get_password(service, provider) == key)

    return _run_with_timeout(put, default=False)


def _key_from_keyring(service: str, provider: str) -> str | None:
    def get() -> str | None:
        keyring = _usable_keyring()
        return None if keyring is None else keyring.get_password(service, provider)

    return _run_with_timeout(get, default=None)


def _remove_from_keyring(service: str, provider: str) -> None:
    def delete() -> None:
        if (keyring := _usable_keyring()) is not None:
            keyring.delete_password(service, provider)

    _run_with_timeout(delete, default=None)


def _usable_keyring() -> "_Keyring | None":
    """Return the system keyring; None if there is no usable one."""
    import keyring  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415  # deferred and optional: few have it

    backend = keyring.get_keyring()
    is_unavailable = type(backend).__module__ == "keyring.backends.fail"
    return None if is_unavailable or backend.priority < 1 else cast(_Keyring, backend)


def _run_with_timeout(work: Callable[[], T], *, default: T) -> T:
    """Return the result of `work`, or `default` if it fails or takes too long. The caller then uses the key file
    instead."""
    results: list[T] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception:  # noqa: BLE001  # backends may raise anything, and the file replaces them
            results.append(default)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(_KEYRING_TIMEOUT_S)
    return results[0] if results else default

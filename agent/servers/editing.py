"""The user's configuration file, changed by one server: comments, order and everything else in it stay as they are."""

import tomllib
from collections.abc import Mapping, MutableMapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from agent.config import read_toml
from agent.errors import ConfigError
from tools.base import ToolError
from tools.files import write_bytes


def put_server(path: Path, name: str, table: Mapping[str, object]) -> None:
    """Writes what is said of a server in place of what was. Raises `ConfigError`."""
    _change(path, name, table)


def take_server(path: Path, name: str) -> None:
    """Removes what is said of a server. Raises `ConfigError`."""
    _change(path, name, None)


def _change(path: Path, name: str, table: Mapping[str, object] | None) -> None:
    before = read_toml(path)
    text = path.read_text(encoding="utf-8") if before or path.exists() else ""
    edited = _edited(text, name, table)
    try:
        is_sound = tomllib.loads(edited) == _expected(before, name, table)
    except tomllib.TOMLDecodeError:
        is_sound = False
    if not is_sound:
        raise ConfigError(f"cannot change `{path}` without disturbing it; edit `[mcp.servers.{name}]` there by hand")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path.resolve(), edited.encode(), 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error
    except ToolError as error:
        raise ConfigError(str(error)) from error


def _edited(text: str, name: str, table: Mapping[str, object] | None) -> str:
    import tomlkit  # noqa: PLC0415  # deferred: only who adds or removes a server needs it
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415  # as above

    try:
        document = tomlkit.parse(text)
        mcp: Any = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers: Any = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        servers.pop(name, None)
        if table is not None:
            added = tomlkit.table()
            for key, value in table.items():
                added[key] = _in_line(tomlkit.inline_table(), value) if isinstance(value, Mapping) else value
            added.add(tomlkit.nl())
            servers[name] = added
        if not servers:
            mcp.pop("servers")
        if not mcp:
            document.pop("mcp")
        whole = tomlkit.dumps(document).rstrip("\n")
        return f"{whole}\n" if whole else ""
    except TOMLKitError:
        return ""


def _in_line(table: MutableMapping[str, object], values: Mapping[str, object]) -> object:
    table.update(values)
    return table


def _expected(before: Mapping[str, object], name: str, table: Mapping[str, object] | None) -> dict[str, object]:
    content: dict[str, Any] = deepcopy(dict(before))
    servers = content.setdefault("mcp", {}).setdefault("servers", {})
    servers.pop(name, None)
    if table is not None:
        servers[name] = dict(table)
    if not servers:
        del content["mcp"]["servers"]
    if not content["mcp"]:
        del content["mcp"]
    return content

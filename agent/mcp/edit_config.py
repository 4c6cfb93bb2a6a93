"""The user's configuration file, changed by one server: comments, order and everything else in it stay as they are."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from agent.config.toml_file import rewrite


def put_server(path: Path, name: str, table: Mapping[str, object]) -> None:
    """Writes what is said of a server in place of what was. Raises `ConfigError`."""
    _change(path, name, table)


def take_server(path: Path, name: str) -> None:
    """Removes what is said of a server. Raises `ConfigError`."""
    _change(path, name, None)


def _change(path: Path, name: str, table: Mapping[str, object] | None) -> None:
    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: only who adds or removes a server needs it

        mcp = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        servers.pop(name, None)
        if table is not None:
            added = tomlkit.table()
            for key, value in table.items():
                added[key] = _in_line(tomlkit.inline_table(), value) if isinstance(value, Mapping) else value
            added.add(tomlkit.nl())
            servers[name] = added
        _without_empty(document)

    def expected(content: dict[str, Any]) -> None:
        servers = content.setdefault("mcp", {}).setdefault("servers", {})
        servers.pop(name, None)
        if table is not None:
            servers[name] = dict(table)
        _without_empty(content)

    rewrite(path, edit, expected, f"edit `[mcp.servers.{name}]` there by hand")


def _without_empty(content: dict[str, Any]) -> None:
    if not content["mcp"]["servers"]:
        content["mcp"].pop("servers")
    if not content["mcp"]:
        content.pop("mcp")


def _in_line(table: MutableMapping[str, object], values: Mapping[str, object]) -> object:
    table.update(values)
    return table

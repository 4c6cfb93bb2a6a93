"""Edits the user's configuration file in place, preserving comments, order and everything else."""

import tomllib
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from ebbtide.agent.config.load import read_toml
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.files.read_write import write_bytes

TomlEdit: TypeAlias = Callable[[dict[str, Any]], None]
"""Edits the content of a file, as a tomlkit document or as plain tables."""


def rewrite(path: Path, edit: TomlEdit, expected: TomlEdit, by_hand: str) -> None:
    """Apply `edit` to the document and write it atomically. The result must equal `expected` applied to the old
    content; otherwise nothing is written, and the error tells the user to do `by_hand`. Raises `ConfigError`."""
    before = read_toml(path)
    text = path.read_text(encoding="utf-8") if before or path.exists() else ""
    content = tomllib.loads(text)
    expected(content)
    edited = _apply_edit(text, edit)
    try:
        is_sound = tomllib.loads(edited) == content
    except tomllib.TOMLDecodeError:
        is_sound = False
    if not is_sound:
        raise ConfigError(f"cannot change `{path}` without disturbing it; {by_hand}")
    try:
        make_private(path.parent)
        write_bytes(path.resolve(), edited.encode(), 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error
    except ToolError as error:
        raise ConfigError(str(error)) from error


def _apply_edit(text: str, edit: TomlEdit) -> str:
    import tomlkit  # noqa: PLC0415  # deferred: only needed to change the file
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415  # as above

    try:
        document = tomlkit.parse(text)
        edit(document)
        whole = tomlkit.dumps(document).rstrip("\n")
        return f"{whole}\n" if whole else ""
    except TOMLKitError:
        return ""


def put_value(path: Path, key: str, value: object) -> None:
    """Set one key, such as `agent.model`, creating its tables. Raises `ConfigError`."""
    *tables, name = key.split(".")

    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: as above

        inner: Any = document
        for table in tables:
            if table not in inner:
                inner[table] = tomlkit.table(is_super_table=table != tables[-1])
            inner = inner[table]
        inner[name] = value

    def expected(content: dict[str, Any]) -> None:
        for table in tables:
            content = content.setdefault(table, {})
        content[name] = value

    rewrite(path, edit, expected, f"set `{name}` in `[{'.'.join(tables)}]` there by hand")


def take_value(path: Path, key: str) -> None:
    """Remove one key of a table, and the table if it is then empty. Raises `ConfigError`."""
    table, _, name = key.partition(".")

    def take(content: dict[str, Any]) -> None:
        if isinstance(inner := content.get(table), MutableMapping):
            inner.pop(name, None)
            if not inner:
                content.pop(table)

    rewrite(path, take, take, f"remove `{name}` from `[{table}]` there by hand")

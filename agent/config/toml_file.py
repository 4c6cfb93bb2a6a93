"""Edits the user's configuration file in place, preserving comments and order."""

import tomllib
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from ebbtide.agent.config.load import read_toml_text
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.files.read_write import write_bytes

TomlEdit: TypeAlias = Callable[[dict[str, Any]], None]
"""Edits the content of a file, as a tomlkit document or as plain tables."""


def edit_file(path: Path, edit: TomlEdit, expected: TomlEdit, manual_advice: str) -> None:
    """Apply `edit` to the document and write it atomically. The result must equal the old content after `expected` was
    applied to it. If it does not, nothing is written, and the error contains the instruction `manual_advice` for the
    user. Raises `ConfigError`."""
    text, content = read_toml_text(path)
    expected(content)
    edited = _apply_edit(text, edit)
    try:
        is_as_expected = edited is not None and tomllib.loads(edited) == content
    except tomllib.TOMLDecodeError:
        is_as_expected = False
    if edited is None or not is_as_expected:
        raise ConfigError(f"cannot change `{path}` without disturbing it; {manual_advice}")
    try:
        make_private(path.parent)
        write_bytes(path.resolve(), edited.encode(), 0o600)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error
    except ToolError as error:
        raise ConfigError(str(error)) from error


def _apply_edit(text: str, edit: TomlEdit) -> str | None:
    """Return the edited text; None if tomlkit cannot edit it."""
    import tomlkit  # noqa: PLC0415  # deferred: only needed to change the file
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415  # as above

    try:
        document = tomlkit.parse(text)
        edit(document)
        edited = tomlkit.dumps(document).rstrip("\n")
        return f"{edited}\n" if edited else ""
    except TOMLKitError:
        return None


def write_value(path: Path, key: str, value: object) -> None:
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

    edit_file(path, edit, expected, f"set `{name}` in `[{'.'.join(tables)}]` there by hand")


def remove_value(path: Path, key: str) -> None:
    """Remove one key of a table, and the table if it becomes empty. Raises `ConfigError`."""
    table, _, name = key.partition(".")

    def take(content: dict[str, Any]) -> None:
        if isinstance(inner := content.get(table), MutableMapping):
            inner.pop(name, None)
            if not inner:
                content.pop(table)

    edit_file(path, take, take, f"remove `{name}` from `[{table}]` there by hand")

"""Edits the user's configuration file in place, preserving comments and order."""

import tomllib
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeAlias

from ebbtide.agent.config.load import read_toml_text
from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.files.read_write import write_bytes

TomlEdit: TypeAlias = Callable[[dict[str, Any]], None]
"""Edits a file's tables in place, as a tomlkit document or as plain dictionaries."""


def edit_toml_file(path: Path, edit: TomlEdit, apply_expected: TomlEdit, manual_advice: str) -> None:
    """Apply `edit` to the document and write it atomically. To check the edit, `apply_expected` is applied to the
    parsed tables, and the edited text must parse to the same result. If it does not, nothing is written, and the error
    ends with `manual_advice`, which tells the user how to make the change by hand. Raises `ConfigError`."""
    text, expected_tables = read_toml_text(path)
    apply_expected(expected_tables)
    edited_text = _apply_edit(text, edit)
    try:
        matches_expected = edited_text is not None and tomllib.loads(edited_text) == expected_tables
    except tomllib.TOMLDecodeError:
        matches_expected = False
    if edited_text is None or not matches_expected:
        raise ConfigError(f"cannot edit `{path}` safely; {manual_advice}")
    try:
        create_private_folder(path.parent)
        write_bytes(path.resolve(), edited_text.encode(), 0o600)
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
        edited_text = tomlkit.dumps(document).rstrip("\n")
        return f"{edited_text}\n" if edited_text else ""
    except TOMLKitError:
        return None


def set_key(path: Path, key: str, value: object) -> None:
    """Set one key, such as `agent.model`, creating its tables. Raises `ConfigError`."""
    *table_names, name = key.split(".")

    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: as above

        table: Any = document
        for table_name in table_names:
            if table_name not in table:
                table[table_name] = tomlkit.table(is_super_table=table_name != table_names[-1])
            table = table[table_name]
        table[name] = value

    def set_value(tables: dict[str, Any]) -> None:
        for table_name in table_names:
            tables = tables.setdefault(table_name, {})
        tables[name] = value

    edit_toml_file(path, edit, set_value, f"set `{name}` in `[{'.'.join(table_names)}]` there by hand")


def remove_key(path: Path, key: str) -> None:
    """Remove one key, such as `agent.model`, and its table if that becomes empty. Only top-level tables are supported.
    Raises `ConfigError`."""
    table_name, _, name = key.partition(".")

    def remove(tables: dict[str, Any]) -> None:
        if isinstance(table := tables.get(table_name), MutableMapping):
            table.pop(name, None)
            if not table:
                tables.pop(table_name)

    edit_toml_file(path, remove, remove, f"remove `{name}` from `[{table_name}]` there by hand")

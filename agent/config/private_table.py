"""The user's JSON files. Each contains one table, such as a table with an entry per project. Only their owner can read
the files, and they are written atomically. Callers define what the entries mean."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.bounded import MAX_PROGRAM_FILE_BYTES, read_trusted_prefix
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.files.read_write import write_bytes


class PrivateTable:
    """The table in a file, with entries by name."""

    def __init__(self, path: Path, name: str, *, advice: str | None = "fix or remove it") -> None:
        """`advice`: what the error message says to do about an unreadable file. If it is None, an unreadable file
        counts as empty."""
        self.path = path
        self._name = name
        self._advice = advice

    def read(self) -> dict[str, Any]:
        """Return the entries; empty if there are none. Raises `ConfigError` if the file is unreadable."""
        try:
            entries = self._entries()
        except ConfigError:
            if self._advice is None:
                return {}
            raise
        return {name: entry for name, entry in entries.items() if self._advice is not None or isinstance(entry, dict)}

    def _entries(self) -> dict[str, Any]:
        try:
            content = json.loads(read_trusted_prefix(self.path, MAX_PROGRAM_FILE_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read `{self.path}`: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"`{self.path}` cannot be read: {error}; {self._advice}") from error
        entries = content.get(self._name) if isinstance(content, dict) else None
        if not isinstance(entries, dict):
            raise ConfigError(f"`{self.path}` has no table `{self._name}`; {self._advice}")
        return entries

    def update(self, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Apply `transform` to the entries and store the result, under a file lock. Raises `ConfigError`."""
        try:
            create_private_folder(self.path.parent)
            with file_lock(self.path):
                write_bytes(self.path.resolve(), _json_bytes({self._name: transform(self.read())}), 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write `{self.path}`: {error.strerror or error}") from error
        except ToolError as error:
            raise ConfigError(str(error)) from error


class ProjectTable:
    """One project's entry in a table; the key is the project's real path."""

    def __init__(self, path: Path, project: Path) -> None:
        self.path = path
        self._table = PrivateTable(path, "projects")
        self._project = str(project)

    def read(self) -> dict[str, Any]:
        """Return the entry; empty if there is none. Raises `ConfigError` if the file is unreadable."""
        return self._entry(self._table.read())

    def update(self, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Apply `transform` to the entry and store the result, under a file lock. Raises `ConfigError`."""
        self._table.update(lambda projects: {**projects, self._project: transform(self._entry(projects))})

    def _entry(self, projects: dict[str, Any]) -> dict[str, Any]:
        entry = projects.get(self._project, {})
        if not isinstance(entry, dict):
            raise ConfigError(f"`{self.path}` has an invalid entry for `{self._project}`; fix or remove it")
        return entry


def _json_bytes(content: object) -> bytes:
    """Format as indented JSON. Non-ASCII characters are escaped only if the content has text that cannot be encoded,
    such as an undecodable path."""
    try:
        return json.dumps(content, indent=1, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(content, indent=1).encode()


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock the file against other processes."""
    lock_path = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

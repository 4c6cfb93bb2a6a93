"""A file of the user's in which something is kept for each project, by its real path. It knows no meaning of what is
kept; only its owner can read it, and no half of it is ever written."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.errors import ConfigError
from tools.base import ToolError
from tools.files.bounded import LARGEST, own_beginning_of
from tools.files.private_folder import make_private
from tools.files.read_write import write_bytes


class KeptByProject:
    """What is kept for one project."""

    def __init__(self, path: Path, project: Path) -> None:
        self.path = path
        self._project = str(project)

    def read(self) -> dict[str, Any]:
        """Empty when nothing is kept. Raises `ConfigError` when that cannot be told."""
        entry = self._projects().get(self._project, {})
        if not isinstance(entry, dict):
            raise ConfigError(f"`{self.path}` does not hold what it should for `{self._project}`; fix or remove it")
        return entry

    def change(self, work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Keeps what the work makes of what is kept; no other process changes it meanwhile. Raises `ConfigError`."""
        try:
            make_private(self.path.parent)
            with alone_with(self.path):
                projects = {**self._projects(), self._project: work(self.read())}
                write_bytes(self.path.resolve(), _encoded({"projects": projects}), 0o600)
        except OSError as error:
            raise ConfigError(f"cannot write `{self.path}`: {error.strerror or error}") from error
        except ToolError as error:
            raise ConfigError(str(error)) from error

    def _projects(self) -> dict[str, Any]:
        try:
            content = json.loads(own_beginning_of(self.path, LARGEST))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"cannot read `{self.path}`: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"`{self.path}` cannot be read: {error}; fix or remove it") from error
        projects = content.get("projects") if isinstance(content, dict) else None
        if not isinstance(projects, dict):
            raise ConfigError(f"`{self.path}` has no table `projects`; fix or remove it")
        return projects


def _encoded(content: object) -> bytes:
    """JSON that people can read, unless a path holds bytes that are no text."""
    try:
        return json.dumps(content, indent=1, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(content, indent=1).encode()


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Lets no other process change the file at the same time."""
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

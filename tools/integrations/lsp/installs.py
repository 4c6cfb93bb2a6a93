"""Finds install folders that a sandbox would hide, so that they can be made visible: a program's own folder, the
folders that its links point to, and those of its interpreter."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.sandbox.mount_paths import SHARED_SOCKET_FOLDERS

_MAX_FOLLOWED_FILES = 20
"""Maximum number of links and interpreters to follow."""
_MAX_HEAD_BYTES = 4_096
"""Number of bytes at the start of a script that are searched for its interpreter."""
_INTERPRETER = re.compile(rb"#!\s*(\S+)[ \t]*([^\n]*)")
_QUOTED_EXEC = re.compile(rb"^'''exec' (?:\"([^\"\n]+)\"|(\S+))", re.MULTILINE)
"""Matches the line in which pip names a script's interpreter if the path is long or contains spaces."""


def find_hidden_install_paths(command: Sequence[str], path: str) -> tuple[Path, ...]:
    """Return the folders that must be made visible, or single files for programs without a folder of their own. `path`:
    the search path for interpreters."""
    program = shutil.which(command[0], path=path) or command[0]
    pending = [program, *(word for word in command[1:] if os.path.isabs(word) and os.path.exists(word))]
    installs = dict[Path, None]()
    seen_files = set[str]()
    while pending and len(seen_files) < _MAX_FOLLOWED_FILES:
        file = os.path.normpath(pending.pop())
        if file in seen_files:
            continue
        seen_files.add(file)
        if (install := _install_folder(file)) is not None:
            installs[install] = None
        pending += _required_files(file, path)
    return tuple(installs)


def _install_folder(file: str) -> Path | None:
    """Find the folder in which a program is installed: its `node_modules`, the parent of its `bin` folder, or its own
    folder. If that would reveal too much, return the program file itself. None if sandboxes do not hide it."""
    path = Path(file)
    if not any(map(path.is_relative_to, SHARED_SOCKET_FOLDERS)):
        return None
    modules = next((parent for parent in reversed(path.parents) if parent.name == "node_modules"), None)
    folder = path.parent.parent if path.parent.name in ("bin", ".bin") else path.parent
    for install in filter(None, (modules, folder, path.parent)):
        if str(install) not in (*SHARED_SOCKET_FOLDERS, "/var", "/"):
            return install
    return path


def _required_files(file: str, path: str) -> Iterator[str]:
    """Yield the next files to follow: a link's target, the real path if a parent folder is a link, or a script's
    interpreters."""
    real_path = os.path.realpath(file)
    if os.path.islink(file):
        yield os.path.join(os.path.dirname(file), os.readlink(file))
    elif real_path != file:
        yield real_path
    else:
        with suppress(OSError):
            yield from _interpreters(read_prefix(Path(file), _MAX_HEAD_BYTES), path)


def _interpreters(head: bytes, path: str) -> Iterator[str]:
    if (match := _INTERPRETER.match(head)) is None:
        return
    program, words = os.fsdecode(match[1]), os.fsdecode(match[2]).split()
    if os.path.basename(program) == "env":
        names = (word for word in words if not word.startswith("-") and "=" not in word)
        program = shutil.which(next(names, ""), path=path) or program
    yield program
    if quoted := _QUOTED_EXEC.search(head):
        yield os.fsdecode(quoted[1] or quoted[2])

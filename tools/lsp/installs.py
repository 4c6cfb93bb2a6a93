"""Finds the installation of a program in a folder that sandboxes hide, so that it can be made visible: its own folder,
those its links lead to, and those of its interpreter."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.sandbox.mount_paths import WITH_SOCKETS

_MAX_FILES = 20
"""Maximum number of links and interpreters followed."""
_MAX_HEAD = 4_096
"""Maximum number of bytes of a script that are searched for its interpreter."""
_INTERPRETER = re.compile(rb"#!\s*(\S+)[ \t]*([^\n]*)")
_QUOTED_EXEC = re.compile(rb"^'''exec' (?:\"([^\"\n]+)\"|(\S+))", re.MULTILINE)
"""How pip writes a script whose interpreter has a long path or blanks in it."""


def hidden_installs(command: Sequence[str], path: str) -> tuple[Path, ...]:
    """Return the folders to make visible, or single files if a program has no folder of its own. `path`: where
    interpreters are looked up."""
    first = shutil.which(command[0], path=path) or command[0]
    left = [first, *(word for word in command[1:] if os.path.isabs(word) and os.path.exists(word))]
    found, seen = dict[Path, None](), set[str]()
    while left and len(seen) < _MAX_FILES:
        file = os.path.normpath(left.pop())
        if file in seen:
            continue
        seen.add(file)
        if (install := _install_of(file)) is not None:
            found[install] = None
        left += _behind(file, path)
    return tuple(found)


def _install_of(file: str) -> Path | None:
    """Return a program's installation: the parent of its `bin`, its `node_modules`, or its own folder."""
    path = Path(file)
    if not any(map(path.is_relative_to, WITH_SOCKETS)):
        return None
    modules = next((each for each in reversed(path.parents) if each.name == "node_modules"), None)
    folder = path.parent.parent if path.parent.name in ("bin", ".bin") else path.parent
    for install in filter(None, (modules, folder, path.parent)):
        if str(install) not in (*WITH_SOCKETS, "/var", "/"):
            return install
    return path


def _behind(file: str, path: str) -> Iterator[str]:
    """Yield what a program leads to: link targets, its real path through linked folders, its interpreter."""
    real = os.path.realpath(file)
    if os.path.islink(file):
        yield os.path.join(os.path.dirname(file), os.readlink(file))
    elif real != file:
        yield real
    else:
        with suppress(OSError):
            yield from _interpreters(beginning_of(Path(file), _MAX_HEAD), path)


def _interpreters(head: bytes, path: str) -> Iterator[str]:
    if (found := _INTERPRETER.match(head)) is None:
        return
    program, words = os.fsdecode(found[1]), os.fsdecode(found[2]).split()
    if os.path.basename(program) == "env":
        names = (word for word in words if not word.startswith("-") and "=" not in word)
        program = shutil.which(next(names, ""), path=path) or program
    yield program
    if quoted := _QUOTED_EXEC.search(head):
        yield os.fsdecode(quoted[1] or quoted[2])

"""Paths as the model writes them, made absolute and real. It decides nothing about which of them are allowed."""

import json
import os
import stat
from pathlib import Path
from typing import Literal

from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.files.punctuation import plain_signs
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import printable

_OF_A_PROCESS = regex(r"/proc(?:$|/(?:\d+|self|thread-self|kcore|kmem)(?:/|$))|/dev/(?:fd|mem|kmem|port)(?:/|$)")


def resolve(written: str, workspace: Workspace) -> Path:
    """The absolute path that is meant, every symbolic link followed; the file need not exist. Raises `ToolError` also
    for one that a running call was not allowed to use."""
    return check_granted(locate(written, workspace), workspace)


def resolve_existing(written: str, workspace: Workspace) -> tuple[Path, str]:
    """As `resolve`, but where nothing has that name and one entry has a name that looks the same, the path of that, and
    what is to be said of it."""
    path, note = locate_existing(written, workspace)
    return check_granted(path, workspace), note


def locate_existing(written: str, workspace: Workspace) -> tuple[Path, str]:
    """The path, whether a call may use it or not, and what is to be said where only its name looks the same."""
    path = locate(written, workspace)
    found = None if os.path.lexists(path) else _look_alike(path)
    if found is None:
        return path, ""
    asked, name = display(path, workspace.root), display(found, workspace.root)
    return locate(str(found), workspace), f"(there is no `{asked}`: this is `{name}`, whose name only looks the same)"


def _look_alike(path: Path) -> Path | None:
    """What is there under a name that looks the same, each part of it; None where no entry does, or several do."""
    at = Path(path.anchor)
    for part in path.parts[1:]:
        if not os.path.lexists(at / part):
            try:
                alike = [name for name in os.listdir(at) if _lookalike_key(name) == _lookalike_key(part)]
            except OSError:
                return None
            if len(alike) != 1:
                return None
            part = alike[0]
        at /= part
    return at


def _lookalike_key(name: str) -> str:
    """A name as it looks: blanks, apostrophes, quotation marks and dashes of any kind are alike, and so is a letter
    with its accent, written as one character or two."""
    from unicodedata import normalize  # noqa: PLC0415  # deferred: only a name that is not there needs it

    return plain_signs(normalize("NFC", name))


def check_granted(path: Path, workspace: Workspace) -> Path:
    """The path, unless a link was put in its way after it was decided what the call may use. Raises `ToolError`."""
    if workspace.granted is not None and str(path) not in workspace.granted:
        raise ToolError(f"`{printable(str(path))}` is not where the path led when it was allowed: look at it again")
    return path


def locate(written: str, workspace: Workspace) -> Path:
    """The absolute path that is meant, whether a call may use it or not."""
    if not written:
        raise ToolError("the path is empty: name a file or folder")
    if "\0" in written:
        raise ToolError("the path holds a NUL character: leave it out")
    try:
        if max(map(len, os.fsencode(written).split(b"/"))) > 255 or len(os.fsencode(written)) > 4000:
            raise ToolError("the path is too long for a file: check it")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the path {printable(written)!r} cannot be a file name: write it in plain characters"
        ) from error
    try:
        path = Path(os.path.realpath(workspace.root / _expand_path(written, workspace.root)))
    except OSError as error:  # a link that is replaced while it is followed
        raise ToolError(f"`{printable(written)}` changes at this moment: try again") from error
    if _OF_A_PROCESS.match(str(path)):
        raise ToolError(f"`{printable(str(path))}` belongs to a running process, secrets included: leave it alone")
    return path


def _expand_path(written: str, root: Path) -> str:
    if written.startswith("file:"):
        return _path_of_url(written)
    if written.startswith("@") and not os.path.lexists(root / written):
        written = written[1:] or "."
    return os.path.expanduser(written)


def _path_of_url(url: str) -> str:
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415  # deferred: few paths are URLs

    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise ToolError(f"`{printable(url)}` is not a file on this machine: write the path alone")
    return path


def kind_of(path: Path) -> Literal["folder", "file", "neither"]:
    """What is there, as far as one may know."""
    return "folder" if os.path.isdir(path) else "file" if os.path.isfile(path) else "neither"


def has_other_names(path: str) -> bool:
    """Whether a file is there that has more than one name: it is written under all of them."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a resolved path is the folder or lies in it, compared by component."""
    return path.is_relative_to(folder)


def display(path: Path, root: Path) -> str:
    """How a path is shown: relative when it lies inside `root`, and always on one line."""
    return printable(str(path.relative_to(root) if is_inside(path, root) else path))


def read_call(name: str) -> str:
    """The call that shows a file, as a piece of a sentence: models that are told to read it first ask how. It has not
    the form in which models write calls: a call that stands in what they were told is a quotation."""
    return f"call `read` with path={json.dumps(name, ensure_ascii=False)}"

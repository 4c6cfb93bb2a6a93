"""Resolves paths written by the model. Whether a path is allowed is decided elsewhere."""

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
    """Return the absolute path with all symbolic links resolved. The file need not exist. Raises `ToolError`, also if
    the running call may not use the path."""
    return check_granted(locate(written, workspace), workspace)


def resolve_existing(written: str, workspace: Workspace) -> tuple[Path, str]:
    """Like `resolve`, but if the path does not exist and exactly one entry has a lookalike name, return that path and a
    note."""
    path, note = locate_existing(written, workspace)
    return check_granted(path, workspace), note


def locate_existing(written: str, workspace: Workspace) -> tuple[Path, str]:
    """Return the path, whether or not a call may use it, and a note if only a lookalike name exists."""
    path = locate(written, workspace)
    found = None if os.path.lexists(path) else _look_alike(path)
    if found is None:
        return path, ""
    asked, name = display(path, workspace.root), display(found, workspace.root)
    return locate(str(found), workspace), f"(there is no `{asked}`: this is `{name}`, whose name only looks the same)"


def _look_alike(path: Path) -> Path | None:
    """Return an existing path whose components look the same, or None if there is none or it is ambiguous."""
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
    """Return a key that is equal for lookalike names: all kinds of blanks, apostrophes, quotation marks and dashes, and
    composed or decomposed accents."""
    from unicodedata import normalize  # noqa: PLC0415  # deferred: only a name that is not there needs it

    return plain_signs(normalize("NFC", name))


def check_granted(path: Path, workspace: Workspace) -> Path:
    """Return the path unless a link has changed since the call was approved. Raises `ToolError` then."""
    if workspace.granted is not None and str(path) not in workspace.granted:
        raise ToolError(f"`{printable(str(path))}` is not where the path led when it was approved: check it again")
    return path


def locate(written: str, workspace: Workspace) -> Path:
    """Return the absolute path, whether or not a call may use it. Raises `ToolError`."""
    if not written:
        raise ToolError("the path is empty: name a file or folder")
    if "\0" in written:
        raise ToolError("the path contains a NUL character: remove it")
    try:
        if max(map(len, os.fsencode(written).split(b"/"))) > 255 or len(os.fsencode(written)) > 4000:
            raise ToolError("the path is too long for a file: check it")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the path {printable(written)!r} cannot be a file name: write it in plain characters"
        ) from error
    try:
        path = Path(os.path.realpath(workspace.root / _expand_path(written, workspace.root)))
    except OSError as error:  # a link replaced while it is resolved
        raise ToolError(f"`{printable(written)}` is being changed: try again") from error
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
    """Return the type of a path, as far as it is accessible."""
    return "folder" if os.path.isdir(path) else "file" if os.path.isfile(path) else "neither"


def has_other_names(path: str) -> bool:
    """Whether the file has several hard links: a write changes all of them."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a resolved path is the folder or inside it, compared by component."""
    return path.is_relative_to(folder)


def display(path: Path, root: Path) -> str:
    """Return a path for display: relative if inside `root`, and always on one line."""
    return printable(str(path.relative_to(root) if is_inside(path, root) else path))


def read_call(name: str) -> str:
    """Return how to call `read` for a file, as part of a sentence, since models ask how. It does not have the form of a
    real call, which would read as a quotation."""
    return f"call `read` with path={json.dumps(name, ensure_ascii=False)}"

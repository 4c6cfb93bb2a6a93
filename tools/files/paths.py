"""Resolves paths that the model wrote. Does not decide whether a path is allowed."""

import json
import os
import stat
from pathlib import Path
from typing import Literal

from ebbtide.tools.base import ToolError, Workspace
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.plain_text import printable_name

_PROCESS_PATH = regex(r"/proc(?:$|/(?:\d+|self|thread-self|kcore|kmem)(?:/|$))|/dev/(?:fd|mem|kmem|port)(?:/|$)")


def resolve_path(written_path: str, workspace: Workspace) -> Path:
    """Return the absolute path with all symbolic links resolved. The file need not exist. Raises `ToolError`, such as
    when the running call is not allowed to use the path."""
    return check_granted(locate_path(written_path, workspace), workspace)


def resolve_existing(written_path: str, workspace: Workspace) -> tuple[Path, str]:
    """Like `resolve_path`. If the path does not exist but exactly one existing path looks like it, return that path and
    a note."""
    path, note = locate_existing(written_path, workspace)
    return check_granted(path, workspace), note


def locate_existing(written_path: str, workspace: Workspace) -> tuple[Path, str]:
    """Like `resolve_existing`, but without checking whether the running call is allowed to use the path."""
    path = locate_path(written_path, workspace)
    lookalike = None if os.path.lexists(path) else _lookalike_path(path)
    if lookalike is None:
        return path, ""
    missing_name, existing_name = display_path(path, workspace.root), display_path(lookalike, workspace.root)
    return locate_path(
        str(lookalike), workspace
    ), f"(there is no `{missing_name}`: this is `{existing_name}`, whose name looks the same)"


def _lookalike_path(path: Path) -> Path | None:
    """Find an existing path that looks the same as this one. None unless exactly one does."""
    current_path = Path(path.anchor)
    for name in path.parts[1:]:
        if not os.path.lexists(current_path / name):
            try:
                lookalikes = [
                    entry for entry in os.listdir(current_path) if _lookalike_key(entry) == _lookalike_key(name)
                ]
            except OSError:
                return None
            if len(lookalikes) != 1:
                return None
            name = lookalikes[0]
        current_path /= name
    return current_path


def _lookalike_key(name: str) -> str:
    """Return a key that is equal for names that look the same. It ignores the kinds of space, apostrophe, quotation
    mark and dash, and whether accents are composed or decomposed."""
    from unicodedata import normalize  # noqa: PLC0415  # deferred: only a missing name needs it

    return ascii_punctuation(normalize("NFC", name))


def check_granted(path: Path, workspace: Workspace) -> Path:
    """Return the path if the call was approved for it. Raises `ToolError` if it was not, as when a link has changed
    since the approval."""
    if workspace.granted_paths is not None and str(path) not in workspace.granted_paths:
        raise ToolError(f"`{printable_name(str(path))}` is not where the path led when it was approved: check it again")
    return path


def locate_path(written_path: str, workspace: Workspace) -> Path:
    """Return the absolute path, without checking whether any call is allowed to use it. Raises `ToolError`."""
    if not written_path:
        raise ToolError("the path is empty: name a file or folder")
    if "\0" in written_path:
        raise ToolError("the path contains a NUL character: remove it")
    try:
        if max(map(len, os.fsencode(written_path).split(b"/"))) > 255 or len(os.fsencode(written_path)) > 4000:
            raise ToolError("the path is too long for a file: check it")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"the path {printable_name(written_path)!r} cannot be a file name: write it in plain characters"
        ) from error
    try:
        path = Path(os.path.realpath(workspace.root / _expand_path(written_path, workspace.root)))
    except OSError as error:  # a link replaced while it is resolved
        raise ToolError(f"`{printable_name(written_path)}` is being changed: try again") from error
    if _PROCESS_PATH.match(str(path)):
        raise ToolError(f"`{printable_name(str(path))}` belongs to a running process, secrets included: leave it alone")
    return path


def _expand_path(written_path: str, root: Path) -> str:
    if written_path.startswith("file:"):
        return _path_from_url(written_path)
    if written_path.startswith("@") and not os.path.lexists(root / written_path):
        written_path = written_path[1:] or "."
    return os.path.expanduser(written_path)


def _path_from_url(url: str) -> str:
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415  # deferred: few paths are URLs

    url_parts = urlsplit(url)
    path = unquote(url_parts.path)
    if url_parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise ToolError(f"`{printable_name(url)}` is not a file on this machine: write the path alone")
    return path


def path_kind(path: Path) -> Literal["folder", "file", "neither"]:
    """Return whether the path is a folder, a file or neither. An inaccessible path counts as neither."""
    return "folder" if os.path.isdir(path) else "file" if os.path.isfile(path) else "neither"


def has_other_hard_links(path: str) -> bool:
    """Whether the file has several hard links. A write would change all of them."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a resolved path is the folder itself or inside it. Compares path components."""
    return path.is_relative_to(folder)


def display_path(path: Path, root: Path) -> str:
    """Format a path for display: relative if it is inside `root`, and always on one line."""
    return printable_name(str(path.relative_to(root) if is_inside(path, root) else path))


def read_hint(name: str) -> str:
    """Describe how to call `read` for a file, worded as part of a sentence. The text does not imitate a real call, so
    that it is not mistaken for a quotation."""
    return f"call `read` with path={json.dumps(name, ensure_ascii=False)}"

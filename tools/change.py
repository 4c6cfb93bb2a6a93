"""Changes of files, worked out first and then made: all of them or none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.base import ToolError, Workspace
from tools.diff import capped, unified
from tools.files import content_of, delete, mode_of, write_bytes
from tools.paths import display
from tools.seen import SeenFiles
from tools.textfile import binary_kind, decode, showable


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: bytes | None
    """The content that the change was worked out from; None when there was no file."""
    after: bytes | None
    """The new content; None deletes the file."""
    mode: int | None = None
    """Permission bits of a new file, when they are not the usual ones."""


def make(changes: Sequence[Change], seen: SeenFiles) -> None:
    """Makes every change. When one cannot be made, those before it are taken back. Raises `ToolError`."""
    for change in changes:
        if content_of(change.path) != change.before:
            raise ToolError(f"`{change.path}` changed while it was being edited: read it again")
    backward: list[Change] = []
    try:
        for change in changes:
            back = Change(change.path, change.after, change.before, mode_of(change.path))
            _put(change)
            backward.append(back)
    except ToolError:
        for back in reversed(backward):
            with suppress(ToolError):  # the first error is the one to tell
                _put(back)
        raise
    for change in changes:
        if change.after is None:
            seen.forget(change.path)
        else:
            seen.note(change.path, change.after)


def insist_on_read(path: Path, content: bytes, workspace: Workspace) -> None:
    """Returns when the model knows this content of the file. Raises `ToolError`."""
    name = display(path, workspace.root)
    if not workspace.seen.knows(path):
        kind = binary_kind(content)
        if kind is not None:
            raise ToolError(f"`{name}` is {kind}, not text: change it in bash with a program made for that")
        raise ToolError(f"`{name}` was not read in this session: read it first")
    if not workspace.seen.is_current(path, content):
        raise ToolError(f"`{name}` changed since you read it: read it again, then decide anew")


def preview_of(changes: Sequence[Change], root: Path) -> str:
    lines: list[str] = []
    for change in changes:
        lines += unified(display(change.path, root), _text(change.before), _text(change.after))
    return capped(lines)


def _put(change: Change) -> None:
    if change.after is None:
        delete(change.path)
    else:
        write_bytes(change.path, change.after, change.mode)


def _text(content: bytes | None) -> str | None:
    return None if content is None else showable(decode(content).unified)

"""The `memory` tool: notes for later sessions of this project, one Markdown file each, stored in the user's folder and
not in the repository. Later sessions get all of them."""

import asyncio
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.schema import object_of, text
from ebbtide.tools.secrets.redaction import redact_text

MAX_ENTRY_CHARS = 2_000
"""Maximum number of characters per entry."""
MAX_ENTRIES = 50
"""Maximum number of entries."""
MAX_TOTAL_BYTES = 16_384
"""Maximum total size: every later request includes all entries."""
OWN = "notes"
"""Name of the entry that the user writes."""
_ACTIONS = ("save", "change", "forget", "list")
_NAME = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TRIES, _PAUSE = 40, 0.05
"""Attempts to lock the folder, and seconds between them, while another session writes to it."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    name: str
    text: str


class Memory:
    name = "memory"
    description = read_description(__file__)
    effect: Effect = "write"
    kind: Literal["rare"] = "rare"
    schema = object_of(
        {
            "action": {"enum": list(_ACTIONS)},
            "name": {"type": "string"},
            "text": {"type": "string"},
        },
        required=("action",),
    )

    def __init__(self, folder: Path) -> None:
        """`folder` contains the project's entries. It is created with the first one."""
        self._folder = folder

    def effect_of(self, arguments: Arguments) -> Effect:
        """Listing has no effect."""
        return "none" if text(arguments, "action") == "list" else "write"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return () if text(arguments, "action") == "list" else (os.path.realpath(self._path(arguments)),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        """Return a diff of the entry."""
        action = text(arguments, "action")
        if action == "list":
            return ""
        path = self._path(arguments)
        before = next((f"{one.text}\n" for one in entries_in(self._folder) if one.name == path.stem), None)
        after = None if action == "forget" else f"{_checked_text(arguments)}\n"
        return "\n".join(unified_diff(path.name, before, after))

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result(await asyncio.to_thread(self._run_action, arguments))

    def _run_action(self, arguments: Arguments) -> str:
        action = text(arguments, "action")
        if action == "list":
            return _entry_list(entries_in(self._folder))
        path, said = self._path(arguments), "" if action == "forget" else _checked_text(arguments)
        try:
            with _alone(self._folder):
                return self._apply_action(action, path, said)
        except OSError as error:
            raise ToolError(f"nothing was changed: `{path}` cannot be written: {error.strerror or error}") from error

    def _apply_action(self, action: str, path: Path, said: str) -> str:
        known = {one.name: one.text for one in entries_in(self._folder)}
        if action == "save" and path.stem in known:
            raise ToolError(f"there is an entry `{path.stem}`: use `change`. It says:\n{known[path.stem]}")
        if action != "save" and path.stem not in known:
            raise ToolError(f"there is no entry `{path.stem}`. {_entry_list(entries_in(self._folder))}")
        if action == "forget":
            path.unlink()
            return f"`{path.stem}` is forgotten. It said:\n{known[path.stem]}"
        others = sum(len(each.encode("utf-8", "replace")) for name, each in known.items() if name != path.stem)
        if len(known) >= MAX_ENTRIES and action == "save":
            raise ToolError(f"there are {len(known)} entries, and no more than {MAX_ENTRIES}: forget one first")
        if others + len(said.encode("utf-8", "replace")) > MAX_TOTAL_BYTES:
            raise ToolError(f"all entries together may take {MAX_TOTAL_BYTES:,} bytes: forget or shorten some first")
        written = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.write(f"{said}\n".encode("utf-8", "replace"))
            os.replace(written, path)
        finally:
            written.unlink(missing_ok=True)
        before = f" It said before:\n{known[path.stem]}" if path.stem in known else ""
        return f"kept as `{path.stem}`: later sessions of this project start with it.{before}"

    def _path(self, arguments: Arguments) -> Path:
        """Raises `ToolError`."""
        written = text(arguments, "name", "")
        name = re.sub(r"[\s_]+", "-", written.strip().lower()).removesuffix(".md")
        if not _NAME.fullmatch(name) or len(name) > 60:
            raise ToolError("`name` is up to 60 lower-case letters and digits, words joined by `-`: `test-commands`")
        if name == OWN:
            raise ToolError(f"`{OWN}` is what the user wrote: choose another name, or ask them to change it")
        return self._folder / f"{name}.md"


def entries_in(folder: Path) -> tuple[MemoryEntry, ...]:
    """Return the project's entries, sorted by name. Unreadable ones are skipped."""
    found = list[MemoryEntry]()
    for path in sorted(folder.glob("*.md"))[: 10 * MAX_ENTRIES]:
        with suppress(OSError):
            raw = beginning_of(path, MAX_TOTAL_BYTES)
            found.append(MemoryEntry(path.stem, raw.decode("utf-8", "replace").strip()))
    return tuple(found)


def _entry_list(entries: tuple[MemoryEntry, ...]) -> str:
    lines = [f"- {one.name}: {ellipsize(' '.join(one.text.split()), 300)}" for one in entries]
    return "\n".join(["Notes on this project:", *lines]) if lines else "there are no notes on this project yet"


def _checked_text(arguments: Arguments) -> str:
    """Return the text with secrets redacted. Raises `ToolError`."""
    said = redact_text(text(arguments, "text", "").strip(), os.environ)
    if not said:
        raise ToolError("`text` is empty: write what is to be remembered")
    if len(said) > MAX_ENTRY_CHARS:
        raise ToolError(
            f"`text` has {len(said):,} characters: shorten it to {MAX_ENTRY_CHARS:,}, or make several entries"
        )
    return said


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder against other writers. Raises `ToolError` on timeout."""
    make_private(folder)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE)
        else:
            raise ToolError("another session is still writing there: try again later")
        yield
    finally:
        os.close(handle)

"""The `memory` tool: notes for later sessions in this project, one per Markdown file. They are stored in the user's
folder, not in the repository, and every later session receives them all."""

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
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.tools.tool_traits import ToolTraits, text_argument

MAX_ENTRY_CHARS = 2_000
"""Maximum number of characters per entry."""
MAX_ENTRIES = 50
"""Maximum number of entries."""
MAX_TOTAL_BYTES = 16_384
"""Maximum total size of all entries, in bytes. It is low because every later request includes all entries."""
USER_ENTRY_NAME = "notes"
"""Name of the entry that the user writes, which the tool must not change."""
_ACTIONS = ("save", "change", "forget", "list")
_ENTRY_NAME = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_LOCK_TRIES, _LOCK_RETRY_SECONDS = 40, 0.05
"""Maximum number of attempts to lock the folder while another session is writing to it, and seconds between
attempts."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    name: str
    text: str


def _subject(arguments: Arguments) -> str:
    return f"{text_argument(arguments, 'action')} {text_argument(arguments, 'name')}".rstrip()


class Memory:
    name = "memory"
    description = read_description(__file__)
    effect: Effect = "write"
    kind: Literal["rare"] = "rare"
    traits = ToolTraits(
        role="remember",
        get_subject=_subject,
        rule_noun="memory changes",
        small_window_policy="optional",
    )
    schema = object_schema(
        {
            "action": {"enum": list(_ACTIONS)},
            "name": {"type": "string"},
            "text": {"type": "string"},
        },
        required=("action",),
    )

    def __init__(self, folder: Path) -> None:
        """`folder`: contains the project's entries. It is created with the first entry."""
        self._folder = folder

    def effect_of(self, arguments: Arguments) -> Effect:
        """Return "none" for listing, "write" otherwise."""
        return "none" if get_text(arguments, "action") == "list" else "write"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return () if get_text(arguments, "action") == "list" else (os.path.realpath(self._entry_path(arguments)),)

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        """Return a diff of the entry. Empty if the action is `list`."""
        action = get_text(arguments, "action")
        if action == "list":
            return ""
        path = self._entry_path(arguments)
        old_text = next((f"{entry.text}\n" for entry in read_entries(self._folder) if entry.name == path.stem), None)
        new_text = None if action == "forget" else f"{_checked_text(arguments)}\n"
        return "\n".join(unified_diff(path.name, old_text, new_text))

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result(await asyncio.to_thread(self._run_action, arguments))

    def _run_action(self, arguments: Arguments) -> str:
        action = get_text(arguments, "action")
        if action == "list":
            return _entry_list(read_entries(self._folder))
        path, entry_text = self._entry_path(arguments), "" if action == "forget" else _checked_text(arguments)
        try:
            with _lock_folder(self._folder):
                return self._apply_action(action, path, entry_text)
        except OSError as error:
            raise ToolError(f"nothing was changed: `{path}` cannot be written: {error.strerror or error}") from error

    def _apply_action(self, action: str, path: Path, entry_text: str) -> str:
        text_by_name = {entry.name: entry.text for entry in read_entries(self._folder)}
        if action == "save" and path.stem in text_by_name:
            raise ToolError(f"there is an entry `{path.stem}`: use `change`. It says:\n{text_by_name[path.stem]}")
        if action != "save" and path.stem not in text_by_name:
            raise ToolError(f"there is no entry `{path.stem}`. {_entry_list(read_entries(self._folder))}")
        if action == "forget":
            path.unlink()
            return f"`{path.stem}` is forgotten. It said:\n{text_by_name[path.stem]}"
        other_bytes = sum(
            len(other_text.encode("utf-8", "replace")) for name, other_text in text_by_name.items() if name != path.stem
        )
        if len(text_by_name) >= MAX_ENTRIES and action == "save":
            raise ToolError(f"there are {len(text_by_name)} entries, and no more than {MAX_ENTRIES}: forget one first")
        if other_bytes + len(entry_text.encode("utf-8", "replace")) > MAX_TOTAL_BYTES:
            raise ToolError(f"all entries together may take {MAX_TOTAL_BYTES:,} bytes: forget or shorten some first")
        temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(
                os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
            ) as file:
                file.write(f"{entry_text}\n".encode("utf-8", "replace"))
            os.replace(temporary_path, path)
        finally:
            temporary_path.unlink(missing_ok=True)
        previous_note = f" It said before:\n{text_by_name[path.stem]}" if path.stem in text_by_name else ""
        return f"saved as `{path.stem}`: later sessions of this project start with it.{previous_note}"

    def _entry_path(self, arguments: Arguments) -> Path:
        """Return the path of the named entry. Raises `ToolError`."""
        raw_name = get_text(arguments, "name", "")
        name = re.sub(r"[\s_]+", "-", raw_name.strip().lower()).removesuffix(".md")
        if not _ENTRY_NAME.fullmatch(name) or len(name) > 60:
            raise ToolError("`name` is up to 60 lower-case letters and digits, words joined by `-`: `test-commands`")
        if name == USER_ENTRY_NAME:
            raise ToolError(
                f"`{USER_ENTRY_NAME}` is the user's own entry: choose another name, or ask them to change it"
            )
        return self._folder / f"{name}.md"


def read_entries(folder: Path) -> tuple[MemoryEntry, ...]:
    """Return the project's entries, sorted by name. Unreadable entries are skipped."""
    entries = list[MemoryEntry]()
    for path in sorted(folder.glob("*.md"))[: 10 * MAX_ENTRIES]:
        with suppress(OSError):
            content = read_prefix(path, MAX_TOTAL_BYTES)
            entries.append(MemoryEntry(path.stem, content.decode("utf-8", "replace").strip()))
    return tuple(entries)


def _entry_list(entries: tuple[MemoryEntry, ...]) -> str:
    lines = [f"- {entry.name}: {ellipsize(' '.join(entry.text.split()), 300)}" for entry in entries]
    return "\n".join(["Notes on this project:", *lines]) if lines else "there are no notes on this project yet"


def _checked_text(arguments: Arguments) -> str:
    """Return the text with secrets redacted. Raises `ToolError`."""
    entry_text = redact_text(get_text(arguments, "text", "").strip(), os.environ)
    if not entry_text:
        raise ToolError("`text` is empty: write what to remember")
    if len(entry_text) > MAX_ENTRY_CHARS:
        raise ToolError(
            f"`text` has {len(entry_text):,} characters: shorten it to {MAX_ENTRY_CHARS:,}, or make several entries"
        )
    return entry_text


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder against other writers. Raises `ToolError` on a timeout."""
    create_private_folder(folder)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for _ in range(_MAX_LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_LOCK_RETRY_SECONDS)
        else:
            raise ToolError("another session is still writing there: try again later")
        yield
    finally:
        os.close(descriptor)

"""Memories: notes that the user wants remembered, written to files that later sessions load. The system prompt of the
running session does not change; a note informs its model."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.events.session import Remembered
from ebbtide.agent.input.instruction_files import MAIN_FILE_NAMES, MAX_FILE_BYTES
from ebbtide.agent.input.instructions import memory_folder
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.tools.files.bounded import read_beginning
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.memory import USER_ENTRY_NAME, entries_in

MAX_ENTRY_CHARS = 2_000
"""Maximum length of an entry, in characters."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that memories can be written to."""

    label: str
    path: Path


@dataclass(frozen=True, slots=True)
class MemoryAnnouncement:
    conversation: Conversation


def memory_files(config: Config) -> tuple[MemoryFile, ...]:
    """Return the files for memories: one for everyone who works on the project (unless that file links outside it), one
    for this user in the project, and one for this user in all projects."""
    project = config.project
    shared_file = next(
        (project / name for name in MAIN_FILE_NAMES if (project / name).is_file()), project / MAIN_FILE_NAMES[0]
    )
    is_inside = Path(os.path.realpath(shared_file)).is_relative_to(project)
    return (
        *((MemoryFile("this project, for everyone who works on it", shared_file),) if is_inside else ()),
        MemoryFile("this project, only for you", memory_folder(config.folders.data, project) / f"{USER_ENTRY_NAME}.md"),
        MemoryFile("all your projects", config.folders.config / "memory.md"),
    )


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """A private memory of the user: one line of a file, or a whole file."""

    path: Path
    text: str
    label: str
    is_line: bool = False


def memory_notes(config: Config) -> tuple[MemoryNote, ...]:
    """Return all private memories, those about the project first. Unreadable files are left out."""
    folder = memory_folder(config.folders.data, config.project)
    project_file, global_file = folder / f"{USER_ENTRY_NAME}.md", config.folders.config / "memory.md"
    files = [
        MemoryNote(folder / f"{entry.name}.md", entry.text, entry.name)
        for entry in entries_in(folder)
        if entry.name != USER_ENTRY_NAME
    ]
    return (*_line_notes(project_file, "this project"), *files, *_line_notes(global_file, "all your projects"))


def _line_notes(path: Path, label: str) -> Iterator[MemoryNote]:
    with suppress(OSError):
        for line in read_beginning(path, MAX_FILE_BYTES).decode("utf-8", "surrogateescape").splitlines():
            if line.strip():
                yield MemoryNote(path, line, label, is_line=True)


def delete_memory(note: MemoryNote) -> None:
    """Delete a memory: a line of its file, or the whole file. Raises `UsageError` if the memory has changed in the
    meantime or the file cannot be written."""
    try:
        handle = os.open(note.path, os.O_RDWR | os.O_CLOEXEC)
        with open(handle, "r+b", buffering=0) as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            content = os.pread(handle, os.fstat(handle).st_size, 0)
            lines = content.splitlines(keepends=True)
            wanted = note.text.encode("utf-8", "surrogateescape")
            matching_lines = [at for at, line in enumerate(lines) if line.rstrip(b"\r\n") == wanted]
            is_unchanged = (
                bool(matching_lines) if note.is_line else content.decode("utf-8", "replace").strip() == note.text
            )
            if not is_unchanged:
                raise UsageError(f"`{note.path}` has changed since; open the list again")
            remaining = (
                b"".join(line for at, line in enumerate(lines) if at != matching_lines[0]) if note.is_line else b""
            )
            if not remaining.strip():
                return note.path.unlink()
            file.seek(0)
            file.write(remaining)
            file.truncate(len(remaining))
    except OSError as error:
        raise UsageError(f"cannot write to `{note.path}`: {error.strerror or error}") from error


def append_memory(text: str, path: Path) -> Remembered:
    """Append an entry to a memory file. Changes that other programs make at the same time are preserved. Raises
    `UsageError`."""
    entry = f"- {' '.join(text.split())}"
    if len(entry) > MAX_ENTRY_CHARS:
        raise UsageError(f"this is too long to remember ({len(entry):,} characters): edit `{path}` instead")
    line = f"{entry}\n".encode("utf-8", "replace")
    try:
        make_private(path.parent)
        while True:
            is_new = not path.exists()
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            with open(handle, "r+b", buffering=0) as file:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not _is_same_file(path, handle):
                    continue  # in the meantime, the file was deleted together with its last line
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    line = b"\n" + line
                file.write(line)
                before = None if is_new and not size else size
                return Remembered(entry, str(path), before, _file_digest(handle))
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def undo_remember(entry: Remembered) -> None:
    """Restore the file to its state before the entry was added. Raises `UsageError` if the file cannot be written, or
    has changed since; it is then left unchanged."""
    path = Path(entry.path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        with open(handle, "r+b", buffering=0):
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _file_digest(handle) != entry.digest:
                raise UsageError(f"`{path}` has changed since; remove the line by hand")
            if entry.before is None:
                path.unlink()
            else:
                os.ftruncate(handle, entry.before)
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def _is_same_file(path: Path, handle: int) -> bool:
    """Whether the path still belongs to the open file, rather than to none or another."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _file_digest(handle: int) -> str:
    return hashlib.sha256(os.pread(handle, os.fstat(handle).st_size, 0)).hexdigest()


async def announce_memory(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    entry: str,
    path: str,
    *,
    is_removed: bool = False,
) -> MemoryAnnouncement:
    """Inform the model of the running session about a memory that was added or removed. `path`: the file that
    changed."""
    if window.instruction_updates is not None:
        window.instruction_updates.mark_known(path)
    announcement = (
        "The user takes back what you were to remember" if is_removed else "The user wants you to remember from now on"
    )
    message = User((Note(f"[{announcement}:\n{entry}]"),))
    await turn.recorder.record_user_message(message)
    return MemoryAnnouncement(conversation.plus(message))

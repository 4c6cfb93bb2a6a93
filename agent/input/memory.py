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
from ebbtide.agent.input.instructions import project_memory_folder
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.memory import USER_ENTRY_NAME, read_entries

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


def list_memory_files(config: Config) -> tuple[MemoryFile, ...]:
    """Return the files for memories: one for everyone who works on the project (unless that file is a link out of the
    project), one for this user in the project, and one for this user in all projects."""
    project = config.project_folder
    shared_file = next(
        (project / name for name in MAIN_FILE_NAMES if (project / name).is_file()), project / MAIN_FILE_NAMES[0]
    )
    is_inside_project = Path(os.path.realpath(shared_file)).is_relative_to(project)
    return (
        *((MemoryFile("this project, for everyone who works on it", shared_file),) if is_inside_project else ()),
        MemoryFile(
            "this project, only for you", project_memory_folder(config.folders.data, project) / f"{USER_ENTRY_NAME}.md"
        ),
        MemoryFile("all your projects", config.folders.config / "memory.md"),
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """A private note saved by the user: one line of a file, or an entire file."""

    path: Path
    text: str
    label: str
    is_single_line: bool = False


def list_memories(config: Config) -> tuple[Memory, ...]:
    """Return all private memories, project memories first. Unreadable files are skipped."""
    folder = project_memory_folder(config.folders.data, config.project_folder)
    project_file, global_file = folder / f"{USER_ENTRY_NAME}.md", config.folders.config / "memory.md"
    file_memories = [
        Memory(folder / f"{entry.name}.md", entry.text, entry.name)
        for entry in read_entries(folder)
        if entry.name != USER_ENTRY_NAME
    ]
    return (
        *_memories_in_file(project_file, "this project"),
        *file_memories,
        *_memories_in_file(global_file, "all your projects"),
    )


def _memories_in_file(path: Path, label: str) -> Iterator[Memory]:
    with suppress(OSError):
        for line in read_prefix(path, MAX_FILE_BYTES).decode("utf-8", "surrogateescape").splitlines():
            if line.strip():
                yield Memory(path, line, label, is_single_line=True)


def delete_memory(memory: Memory) -> None:
    """Delete a memory: a line of its file, or the whole file. Raises `UsageError` if the memory has changed since it
    was read, or the file cannot be written."""
    try:
        fd = os.open(memory.path, os.O_RDWR | os.O_CLOEXEC)
        with open(fd, "r+b", buffering=0) as file:
            fcntl.flock(fd, fcntl.LOCK_EX)
            content = os.pread(fd, os.fstat(fd).st_size, 0)
            lines = content.splitlines(keepends=True)
            target_line = memory.text.encode("utf-8", "surrogateescape")
            matching_indices = [index for index, line in enumerate(lines) if line.rstrip(b"\r\n") == target_line]
            is_unchanged = (
                bool(matching_indices)
                if memory.is_single_line
                else content.decode("utf-8", "replace").strip() == memory.text
            )
            if not is_unchanged:
                raise UsageError(f"`{memory.path}` has changed since; open the list again")
            remaining = (
                b"".join(line for index, line in enumerate(lines) if index != matching_indices[0])
                if memory.is_single_line
                else b""
            )
            if not remaining.strip():
                return memory.path.unlink()
            file.seek(0)
            file.write(remaining)
            file.truncate(len(remaining))
    except OSError as error:
        raise UsageError(f"cannot write to `{memory.path}`: {error.strerror or error}") from error


def append_memory(text: str, path: Path) -> Remembered:
    """Append an entry to a memory file. Changes that other programs make at the same time are preserved. Raises
    `UsageError`."""
    memory_line = f"- {' '.join(text.split())}"
    if len(memory_line) > MAX_ENTRY_CHARS:
        raise UsageError(f"this is too long to remember ({len(memory_line):,} characters): edit `{path}` instead")
    line = f"{memory_line}\n".encode("utf-8", "replace")
    try:
        create_private_folder(path.parent)
        while True:
            is_new = not path.exists()
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            with open(fd, "r+b", buffering=0) as file:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _path_refers_to(path, fd):
                    continue  # the file was deleted with its last line before it could be locked
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    line = b"\n" + line
                file.write(line)
                previous_size = None if is_new and not size else size
                return Remembered(memory_line, str(path), previous_size, _file_digest(fd))
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def undo_append(remembered: Remembered) -> None:
    """Restore the file to its state before the entry was added. Raises `UsageError`, and leaves the file unchanged, if
    the file cannot be written or has changed since."""
    path = Path(remembered.path)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        with open(fd, "r+b", buffering=0):
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _file_digest(fd) != remembered.digest:
                raise UsageError(f"`{path}` has changed since; remove the line by hand")
            if remembered.before is None:
                path.unlink()
            else:
                os.ftruncate(fd, remembered.before)
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def _path_refers_to(path: Path, fd: int) -> bool:
    """Whether the path still refers to the open file, and has not been deleted or replaced."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _file_digest(fd: int) -> str:
    return hashlib.sha256(os.pread(fd, os.fstat(fd).st_size, 0)).hexdigest()


async def announce_memory(
    conversation: Conversation,
    window: WindowContext,
    turn: TurnContext,
    text: str,
    path: str,
    *,
    is_removed: bool = False,
) -> MemoryAnnouncement:
    """Inform the model of the running session about a memory that was added or removed. `path`: the file that
    changed."""
    if window.instruction_updates is not None:
        window.instruction_updates.mark_known(path)
    heading = "The user no longer wants you to remember" if is_removed else "The user wants you to remember from now on"
    message = User((Note(f"[{heading}:\n{text}]"),))
    await turn.recorder.record_user_message(message)
    return MemoryAnnouncement(conversation.plus(message))

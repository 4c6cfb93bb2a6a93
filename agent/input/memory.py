"""Memories: notes that the user wants remembered, written to files that later sessions load. The system prompt of the
running session does not change; its model is told in a note."""

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
from ebbtide.agent.input.instruction_files import MAX_BYTES, PROJECT_FILES
from ebbtide.agent.input.instructions import memory_folder
from ebbtide.agent.messages import Conversation, Note, User
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.memory import OWN, entries_in

MAX_ENTRY_CHARS = 2_000
"""Maximum characters of one entry."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that memories can be written to."""

    about: str
    path: Path


@dataclass(frozen=True, slots=True)
class MemoryAnnouncement:
    conversation: Conversation


def memory_files(config: Config) -> tuple[MemoryFile, ...]:
    """Return the files for everyone who works on the project (unless that file links outside it), for this user in the
    project, and for this user everywhere."""
    project = config.project
    shared = next((project / name for name in PROJECT_FILES if (project / name).is_file()), project / PROJECT_FILES[0])
    is_inside = Path(os.path.realpath(shared)).is_relative_to(project)
    return (
        *((MemoryFile("this project, for everyone who works on it", shared),) if is_inside else ()),
        MemoryFile("this project, only for you", memory_folder(config.folders.data, project) / f"{OWN}.md"),
        MemoryFile("all your projects", config.folders.config / "memory.md"),
    )


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """A memory of this user only: a line of a list, or a file."""

    path: Path
    text: str
    about: str
    is_line: bool = False


def memory_notes(config: Config) -> tuple[MemoryNote, ...]:
    """Return all memories, those of the project first. Unreadable files are left out."""
    folder = memory_folder(config.folders.data, config.project)
    own, everywhere = folder / f"{OWN}.md", config.folders.config / "memory.md"
    files = [MemoryNote(folder / f"{one.name}.md", one.text, one.name) for one in entries_in(folder) if one.name != OWN]
    return (*_lines_of(own, "this project"), *files, *_lines_of(everywhere, "all your projects"))


def _lines_of(path: Path, about: str) -> Iterator[MemoryNote]:
    with suppress(OSError):
        for line in beginning_of(path, MAX_BYTES).decode("utf-8", "surrogateescape").splitlines():
            if line.strip():
                yield MemoryNote(path, line, about, is_line=True)


def forget(note: MemoryNote) -> None:
    """Delete a memory: a line of its file, or the file. Raises `UsageError`, also if it has changed meanwhile."""
    try:
        handle = os.open(note.path, os.O_RDWR | os.O_CLOEXEC)
        with open(handle, "r+b", buffering=0) as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            content = os.pread(handle, os.fstat(handle).st_size, 0)
            lines = content.splitlines(keepends=True)
            said = note.text.encode("utf-8", "surrogateescape")
            places = [at for at, line in enumerate(lines) if line.rstrip(b"\r\n") == said]
            is_there = bool(places) if note.is_line else content.decode("utf-8", "replace").strip() == note.text
            if not is_there:
                raise UsageError(f"`{note.path}` has changed since; open the list again")
            left = b"".join(line for at, line in enumerate(lines) if at != places[0]) if note.is_line else b""
            if not left.strip():
                return note.path.unlink()
            file.seek(0)
            file.write(left)
            file.truncate(len(left))
    except OSError as error:
        raise UsageError(f"cannot write to `{note.path}`: {error.strerror or error}") from error


def remember(text: str, path: Path) -> Remembered:
    """Append an entry to a file. Concurrent changes are preserved. Raises `UsageError`."""
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
                if not _is_at(path, handle):
                    continue  # its last line was deleted meanwhile, and the file with it
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    line = b"\n" + line
                file.write(line)
                before = None if is_new and not size else size
                return Remembered(entry, str(path), before, _digest_of(handle))
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def undo_remember(kept: Remembered) -> None:
    """Restore the file to its state before the entry was added. Raises `UsageError`, also if the file has changed
    since; it is left unchanged then."""
    path = Path(kept.path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        with open(handle, "r+b", buffering=0):
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _digest_of(handle) != kept.digest:
                raise UsageError(f"`{path}` has changed since; remove the line by hand")
            if kept.before is None:
                path.unlink()
            else:
                os.ftruncate(handle, kept.before)
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one with that name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _digest_of(handle: int) -> str:
    return hashlib.sha256(os.pread(handle, os.fstat(handle).st_size, 0)).hexdigest()


async def announce_memory(
    conversation: Conversation, env: SessionContext, entry: str, path: str, *, is_taken_back: bool = False
) -> MemoryAnnouncement:
    """Tell the model of the running session about a memory that was added or removed. `path`: the file that changed."""
    if env.instruction_updates is not None:
        env.instruction_updates.refresh(path)
    wish = (
        "The user takes back what you were to remember"
        if is_taken_back
        else "The user wants you to remember from now on"
    )
    said = User((Note(f"[{wish}:\n{entry}]"),))
    await env.recorder.record_user_message(said)
    return MemoryAnnouncement(conversation.plus(said))

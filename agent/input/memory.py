"""What the user wants remembered, written to one of the files that later sessions begin with. The system text of the
one that runs stays as it is: its model is told in a note."""

import fcntl
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from agent.config.values import Config
from agent.errors import UsageError
from agent.events import Remembered
from agent.input.instruction_files import PROJECT_FILES
from agent.input.instructions import memory_folder
from agent.messages import Conversation, Note, User
from agent.window.env import Env

LONGEST = 2_000
"""Characters of one entry."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """Where something can be remembered."""

    about: str
    path: Path


@dataclass(frozen=True, slots=True)
class Reminded:
    conversation: Conversation


def places(config: Config) -> tuple[MemoryFile, ...]:
    """For everybody who works on the project, unless its file is a link that leads out of it; for this user in the
    project; and for this user everywhere."""
    project = config.project
    shared = next((project / name for name in PROJECT_FILES if (project / name).is_file()), project / PROJECT_FILES[0])
    is_inside = Path(os.path.realpath(shared)).is_relative_to(project)
    return (
        *((MemoryFile("this project, for everybody who works on it", shared),) if is_inside else ()),
        MemoryFile("this project, for you alone", memory_folder(config.folders.data, project) / "notes.md"),
        MemoryFile("all your projects", config.folders.config / "memory.md"),
    )


def remember(text: str, path: Path) -> Remembered:
    """Adds an entry to a file. What others write there meanwhile stays whole. Raises `UsageError`."""
    entry = f"- {' '.join(text.split())}"
    if len(entry) > LONGEST:
        raise UsageError(f"this is too long to remember ({len(entry):,} characters): write it into `{path}` yourself")
    line = f"{entry}\n".encode("utf-8", "replace")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with open(handle, "r+b", buffering=0) as file:
            fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            file.write(line)
            before = None if is_new and not size else size
            return Remembered(entry, str(path), before, _digest_of(handle))
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def take_back(kept: Remembered) -> None:
    """Makes the file what it was before the entry was added. Raises `UsageError`, also where somebody has changed the
    file since, and then it stays as it is."""
    path = Path(kept.path)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        with open(handle, "r+b", buffering=0):
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _digest_of(handle) != kept.digest:
                raise UsageError(f"`{path}` has changed since: take the line out of it yourself")
            if kept.before is None:
                path.unlink()
            else:
                os.ftruncate(handle, kept.before)
    except OSError as error:
        raise UsageError(f"cannot write to `{path}`: {error.strerror or error}") from error


def _digest_of(handle: int) -> str:
    return hashlib.sha256(os.pread(handle, os.fstat(handle).st_size, 0)).hexdigest()


async def reminded_of(
    conversation: Conversation, env: Env, entry: str, path: str, *, is_taken_back: bool = False
) -> Reminded:
    """Tells the model of the running session what the user wants remembered, or no longer. `path`: the file that has
    changed by that."""
    if env.instruction_news is not None:
        env.instruction_news.refresh(path)
    wish = (
        "The user takes back what you were to remember"
        if is_taken_back
        else "The user wants you to remember from now on"
    )
    said = User((Note(f"[{wish}:\n{entry}]"),))
    await env.recorder.said(said)
    return Reminded(conversation.plus(said))

"""Context for the messages of a small model: the content of the files that a message is about and, with the first one,
the names of all files. Without it such a model changes files that it has never seen."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import decide
from ebbtide.agent.context.attachments import attachment_labels, folder_note
from ebbtide.agent.context.mentions import note_with_heading
from ebbtide.agent.context.named_files import files_named, names_in
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.messages import Note, User
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.paths import locate
from ebbtide.tools.files.pictures import picture_type
from ebbtide.tools.files.text import binary_kind, decode, showable
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.search.walk import files_below

MAX_LISTED_FILES = 40
"""Maximum number of file names listed."""
MAX_WALKED_FILES = 2_000
"""Maximum number of files among which mentioned names are looked up."""
MAX_SEARCHED_FILES = 300
"""Maximum number of files searched for a name."""
MAX_SHOWN_FILES = 4
"""Maximum number of files shown with their content."""
MAX_FILE_BYTES = 6_000
"""Maximum size of a file shown, in bytes; the model reads larger ones in parts."""
SHARE = 6
"""Together they take at most 1/`SHARE` of the window."""
BYTES_A_TOKEN = 3


async def with_first_look(said: User, env: SessionContext) -> User:
    """Add the context that the model needs to begin; returns the same message if there is none."""
    root = env.call_runner.workspace.root
    files = await asyncio.to_thread(lambda: list(islice(files_below(str(root)), MAX_WALKED_FILES)))
    notes = [] if env.watch.has_sent else [_file_list_note(files)]
    room = env.provider.window.effective // SHARE * BYTES_A_TOKEN
    attached = {part.name for part in said.parts if isinstance(part, Note) and part.kind == "file"}
    about = [*files_named(said.text, files), *await asyncio.to_thread(_holding, names_in(said.text), files, root)]
    for name in [each for each in dict.fromkeys(about) if f"@{each}" not in attached][:MAX_SHOWN_FILES]:
        if (note := _file_text_note(name, room, env)) is not None:
            notes.append(note)
            room -= len(note.text.encode("utf-8", "surrogatepass"))
    if not notes:
        return said
    env.emit(Noticed(f"attached {', '.join(attachment_labels(notes))}"))
    return replace(said, parts=(*said.parts, *notes))


def _file_list_note(files: Sequence[str]) -> Note:
    return folder_note("./", [printable(name) for name in files[:MAX_LISTED_FILES]], len(files[MAX_LISTED_FILES:]))


def _file_text_note(name: str, room: int, env: SessionContext) -> Note | None:
    """Return a note with the content of a file, without line numbers, which the model would copy. None if it may not be
    read, does not fit or is not text."""
    workspace = env.call_runner.workspace
    try:
        path = locate(name, workspace)
        ruling = decide(PermissionRequest("read", "read", (str(path),)), env.call_runner.approval.policy)
        raw = beginning_of(path, MAX_FILE_BYTES + 1)
    except (ToolError, OSError):
        return None
    if (
        ruling.verdict != "allow"
        or not 0 < len(raw) <= min(room, MAX_FILE_BYTES)
        or binary_kind(raw)
        or picture_type(raw)
    ):
        return None
    workspace.seen.note(path, raw)
    text = showable(decode(raw).normalised_text)
    lines = pluralize(text.count("\n") + (not text.endswith("\n")), "line")
    return note_with_heading(f"`{printable(name)}` holds ({lines}):\n\n", text, "file", name, lines)


def _holding(names: Sequence[str], files: Sequence[str], root: Path) -> list[str]:
    """Return the files that contain one of the names, if few files do."""
    if not names:
        return []
    found: dict[str, list[str]] = {name: [] for name in names}
    for file in files[:MAX_SEARCHED_FILES]:
        try:
            text = beginning_of(root / file, MAX_FILE_BYTES + 1).decode("utf-8", "replace")
        except OSError:
            continue
        for name in names:
            if name in text:
                found[name].append(file)
    return [file for held in found.values() if len(held) <= MAX_SHOWN_FILES for file in held]

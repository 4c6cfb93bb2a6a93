"""Adds context to a small model's messages: the content of the files that a message is about and, with the first
message, the names of all files. Without it, small models change files that they have never seen."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import decide
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Note, User
from ebbtide.agent.prompt.attachments import attachment_labels, folder_note
from ebbtide.agent.prompt.mentions import files_mentioned, identifiers_in, note_with_heading
from ebbtide.agent.window.session_context import WindowContext
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.image_types import image_type
from ebbtide.tools.files.paths import locate_path
from ebbtide.tools.files.text import binary_kind, decode_file, without_surrogates
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.read import Read
from ebbtide.tools.search.walk import walk_files

MAX_LISTED_FILES = 40
"""Maximum number of file names listed."""
MAX_WALKED_FILES = 2_000
"""Maximum number of files among which mentioned names are looked up."""
MAX_SEARCHED_FILES = 300
"""Maximum number of files whose content is searched for a mentioned name."""
MAX_INCLUDED_FILES = 4
"""Maximum number of files shown with their content."""
MAX_FILE_BYTES = 6_000
"""Maximum size of a file that is shown, in bytes; larger ones must be read in parts."""
WINDOW_DIVISOR = 6
"""The shown files together take at most 1/`WINDOW_DIVISOR` of the window."""
BYTES_PER_TOKEN = 3


async def add_initial_files(
    message: User, runner: CallRunner, window: WindowContext, emit: Callable[[Event], None]
) -> User:
    """Add the context that the model needs to start. Returns the same message if there is nothing to add."""
    root = runner.workspace.root
    file_names = await asyncio.to_thread(lambda: list(islice(walk_files(str(root)), MAX_WALKED_FILES)))
    notes = [] if window.prefix_watch.has_sent else [_file_list_note(file_names)]
    byte_budget = window.model.provider.window.available_tokens // WINDOW_DIVISOR * BYTES_PER_TOKEN
    attached_names = {part.name for part in message.parts if isinstance(part, Note) and part.kind == "file"}
    relevant_names = [
        *files_mentioned(message.text, file_names),
        *await asyncio.to_thread(_files_containing, identifiers_in(message.text), file_names, root),
    ]
    for name in [name for name in dict.fromkeys(relevant_names) if f"@{name}" not in attached_names][
        :MAX_INCLUDED_FILES
    ]:
        if (note := _file_text_note(name, byte_budget, runner)) is not None:
            notes.append(note)
            byte_budget -= len(note.text.encode("utf-8", "surrogatepass"))
    if not notes:
        return message
    emit(Noticed(f"attached {', '.join(attachment_labels(notes))}"))
    return replace(message, parts=(*message.parts, *notes))


def _file_list_note(file_names: Sequence[str]) -> Note:
    return folder_note(
        "./", [printable_name(name) for name in file_names[:MAX_LISTED_FILES]], len(file_names[MAX_LISTED_FILES:])
    )


def _file_text_note(name: str, byte_budget: int, runner: CallRunner) -> Note | None:
    """Return a note with the content of a file; None if the model is not allowed to read it, or if it is too large or
    not text. Line numbers are omitted, because the model would copy them."""
    workspace = runner.workspace
    try:
        path = locate_path(name, workspace)
        permission_decision = decide(PermissionRequest(Read.name, "read", (str(path),)), runner.approver.policy)
        content = read_prefix(path, MAX_FILE_BYTES + 1)
    except (ToolError, OSError):
        return None
    if (
        permission_decision.verdict != "allow"
        or not 0 < len(content) <= min(byte_budget, MAX_FILE_BYTES)
        or binary_kind(content)
        or image_type(content)
    ):
        return None
    workspace.seen_files.record_content(path, content)
    text = without_surrogates(decode_file(content).normalised_text)
    line_count = pluralize(text.count("\n") + (not text.endswith("\n")), "line")
    return note_with_heading(f"`{printable_name(name)}` contains ({line_count}):\n\n", text, "file", name, line_count)


def _files_containing(names: Sequence[str], file_names: Sequence[str], root: Path) -> list[str]:
    """Find the files that contain one of the names. Names that occur in many files are ignored."""
    if not names:
        return []
    matches_by_name: dict[str, list[str]] = {name: [] for name in names}
    for file in file_names[:MAX_SEARCHED_FILES]:
        try:
            text = read_prefix(root / file, MAX_FILE_BYTES + 1).decode("utf-8", "replace")
        except OSError:
            continue
        for name in names:
            if name in text:
                matches_by_name[name].append(file)
    return [file for matches in matches_by_name.values() if len(matches) <= MAX_INCLUDED_FILES for file in matches]

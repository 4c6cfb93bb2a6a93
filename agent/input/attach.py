"""Attaches files and folders that a message mentions as `@PATH`. They are read when the message is sent. Content that
does not fit is omitted; the model can read it with its tools. Files that the model is not allowed to read are not
attached, and the user is notified."""

import asyncio
import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import decide
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Conversation, Image, Note, User, UserPart
from ebbtide.agent.prompt.attachments import (
    MIN_ATTACHMENT_BYTES,
    attachment_labels,
    file_note,
    fit_message,
    folder_note,
    image_note,
)
from ebbtide.agent.prompt.mentions import MAX_ATTACHMENTS, MentionInterpretation, attachment_byte_limit, find_mentions
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import ModelContext, WindowContext
from ebbtide.tools.base import ReadLimits, ToolError, Workspace
from ebbtide.tools.files.paths import locate_existing, path_kind
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.read import Read
from ebbtide.tools.search.walk import visible_entries

MAX_LISTED_ENTRIES = 400
"""Maximum number of entries listed per folder."""


async def attach_mentioned_files(
    user_message: User, runner: CallRunner, model: ModelContext, emit: Callable[[Event], None]
) -> User:
    """Attach as many of the mentioned files and folders as fit alongside the message's other parts."""
    remaining_bytes = attachment_byte_limit(model.provider.window.available_tokens)
    remaining_bytes -= sum(
        _note_bytes(part) for part in user_message.parts if not (isinstance(part, Note) and part.kind == "piped")
    )
    parts: list[UserPart] = []
    interpretation_by_path = dict[Path, MentionInterpretation]()
    for interpretations in find_mentions(user_message.text):
        first_match = _first_existing(interpretations, runner.workspace)
        if first_match is None:
            if interpretations[0].is_certain:
                emit(Noticed(f"`{printable_name(interpretations[0].name)}` is not attached: there is no such file"))
            continue
        path, interpretation, note = first_match
        if note:
            emit(Noticed(f"{printable_name(interpretation.name)} {note}"))
        if interpretation_by_path.get(path) == interpretation:
            continue
        interpretation_by_path[path] = interpretation
        if len(interpretation_by_path) > MAX_ATTACHMENTS:
            emit(Noticed(f"a message can have at most {MAX_ATTACHMENTS} attachments: the others were skipped"))
            break
        try:
            attachment = await _attach_path(path, interpretation, remaining_bytes, runner)
        except ToolError as error:
            emit(Noticed(f"`{printable_name(interpretation.name)}` is not attached: {error}"))
            continue
        remaining_bytes -= sum(map(_note_bytes, attachment))
        parts += attachment
    message = User((*user_message.parts, *parts)) if parts else user_message
    earlier_part_ids = {
        id(part) for part in user_message.parts if isinstance(part, Note) and part.kind in ("file", "folder")
    }
    if labels := attachment_labels([part for part in message.parts if id(part) not in earlier_part_ids]):
        emit(Noticed(f"attached {', '.join(labels)}"))
    if not model.facts.images and any(isinstance(part, Image) for part in message.parts):
        emit(Noticed(f"`{model.facts.id}` does not support images: it only sees a note"))
    return message


def fit_user_message(message: User, window: WindowContext) -> User:
    """Prepare a message for sending. If it is too long, its text is shortened, and the full text is stored."""
    windows = (window.model.known_window, *(target.window for target in window.model.models.fallbacks))
    largest_window = max(window.available_tokens for window in windows)  # fallback models may have larger windows
    return fit_message(message, largest_window, largest_window - measure_budget(Conversation(), window).used)


def _note_bytes(part: UserPart) -> int:
    """Return the size of a note in bytes; 0 for other parts."""
    return len(part.text.encode("utf-8", "surrogatepass")) if isinstance(part, Note) else 0


def _first_existing(
    interpretations: tuple[MentionInterpretation, ...], workspace: Workspace
) -> tuple[Path, MentionInterpretation, str] | None:
    """Find the first interpretation of a mention whose path exists. Return the path, the interpretation, and a notice
    if the file's name is only similar to the mention. None if no path exists."""
    for interpretation in interpretations:
        try:
            path, note = locate_existing(interpretation.path, workspace)
        except ToolError:
            continue
        if os.path.exists(path):
            return path, interpretation, note
    return None


async def _attach_path(
    path: Path, interpretation: MentionInterpretation, remaining_bytes: int, runner: CallRunner
) -> tuple[UserPart, ...]:
    """Return the message parts for a file or folder. Raises `ToolError` with the reason if it cannot be attached."""
    ruling = decide(PermissionRequest(Read.name, "read", (str(path),)), runner.approver.policy)
    if ruling.verdict != "allow":
        raise ToolError(ruling.decided_by)
    if remaining_bytes < MIN_ATTACHMENT_BYTES:
        raise ToolError("earlier attachments leave no room for it")
    if path_kind(path) == "folder":
        return await asyncio.to_thread(_attach_folder, path, interpretation, remaining_bytes)
    return await _attach_file(path, interpretation, remaining_bytes, runner)


async def _attach_file(
    path: Path, interpretation: MentionInterpretation, remaining_bytes: int, runner: CallRunner
) -> tuple[UserPart, ...]:
    workspace = runner.workspace
    limits = ReadLimits(min(remaining_bytes, workspace.read_limits.max_bytes), workspace.read_limits.max_line_chars)
    arguments: dict[str, object] = {"path": str(path), "offset": interpretation.first_line}
    if interpretation.last_line is not None:
        arguments["limit"] = interpretation.last_line - interpretation.first_line + 1
    result = await Read().run(arguments, replace(workspace, read_limits=limits, granted_paths=frozenset([str(path)])))
    if result.images:
        encoded = base64.b64encode(result.images[0].data).decode("ascii")
        return image_note(interpretation.name), Image(result.images[0].media_type, encoded)
    return (file_note(interpretation.name, result.text, result.extent),)


def _attach_folder(path: Path, interpretation: MentionInterpretation, remaining_bytes: int) -> tuple[UserPart, ...]:
    entries, omitted_count, byte_count = list[str](), 0, 0
    for name in _entry_names(path):
        byte_count += len(name.encode("utf-8", "surrogatepass")) + 1
        if len(entries) == MAX_LISTED_ENTRIES or byte_count > remaining_bytes:
            omitted_count += 1
        else:
            entries.append(name)
    return (folder_note(interpretation.name, entries, omitted_count),)


def _entry_names(path: Path) -> Iterator[str]:
    for name, is_folder in visible_entries(str(path)):
        yield printable_name(name) + ("/" if is_folder else "")

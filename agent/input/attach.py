"""Files and folders that a message mentions as `@PATH`, read when it is sent. As much of them as fits is attached to
the message; the model can read the rest. Files that may not be read are left out, with a notice to the user."""

import asyncio
import base64
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import decide
from ebbtide.agent.context.attachments import (
    MIN_ATTACHMENT_BYTES,
    attachment_labels,
    file_note,
    folder_note,
    picture_note,
)
from ebbtide.agent.context.attachments import fit_message as fitted_in
from ebbtide.agent.context.mentions import MAX_ATTACHMENTS, MentionReading, mentions, room_for
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.messages import Conversation, Image, Note, User, UserPart
from ebbtide.agent.window.measure import budget_of, window_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ReadLimits, ToolError, Workspace
from ebbtide.tools.files.paths import kind_of, locate_existing
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.read import Read
from ebbtide.tools.search.walk import entries_of

MOST_ENTRIES = 400
"""Maximum number of a folder's entries that are listed."""


async def with_attached(said: User, env: SessionContext) -> User:
    """Attach the files and folders that the message mentions, as many as fit next to its other parts."""
    room = room_for(env.provider.window.effective)
    room -= sum(_size(part) for part in said.parts if not (isinstance(part, Note) and part.kind == "piped"))
    parts: list[UserPart] = []
    meant = dict[Path, MentionReading]()
    for readings in mentions(said.text):
        found = _find_mention(readings, env.call_runner.workspace)
        if found is None:
            if readings[0].is_certain:
                env.emit(Noticed(f"`{printable(readings[0].name)}` is not attached: there is no such file"))
            continue
        path, reading, note = found
        if note:
            env.emit(Noticed(f"{printable(reading.name)} {note}"))
        if meant.get(path) == reading:
            continue
        meant[path] = reading
        if len(meant) > MAX_ATTACHMENTS:
            env.emit(Noticed(f"a message can have at most {MAX_ATTACHMENTS} attachments: the others were left out"))
            break
        try:
            attachment = await _attach_path(path, reading, room, env)
        except ToolError as error:
            env.emit(Noticed(f"`{printable(reading.name)}` is not attached: {error}"))
            continue
        room -= sum(map(_size, attachment))
        parts += attachment
    message = User((*said.parts, *parts)) if parts else said
    was_told = {id(part) for part in said.parts if isinstance(part, Note) and part.kind in ("file", "folder")}
    if attached := attachment_labels([part for part in message.parts if id(part) not in was_told]):
        env.emit(Noticed(f"attached {', '.join(attached)}"))
    if not env.provider.facts.images and any(isinstance(part, Image) for part in message.parts):
        env.emit(Noticed(f"`{env.provider.facts.id}` does not support images: it only sees a note"))
    return message


def fit_user_message(said: User, env: SessionContext) -> User:
    """Return the message in sendable form: overlong text is shortened, and stored in full with the message."""
    windows = (window_of(env), *(target.window for target in env.targets.fallbacks))
    effective = max(window.effective for window in windows)  # a larger fallback model takes what only fits there
    return fitted_in(said, effective, effective - budget_of(Conversation(), env).used)


def _size(part: UserPart) -> int:
    """Size of a note in bytes."""
    return len(part.text.encode("utf-8", "surrogatepass")) if isinstance(part, Note) else 0


def _find_mention(
    readings: tuple[MentionReading, ...], workspace: Workspace
) -> tuple[Path, MentionReading, str] | None:
    """Return the existing path of one of the readings, and a notice if its name only looks the same."""
    for reading in readings:
        try:
            path, note = locate_existing(reading.path, workspace)
        except ToolError:
            continue
        if os.path.exists(path):
            return path, reading, note
    return None


async def _attach_path(path: Path, reading: MentionReading, room: int, env: SessionContext) -> tuple[UserPart, ...]:
    """Read the file or folder to attach. Raises `ToolError` with the reason if it is not attached."""
    ruling = decide(PermissionRequest("read", "read", (str(path),)), env.call_runner.approval.policy)
    if ruling.verdict != "allow":
        raise ToolError(ruling.rule)
    if room < MIN_ATTACHMENT_BYTES:
        raise ToolError("earlier attachments already take all the room")
    if kind_of(path) == "folder":
        return await asyncio.to_thread(_folder, path, reading, room)
    return await _file(path, reading, room, env)


async def _file(path: Path, reading: MentionReading, room: int, env: SessionContext) -> tuple[UserPart, ...]:
    workspace = env.call_runner.workspace
    limits = ReadLimits(min(room, workspace.reads.most_bytes), workspace.reads.longest_line)
    arguments: dict[str, object] = {"path": str(path), "offset": reading.first}
    if reading.last is not None:
        arguments["limit"] = reading.last - reading.first + 1
    result = await Read().run(arguments, replace(workspace, reads=limits, granted=frozenset([str(path)])))
    if result.pictures:
        encoded = base64.b64encode(result.pictures[0].data).decode("ascii")
        return picture_note(reading.name), Image(result.pictures[0].media_type, encoded)
    return (file_note(reading.name, result.text, result.extent),)


def _folder(path: Path, reading: MentionReading, room: int) -> tuple[UserPart, ...]:
    shown, left_out, size = list[str](), 0, 0
    for name in _names(path):
        size += len(name.encode("utf-8", "surrogatepass")) + 1
        if len(shown) == MOST_ENTRIES or size > room:
            left_out += 1
        else:
            shown.append(name)
    return (folder_note(reading.name, shown, left_out),)


def _names(path: Path) -> Iterator[str]:
    for name, is_folder in entries_of(str(path)):
        yield printable(name) + ("/" if is_folder else "")

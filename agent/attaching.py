"""Files and folders that a message names as `@PATH`, read when it is sent. They stand with the message, as much of them
as has room; the rest the model finds where it is. What may not be read is not, and the user is told."""

import asyncio
import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from agent.context.images import image_size
from agent.context.mentions import MOST, Reading, mentions, room_for, within
from agent.context.refs import message_digits
from agent.env import Env
from agent.events import Noticed
from agent.messages import Image, Note, User, UserPart
from agent.permissions import Asked, decide
from tools.base import ReadLimits, ToolError, Workspace
from tools.paths import kind_of, locate
from tools.read import Read
from tools.truncate import printable
from tools.walk import entries_of

MOST_ENTRIES = 400
"""Names of a folder that are listed."""
_LEAST = 400
"""Bytes below which an attachment is not worth its line."""


@dataclass(frozen=True, slots=True)
class Attachment:
    parts: tuple[UserPart, ...]
    about: str
    """For the user, a few words."""


async def with_attached(said: User, env: Env) -> User:
    """The message with the files and folders that it names, as many as have room beside what came with it."""
    room = room_for(env.provider.window.effective)
    room -= sum(len(part.text.encode("utf-8", "surrogatepass")) for part in said.parts if isinstance(part, Note))
    if not env.provider.facts.images and any(isinstance(part, Image) for part in said.parts):
        env.emit(Noticed(f"`{env.provider.facts.id}` takes no pictures: it is told that there is one"))
    parts: list[UserPart] = []
    attached, meant = list[str](), dict[Path, Reading]()
    for readings in mentions(said.text):
        found = _found(readings, env.hands.workspace)
        if found is None:
            if readings[0].is_certain:
                env.emit(Noticed(f"`{printable(readings[0].name)}` is not attached: there is no such file"))
            continue
        path, reading = found
        if meant.get(path) == reading:
            continue
        meant[path] = reading
        if len(meant) > MOST:
            env.emit(Noticed(f"one message may bring {MOST} files: the others are not attached"))
            break
        try:
            attachment = await _attached(path, reading, room, env)
        except ToolError as error:
            env.emit(Noticed(f"`{printable(reading.name)}` is not attached: {error}"))
            continue
        room -= sum(
            len(part.text.encode("utf-8", "surrogatepass")) for part in attachment.parts if isinstance(part, Note)
        )
        parts += attachment.parts
        attached.append(f"`{printable(reading.name)}` ({attachment.about})")
    if attached:
        env.emit(Noticed(f"attached {', '.join(attached)}"))
    return User((*said.parts, *parts)) if parts else said


def fitted(said: User, env: Env) -> User:
    """The message with what came beside it cut to what has room; all of it is kept with the message, under a name that
    stays the same."""
    room = room_for(env.provider.window.effective)
    notes = [part for part in said.parts if isinstance(part, Note)]
    if sum(len(note.text.encode("utf-8", "surrogatepass")) for note in notes) <= room:
        return said
    most = max(room // max(len(notes), 1), _LEAST)
    cut = [within(part, most, "") if isinstance(part, Note) else part for part in said.parts]
    ref = f"msg-{message_digits(User(tuple(cut)))}"
    return User(tuple(within(part, most, ref) if isinstance(part, Note) else part for part in said.parts))


def _found(readings: tuple[Reading, ...], workspace: Workspace) -> tuple[Path, Reading] | None:
    """What is there under one of the readings."""
    for reading in readings:
        try:
            path = locate(reading.path, workspace)
        except ToolError:
            continue
        if os.path.exists(path):
            return path, reading
    return None


async def _attached(path: Path, reading: Reading, room: int, env: Env) -> Attachment:
    """Raises `ToolError` with why it is not."""
    ruling = decide(Asked("read", "read", (str(path),)), env.hands.gate.policy)
    if ruling.verdict != "allow":
        raise ToolError(ruling.rule)
    if room < _LEAST:
        raise ToolError("what is attached already takes all the room that there is for it")
    if kind_of(path) == "folder":
        return await asyncio.to_thread(_folder, path, reading, room)
    return await _file(path, reading, room, env)


async def _file(path: Path, reading: Reading, room: int, env: Env) -> Attachment:
    workspace = env.hands.workspace
    limits = ReadLimits(min(room, workspace.reads.most_bytes), workspace.reads.longest_line)
    arguments: dict[str, object] = {"path": str(path), "offset": reading.first}
    if reading.last is not None:
        arguments["limit"] = reading.last - reading.first + 1
    result = await Read().run(arguments, replace(workspace, reads=limits, granted=frozenset([str(path)])))
    if result.pictures:
        return _picture(result.pictures[0].media_type, result.pictures[0].data, reading, env)
    count = result.text.count("\n") + 1
    is_part = result.text.rpartition("\n")[2].startswith("(lines ")
    count -= is_part
    about = f"{count:,} line{'s' if count != 1 else ''}" + (" of it" if is_part else "")
    return Attachment((Note(f"`{reading.name}` holds:\n\n{result.text}"),), about)


def _picture(media_type: str, data: bytes, reading: Reading, env: Env) -> Attachment:
    encoded = base64.b64encode(data).decode("ascii")
    size = image_size(encoded)
    about = f"picture, {size[0]}×{size[1]}" if size else "picture"
    if not env.provider.facts.images:
        about += f", which `{env.provider.facts.id}` does not take"
    return Attachment((Note(f"`{reading.name}` is this picture:"), Image(media_type, encoded)), about)


def _folder(path: Path, reading: Reading, room: int) -> Attachment:
    shown, left_out, size = list[str](), 0, 0
    for name in _names(path):
        size += len(name.encode("utf-8", "surrogatepass")) + 1
        if len(shown) == MOST_ENTRIES or size > room:
            left_out += 1
        else:
            shown.append(name)
    more = [f"({left_out:,} more: `glob` lists them)"] if left_out else []
    about = f"folder, {len(shown) + left_out:,} entries"
    listing = "\n".join([*shown, *more]) or "nothing that git does not ignore"
    return Attachment((Note(f"The folder `{reading.name}` holds:\n\n{listing}"),), about)


def _names(path: Path) -> Iterator[str]:
    for name, is_folder in entries_of(str(path)):
        yield printable(name) + ("/" if is_folder else "")

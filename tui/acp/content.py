"""Turns an editor's prompt into a message: text, images, and named or embedded files."""

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)

from ebbtide.agent.context.attachments import file_note
from ebbtide.agent.context.mentions import MentionReading
from ebbtide.agent.errors import UsageError
from ebbtide.agent.messages import Note, Text, User
from ebbtide.tui.prompt.pastes import Pastes

Block: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)

_LINES = re.compile(r"L?(\d{1,9})(?:[:-]L?(\d{1,9}))?")


def message_of(blocks: Sequence[Block], root: str, pastes: Pastes) -> User:
    """The message. A named file is attached as by `@PATH`; an embedded file is attached as sent, since it may differ
    from the one on disk. Raises `UsageError`."""
    text, beside = "", list[Note]()
    for block in blocks:
        match block:
            case TextContentBlock(text=words):
                text += words
            case ImageContentBlock(data=data):
                text = _append_word(text, _picture(data, pastes))
            case ResourceContentBlock(uri=uri, name=name):
                text = _append_word(text, _link(uri, name, root))
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
                text = _append_word(text, _blob(resource, root, pastes))
            case EmbeddedResourceContentBlock(resource=resource):
                name = _link_name(resource.uri, root)
                text = _append_word(text, f"`{name}`")
                beside.append(file_note(name, resource.text))
            case AudioContentBlock():
                raise UsageError("audio cannot be sent: write what was said")
    if not text.strip():
        raise UsageError("there is nothing in this prompt; write one")
    return User((Text(text), *pastes.attachments(text), *beside))


def _append_word(before: str, word: str) -> str:
    return f"{before} {word}" if before and not before[-1].isspace() else before + word


def _picture(data: str, pastes: Pastes) -> str:
    try:
        return pastes.add_picture(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise UsageError(f"the picture is not base64: {error}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _blob(resource: BlobResourceContents, root: str, pastes: Pastes) -> str:
    if (resource.mime_type or "").startswith("image/"):
        return _picture(resource.blob, pastes)
    return _link(resource.uri, resource.uri, root)


def _link(uri: str, name: str, root: str) -> str:
    reading = _file(uri, root)
    return reading.name if reading is not None else f"[{name}]({uri})"


def _link_name(uri: str, root: str) -> str:
    reading = _file(uri, root)
    return reading.name.removeprefix("@") if reading is not None else uri


def _file(uri: str, root: str) -> MentionReading | None:
    """The file and lines of a URI, relative to the working folder if it is in there."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = PurePosixPath(unquote(parts.path))
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    lines = _LINES.fullmatch(parts.fragment)
    if lines is None:
        return MentionReading(str(inside))
    first = max(int(lines[1]), 1)
    return MentionReading(str(inside), first, max(int(lines[2] or first), first))

"""Converts an editor's prompt to a message with text, images, and linked or embedded files."""

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

from ebbtide.agent.errors import UsageError
from ebbtide.agent.messages import Note, Text, User
from ebbtide.agent.prompt.attachments import file_note
from ebbtide.agent.prompt.mentions import MentionInterpretation
from ebbtide.tui.prompt.pastes import Pastes

ContentBlock: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)

_LINE_FRAGMENT = re.compile(r"L?(\d{1,9})(?:[:-]L?(\d{1,9}))?")


def user_message(blocks: Sequence[ContentBlock], root: str, pastes: Pastes) -> User:
    """Convert an editor's prompt to a message. A linked file becomes an `@PATH` mention. An embedded file is attached
    as it was sent, because it may differ from the file on disk. Raises `UsageError`."""
    text = ""
    attachments: list[Note] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=block_text):
                text += block_text
            case ImageContentBlock(data=data):
                text = _append_word(text, _image_placeholder(data, pastes))
            case ResourceContentBlock(uri=uri, name=name):
                text = _append_word(text, _link_text(uri, name, root))
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
                text = _append_word(text, _blob_text(resource, root, pastes))
            case EmbeddedResourceContentBlock(resource=resource):
                name = _link_name(resource.uri, root)
                text = _append_word(text, f"`{name}`")
                attachments.append(file_note(name, resource.text))
            case AudioContentBlock():
                raise UsageError("audio is not supported; send text instead")
    if not text.strip():
        raise UsageError("the prompt is empty")
    return User((Text(text), *pastes.attachments(text), *attachments))


def _append_word(text: str, word: str) -> str:
    return f"{text} {word}" if text and not text[-1].isspace() else text + word


def _image_placeholder(data: str, pastes: Pastes) -> str:
    try:
        return pastes.add_image(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise UsageError(f"the image is not valid base64: {error}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _blob_text(resource: BlobResourceContents, root: str, pastes: Pastes) -> str:
    if (resource.mime_type or "").startswith("image/"):
        return _image_placeholder(resource.blob, pastes)
    return _link_text(resource.uri, resource.uri, root)


def _link_text(uri: str, name: str, root: str) -> str:
    reference = _file_reference(uri, root)
    return reference.name if reference is not None else f"[{name}]({uri})"


def _link_name(uri: str, root: str) -> str:
    reference = _file_reference(uri, root)
    return reference.name.removeprefix("@") if reference is not None else uri


def _file_reference(uri: str, root: str) -> MentionInterpretation | None:
    """Parse the file and line numbers that a URI refers to. The path is relative if the file is inside the working
    folder. None unless the scheme is `file`."""
    url = urlsplit(uri)
    if url.scheme != "file":
        return None
    path = PurePosixPath(unquote(url.path))
    relative_path = path.relative_to(root) if path.is_relative_to(root) else path
    lines_match = _LINE_FRAGMENT.fullmatch(url.fragment)
    if lines_match is None:
        return MentionInterpretation(str(relative_path))
    first_line = max(int(lines_match[1]), 1)
    return MentionInterpretation(str(relative_path), first_line, max(int(lines_match[2] or first_line), first_line))

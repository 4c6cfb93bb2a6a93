"""What servers answer, as our own values: every part is there once, and named where it cannot be shown."""

import base64
import binascii
import json
from typing import TypeAlias

import mcp_types as types

from tools.base import Attached, Picture, Result
from tools.mcp.offers import PromptMessage
from tools.mcp.texts import one_line

ResultBlock: TypeAlias = (
    types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource
)
Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_SHOWN = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""Kinds of pictures that models can look at."""


def result_of(answer: types.CallToolResult) -> Result:
    """What a call gave back. A text that is alone is not copied, however long it is."""
    parts = _Parts()
    for block in answer.content:
        parts.take(block)
    if answer.structured_content is not None and not _says_the_same(answer):
        parts.texts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    return parts.result(failed=answer.is_error)


def result_of_resource(answer: types.ReadResourceResult) -> Result:
    """What is in a resource."""
    parts = _Parts()
    for contents in answer.contents:
        parts.take_contents(contents, names_it=len(answer.contents) > 1)
    return parts.result()


def messages_of(answer: types.GetPromptResult) -> tuple[PromptMessage, ...]:
    """What a prompt stands for."""
    messages = []
    for message in answer.messages:
        parts = _Parts()
        parts.take(message.content)
        messages.append(PromptMessage(message.role, parts.text, tuple(parts.pictures), tuple(parts.files)))
    return tuple(messages)


def picture_of(data: str, media_type: str) -> Picture | None:
    """The picture that a base64 text stands for; None when it is none that can be shown."""
    decoded = _decoded(data)
    return Picture(media_type, decoded) if decoded is not None and media_type in _SHOWN else None


class _Parts:
    """The parts of an answer, sorted by what can be done with them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pictures: list[Picture] = []
        self.files: list[Attached] = []

    @property
    def text(self) -> str:
        return self.texts[0] if len(self.texts) == 1 else "\n".join(self.texts)

    def result(self, failed: bool = False) -> Result:
        return Result(self.text, pictures=tuple(self.pictures), files=tuple(self.files), failed=failed)

    def take(self, block: ResultBlock) -> None:
        match block:
            case types.TextContent():
                self.texts.append(block.text)
            case types.ImageContent():
                self._take_data(block.data, block.mime_type, "picture")
            case types.AudioContent():
                self._take_data(block.data, block.mime_type, "sound")
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                self.texts.append(f"[a link to `{block.uri}` ({block.title or block.name}){about}]")
            case types.EmbeddedResource():
                self.take_contents(block.resource, names_it=True)

    def take_contents(self, contents: Contents, names_it: bool) -> None:
        match contents:
            case types.TextResourceContents():
                if names_it:
                    self.texts.append(f"[`{contents.uri}`:]")
                self.texts.append(contents.text)
            case types.BlobResourceContents():
                self._take_data(contents.blob, contents.mime_type or "", one_line(contents.uri))

    def _take_data(self, data: str, media_type: str, name: str) -> None:
        decoded = _decoded(data)
        if decoded is None:
            self.texts.append(f"[`{name}` cannot be decoded]")
        elif media_type in _SHOWN:
            self.pictures.append(Picture(media_type, decoded))
        else:
            self.files.append(Attached(name, media_type or "application/octet-stream", decoded))


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _says_the_same(answer: types.CallToolResult) -> bool:
    """Whether the texts hold the structured content already, as servers are asked to send it for older clients."""
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    structured = answer.structured_content
    if len(texts) == 1 and _parsed(texts[0]) == structured:
        return True
    if not isinstance(structured, dict) or list(structured) != ["result"]:
        return False
    # What is no object is put into one, under this name; the parts of a list are sent one by one.
    value = structured["result"]
    parts = value if isinstance(value, list) and len(value) == len(texts) else [value]
    return len(parts) == len(texts) and all(
        part == text or _parsed(text) == part for part, text in zip(parts, texts, strict=True)
    )


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

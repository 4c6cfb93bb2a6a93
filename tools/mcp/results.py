"""What servers answer, as our own values: every part is there once, and named where it cannot be shown."""

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import mcp_types as types

from tools.base import Picture, Result
from tools.mcp.state import PromptMessage

Block: TypeAlias = (
    types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource
)
Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_SHOWN = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""Kinds of pictures that models can look at."""


def result_of(answer: types.CallToolResult) -> Result:
    """What a call gave back. A text that is alone is not copied, however long it is."""
    texts, pictures = _read(answer.content)
    if answer.structured_content is not None and not _says_the_same(answer):
        texts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    return Result(_joined(texts), pictures=tuple(pictures), failed=answer.is_error)


def result_of_resource(answer: types.ReadResourceResult) -> Result:
    """What is in a resource."""
    texts, pictures = list[str](), list[Picture]()
    for contents in answer.contents:
        _take(contents, texts, pictures, names_it=len(answer.contents) > 1)
    return Result(_joined(texts), pictures=tuple(pictures))


def messages_of(answer: types.GetPromptResult) -> tuple[PromptMessage, ...]:
    """What a prompt stands for."""
    messages = []
    for message in answer.messages:
        texts, pictures = _read([message.content])
        messages.append(PromptMessage(message.role, _joined(texts), tuple(pictures)))
    return tuple(messages)


def picture_of(data: str, media_type: str) -> Picture | None:
    """The picture that a base64 text stands for; None when it is none that can be shown."""
    decoded = _decoded(data)
    return Picture(media_type, decoded) if decoded is not None and media_type in _SHOWN else None


def _read(blocks: Iterable[Block]) -> tuple[list[str], list[Picture]]:
    texts, pictures = list[str](), list[Picture]()
    for block in blocks:
        match block:
            case types.TextContent():
                texts.append(block.text)
            case types.ImageContent():
                _take_data(block.data, block.mime_type, "a picture", texts, pictures)
            case types.AudioContent():
                _take_data(block.data, block.mime_type, "a sound", texts, pictures)
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                texts.append(f"[a link to `{block.uri}` ({block.title or block.name}){about}]")
            case types.EmbeddedResource():
                _take(block.resource, texts, pictures, names_it=True)
    return texts, pictures


def _take(contents: Contents, texts: list[str], pictures: list[Picture], names_it: bool) -> None:
    match contents:
        case types.TextResourceContents():
            if names_it:
                texts.append(f"[`{contents.uri}`:]")
            texts.append(contents.text)
        case types.BlobResourceContents():
            _take_data(contents.blob, contents.mime_type or "", f"`{contents.uri}`", texts, pictures)


def _take_data(data: str, media_type: str, name: str, texts: list[str], pictures: list[Picture]) -> None:
    decoded = _decoded(data)
    if decoded is None:
        texts.append(f"[{name} that cannot be decoded]")
    elif media_type in _SHOWN:
        pictures.append(Picture(media_type, decoded))
    else:
        texts.append(f"[{name}, {media_type or 'of no known kind'}, {len(decoded):,} bytes: it cannot be shown]")


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n".join(texts)


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

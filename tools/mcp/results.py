"""Converts answers from servers to our own types. Each part appears once, and parts that cannot be shown are named."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import TypeAlias

import mcp_types as types

from ebbtide.tools.base import Attachment, Picture, Result
from ebbtide.tools.mcp.offers import PromptMessage
from ebbtide.tools.mcp.texts import one_line, without_codes

ResultBlock: TypeAlias = (
    types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource
)
Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_PICTURE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""Media types of pictures that models accept."""
_ERROR_START = re.compile(r"\W*\w*(?:error|exception|fail)", re.IGNORECASE)
"""Beginning of a text that is recognisably an error."""
_TELLING = 20
"""Length in characters from which a repeated text is no coincidence."""


def result_of(answer: types.CallToolResult) -> Result:
    """Return the result of a tool call. A single text is not copied, however long it is."""
    parts = _Parts()
    for block in answer.content:
        parts.take(block)
    unsaid = _unrepeated_content(answer)
    if unsaid is not None:
        parts.texts.append(json.dumps(unsaid, ensure_ascii=False))
    if answer.is_error and not _ERROR_START.match(parts.text):
        parts.texts.insert(0, "error:" if parts.text else "error: the tool says nothing more")  # most APIs have no flag
    return parts.result(failed=answer.is_error)


def result_of_resource(answer: types.ReadResourceResult) -> Result:
    """Return the content of a resource."""
    parts = _Parts()
    for contents in answer.contents:
        parts.take_contents(contents, names_it=len(answer.contents) > 1)
    return parts.result()


def messages_of(answer: types.GetPromptResult) -> tuple[PromptMessage, ...]:
    """Return the messages of a prompt."""
    messages = []
    for message in answer.messages:
        parts = _Parts()
        parts.take(message.content)
        messages.append(PromptMessage(message.role, parts.text, tuple(parts.pictures), tuple(parts.files)))
    return tuple(messages)


def picture_of(data: str, media_type: str) -> Picture | None:
    """Decode a base64 picture. None if it cannot be shown."""
    decoded = _decode_base64(data)
    return Picture(media_type, decoded) if decoded is not None and media_type in _PICTURE_TYPES else None


class _Parts:
    """The parts of an answer, sorted by type."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pictures: list[Picture] = []
        self.files: list[Attachment] = []

    @property
    def text(self) -> str:
        return without_codes(self.texts[0] if len(self.texts) == 1 else "\n".join(self.texts))

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
        decoded = _decode_base64(data)
        if decoded is None:
            self.texts.append(f"[`{name}` cannot be decoded]")
        elif media_type in _PICTURE_TYPES:
            self.pictures.append(Picture(media_type, decoded))
        else:
            self.files.append(Attachment(name, media_type or "application/octet-stream", decoded))


def _decode_base64(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _unrepeated_content(answer: types.CallToolResult) -> object:
    """Return the structured content that no block repeats, or None. Servers are asked to repeat it for older clients;
    some send it whole, others each part under its own name."""
    structured = answer.structured_content
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    if structured is None or (len(texts) == 1 and _parse_json(texts[0]) == structured):
        return None
    if not isinstance(structured, dict) or not answer.content:
        return structured
    is_alone = len(structured) == 1
    unsaid = {
        name: value
        for name, value in structured.items()
        if not ((is_alone or _is_telling(value)) and _is_in_texts(value, answer.content, texts))
    }
    return unsaid or None


def _is_telling(value: object) -> bool:
    """Whether equality with one of several values is no coincidence."""
    return len(value) >= _TELLING if isinstance(value, str) else isinstance(value, list | dict) and bool(value)


def _is_in_texts(value: object, blocks: Sequence[ResultBlock], texts: Sequence[str]) -> bool:
    """Whether the value is equal to the texts, to their list, or to the blocks themselves."""
    for parts in (value, [value]):
        if isinstance(parts, list) and len(parts) == len(texts) and all(map(_is_text_of, parts, texts)):
            return True
    written = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
    return bool(written) and value in (written, written[0] if len(written) == 1 else written)


def _is_text_of(value: object, text: str) -> bool:
    return value == text or _parse_json(text) == value


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

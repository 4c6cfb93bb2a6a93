"""Converts answers from servers to this program's types. No content appears twice, and content that cannot be displayed
is mentioned in a line of text."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import TypeAlias

import mcp_types as types

from ebbtide.tools.base import Attachment, ImageData, Result
from ebbtide.tools.integrations.mcp.offers import PromptMessage
from ebbtide.tools.integrations.mcp.texts import one_line, without_control_codes

ResultBlock: TypeAlias = (
    types.TextContent | types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource
)
Contents: TypeAlias = types.TextResourceContents | types.BlobResourceContents

_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
"""Media types of images that models accept."""
_ERROR_START = re.compile(r"\W*\w*(?:error|exception|fail)", re.IGNORECASE)
"""Matches text that begins like an error message."""
_MIN_DISTINCTIVE_CHARS = 20
"""Text at least this long, in characters, is not repeated by coincidence."""


def tool_result(answer: types.CallToolResult) -> Result:
    """Convert the result of a tool call. If the result is a single block of text, that text is not copied."""
    content = _ContentByType()
    for block in answer.content:
        content.add_block(block)
    unrepeated = _unrepeated_content(answer)
    if unrepeated is not None:
        content.texts.append(json.dumps(unrepeated, ensure_ascii=False))
    if answer.is_error and not _ERROR_START.match(content.text):  # most model APIs have no error flag
        content.texts.insert(0, "error:" if content.text else "error: the tool gave no details")
    return content.result(has_failed=answer.is_error)


def resource_result(answer: types.ReadResourceResult) -> Result:
    """Convert the content of a resource."""
    content = _ContentByType()
    for contents in answer.contents:
        content.add_contents(contents, with_uri=len(answer.contents) > 1)
    return content.result()


def prompt_messages(answer: types.GetPromptResult) -> tuple[PromptMessage, ...]:
    """Convert the messages of a prompt."""
    messages = []
    for message in answer.messages:
        content = _ContentByType()
        content.add_block(message.content)
        messages.append(PromptMessage(message.role, content.text, tuple(content.images), tuple(content.files)))
    return tuple(messages)


def decode_image(data: str, media_type: str) -> ImageData | None:
    """Decode a base64 image. None if it cannot be shown to models."""
    decoded = _decode_base64(data)
    return ImageData(media_type, decoded) if decoded is not None and media_type in _IMAGE_TYPES else None


class _ContentByType:
    """An answer's content, by type."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.images: list[ImageData] = []
        self.files: list[Attachment] = []

    @property
    def text(self) -> str:
        return without_control_codes(self.texts[0] if len(self.texts) == 1 else "\n".join(self.texts))

    def result(self, has_failed: bool = False) -> Result:
        return Result(self.text, images=tuple(self.images), files=tuple(self.files), has_failed=has_failed)

    def add_block(self, block: ResultBlock) -> None:
        match block:
            case types.TextContent():
                self.texts.append(block.text)
            case types.ImageContent():
                self._add_data(block.data, block.mime_type, "picture")
            case types.AudioContent():
                self._add_data(block.data, block.mime_type, "sound")
            case types.ResourceLink():
                description = f": {block.description}" if block.description else ""
                self.texts.append(f"[a link to `{block.uri}` ({block.title or block.name}){description}]")
            case types.EmbeddedResource():
                self.add_contents(block.resource, with_uri=True)

    def add_contents(self, contents: Contents, with_uri: bool) -> None:
        match contents:
            case types.TextResourceContents():
                if with_uri:
                    self.texts.append(f"[`{contents.uri}`:]")
                self.texts.append(contents.text)
            case types.BlobResourceContents():
                self._add_data(contents.blob, contents.mime_type or "", one_line(contents.uri))

    def _add_data(self, data: str, media_type: str, name: str) -> None:
        decoded = _decode_base64(data)
        if decoded is None:
            self.texts.append(f"[`{name}` cannot be decoded]")
        elif media_type in _IMAGE_TYPES:
            self.images.append(ImageData(media_type, decoded))
        else:
            self.files.append(Attachment(name, media_type or "application/octet-stream", decoded))


def _decode_base64(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _unrepeated_content(answer: types.CallToolResult) -> object:
    """Return the structured content that the blocks do not repeat. None if they repeat all of it. Servers should repeat
    it for older clients: some repeat the whole object, others each value separately."""
    structured = answer.structured_content
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    if structured is None or (len(texts) == 1 and _parse_json(texts[0]) == structured):
        return None
    if not isinstance(structured, dict) or not answer.content:
        return structured
    is_only_value = len(structured) == 1
    unrepeated = {
        name: value
        for name, value in structured.items()
        if not ((is_only_value or _is_distinctive(value)) and _is_in_texts(value, answer.content, texts))
    }
    return unrepeated or None


def _is_distinctive(value: object) -> bool:
    """Whether the value is too long to be repeated by coincidence."""
    return (
        len(value) >= _MIN_DISTINCTIVE_CHARS
        if isinstance(value, str)
        else isinstance(value, list | dict) and bool(value)
    )


def _is_in_texts(value: object, blocks: Sequence[ResultBlock], texts: Sequence[str]) -> bool:
    """Whether the blocks already contain the value: as text, as a list of texts, or as the blocks themselves."""
    for parts in (value, [value]):
        if isinstance(parts, list) and len(parts) == len(texts) and all(map(_matches_text, parts, texts)):
            return True
    dumped_blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
    return bool(dumped_blocks) and value in (
        dumped_blocks,
        dumped_blocks[0] if len(dumped_blocks) == 1 else dumped_blocks,
    )


def _matches_text(value: object, text: str) -> bool:
    return value == text or _parse_json(text) == value


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

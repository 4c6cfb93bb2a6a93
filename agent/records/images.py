"""Images in outputs. Their bytes are stored in the archive instead of the session's log, and loaded from the archive on
resume."""

from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from ebbtide.agent.messages import Image, Message, ToolOutput, User
from ebbtide.store.blobs import BlobStore
from ebbtide.store.errors import StoreError

MISSING_IMAGE_NOTE = "[an image ({}) is no longer available]"


def needs_image_bytes(messages: Sequence[Message]) -> bool:
    """Whether any image's bytes must be loaded before the messages can be sent."""
    return any(_lacks_bytes(output) for message in messages if isinstance(message, User) for output in message.outputs)


def load_image_bytes(messages: Sequence[Message], blobs: BlobStore | None) -> tuple[Message, ...]:
    """Load the bytes of all images in the messages. If bytes are missing, a line of text replaces the image."""
    return tuple(
        _load_message_images(message, blobs) if needs_image_bytes([message]) else message for message in messages
    )


def without_image_digests(message: User) -> User:
    """Return the message with its images stored inline, because their bytes could not be stored anywhere else."""
    return User(
        tuple(
            replace(part, images=tuple(replace(image, digest="") for image in part.images))
            if isinstance(part, ToolOutput)
            else part
            for part in message.parts
        )
    )


def _lacks_bytes(output: ToolOutput) -> bool:
    return any(image.digest and not image.data for image in output.images)


def _load_message_images(message: Message, blobs: BlobStore | None) -> Message:
    assert isinstance(message, User)
    return User(
        tuple(_load_output_images(part, blobs) if isinstance(part, ToolOutput) else part for part in message.parts)
    )


def _load_output_images(output: ToolOutput, blobs: BlobStore | None) -> ToolOutput:
    loaded_images = [
        image if image.data else replace(image, data=_load_image_base64(image, blobs)) for image in output.images
    ]
    missing_notes = [MISSING_IMAGE_NOTE.format(image.media_type) for image in loaded_images if not image.data]
    text = "\n".join(filter(None, (output.text, *missing_notes)))
    return replace(output, text=text, images=tuple(image for image in loaded_images if image.data))


def _load_image_base64(image: Image, blobs: BlobStore | None) -> str:
    """Return an image's bytes in base64; empty if they are missing or damaged."""
    if blobs is None:
        return ""
    try:
        with closing(blobs.open(image.digest)) as reader:
            return b64encode(reader.read(0, reader.size)).decode("ascii")
    except StoreError:
        return ""

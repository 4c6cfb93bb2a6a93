"""Documents and media attached to an output. Readable documents are added to its text. Each other attachment is
represented by one line."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.tools.base import Attachment, ImageData, Result
from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES, image_type
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_binary, terminal_text

_MAX_NAME_CHARS = 120
"""Maximum length of a name, in characters."""
_TEXT_MEDIA_TYPE = regex(
    r"text/.+|(application|image)/(.+\+)?(json|xml|yaml|x-yaml|toml|javascript|x-javascript|sql|x-sh|x-ndjson|csv)|",
    re.IGNORECASE,
)
"""Media types that may be read as text, including the empty one."""


def classify_attachments(result: Result) -> Result:
    """Decide how each attachment of a result is shown. Readable documents are appended to its text, images that a model
    accepts stay images, and all others become files.

    If the result has a log or a full text, documents become files too, because its text is then only part of the
    output.
    """
    images, files = list[ImageData](), list[Attachment]()
    for picture in result.images:
        detected_type = image_type(picture.data)
        if detected_type and len(picture.data) <= MAX_IMAGE_BYTES:
            images.append(ImageData(detected_type, picture.data))
        else:
            files.append(Attachment("picture", detected_type or picture.media_type, picture.data))
    files += result.files
    documents = list[str]()
    if result.log is None and result.full_text is None:
        texts = [(file, document_text(file)) for file in files]
        documents = [text for _, text in texts if text is not None]
        files = [file for file, text in texts if text is None]
    text = "\n".join(section for section in (result.text, *documents) if section)
    return replace(result, text=text, images=tuple(images), files=tuple(files))


def document_text(file: Attachment) -> str | None:
    """Return a document's text, preceded by a line with its name. None if it is not readable text."""
    if not _TEXT_MEDIA_TYPE.fullmatch(file.media_type.partition(";")[0].strip()):
        return None
    try:
        text = file.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or is_mostly_binary(text) else f"[{_file_label(file)}:]\n{text}"


def attachment_line(file: Attachment, ref: str | None) -> str:
    """Return the line that represents a file in the view. `ref` is its reference, or None if it could not be stored."""
    where = f'kept as ref_id="{ref}"' if ref else "it could not be kept"
    return f"[{_file_label(file)}; {where}]"


def attachment_lines(files: Sequence[Attachment], refs: Sequence[str | None]) -> str:
    return "\n".join(attachment_line(file, ref) for file, ref in zip(files, refs, strict=True))


def _file_label(file: Attachment) -> str:
    kind = _one_line_name(file.media_type) or "unknown type"
    return f'Attached "{_one_line_name(file.name)}" — {kind}, {pluralize(len(file.data), "byte")}'


def _one_line_name(text: str) -> str:
    """Join a name into one line."""
    return ellipsize(" ".join(terminal_text(text).split()), _MAX_NAME_CHARS)

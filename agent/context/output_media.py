"""Documents and media attached to an output: readable ones become part of its text, the others one line each. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.tools.base import Attachment, Picture, Result
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_noise, plain

_NAME = 120
"""Maximum characters of a name."""
_TEXTUAL = regex(
    r"text/.+|(application|image)/(.+\+)?(json|xml|yaml|x-yaml|toml|javascript|x-javascript|sql|x-sh|x-ndjson|csv)|",
    re.IGNORECASE,
)
"""Media types that may be read as text, the empty one included."""


def sorted_out(raw: Result) -> Result:
    """Sort the attachments of a result: readable documents are appended to its text, pictures that a model accepts stay
    pictures with their detected type, and the rest become files. Documents next to a program's output stay files,
    because that output is never loaded as a whole."""
    pictures, files = list[Picture](), list[Attachment]()
    for picture in raw.pictures:
        found = picture_type(picture.data)
        if found and len(picture.data) <= MAX_PICTURE_BYTES:
            pictures.append(Picture(found, picture.data))
        else:
            files.append(Attachment("picture", found or picture.media_type, picture.data))
    files += raw.files
    documents = list[str]()
    if raw.log is None and raw.uncut is None:
        texts = [(file, read_as_text(file)) for file in files]
        documents = [text for _, text in texts if text is not None]
        files = [file for file, text in texts if text is None]
    text = "\n".join(part for part in (raw.text, *documents) if part)
    return replace(raw, text=text, pictures=tuple(pictures), files=tuple(files))


def read_as_text(file: Attachment) -> str | None:
    """Return a document's text under a line that names it, or None if it is not readable text."""
    if not _TEXTUAL.fullmatch(file.media_type.partition(";")[0].strip()):
        return None
    try:
        text = file.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or is_mostly_noise(text) else f"[{_file_label(file)}:]\n{text}"


def media_line(file: Attachment, ref: str | None) -> str:
    """Return the line that represents a file in the view. `ref`: its reference, or None if it could not be stored."""
    where = f'kept as ref_id="{ref}"' if ref else "it could not be kept"
    return f"[{_file_label(file)}; {where}]"


def lines_for(files: Sequence[Attachment], refs: Sequence[str | None]) -> str:
    return "\n".join(media_line(file, ref) for file, ref in zip(files, refs, strict=True))


def _file_label(file: Attachment) -> str:
    kind = _flat(file.media_type) or "unknown type"
    return f'Attached "{_flat(file.name)}" — {kind}, {pluralize(len(file.data), "byte")}'


def _flat(text: str) -> str:
    """Return a name on one line."""
    return ellipsize(" ".join(plain(text).split()), _NAME)

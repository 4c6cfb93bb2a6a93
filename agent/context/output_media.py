"""Documents and media that came with an output: what is read as a part of its text, and the line that stands for each
of the others. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.tools.base import Attachment, Picture, Result
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize, pluralize
from ebbtide.tools.outputs.plain_text import is_mostly_noise, plain

_NAME = 120
"""Characters of a name that are shown."""
_TEXTUAL = regex(
    r"text/.+|(application|image)/(.+\+)?(json|xml|yaml|x-yaml|toml|javascript|x-javascript|sql|x-sh|x-ndjson|csv)|",
    re.IGNORECASE,
)
"""Media types of what may be read, among them none at all."""


def sorted_out(raw: Result) -> Result:
    """The result with its documents that can be read at the end of its text, and among its pictures only those that a
    model takes, each with the type that it really has; what is left are files. Beside what a program printed documents
    stay files: that is never held whole."""
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
    """A document under a line that names it, or None when it is none that can be read."""
    if not _TEXTUAL.fullmatch(file.media_type.partition(";")[0].strip()):
        return None
    try:
        text = file.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text or is_mostly_noise(text) else f"[{_file_label(file)}:]\n{text}"


def media_line(file: Attachment, ref: str | None) -> str:
    """What stands in the view for a file. `ref`: where it is kept; None when it could not be."""
    where = f'kept as ref_id="{ref}"' if ref else "it could not be kept"
    return f"[{_file_label(file)}; {where}]"


def lines_for(files: Sequence[Attachment], refs: Sequence[str | None]) -> str:
    return "\n".join(media_line(file, ref) for file, ref in zip(files, refs, strict=True))


def _file_label(file: Attachment) -> str:
    kind = _flat(file.media_type) or "unknown type"
    return f'Attached "{_flat(file.name)}" — {kind}, {pluralize(len(file.data), "byte")}'


def _flat(text: str) -> str:
    """A name on one line."""
    return ellipsize(" ".join(plain(text).split()), _NAME)

"""What a message brings of files, folders and servers: how the model is told of each, and what that says of it to the
user, also when the session goes on later. Pure; it knows no file."""

import re
from collections.abc import Iterator, Sequence

from agent.context.ends import manner_of, size_of
from agent.context.images import image_size
from agent.context.mentions import is_piped, piped_text
from agent.messages import Image, Note, UserPart
from tools.extent import counted
from tools.truncate import printable

_TOLD = re.compile(r"(?P<folder>The folder )?`(?P<name>[^\n]+)` (?:(?P<holds>holds:)\n\n|is this picture:\Z)")
_MORE = re.compile(r"\(([\d,]+) more: `glob` lists them\)")
_NO_ENTRIES = "nothing that git does not ignore"


def file_note(name: str, text: str) -> Note:
    """`text`: what `read` gives."""
    return Note(f"`{name}` holds:\n\n{text}")


def picture_note(name: str) -> Note:
    """What stands in front of the picture."""
    return Note(f"`{name}` is this picture:")


def folder_note(name: str, entries: Sequence[str], left_out: int) -> Note:
    more = [f"({left_out:,} more: `glob` lists them)"] if left_out else []
    return Note(f"The folder `{name}` holds:\n\n" + ("\n".join([*entries, *more]) or _NO_ENTRIES))


def attached_in(parts: Sequence[UserPart]) -> tuple[str, ...]:
    """What is attached to a message, in a few words each."""
    return tuple(_attached(parts))


def is_told(parts: Sequence[UserPart], index: int) -> bool:
    """Whether the picture at a place is one that `attached_in` tells of."""
    note = parts[index - 1] if index else None
    told = _TOLD.match(note.text) if isinstance(note, Note) else None
    return told is not None and not told["holds"]


def _attached(parts: Sequence[UserPart]) -> Iterator[str]:
    for index, part in enumerate(parts):
        if isinstance(part, Note) and is_piped(part):
            yield f"what was piped in ({_about_piped(part)})"
            continue
        told = _TOLD.match(part.text) if isinstance(part, Note) else None
        if told is None or not isinstance(part, Note):
            continue
        held = part.text[told.end() :]
        if not told["holds"]:
            about = _about_picture(parts[index + 1 :])
        elif told["folder"]:
            about = _about_folder(held)
        else:
            about = _about_text(held)
        yield f"`{printable(told['name'])}` ({about})"


def _about_text(held: str) -> str:
    lines = held.split("\n")
    is_part = lines[-1].startswith("(lines ")
    count = len(lines) - is_part
    return counted(count, "line") + (" of it" if is_part else "")


def _about_piped(note: Note) -> str:
    text = piped_text(note)
    lines = text.count("\n") + (not text.endswith("\n"))
    manner = manner_of(note) if note.whole else ""
    parts = counted(lines, "line"), counted(size_of(text), "byte"), manner
    return ", ".join(filter(None, parts))


def _about_folder(held: str) -> str:
    *entries, last = held.split("\n")
    more = _MORE.fullmatch(last)
    count = len(entries) + (int(more[1].replace(",", "")) if more else last != _NO_ENTRIES)
    return f"folder, {count:,} entr{'ies' if count != 1 else 'y'}"


def _about_picture(behind: Sequence[UserPart]) -> str:
    size = image_size(behind[0].data) if behind and isinstance(behind[0], Image) else None
    return f"picture, {size[0]}×{size[1]}" if size else "picture"

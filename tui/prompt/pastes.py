"""Long pasted texts and images, each represented by a placeholder in brackets."""

import base64
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.text.sanitise import invisible_count

if TYPE_CHECKING:  # types only: much is loaded with them
    from ebbtide.agent.messages import Image, Note

MAX_INLINE_LINES, MAX_INLINE_CHARS = 20, 2_000
"""Longer texts are collapsed."""
MAX_UNFOLDED_CHARS = 200_000
"""Maximum characters of a text that can be expanded in the prompt."""

_UNIT = regex(r"\[(?:(?:pasted|prompt) [\d,]+ (?:lines|characters) #\d+|image #\d+(?: \d+×\d+)?)\]")


@dataclass(frozen=True, slots=True)
class PastedPicture:
    media_type: str
    data: str
    """The file's bytes in base64."""


class Pastes:
    """The placeholders of this run and their contents."""

    def __init__(self) -> None:
        self._kept: dict[str, str | PastedPicture] = {}
        self._invisible: dict[str, int] = {}

    def fold(self, text: str) -> str:
        """The placeholder of a pasted text, or the text itself if short."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MAX_INLINE_LINES and len(text) <= MAX_INLINE_CHARS:
            return text
        return self._fold_text("pasted", text, lines)

    def with_prompt(self, command: str, prompt: str) -> str:
        """The command as typed, with a placeholder for its prompt. A command recalled from the queue gets a new
        placeholder."""
        typed = _UNIT.sub(lambda match: "" if match[0].startswith("[prompt") else match[0], command).strip()
        return f"{typed} {self._fold_text('prompt', prompt, prompt.count(chr(10)) + 1)}"

    def _fold_text(self, kind: str, text: str, lines: int) -> str:
        size = f"{lines:,} lines" if lines > 2 else f"{len(text):,} characters"
        name = f"[{kind} {size} #{self._next(kind)}]"
        self._kept[name] = text
        return name

    def add_picture(self, data: bytes) -> str:
        """The placeholder of an image. Raises `ValueError` with the reason if it is not supported."""
        from ebbtide.agent.context.images import image_size  # noqa: PLC0415  # deferred: much is loaded with it
        from ebbtide.agent.messages import Image  # noqa: PLC0415  # as above

        media_type = picture_type(data)
        if media_type is None:
            raise ValueError("models do not accept this kind of picture: use PNG, JPEG, GIF or WebP")
        if len(data) > MAX_PICTURE_BYTES:
            raise ValueError("the picture is larger than 3.9 MB: scale it down first")
        encoded = base64.b64encode(data).decode("ascii")
        size = image_size(Image(media_type, encoded).data)
        name = f"[image #{self._next('image')}" + (f" {size[0]}×{size[1]}]" if size else "]")
        self._kept[name] = PastedPicture(media_type, encoded)
        return name

    def _next(self, kind: str) -> int:
        return 1 + sum(name.startswith(f"[{kind} ") for name in self._kept)

    def units(self, text: str) -> tuple[tuple[int, int], ...]:
        """The ranges of placeholders in a message."""
        return tuple(match.span() for match in _UNIT.finditer(text) if match[0] in self._kept)

    def unit_at(self, text: str, index: int) -> tuple[int, int] | None:
        """The placeholder at or next to an index."""
        return next((unit for unit in self.units(text) if unit[0] <= index <= unit[1]), None)

    def text_of(self, name: str) -> str | None:
        """The text of a placeholder; None for an image."""
        kept = self._kept.get(name)
        return kept if isinstance(kept, str) else None

    def unfold(self, text: str) -> str:
        """The message with placeholders expanded."""
        return _UNIT.sub(lambda match: self.text_of(match[0]) or match[0], text)

    def invisible_in(self, text: str) -> int:
        """Count the invisible characters in a message and its pasted texts."""
        count = invisible_count(text)
        for name in {text[start:end] for start, end in self.units(text)}:
            if name not in self._invisible:  # once: it may be megabytes, and this is asked at every key
                self._invisible[name] = invisible_count(self.text_of(name) or "")
            count += self._invisible[name]
        return count

    def folded_again(self, edited: str, before: str) -> str:
        """Collapse the pasted texts of `before` that are unchanged in an edited message. Changed ones stay expanded;
        if it is too long for the prompt, all of it is collapsed."""
        for name in (before[start:end] for start, end in self.units(before)):
            whole = self.text_of(name)
            if whole is not None:
                edited = _once(edited, whole, name)
        return edited if len(edited) <= MAX_UNFOLDED_CHARS else self.fold(edited)

    def attachments(self, text: str) -> "tuple[Image | Note, ...]":
        """The contents of a message's placeholders, for the model."""
        from ebbtide.agent.context.mentions import note_with_heading, pasted_note  # noqa: PLC0415  # deferred: much is loaded with it
        from ebbtide.agent.messages import Image  # noqa: PLC0415  # as above

        parts: list[Image | Note] = []
        for name in dict.fromkeys(text[start:end] for start, end in self.units(text)):
            match self._kept[name]:
                case PastedPicture(media_type, data):
                    parts.append(Image(media_type, data))
                case str() as whole if name.startswith("[prompt"):
                    parts.append(note_with_heading(f"{name} is:\n\n", whole, "pasted", name))
                case str() as whole:
                    parts.append(pasted_note(name, whole))
        return tuple(parts)


def _once(text: str, old: str, new: str) -> str:
    """Replace the first occurrence of a text, which may have lost trailing line breaks."""
    if old in text:
        return text.replace(old, new, 1)
    bare = old.rstrip("\n")
    return f"{text.removesuffix(bare)}{new}" if bare and text.endswith(bare) else text


def dropped_picture(text: str, environment: Mapping[str, str]) -> bytes | None:
    """The bytes of an image whose path was pasted or dropped; None for anything else."""
    if "\n" in text.strip() or len(text) > 4096:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if len(words) != 1:
        words = [text.strip()]
    written = unquote(urlsplit(words[0]).path) if words[0].startswith("file://") else words[0]
    if written.startswith("~/"):
        written = environment.get("HOME", "~") + written[1:]
    path = Path(written)
    try:
        if not path.is_absolute() or not path.is_file() or path.stat().st_size > MAX_PICTURE_BYTES:
            return None
        with path.open("rb") as file:
            if picture_type(file.read(16)) is None:
                return None
        return path.read_bytes()
    except (OSError, ValueError):
        return None

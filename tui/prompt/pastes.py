"""Long pasted text and images, each shown as a placeholder in brackets."""

import base64
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ebbtide.agent import prompt as agent_prompt
from ebbtide.agent import tokens
from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES, image_type
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.text.sanitise import count_invisible_characters

if TYPE_CHECKING:  # imported for types only: these modules are slow to load
    from ebbtide.agent.messages import Image, Note

MAX_INLINE_LINES, MAX_INLINE_CHARS = 20, 2_000
"""Text with more lines or characters than this is collapsed to a placeholder."""
MAX_EXPANDED_CHARS = 200_000
"""Maximum length, in characters, of pasted text that can be expanded in the prompt."""

_PLACEHOLDER = regex(r"\[(?:(?:pasted|prompt) [\d,]+ (?:lines|characters) #\d+|image #\d+(?: \d+×\d+)?)\]")


@dataclass(frozen=True, slots=True)
class PastedImage:
    media_type: str
    data: str
    """The file's bytes in base64."""


class Pastes:
    """The placeholders of this run with their contents."""

    def __init__(self) -> None:
        self._content_by_placeholder: dict[str, str | PastedImage] = {}
        self._invisible_counts: dict[str, int] = {}

    def collapse(self, text: str) -> str:
        """Collapse pasted text to a placeholder. Short text is returned unchanged."""
        line_count = text.count("\n") + (not text.endswith("\n"))
        if line_count <= MAX_INLINE_LINES and len(text) <= MAX_INLINE_CHARS:
            return text
        return self._add_placeholder("pasted", text, line_count)

    def with_prompt_placeholder(self, command: str, prompt: str) -> str:
        """Append a placeholder for the prompt to the typed command. If a queued command returns to the prompt, its old
        placeholder is replaced."""
        typed = _PLACEHOLDER.sub(lambda match: "" if match[0].startswith("[prompt") else match[0], command).strip()
        return f"{typed} {self._add_placeholder('prompt', prompt, prompt.count(chr(10)) + 1)}"

    def _add_placeholder(self, kind: str, text: str, line_count: int) -> str:
        length_text = f"{line_count:,} lines" if line_count > 2 else f"{len(text):,} characters"
        placeholder = f"[{kind} {length_text} #{self._next_number(kind)}]"
        self._content_by_placeholder[placeholder] = text
        return placeholder

    def add_image(self, data: bytes) -> str:
        """Store an image and return its placeholder. Raises `ValueError`, saying why, if the image is not supported."""
        from ebbtide.agent.messages import Image  # noqa: PLC0415  # as above

        media_type = image_type(data)
        if media_type is None:
            raise ValueError("unsupported image type: use PNG, JPEG, GIF or WebP")
        if len(data) > MAX_IMAGE_BYTES:
            raise ValueError("the image is larger than 3.9 MB: scale it down first")
        encoded = base64.b64encode(data).decode("ascii")
        dimensions = tokens.images.image_size(Image(media_type, encoded).data)
        placeholder = f"[image #{self._next_number('image')}" + (
            f" {dimensions[0]}×{dimensions[1]}]" if dimensions else "]"
        )
        self._content_by_placeholder[placeholder] = PastedImage(media_type, encoded)
        return placeholder

    def _next_number(self, kind: str) -> int:
        return 1 + sum(placeholder.startswith(f"[{kind} ") for placeholder in self._content_by_placeholder)

    def placeholder_ranges(self, text: str) -> tuple[tuple[int, int], ...]:
        """Find the ranges of all placeholders in a message."""
        return tuple(match.span() for match in _PLACEHOLDER.finditer(text) if match[0] in self._content_by_placeholder)

    def placeholder_at(self, text: str, index: int) -> tuple[int, int] | None:
        """Find the range of the placeholder at or next to an index; None if there is none."""
        return next(
            ((start, end) for start, end in self.placeholder_ranges(text) if start <= index <= end),
            None,
        )

    def pasted_text(self, placeholder: str) -> str | None:
        """Get the text behind a placeholder; None if it is an image."""
        pasted = self._content_by_placeholder.get(placeholder)
        return pasted if isinstance(pasted, str) else None

    def expand(self, text: str) -> str:
        """Expand the placeholders in a message."""
        return _PLACEHOLDER.sub(lambda match: self.pasted_text(match[0]) or match[0], text)

    def invisible_char_count(self, text: str) -> int:
        """Count the invisible characters in a message, including text pasted into it."""
        count = count_invisible_characters(text)
        for placeholder in {text[start:end] for start, end in self.placeholder_ranges(text)}:
            if placeholder not in self._invisible_counts:  # cached: this runs at every key, and a paste may be long
                self._invisible_counts[placeholder] = count_invisible_characters(self.pasted_text(placeholder) or "")
            count += self._invisible_counts[placeholder]
        return count

    def collapse_unchanged(self, edited: str, previous: str) -> str:
        """Collapse pasted text again in the edited message, except where it differs from `previous`. If the message is
        still too long for the prompt, all long text between placeholders is collapsed too."""
        for placeholder in (previous[start:end] for start, end in self.placeholder_ranges(previous)):
            original = self.pasted_text(placeholder)
            if original is not None:
                edited = _replace_once(edited, original, placeholder)
        if len(edited) <= MAX_EXPANDED_CHARS:
            return edited
        pieces = list[str]()
        offset = 0
        for start, end in self.placeholder_ranges(edited):
            pieces += (self.collapse(edited[offset:start]), edited[start:end])
            offset = end
        return "".join([*pieces, self.collapse(edited[offset:])])

    def attachments(self, text: str) -> "tuple[Image | Note, ...]":
        """Get the contents of a message's placeholders for the model."""
        from ebbtide.agent.messages import Image  # noqa: PLC0415  # as above

        parts: list[Image | Note] = []
        for placeholder in dict.fromkeys(text[start:end] for start, end in self.placeholder_ranges(text)):
            match self._content_by_placeholder[placeholder]:
                case PastedImage(media_type, data):
                    parts.append(Image(media_type, data))
                case str() as pasted_text if placeholder.startswith("[prompt"):
                    parts.append(
                        agent_prompt.mentions.note_with_heading(
                            f"{placeholder} is:\n\n", pasted_text, "pasted", placeholder
                        )
                    )
                case str() as pasted_text:
                    parts.append(agent_prompt.mentions.pasted_note(placeholder, pasted_text))
        return tuple(parts)


def _replace_once(text: str, old: str, new: str) -> str:
    """Replace the first occurrence of `old`. At the end of the text, `old` also matches without its trailing line
    breaks."""
    if old in text:
        return text.replace(old, new, 1)
    stripped = old.rstrip("\n")
    return f"{text.removesuffix(stripped)}{new}" if stripped and text.endswith(stripped) else text


def read_dropped_image(text: str, environment: Mapping[str, str]) -> bytes | None:
    """Read the image whose path was pasted or dropped; None for anything else."""
    if "\n" in text.strip() or len(text) > 4096:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if len(words) != 1:
        words = [text.strip()]
    path_text = unquote(urlsplit(words[0]).path) if words[0].startswith("file://") else words[0]
    if path_text.startswith("~/"):
        path_text = environment.get("HOME", "~") + path_text[1:]
    path = Path(path_text)
    try:
        if not path.is_absolute() or not path.is_file() or path.stat().st_size > MAX_IMAGE_BYTES:
            return None
        with path.open("rb") as file:
            if image_type(file.read(16)) is None:
                return None
        return path.read_bytes()
    except (OSError, ValueError):
        return None

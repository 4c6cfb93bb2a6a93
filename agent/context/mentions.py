"""`@PATH` mentions in a message, and the notes for what comes with it. Pure; reads no files."""

import re

from ebbtide.agent.messages import Note, NoteKind
from ebbtide.tools.lazy import dataclass, regex

MAX_ATTACHMENTS = 20
"""Maximum number of files and folders attached to one message."""
MAX_ATTACHMENT_BYTES = 120_000
"""Maximum bytes of all attachments of a message."""
SHARE = 4
"""They take at most 1/`SHARE` of the window."""
BYTES_A_TOKEN = 3

_MENTION = regex(
    r'(?<![\w@/.])@(?:"(?P<quoted>[^"\n]+)"(?::(?P<lines>\d+(?:-\d+)?))?'
    r'|(?P<bare>(?:\\(?:[^\S\n]|["\'\\()&\[\]])|"(?=[\w.])|[^\s"])+))'
)
_SHELL_ESCAPE = regex(r"\\(.)")
"""Blanks and quotation marks as escaped by a shell, or by a terminal into which a file is dragged."""
_RANGE = regex(r"(?P<path>.+?):(?P<lines>\d+(?:-\d+)?)")
_ENDS = ".,;:!?)]}>'`"
"""Punctuation after a path that belongs to the sentence around it."""


@dataclass(frozen=True, slots=True)
class MentionReading:
    """One possible meaning of a mention."""

    path: str
    first: int = 1
    last: int | None = None
    """The last line; None for the file's last."""
    is_certain: bool = False
    """Whether it is in quotation marks, so it can only be a path."""

    @property
    def name(self) -> str:
        """The mention as it would be written."""
        path = self.path
        if '"' in path:
            path = re.sub(r'(?=[\s"\\])', r"\\", path)
        elif re.search(r"\s|^@", path):
            path = f'"{path}"'
        if self.first == 1 and self.last is None:
            return f"@{path}"
        return f"@{path}:{self.first}" + ("" if self.last == self.first else f"-{self.last}")


def mentions(text: str) -> tuple[tuple[MentionReading, ...], ...]:
    """Return the mentions in a text, each with its possible meanings, the likeliest first. An email address is not a
    mention."""
    found = dict.fromkeys(_readings(match) for match in _MENTION.finditer(text))
    return tuple(found)


def _readings(match: re.Match[str]) -> tuple[MentionReading, ...]:
    if match["quoted"]:
        return (_with_lines(match["quoted"], match["lines"], is_certain=True),)
    readings: dict[MentionReading, None] = {}
    bare = match["bare"]
    meant = dict.fromkeys((bare, _SHELL_ESCAPE.sub(r"\1", bare), re.split(r'["\s]', bare, maxsplit=1)[0]))
    for word in (form for each in meant for form in (each, each.rstrip(_ENDS))):
        if word:
            readings[MentionReading(word)] = None
            ranged = _RANGE.fullmatch(word)
            if ranged is not None:
                readings[_with_lines(ranged["path"], ranged["lines"], is_certain=False)] = None
    return tuple(readings)


def _with_lines(path: str, lines: str | None, *, is_certain: bool) -> MentionReading:
    if not lines:
        return MentionReading(path, is_certain=is_certain)
    first, _, last = lines.partition("-")
    start = max(int(first[:9]), 1)
    return MentionReading(path, start, max(int(last[:9]), start) if last else start, is_certain)


def written_as(path: str) -> str:
    """Return a path as a message mentions it."""
    return MentionReading(path).name


def pasted_note(name: str, text: str) -> Note:
    """Return the note for pasted text. `name`: the placeholder in the message."""
    return note_with_heading(f"What the user pasted as {name}:\n\n", text, "pasted", name)


def piped_note(text: str) -> Note:
    """Return the note for piped input."""
    return note_with_heading("What the user piped in:\n\n", text, "piped")


def note_with_heading(heading: str, text: str, kind: NoteKind = "told", name: str = "", about: str = "") -> Note:
    """Return a note with `text` under a heading."""
    return Note(heading + text, kind=kind, name=name, heading=len(heading), about=about)


def room_for(effective: int) -> int:
    """Bytes that attachments may take in a window."""
    return min(MAX_ATTACHMENT_BYTES, effective // SHARE * BYTES_A_TOKEN)

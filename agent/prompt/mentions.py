"""Finds `@PATH` mentions, file names and identifiers in a message, and creates notes for attached content. No I/O."""

import re
from collections.abc import Collection, Iterator

from ebbtide.agent.messages import Note, NoteKind
from ebbtide.tools.lazy import dataclass, regex

MAX_ATTACHMENTS = 20
"""Maximum number of files and folders attached to one message."""
MAX_ATTACHMENT_BYTES = 120_000
"""Maximum total size of a message's attachments, in bytes."""
WINDOW_DIVISOR = 4
"""Attachments together take at most 1/`WINDOW_DIVISOR` of the window."""
BYTES_PER_TOKEN = 3

_MENTION = regex(
    r'(?<![\w@/.])@(?:"(?P<quoted>[^"\n]+)"(?::(?P<lines>\d+(?:-\d+)?))?'
    r'|(?P<bare>(?:\\(?:[^\S\n]|["\'\\()&\[\]])|"(?=[\w.])|[^\s"])+))'
)
_SHELL_ESCAPE = regex(r"\\(.)")
"""A character escaped by a shell, or by a terminal into which a file was dragged, such as a space or quotation mark."""
_PATH_WITH_LINES = regex(r"(?P<path>.+?):(?P<lines>\d+(?:-\d+)?)")
_PATH_TRAILING_PUNCTUATION = ".,;:!?)]}>'`"
"""Punctuation after a path that belongs to the sentence around it."""


@dataclass(frozen=True, slots=True)
class MentionInterpretation:
    """One possible meaning of a mention."""

    path: str
    first_line: int = 1
    last_line: int | None = None
    """The last line; None for the end of the file."""
    is_certain: bool = False
    """Whether it is in quotation marks, so that it can only be a path."""

    @property
    def name(self) -> str:
        """The mention as the user would write it."""
        path = self.path
        if '"' in path:
            path = re.sub(r'(?=[\s"\\])', r"\\", path)
        elif re.search(r"\s|^@", path):
            path = f'"{path}"'
        if self.first_line == 1 and self.last_line is None:
            return f"@{path}"
        return f"@{path}:{self.first_line}" + ("" if self.last_line == self.first_line else f"-{self.last_line}")


def find_mentions(text: str) -> tuple[tuple[MentionInterpretation, ...], ...]:
    """Find the mentions in text. Each is a tuple of its possible meanings, the most likely first. An email address is
    not a mention."""
    unique_mentions = dict.fromkeys(_find_interpretations(match) for match in _MENTION.finditer(text))
    return tuple(unique_mentions)


def _find_interpretations(match: re.Match[str]) -> tuple[MentionInterpretation, ...]:
    if match["quoted"]:
        return (_with_lines(match["quoted"], match["lines"], is_certain=True),)
    interpretations: dict[MentionInterpretation, None] = {}
    unquoted = match["bare"]
    candidates = dict.fromkeys(
        (unquoted, _SHELL_ESCAPE.sub(r"\1", unquoted), re.split(r'["\s]', unquoted, maxsplit=1)[0])
    )
    for word in (
        variant for candidate in candidates for variant in (candidate, candidate.rstrip(_PATH_TRAILING_PUNCTUATION))
    ):
        if word:
            interpretations[MentionInterpretation(word)] = None
            range_match = _PATH_WITH_LINES.fullmatch(word)
            if range_match is not None:
                interpretations[_with_lines(range_match["path"], range_match["lines"], is_certain=False)] = None
    return tuple(interpretations)


def _with_lines(path: str, line_range: str | None, *, is_certain: bool) -> MentionInterpretation:
    if not line_range:
        return MentionInterpretation(path, is_certain=is_certain)
    first, _, last = line_range.partition("-")
    start = max(int(first[:9]), 1)
    return MentionInterpretation(path, start, max(int(last[:9]), start) if last else start, is_certain)


def path_mention(path: str) -> str:
    """Format a path as a mention."""
    return MentionInterpretation(path).name


def pasted_note(name: str, text: str) -> Note:
    """Return the note for pasted text. `name`: the placeholder for it in the message."""
    return note_with_heading(f"What the user pasted as {name}:\n\n", text, "pasted", name)


def piped_note(text: str) -> Note:
    return note_with_heading("What the user piped in:\n\n", text, "piped")


def note_with_heading(heading: str, text: str, kind: NoteKind = "told", name: str = "", description: str = "") -> Note:
    """Return a note with `text` under a heading."""
    return Note(heading + text, kind=kind, name=name, heading=len(heading), about=description)


def attachment_byte_limit(window_tokens: int) -> int:
    """Return the maximum size of attachments in a window of `window_tokens` tokens, in bytes."""
    return min(MAX_ATTACHMENT_BYTES, window_tokens // WINDOW_DIVISOR * BYTES_PER_TOKEN)


_WORD = regex(r"[^\s\"'`<>()\[\]{},;]+")
_WORD_TRAILING_PUNCTUATION = ".:!?*_"
"""Punctuation after a word that belongs to the sentence around it."""
_FILE_NAME = regex(r"[\w./-]*\w\.[A-Za-z]\w{0,9}")
_IDENTIFIER = regex(r"\b(?=\w*[a-z])(?:[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|(?:[A-Z][a-z0-9]+){2,})\b|\b[A-Z][A-Z0-9_]{3,}\b")
"""Identifiers that only occur in programs: with underscores, in mixed case, or in capitals."""
_QUOTED_NAME = regex(r"`([^`\n]{3,60})`|(?<!\w)'([^'\n]{3,60})'(?!\w)|\"([^\"\n]{3,60})\"")


def files_mentioned(text: str, file_paths: Collection[str]) -> tuple[str, ...]:
    """Find the files that text names, in order of appearance. A file may be named by its path, or by the end of its
    path if that is unique among `file_paths`. `file_paths`: paths relative to one folder."""
    return tuple(dict.fromkeys(_iter_named_files(text, file_paths)))


def file_names_in(text: str) -> tuple[str, ...]:
    """Find the words that look like file names with an extension."""
    words = (match[0].rstrip(_WORD_TRAILING_PUNCTUATION).removeprefix("./") for match in _WORD.finditer(text))
    return tuple(dict.fromkeys(word for word in words if _FILE_NAME.fullmatch(word)))


def identifiers_in(text: str) -> tuple[str, ...]:
    """Find the identifiers and the quoted names in text."""
    quoted = [next(filter(None, groups)) for groups in _QUOTED_NAME.findall(text)]
    return tuple(dict.fromkeys([*_IDENTIFIER.findall(text), *quoted]))


def _iter_named_files(text: str, file_paths: Collection[str]) -> Iterator[str]:
    for match in _WORD.finditer(text):
        for word in (match[0], match[0].rstrip(_WORD_TRAILING_PUNCTUATION)):
            path = word.removeprefix("./").removesuffix("/")
            if path in file_paths:
                yield path
                break
            matching_files = (
                [file for file in file_paths if file.endswith(f"/{path}")] if "." in path.strip(".") else []
            )
            if len(matching_files) == 1:
                yield matching_files[0]
                break

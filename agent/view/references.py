"""Parses and formats references to stored content. Does not check whether the content exists."""

import hashlib
import re
from typing import TypeAlias
from urllib.parse import quote, unquote

from ebbtide.agent.messages import Message, Note, Text, ToolCall, ToolOutput, User, digest_name
from ebbtide.tools.lazy import dataclass, regex

CURRENT_SESSION, CURRENT_PROJECT = "current", "_"

REFERENCE_FORMATS = (
    "write `r12`, `msg-1a2b3c4d`, `sum-2` or `ebb://PROJECT/SESSION/r12`, each with `:L50-100` for lines, "
    "`:B0-4096` for bytes, `:match-3` for the third match of a search, or `:tool-2` for an output's second picture or "
    "file, at the end"
)

_SCHEME = regex(r"(?:ebb|nexora)://", re.IGNORECASE)
_TARGET = regex(
    r"r(?P<output>[1-9]\d{0,17})|msg-(?P<message>[0-9a-f]{1,8})|sum-(?P<summary>[1-9]\d{0,17})", re.IGNORECASE
)
_LOCATION = regex(
    r"(?:L|lines?\s*)?(?P<first>[1-9]\d{0,17})(?P<on>\s*[-–—]\s*)?(?(on)(?:L?(?P<last>[1-9]\d{0,17}))?)|"
    r"B(?P<start>\d{1,18})\s*[-–—]\s*(?:B?(?P<end>\d{1,18}))?|"
    r"match-(?P<match>[1-9]\d{0,17})|tool-(?P<tool>[1-9]\d{0,17})",
    re.IGNORECASE,
)
_SESSION_PREFIX = regex(r"[0-9a-f][0-9a-f-]{3,35}|current", re.IGNORECASE)
"""Matches the session in a reference without a scheme. Other text with slashes is a path."""
_BARE_LOCATION = regex(r"(?:match|tool)-\d+|[LB]\d+(?:-\d*)?", re.IGNORECASE)
_TARGET_AND_LOCATION = regex(r"([^\s:#]+)(?:\s*[:#]\s*|\s+(?=[LB]\d|lines?\s*\d))(.*)", re.IGNORECASE | re.DOTALL)
"""A target followed by a location."""
_RANGE_WITHOUT_START = regex(r"(?:L|lines?\s*)?[-–—]\s*L?([1-9]\d{0,17})", re.IGNORECASE)
_SURROUNDING_TEXT = regex(
    r"^(?:[\s`'\"\[({<*‘“#]|recall:|ref_id[=:]|(?:ref|reference|output|result)\s)+|[\s`'\"\])}>*’”.,;!?]+$",
    re.IGNORECASE,
)
"""Characters and words that people and models put around a reference."""
_MULTIPLE_REFERENCES = regex(r"(r\d+)\W*(?:\W|to|and)\W*r\d+\b.*", re.IGNORECASE | re.DOTALL)

NO_LIMIT = 10**18
"""The end of an open-ended range; larger than any number of lines or bytes."""


class BadReference(ValueError):
    """Raised for text that is not a reference. The message explains the format of references."""


@dataclass(frozen=True, slots=True)
class OutputRef:
    number: int
    """Number of the output in its session, from 1, in call order."""

    def __str__(self) -> str:
        return f"r{self.number}"


@dataclass(frozen=True, slots=True)
class MessageRef:
    prefix: str
    """The message's eight hexadecimal digits, or the first few of them."""

    def __str__(self) -> str:
        return f"msg-{self.prefix}"


@dataclass(frozen=True, slots=True)
class SummaryRef:
    number: int

    def __str__(self) -> str:
        return f"sum-{self.number}"


@dataclass(frozen=True, slots=True)
class LineRange:
    first: int
    """The first line, counted from 1."""
    last: int
    """The last line, inclusive."""

    def __str__(self) -> str:
        return f"L{self.first}-{self.last if self.last < NO_LIMIT else ''}"


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    end: int
    """The offset after the last byte."""

    def __str__(self) -> str:
        return f"B{self.start}-{self.end if self.end < NO_LIMIT else ''}"


@dataclass(frozen=True, slots=True)
class MatchPart:
    """One line found by a search, identified by its number among the matches."""

    number: int

    def __str__(self) -> str:
        return f"match-{self.number}"


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A numbered part of a message or output: a call, output, image or attached file."""

    number: int

    def __str__(self) -> str:
        return f"tool-{self.number}"


ReferenceTarget: TypeAlias = OutputRef | MessageRef | SummaryRef
Location: TypeAlias = LineRange | ByteRange | MatchPart | ToolPart


@dataclass(frozen=True, slots=True)
class Reference:
    target: ReferenceTarget
    location: Location | None = None
    session: str = CURRENT_SESSION
    """Prefix of a session id, or `current`."""
    project: str = CURRENT_PROJECT
    """Name of a project's folder, or `_` for the current one."""

    def __str__(self) -> str:
        target_and_location = f"{self.target}" if self.location is None else f"{self.target}:{self.location}"
        if (self.session, self.project) == (CURRENT_SESSION, CURRENT_PROJECT):
            return target_and_location
        return f"ebb://{quote(self.project, safe='')}/{quote(self.session, safe='')}/{target_and_location}"


def parse_reference(text: str) -> Reference:
    """Parse a reference, in its short form or as a URI. The scheme may be left out, and the project as well. Raises
    `BadReference`."""
    trimmed = _SURROUNDING_TEXT.sub("", text)
    scheme = _SCHEME.match(trimmed)
    pieces = trimmed[scheme.end() if scheme is not None else 0 :].split("/")
    if scheme is None and len(pieces) in (2, 3) and _SESSION_PREFIX.fullmatch(pieces[-2]):
        pieces = [CURRENT_PROJECT, *pieces][-3:]
    elif scheme is None:
        return Reference(*_parse_target(trimmed, text))
    if len(pieces) != 3 or not all(pieces):
        raise BadReference(f"`{text}` is not a reference: {REFERENCE_FORMATS}")
    project, session, target_text = pieces
    return Reference(*_parse_target(target_text, text), unquote(session), unquote(project))


def _parse_target(target_text: str, text: str) -> tuple[ReferenceTarget, Location | None]:
    match = _TARGET_AND_LOCATION.fullmatch(target_text)
    target_name, location_text = match.groups() if match is not None else (target_text, "")
    target_match, location_match = _TARGET.fullmatch(target_name), _LOCATION.fullmatch(location_text)
    if multiple := _MULTIPLE_REFERENCES.fullmatch(target_text):
        raise BadReference(f"`{text}` names several: give one at a time, first `{multiple[1].lower()}`")
    if target_match is not None and (range_match := _RANGE_WITHOUT_START.fullmatch(location_text)):
        raise BadReference(
            f"`{text}` does not say where it begins: write `{target_name}:L1-{range_match[1]}` for the first lines"
        )
    if _BARE_LOCATION.fullmatch(target_text):
        raise BadReference(f"`{text}` is only a part of something: write `r12:{target_text}` with the output's number")
    if target_match is None or (match is not None and location_match is None):
        raise BadReference(f"`{text}` is not a reference: {REFERENCE_FORMATS}")
    location = _parse_location(location_match) if location_match is not None else None
    if isinstance(location, LineRange) and location.last < location.first:
        raise BadReference(f"`{text}` ends before it begins: write `L10-50` with the smaller number first")
    if isinstance(location, ByteRange) and location.end < location.start:
        raise BadReference(f"`{text}` ends before it begins: write `B0-4096` with the smaller number first")
    if target_match["output"]:
        return OutputRef(int(target_match["output"])), location
    if target_match["message"]:
        return MessageRef(target_match["message"].lower()), location
    return SummaryRef(int(target_match["summary"])), location


def _parse_location(match: re.Match[str]) -> Location:
    if match["first"]:
        return LineRange(int(match["first"]), int(match["last"] or (NO_LIMIT if match["on"] else match["first"])))
    if match["start"]:
        return ByteRange(int(match["start"]), int(match["end"] or NO_LIMIT))
    if match["match"]:
        return MatchPart(int(match["match"]))
    return ToolPart(int(match["tool"]))


def message_digits(message: Message) -> str:
    """Return the eight hexadecimal digits that identify a message. Identical messages have the same digits in all
    sessions."""
    text = _full_user_text(message) if isinstance(message, User) else ""
    if not text:
        text = "\0".join(_part_identity(part) for part in message.parts)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for part in message.parts:
        if isinstance(part, Note) and part.whole:
            digest.update(b"\0")
            digest.update(part.whole.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:8]


def message_ref(message: Message) -> str:
    """Return the reference of a message within its session, such as `msg-1a2b3c4d`."""
    return f"msg-{message_digits(message)}"


def _full_user_text(message: User) -> str:
    """Return the user's full text, including the omitted text of shortened parts."""
    return "\n".join(part.whole or part.text for part in message.parts if isinstance(part, Text))


def _part_identity(part: object) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(id=id, name=name):
            return f"{id} {name}"
        case ToolOutput(call_id=id):
            return id
        case _:
            return digest_name(part)

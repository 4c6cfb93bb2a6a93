"""Parse and format references to stored content. Whether the target exists is checked elsewhere. Pure."""

import hashlib
import re
from typing import TypeAlias
from urllib.parse import quote, unquote

from ebbtide.agent.messages import Message, Note, Text, ToolCall, ToolOutput, User, digest_name
from ebbtide.tools.lazy import dataclass, regex

CURRENT_SESSION, CURRENT_PROJECT = "current", "_"

FORMS = (
    "write `r12`, `msg-1a2b3c4d`, `sum-2` or `ebb://PROJECT/SESSION/r12`, each with `:L50-100` for lines, "
    "`:B0-4096` for bytes, or `:tool-2` for an output's second picture or file, at the end"
)

_SCHEME = regex(r"(?:ebb|nexora)://", re.IGNORECASE)
_OBJECT = regex(
    r"r(?P<output>[1-9]\d{0,17})|msg-(?P<message>[0-9a-f]{1,8})|sum-(?P<summary>[1-9]\d{0,17})", re.IGNORECASE
)
_LOCATION = regex(
    r"(?:L|lines?\s*)?(?P<first>[1-9]\d{0,17})(?P<on>\s*[-–—]\s*)?(?(on)(?:L?(?P<last>[1-9]\d{0,17}))?)|"
    r"B(?P<start>\d{1,18})\s*[-–—]\s*(?:B?(?P<end>\d{1,18}))?|"
    r"match-(?P<match>[1-9]\d{0,17})|tool-(?P<tool>[1-9]\d{0,17})",
    re.IGNORECASE,
)
_PLACE = regex(r"([^\s:#]+)(?:\s*[:#]\s*|\s+(?=[LB]\d|lines?\s*\d))(.*)", re.IGNORECASE | re.DOTALL)
"""How a location is written after its target."""
_NO_BEGINNING = regex(r"(?:L|lines?\s*)?[-–—]\s*L?([1-9]\d{0,17})", re.IGNORECASE)
_AROUND = regex(
    r"^(?:[\s`'\"\[({<*‘“#]|recall:|ref_id[=:]|(?:ref|reference|output|result)\s)+|[\s`'\"\])}>*’”.,;!?]+$",
    re.IGNORECASE,
)
"""Characters and words that people and models write around a reference."""
_SEVERAL = regex(r"(r\d+)\W*(?:\W|to|and)\W*r\d+\b.*", re.IGNORECASE | re.DOTALL)

OPEN = 10**18
"""Open end of a range: larger than any number of lines or bytes."""


class BadReference(ValueError):
    """The text is not a reference. The message says what one looks like."""


@dataclass(frozen=True, slots=True)
class OutputRef:
    number: int
    """Outputs are numbered from 1 in each session, in call order."""

    def __str__(self) -> str:
        return f"r{self.number}"


@dataclass(frozen=True, slots=True)
class MessageRef:
    prefix: str
    """The message's eight hexadecimal digits, or a prefix of them."""

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
    """Counted from 1."""
    last: int
    """The last line, included."""

    def __str__(self) -> str:
        return f"L{self.first}-{self.last if self.last < OPEN else ''}"


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    end: int
    """The offset after the last byte."""

    def __str__(self) -> str:
        return f"B{self.start}-{self.end if self.end < OPEN else ''}"


@dataclass(frozen=True, slots=True)
class MatchPart:
    """One of the lines that a search found."""

    number: int

    def __str__(self) -> str:
        return f"match-{self.number}"


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A call, output or picture of a message; or a picture or file attached to an output."""

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
        where = f"{self.target}" if self.location is None else f"{self.target}:{self.location}"
        if (self.session, self.project) == (CURRENT_SESSION, CURRENT_PROJECT):
            return where
        return f"ebb://{quote(self.project, safe='')}/{quote(self.session, safe='')}/{where}"


def parse_reference(text: str) -> Reference:
    """Parse a reference, in its short form or as a URI. Raises `BadReference` if it is not one."""
    bare = _AROUND.sub("", text)
    scheme = _SCHEME.match(bare)
    if scheme is None:
        return Reference(*_object(bare, text))
    pieces = bare[scheme.end() :].split("/")
    if len(pieces) != 3 or not all(pieces):
        raise BadReference(f"`{text}` is not a reference: {FORMS}")
    project, session, thing = pieces
    return Reference(*_object(thing, text), unquote(session), unquote(project))


def _object(thing: str, text: str) -> tuple[ReferenceTarget, Location | None]:
    placed = _PLACE.fullmatch(thing)
    name, place = placed.groups() if placed is not None else (thing, "")
    found, where = _OBJECT.fullmatch(name), _LOCATION.fullmatch(place)
    if several := _SEVERAL.fullmatch(thing):
        raise BadReference(f"`{text}` names several: give one at a time, first `{several[1].lower()}`")
    if found is not None and (ends := _NO_BEGINNING.fullmatch(place)):
        raise BadReference(f"`{text}` does not say where it begins: write `{name}:L1-{ends[1]}` for the first lines")
    if found is None or (placed is not None and where is None):
        raise BadReference(f"`{text}` is not a reference: {FORMS}")
    location = _location(where) if where is not None else None
    if isinstance(location, LineRange) and location.last < location.first:
        raise BadReference(f"`{text}` ends before it begins: write `L10-50` with the smaller number first")
    if isinstance(location, ByteRange) and location.end < location.start:
        raise BadReference(f"`{text}` ends before it begins: write `B0-4096` with the smaller number first")
    if found["output"]:
        return OutputRef(int(found["output"])), location
    if found["message"]:
        return MessageRef(found["message"].lower()), location
    return SummaryRef(int(found["summary"])), location


def _location(where: re.Match[str]) -> Location:
    if where["first"]:
        return LineRange(int(where["first"]), int(where["last"] or (OPEN if where["on"] else where["first"])))
    if where["start"]:
        return ByteRange(int(where["start"]), int(where["end"] or OPEN))
    if where["match"]:
        return MatchPart(int(where["match"]))
    return ToolPart(int(where["tool"]))


def message_digits(message: Message) -> str:
    """Return the eight hexadecimal digits that identify a message; the same message has the same digits in any
    session."""
    text = _words(message) if isinstance(message, User) else ""
    if not text:
        text = "\0".join(_part_name(part) for part in message.parts)
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for part in message.parts:
        if isinstance(part, Note) and part.whole:
            found.update(b"\0")
            found.update(part.whole.encode("utf-8", "surrogatepass"))
    return found.hexdigest()[:8]


def message_ref(message: Message) -> str:
    """Return the reference of a message in its session: `msg-1a2b3c4d`."""
    return f"msg-{message_digits(message)}"


def _words(message: User) -> str:
    """Return the user's full text, shortened parts included."""
    return "\n".join(part.whole or part.text for part in message.parts if isinstance(part, Text))


def _part_name(part: object) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(id=id, name=name):
            return f"{id} {name}"
        case ToolOutput(call_id=id):
            return id
        case _:
            return digest_name(part)

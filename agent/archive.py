"""The archive: what left the view, by reference. It finds and reads; what is shown of it others decide.

`resolve` says what a reference stands for, `open` gives its content to be read in parts, `read` a part of it at once.
A URI is looked up as it is; a short form means this session; `_` and `current` stand for its project and itself.
"""

import asyncio
import base64
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from agent.content import Kept
from agent.context.ends import bytes_of
from agent.context.mask import paths_of
from agent.context.offload import frame_of
from agent.context.refs import (
    CURRENT_PROJECT,
    CURRENT_SESSION,
    BadReference,
    Bytes,
    Lines,
    Match,
    MessageRef,
    OutputRef,
    Reference,
    SummaryRef,
    Tool,
    message_digits,
    parse_reference,
)
from agent.context.said import call_text, message_text
from agent.damage import read_if_sound
from agent.errors import ReferenceFailed, StoreFailed
from agent.messages import Assistant, Image, Message, Stored, ToolOutput, User
from agent.rows import decode_message, read_summary
from agent.storethread import StoreThread
from store.archive import AGE, REMOVED, SIZE, ArchiveStore
from store.errors import StoreError
from store.outputs import OutputRow
from store.sessions import SessionRow, SessionStore
from tools.extent import counted
from tools.kept import Content, Found, Framed, InMemory
from tools.logfile import LogFile
from tools.pictures import PICTURE_TYPES
from tools.read_result import part_of
from tools.truncate import is_mostly_noise

T = TypeVar("T")

FORMER = "former"
"""The kind of the facts that tell which id and which project a session had where it was exported."""

SAID_BEFORE = "\n\n[The same was said before, with this beside it:]\n"
"""Stands between messages of one name: files and pastes that came with a message are no part of its name."""

WHY = {
    AGE: " because nobody had needed it for longer than `archive.max_age` allows",
    SIZE: " because kept outputs took more space than `archive.max_bytes` allows",
}
"""Why bytes were removed, as it is told."""

SHOWN_DIGITS = 8
"""Of a session's id, in a URI."""
MOST_CANDIDATES = 5

_LOOKED_AT = 1 << 14
"""Bytes that tell whether content is text."""
_HIT = re.compile(rb"\d+:")
"""How a search begins a line that matched."""
_NUMBER = re.compile(rb"([1-9]\d{0,17})\t")


@dataclass(frozen=True, slots=True)
class Located:
    """What a reference stands for."""

    reference: Reference
    """With the session's whole id, the whole name of a message, and the project's folder name."""
    session: str
    position: int
    """Of the message that it is, that holds it, or that follows it."""
    size: int
    lines: int
    media_type: str = "text/plain"
    tool: str = ""
    created: float = 0.0
    """Unix seconds."""
    output: OutputRow | None = None
    beside: tuple[int, ...] = ()
    """Parts of the output that are pictures, when all of it is meant and not only this part."""

    @property
    def uri(self) -> str:
        return str(replace(self.reference, session=self.session[:SHOWN_DIGITS]))


class Archive:
    """What a session, and every other in the same database, has kept. Methods raise `ReferenceFailed` and
    `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str, project: str) -> None:
        """`project` is the real path of the project's top folder."""
        self._thread = thread
        self._store = store
        self._rows = ArchiveStore(store)
        self._session = session
        self._project = project

    async def put(self, chunks: Iterable[bytes]) -> Stored:
        """Keeps bytes for this session; they stay when an output that needs them is recorded. Raises `StoreFailed`."""
        blobs = self._rows.blobs
        if blobs is None:
            raise StoreFailed("this session keeps nothing apart", "missing")
        try:
            blob = await asyncio.to_thread(blobs.put, chunks, self._session)
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error
        return Stored(blob.digest, blob.size, blob.lines)

    async def content(self, stored: Stored, name: str) -> Content:
        """What was put, also before an output that needs it is recorded. `name`: what it is called where it is said
        that it cannot be read."""
        blobs = self._rows.blobs
        if blobs is None:
            raise StoreFailed("this session keeps nothing apart", "missing")
        return await self._thread.run(Kept, name, lambda: blobs.open(stored.digest))

    async def resolve(self, reference: Reference | str) -> Located:
        """What a reference stands for, whether or not its bytes are still there."""
        wanted = _parsed(reference) if isinstance(reference, str) else reference
        session, project = await self._session_of(wanted)
        known = replace(wanted, session=session, project=Path(project).name or project)
        match wanted.target:
            case OutputRef(number=number):
                return await self._output(known, session, number)
            case MessageRef(prefix=prefix):
                return await self._message(known, session, prefix)
            case SummaryRef(number=number):
                return await self._summary(known, session, number)

    async def open(self, located: Located) -> Found:
        """Its content, to be read in any part by one thread at a time, and closed. Counts as an access."""
        content = await self._content(located)
        if located.output is not None:
            await self._thread.run(self._rows.touch, located.session, located.output.number)
        beside = [self._short(replace(located, reference=_part_of(located, part))) for part in located.beside]
        first = await self._thread.run(_first_number, content) if located.tool == "read" else None
        frame = "" if await self._thread.run(_is_text, content) else await self._frame(located)
        row, paths = located.output, await self._paths(located)
        found = Found(
            self._short(located),
            content,
            located.media_type,
            None,
            None,
            tuple(beside),
            first,
            frame,
            _kind_of(located),
            paths,
            row.accesses if row else 0,
            row.accessed if row else None,
        )
        match located.reference.location:
            case Lines(first=first, last=last):
                return replace(found, lines=(first, last))
            case Bytes(start=start, end=end):
                return replace(found, span=(start, end))
            case Match(number=number):
                line = _hit(content, number)
                if line is None:
                    content.close()
                    raise ReferenceFailed(f"`{located.reference}`: no search found so many lines; leave the end out")
                return replace(found, lines=(line, line))
            case _:
                return found

    async def peek(self, located: Located) -> Content:
        """All of its content, as `open` gives it, without counting as an access."""
        return await self._content(located)

    async def read(self, reference: Reference | str, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a part of what a reference stands for: those that it names itself unless `offset` or `limit`
        say otherwise."""
        found = await self.open(await self.resolve(reference))
        try:
            start, end = part_of(found)
            return found.content.read(start + offset, end - start - offset if limit is None else limit)
        finally:
            found.content.close()

    async def _session_of(self, wanted: Reference) -> tuple[str, str]:
        """Id and project of the session that is meant."""
        if wanted.session == CURRENT_SESSION or await self._was(wanted):
            return self._session, self._project
        found = await self._thread.run(self._store.matching, wanted.session)
        rows = [row for row in found if self._is_of(row, wanted.project)]
        exact = [row for row in rows if row.id == wanted.session]
        rows = exact or rows
        if not rows:
            where = "" if wanted.project == CURRENT_PROJECT else f" in project `{wanted.project}`"
            raise ReferenceFailed(
                f"there is no session `{wanted.session}`{where}: it was deleted, or the reference is wrong"
            )
        if len(rows) > 1:
            candidates = [
                str(replace(wanted, session=row.id, project=Path(row.project).name or row.project)) for row in rows
            ]
            raise ReferenceFailed(_ambiguous(wanted, candidates))
        return rows[0].id, rows[0].project

    async def _was(self, wanted: Reference) -> bool:
        """Whether the session was called so where it was exported."""
        facts = await self._thread.run(self._store.facts, self._session, FORMER)
        return any(
            fact.key.startswith(wanted.session) and wanted.project in (CURRENT_PROJECT, Path(fact.body).name, fact.body)
            for fact in facts
        )

    def _is_of(self, row: SessionRow, project: str) -> bool:
        if project == CURRENT_PROJECT:
            return row.project == self._project
        return project in (Path(row.project).name, row.project)

    async def _output(self, known: Reference, session: str, number: int) -> Located:
        parts = await self._thread.run(self._rows.find, session, number)
        if not parts:
            count = await self._thread.run(self._rows.count_before, session, 2**62)
            raise ReferenceFailed(f"there is no `{known.target}`: the session has {counted(count, 'output')} so far")
        part = 1 if known.location is None and _is_a_picture(parts) else 0
        if isinstance(known.location, Tool):
            part = known.location.number
        if part >= len(parts):
            raise ReferenceFailed(f"`{known.target}` has {_parts_told(len(parts) - 1)}: leave `:{known.location}` out")
        row = parts[part]
        others = [other.part for other in parts if other.media_type in PICTURE_TYPES and other.part != part]
        beside = () if isinstance(known.location, Tool) else tuple(others)
        return Located(
            known, session, row.position, row.size, row.lines, row.media_type, row.tool, row.created, row, beside
        )

    async def _message(self, known: Reference, session: str, prefix: str) -> Located:
        await self._name_messages(session)
        found = await self._thread.run(self._rows.messages_called, session, prefix)
        names = sorted({name for _, name in found})
        if not names:
            raise ReferenceFailed(f"there is no message `{known.target}` in session `{session[:SHOWN_DIGITS]}`")
        if len(names) > 1:
            raise ReferenceFailed(_ambiguous(known, [f"msg-{name}" for name in names]))
        position = await self._said_at(session, [position for position, _ in found], known)
        media_type = "text/plain"
        if isinstance(known.location, Tool):
            message = await self._message_at(session, position)
            media_type = _type_of(message, known.location.number)
            if isinstance(message, User) and message.outputs:
                before = await self._thread.run(self._rows.count_before, session, position)
                if known.location.number > len(message.outputs):
                    raise ReferenceFailed(f"`{known.target}` has {counted(len(message.outputs), 'output')}")
                output = OutputRef(before + known.location.number)
                return await self._output(replace(known, target=output, location=None), session, output.number)
        content = await self._message_content(session, position, known)
        full = replace(known, target=MessageRef(names[0]))
        return Located(full, session, position, content.size, content.lines, media_type)

    async def _said_at(self, session: str, positions: Sequence[int], known: Reference) -> int:
        """Where the same was said twice, the last time; of those with what is meant of it, if there are any."""
        if isinstance(known.location, Tool) and len(positions) > 1:
            for position in reversed(positions):
                if _count_in(await self._message_at(session, position)) >= known.location.number:
                    return position
        return positions[-1]

    async def _name_messages(self, session: str) -> None:
        """Gives messages of earlier versions their names."""
        unnamed = await self._thread.run(self._rows.unnamed, session)
        if unnamed:
            read = [(row.position, read_if_sound(row)) for row in unnamed]
            names = [(position, message_digits(message)) for position, message in read if message is not None]
            await self._thread.run(self._rows.name, session, names)

    async def _summary(self, known: Reference, session: str, number: int) -> Located:
        rows = await self._thread.run(self._rows.summaries, session)
        row = next((row for row in rows if row.number == number), None)
        if row is None:
            raise ReferenceFailed(
                f"there is no `{known.target}`: the session has {counted(len(rows), 'summary')} so far"
            )
        content = InMemory(_encoded(read_summary(row).text))
        return Located(known, session, row.position, content.size, content.lines, created=row.created)

    async def _content(self, located: Located) -> Content:
        match located.reference.target:
            case OutputRef():
                return await self._output_content(located)
            case MessageRef():
                return await self._message_content(located.session, located.position, located.reference)
            case SummaryRef(number=number):
                rows = await self._thread.run(self._rows.summaries, located.session)
                return InMemory(_encoded(read_summary(next(row for row in rows if row.number == number)).text))

    async def _output_content(self, located: Located) -> Content:
        row = located.output
        if row is None:
            raise ReferenceFailed(f"`{located.reference}` is no output")
        if row.removed is not None:
            facts = await self._thread.run(self._store.facts, located.session, REMOVED)
            why = next((WHY.get(fact.body, "") for fact in facts if fact.key == str(row.number)), "")
            day = time.strftime("%Y-%m-%d", time.localtime(row.removed))
            raise ReferenceFailed(f"`{located.reference.target}` was removed on {day}{why}: run the call again")
        if row.digest is not None:
            content = await self.content(Stored(row.digest, row.size, row.lines), str(located.reference.target))
            return await self._framed(content, await self._frame(located))
        output = await self._output_in(located.session, row)
        if row.part > len(output.images):
            raise StoreFailed(f"the message with `{located.reference}` cannot be read", "corrupt")
        if row.part:
            try:
                return InMemory(base64.b64decode(output.images[row.part - 1].data))
            except ValueError as error:
                raise StoreFailed(f"the picture `{located.reference}` cannot be read: {error}", "corrupt") from error
        if output.whole is not None:
            log = LogFile.opened(Path(output.whole))
            if log is not None:
                return await self._framed(Kept(str(located.reference.target), lambda: log), frame_of(output))
        return InMemory(_encoded(output.text))

    async def _output_in(self, session: str, row: OutputRow) -> ToolOutput:
        """The output as its message shows it."""
        message = await self._message_at(session, row.position)
        outputs = message.outputs if isinstance(message, User) else ()
        index = row.number - await self._thread.run(self._rows.count_before, session, row.position) - 1
        if index >= len(outputs):
            raise StoreFailed(f"the message with `r{row.number}` cannot be read", "corrupt")
        return outputs[index]

    async def _paths(self, located: Located) -> tuple[str, ...]:
        """The files that the call of an output was about; none where that cannot be read."""
        row = located.output
        if row is None or row.position == 0:
            return ()
        with suppress(StoreFailed):
            message = await self._message_at(located.session, row.position - 1)
            calls = message.calls if isinstance(message, Assistant) else ()
            return tuple(path for call in calls if call.id == row.call for path in paths_of(call))
        return ()

    async def _frame(self, located: Located) -> str:
        """What belongs to an output beside the bytes that are kept of it; nothing where its message is damaged."""
        row = located.output
        if row is None or row.part or row.digest is None:
            return ""
        with suppress(StoreFailed):
            return frame_of(await self._output_in(located.session, row))
        return ""

    async def _framed(self, content: Content, frame: str) -> Content:
        """Text with its frame. Other bytes stay as they are: they may be meant for a program."""

        def work() -> Content:
            if not _is_text(content):
                return content
            end = _encoded(frame)
            has_it = content.read(max(content.size - len(end), 0), len(end)) == end
            return content if has_it else Framed(content, frame)

        return await self._thread.run(work) if frame else content

    async def _message_content(self, session: str, position: int, known: Reference) -> InMemory:
        message = await self._message_at(session, position)
        if isinstance(known.location, Tool):
            return InMemory(_part_in(message, known.location.number, known))
        found = await self._thread.run(self._rows.messages_called, session, message_digits(message))
        earlier = [await self._message_at(session, at) for at, _ in reversed(found) if at < position]
        texts = dict.fromkeys(map(message_text, (message, *earlier)))
        return InMemory(bytes_of(SAID_BEFORE.join(texts)))

    async def _message_at(self, session: str, position: int) -> Message:
        rows = await self._thread.run(self._store.messages_before, session, position + 1, 1)
        if not rows or rows[0].position != position:
            raise StoreFailed(f"message {position} of the session is not there", "corrupt")
        return decode_message(rows[0])

    def _short(self, located: Located) -> str:
        """Which of its parts is meant belongs to its name, a place in its text does not."""
        location = located.reference.location
        whole = replace(located.reference, location=location if isinstance(location, Tool) else None)
        if located.session == self._session:
            return str(Reference(whole.target, whole.location))
        return str(replace(whole, session=located.session[:SHOWN_DIGITS]))


def _parsed(text: str) -> Reference:
    try:
        return parse_reference(text)
    except BadReference as error:
        raise ReferenceFailed(str(error)) from error


def _part_of(located: Located, part: int) -> Reference:
    return replace(located.reference, location=Tool(part))


def _pictures_in(message: Message) -> tuple[Image, ...]:
    """What the user has shown with a message."""
    return tuple(part for part in message.parts if isinstance(part, Image)) if isinstance(message, User) else ()


def _type_of(message: Message, number: int) -> str:
    pictures = _pictures_in(message)
    return pictures[number - 1].media_type if number <= len(pictures) else "text/plain"


def _count_in(message: Message) -> int:
    """How many numbered things came with a message: pictures, outputs or calls."""
    things = message.outputs if isinstance(message, User) else message.calls
    return len(_pictures_in(message)) or len(things)


def _part_in(message: Message, number: int, known: Reference) -> bytes:
    """One of the calls of a reply, or of the pictures that came with what the user said. Raises `ReferenceFailed`."""
    pictures, calls = _pictures_in(message), message.calls if isinstance(message, Assistant) else ()
    if number > len(pictures or calls):
        what = counted(len(pictures), "picture") if pictures else counted(len(calls), "call")
        raise ReferenceFailed(f"`{known.target}` has {what}")
    if not pictures:
        return _encoded(call_text(calls[number - 1]))
    try:
        return base64.b64decode(pictures[number - 1].data)
    except ValueError as error:
        raise StoreFailed(f"the picture `{known}` cannot be read: {error}", "corrupt") from error


def _is_a_picture(parts: Sequence[OutputRow]) -> bool:
    """Whether an output is a picture above all: its text stands in the message and is one line."""
    return len(parts) > 1 and parts[0].digest is None and parts[0].lines <= 1 and parts[1].media_type in PICTURE_TYPES


def _parts_told(count: int) -> str:
    return "one picture or file" if count == 1 else f"{count} pictures and files"


def _ambiguous(wanted: Reference, candidates: Sequence[str]) -> str:
    shown = ", ".join(f"`{candidate}`" for candidate in candidates[:MOST_CANDIDATES])
    more = f" and {len(candidates) - MOST_CANDIDATES} more" if len(candidates) > MOST_CANDIDATES else ""
    return f"`{wanted}` stands for several: {shown}{more}; write more of it"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _kind_of(located: Located) -> str:
    match located.reference.target:
        case OutputRef():
            return f"output of {located.tool}" if located.tool else "output"
        case MessageRef():
            return "message"
        case SummaryRef():
            return "summary"


def _is_text(content: Content) -> bool:
    head = content.read(0, _LOOKED_AT)
    return b"\0" not in head and not is_mostly_noise(head.decode("utf-8", "replace"))


def _first_number(content: Content) -> int | None:
    """The number that the first line carries, where lines of a file are shown with theirs."""
    number = _NUMBER.match(content.read(0, 20))
    return int(number[1]) if number else None


def _hit(content: Content, number: int) -> int | None:
    """The line of the number-th match in what a search printed."""
    lines = b"".join(content.chunks()).split(b"\n")
    hits = (at for at, line in enumerate(lines, 1) if _HIT.match(line))
    return next(islice(hits, number - 1, None), None)

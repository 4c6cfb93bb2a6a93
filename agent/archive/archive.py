"""The archive: resolves references to content that has left the view, and reads it.

`resolve` finds what a reference points to, `open` returns its content for reading in parts, and `read` returns one part
directly. A complete URI can point to any session. A short form refers to this session, and `_` and `current` mean the
current project and session.
"""

import asyncio
import base64
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ebbtide.agent.archive.content import CheckedContent, LogFile
from ebbtide.agent.archive.reference_parts import (
    URI_ID_DIGITS,
    ResolvedReference,
    ambiguous_reference_message,
    attachment_count_text,
    count_numbered_items,
    count_unnumbered_lines,
    encode_text,
    find_match_line,
    first_line_number,
    is_mainly_image,
    is_text,
    parse_user_reference,
    part_content,
    part_media_type,
    part_reference,
    reference_kind,
)
from ebbtide.agent.errors import ReferenceFailed, StoreFailed
from ebbtide.agent.messages import Assistant, Message, StoredBlob, ToolOutput, User
from ebbtide.agent.records.damage import decode_message_or_none
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.agent.records.rows import decode_summary_row
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.agent.view.long_texts import original_bytes
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.references import (
    CURRENT_PROJECT,
    CURRENT_SESSION,
    ByteRange,
    LineRange,
    MatchPart,
    MessageRef,
    OutputRef,
    Reference,
    SummaryRef,
    ToolPart,
    message_digits,
)
from ebbtide.agent.view.stubs import call_paths
from ebbtide.store.archive import REMOVED_BY_AGE, REMOVED_BY_SIZE, REMOVED_OUTPUT_FACT, ArchiveStore
from ebbtide.store.errors import StoreError
from ebbtide.store.session_rows import OutputRow, SessionRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.files.image_types import IMAGE_TYPES
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.outputs.stored_content import Content, ContentWithNote, InMemoryContent, StoredContent
from ebbtide.tools.read_result import referenced_range
from ebbtide.tools.tool_traits import role_of

T = TypeVar("T")

FORMER_ID_FACT = "former"
"""The kind of the fact that records which id and project an imported session had before it was exported."""

REPEATED_MESSAGE_SEPARATOR = "\n\n[The same message was sent earlier, with this attached:]\n"
"""Separates messages with the same name but different attachments. Attached files and pastes do not affect a message's
name."""

REMOVAL_REASONS = {
    REMOVED_BY_AGE: " because it had not been used for longer than `archive.max_age` allows",
    REMOVED_BY_SIZE: " because stored outputs took more space than `archive.max_bytes` allows",
}
"""Why an output was removed, as a clause for an error message."""


class Archive:
    """The stored content of a session and of all other sessions in the same database. Methods raise `ReferenceFailed`
    and `StoreFailed`."""

    def __init__(self, thread: StoreThread, store: SessionStore, session: str, project: str) -> None:
        """`project` is the real path of the project's top folder."""
        self._thread = thread
        self._store = store
        self._archive_store = ArchiveStore(store)
        self._session = session
        self._project = project

    async def put(self, chunks: Iterable[bytes]) -> StoredBlob:
        """Store bytes for this session. They are deleted later unless an output that refers to them is recorded. Raises
        `StoreFailed`."""
        blobs = self._archive_store.blobs
        if blobs is None:
            raise StoreFailed("this session stores no outputs", "missing")
        try:
            blob = await asyncio.to_thread(blobs.put, chunks, self._session)
        except StoreError as error:
            raise StoreFailed(str(error), error.reason) from error
        return StoredBlob(blob.digest, blob.size, blob.lines)

    async def open_blob(self, stored_blob: StoredBlob, name: str) -> Content:
        """Return stored bytes, even before their output is recorded. `name`: the name used in error messages."""
        blobs = self._archive_store.blobs
        if blobs is None:
            raise StoreFailed("this session stores no outputs", "missing")
        return await self._thread.run(CheckedContent, name, lambda: blobs.open(stored_blob.digest))

    async def resolve(self, reference: Reference | str) -> ResolvedReference:
        """Resolve a reference, even if its bytes no longer exist."""
        parsed = parse_user_reference(reference) if isinstance(reference, str) else reference
        session, project = await self._find_session(parsed)
        full_reference = replace(parsed, session=session, project=Path(project).name or project)
        match parsed.target:
            case OutputRef(number=number):
                return await self._resolve_output(full_reference, session, number)
            case MessageRef(prefix=prefix):
                return await self._resolve_message(full_reference, session, prefix)
            case SummaryRef(number=number):
                return await self._resolve_summary(full_reference, session, number)

    async def open(self, reference: ResolvedReference) -> StoredContent:
        """Open the content of a reference for reading in parts, by one thread at a time. The caller must close it.
        Counts as an access."""
        content = await self._open_content(reference)
        if reference.output is not None:
            await self._thread.run(self._archive_store.record_access, reference.session, reference.output.number)
        attachments = [
            self._short_reference(replace(reference, reference=part_reference(reference, part)))
            for part in reference.attachments
        ]
        first_line = (
            await self._thread.run(first_line_number, content) if role_of(reference.tool) == "read_file" else None
        )
        frame = "" if await self._thread.run(is_text, content) else await self._frame(reference)
        row, paths = reference.output, await self._call_paths(reference)
        stored = StoredContent(
            self._short_reference(reference),
            content,
            reference.media_type,
            None,
            None,
            tuple(attachments),
            first_line,
            frame,
            reference_kind(reference),
            paths,
            row.accesses if row else 0,
            row.accessed if row else None,
            await self._thread.run(count_unnumbered_lines, content) if first_line is not None else 0,
        )
        match reference.reference.location:
            case LineRange(first=first_line, last=last):
                return replace(stored, line_range=(first_line, last))
            case ByteRange(start=start, end=end):
                return replace(stored, byte_range=(start, end))
            case MatchPart(number=number):
                line = find_match_line(content, number)
                if line is None:
                    content.close()
                    raise ReferenceFailed(
                        f"`{reference.reference}`: the search output has fewer matches; leave the last part out"
                    )
                return replace(stored, line_range=(line, line))
            case _:
                return stored

    async def peek(self, reference: ResolvedReference) -> Content:
        """Return the full content, without counting as an access."""
        return await self._open_content(reference)

    async def read(self, reference: Reference | str, offset: int = 0, limit: int | None = None) -> bytes:
        """Read the part that the reference names, or the range given by `offset` and `limit`."""
        stored = await self.open(await self.resolve(reference))
        with closing(stored.content):
            start, end = referenced_range(stored)
            return stored.content.read(start + offset, end - start - offset if limit is None else limit)

    async def _find_session(self, reference: Reference) -> tuple[str, str]:
        """Return the id and project of the session that a reference names."""
        if reference.session == CURRENT_SESSION or await self._uses_former_id(reference):
            return self._session, self._project
        prefix_matches = await self._thread.run(self._store.sessions_with_prefix, reference.session)
        rows = [row for row in prefix_matches if self._is_in_project(row, reference.project)]
        exact_matches = [row for row in rows if row.id == reference.session]
        rows = exact_matches or rows
        if not rows:
            in_project = "" if reference.project == CURRENT_PROJECT else f" in project `{reference.project}`"
            raise ReferenceFailed(
                f"there is no session `{reference.session}`{in_project}: it was deleted, or the reference is wrong"
            )
        if len(rows) > 1:
            candidates = [
                str(replace(reference, session=row.id, project=Path(row.project).name or row.project)) for row in rows
            ]
            raise ReferenceFailed(ambiguous_reference_message(reference, candidates))
        return rows[0].id, rows[0].project

    async def _uses_former_id(self, reference: Reference) -> bool:
        """Whether the reference uses the id and project that this session had before it was exported."""
        facts = await self._thread.run(self._store.facts, self._session, FORMER_ID_FACT)
        return any(
            fact.key.startswith(reference.session)
            and reference.project in (CURRENT_PROJECT, Path(fact.body).name, fact.body)
            for fact in facts
        )

    def _is_in_project(self, row: SessionRow, project: str) -> bool:
        if project == CURRENT_PROJECT:
            return row.project == self._project
        return project in (Path(row.project).name, row.project)

    async def _resolve_output(self, reference: Reference, session: str, number: int) -> ResolvedReference:
        parts = await self._thread.run(self._archive_store.output_parts, session, number)
        if not parts:
            count = await self._thread.run(self._archive_store.count_outputs_before, session, 2**62)
            raise ReferenceFailed(
                f"there is no `{reference.target}`: the session has {pluralize(count, 'output')} so far"
            )
        part = 1 if reference.location is None and is_mainly_image(parts) else 0
        if isinstance(reference.location, ToolPart):
            part = reference.location.number
        if part >= len(parts):
            raise ReferenceFailed(
                f"`{reference.target}` has {attachment_count_text(len(parts) - 1)}: leave `:{reference.location}` out"
            )
        row = parts[part]
        image_parts = [
            output_part.part
            for output_part in parts
            if output_part.media_type in IMAGE_TYPES and output_part.part != part
        ]
        attachments = () if isinstance(reference.location, ToolPart) else tuple(image_parts)
        return ResolvedReference(
            reference,
            session,
            row.position,
            row.size,
            row.lines,
            row.media_type,
            row.tool,
            row.created,
            row,
            attachments,
        )

    async def _resolve_message(self, reference: Reference, session: str, prefix: str) -> ResolvedReference:
        await self._assign_missing_names(session)
        matches = await self._thread.run(self._archive_store.messages_with_ref_prefix, session, prefix)
        names = sorted({name for _, name in matches})
        if not names:
            raise ReferenceFailed(f"there is no message `{reference.target}` in session `{session[:URI_ID_DIGITS]}`")
        if len(names) > 1:
            raise ReferenceFailed(ambiguous_reference_message(reference, [f"msg-{name}" for name in names]))
        position = await self._last_matching_position(session, [position for position, _ in matches], reference)
        media_type = "text/plain"
        if isinstance(reference.location, ToolPart):
            message = await self._message_at(session, position)
            media_type = part_media_type(message, reference.location.number)
            if isinstance(message, User) and message.outputs:
                outputs_before = await self._thread.run(self._archive_store.count_outputs_before, session, position)
                if reference.location.number > len(message.outputs):
                    raise ReferenceFailed(f"`{reference.target}` has {pluralize(len(message.outputs), 'output')}")
                output = OutputRef(outputs_before + reference.location.number)
                return await self._resolve_output(
                    replace(reference, target=output, location=None), session, output.number
                )
        content = await self._message_content(session, position, reference)
        full_reference = replace(reference, target=MessageRef(names[0]))
        return ResolvedReference(full_reference, session, position, content.size, content.lines, media_type)

    async def _last_matching_position(self, session: str, positions: Sequence[int], reference: Reference) -> int:
        """Return the position of the last of several identical messages. If the reference names an attachment, only
        messages with that attachment count."""
        if isinstance(reference.location, ToolPart) and len(positions) > 1:
            for position in reversed(positions):
                if count_numbered_items(await self._message_at(session, position)) >= reference.location.number:
                    return position
        return positions[-1]

    async def _assign_missing_names(self, session: str) -> None:
        """Assign names to messages stored by earlier versions."""
        unnamed = await self._thread.run(self._archive_store.messages_without_ref, session)
        if unnamed:
            messages = [(row.position, decode_message_or_none(row)) for row in unnamed]
            names = [(position, message_digits(message)) for position, message in messages if message is not None]
            await self._thread.run(self._archive_store.save_message_refs, session, names)

    async def _resolve_summary(self, reference: Reference, session: str, number: int) -> ResolvedReference:
        rows = await self._thread.run(self._archive_store.summaries, session)
        row = next((row for row in rows if row.number == number), None)
        if row is None:
            raise ReferenceFailed(
                f"there is no `{reference.target}`: the session has {pluralize(len(rows), 'summary')} so far"
            )
        content = InMemoryContent(encode_text(decode_summary_row(row).text))
        return ResolvedReference(reference, session, row.position, content.size, content.lines, created_at=row.created)

    async def _open_content(self, reference: ResolvedReference) -> Content:
        match reference.reference.target:
            case OutputRef():
                return await self._load_output_content(reference)
            case MessageRef():
                return await self._message_content(reference.session, reference.position, reference.reference)
            case SummaryRef(number=number):
                rows = await self._thread.run(self._archive_store.summaries, reference.session)
                return InMemoryContent(
                    encode_text(decode_summary_row(next(row for row in rows if row.number == number)).text)
                )

    async def _load_output_content(self, reference: ResolvedReference) -> Content:
        row = reference.output
        if row is None:
            raise ReferenceFailed(f"`{reference.reference}` is not an output")
        if row.removed is not None:
            facts = await self._thread.run(self._store.facts, reference.session, REMOVED_OUTPUT_FACT)
            reason = next((REMOVAL_REASONS.get(fact.body, "") for fact in facts if fact.key == str(row.number)), "")
            day = time.strftime("%Y-%m-%d", time.localtime(row.removed))
            raise ReferenceFailed(f"`{reference.reference.target}` was removed on {day}{reason}: run the call again")
        if row.digest is not None:
            content = await self.open_blob(StoredBlob(row.digest, row.size, row.lines), str(reference.reference.target))
            return await self._with_frame(content, await self._frame(reference))
        output = await self._recorded_output(reference.session, row)
        if row.part > len(output.images):
            raise StoreFailed(f"the message with `{reference.reference}` cannot be read", "corrupt")
        if row.part:
            try:
                return InMemoryContent(base64.b64decode(output.images[row.part - 1].data))
            except ValueError as error:
                raise StoreFailed(f"the image `{reference.reference}` cannot be read: {error}", "corrupt") from error
        if output.whole is not None:
            log = LogFile.open_if_exists(Path(output.whole))
            if log is not None:
                return await self._with_frame(
                    CheckedContent(str(reference.reference.target), lambda: log), output.frame
                )
        return InMemoryContent(encode_text(output.text))

    async def _recorded_output(self, session: str, row: OutputRow) -> ToolOutput:
        """Return the output as recorded in its message."""
        message = await self._message_at(session, row.position)
        outputs = message.outputs if isinstance(message, User) else ()
        index = row.number - await self._thread.run(self._archive_store.count_outputs_before, session, row.position) - 1
        if index >= len(outputs):
            raise StoreFailed(f"the message with `r{row.number}` cannot be read", "corrupt")
        return outputs[index]

    async def _call_paths(self, reference: ResolvedReference) -> tuple[str, ...]:
        """Return the files named in the call that produced an output; empty if the call cannot be read."""
        row = reference.output
        if row is None or row.position == 0:
            return ()
        with suppress(StoreFailed):
            message = await self._message_at(reference.session, row.position - 1)
            calls = message.calls if isinstance(message, Assistant) else ()
            return tuple(path for call in calls if call.id == row.call for path in call_paths(call))
        return ()

    async def _frame(self, reference: ResolvedReference) -> str:
        """Return an output's frame, which is not stored with its bytes; empty if its message is damaged."""
        row = reference.output
        if row is None or row.part or row.digest is None:
            return ""
        with suppress(StoreFailed):
            return (await self._recorded_output(reference.session, row)).frame
        return ""

    async def _with_frame(self, content: Content, frame: str) -> Content:
        """Add the frame to text content. Binary content is returned unchanged, because a program might read it."""

        def add_frame() -> Content:
            if not is_text(content):
                return content
            frame_bytes = encode_text(frame)
            has_frame = content.read(max(content.size - len(frame_bytes), 0), len(frame_bytes)) == frame_bytes
            return content if has_frame else ContentWithNote(content, frame)

        return await self._thread.run(add_frame) if frame else content

    async def _message_content(self, session: str, position: int, reference: Reference) -> InMemoryContent:
        message = await self._message_at(session, position)
        if isinstance(reference.location, ToolPart):
            return InMemoryContent(part_content(message, reference.location.number, reference))
        matches = await self._thread.run(self._archive_store.messages_with_ref_prefix, session, message_digits(message))
        earlier = [
            await self._message_at(session, earlier_position)
            for earlier_position, _ in reversed(matches)
            if earlier_position < position
        ]
        texts = dict.fromkeys(map(message_text, (message, *earlier)))
        return InMemoryContent(original_bytes(REPEATED_MESSAGE_SEPARATOR.join(texts)))

    async def _message_at(self, session: str, position: int) -> Message:
        rows = await self._thread.run(self._store.messages_before, session, position + 1, 1)
        if not rows or rows[0].position != position:
            raise StoreFailed(f"message {position} of the session is missing", "corrupt")
        return decode_message(rows[0])

    def _short_reference(self, reference: ResolvedReference) -> str:
        """Remove the location from a reference, unless it names a part of an output. References to this session use the
        short form."""
        location = reference.reference.location
        base = replace(reference.reference, location=location if isinstance(location, ToolPart) else None)
        if reference.session == self._session:
            return str(Reference(base.target, base.location))
        return str(replace(base, session=reference.session[:URI_ID_DIGITS]))

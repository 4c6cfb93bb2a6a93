"""Receives the outputs of calls: stores them in full, and shows the model all or part of them.
`ebbtide.agent.view.previews` decides what is shown."""

import base64
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.calls.execute import CallPosition
from ebbtide.agent.calls.output_budget import ArchivedOutput
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import is_about_call, parse_rule
from ebbtide.agent.debug import DebugLog
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Image, OutputStatus, StoredBlob, ToolCall, ToolOutput
from ebbtide.agent.records.rows import decoded_size, inline_blob
from ebbtide.agent.view.output_media import media_lines, sort_attachments
from ebbtide.agent.view.previews import (
    Excerpt,
    OffloadLimits,
    StreamedPreview,
    decoded_text,
    is_recall_tool,
    read_hint,
    should_show_whole,
    stored_excerpt,
    truncated_excerpt,
)
from ebbtide.tools.base import Picture, PrintedLog, Result
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import lossless_text

if TYPE_CHECKING:  # imported only for their types, because most runs have no hooks
    from ebbtide.agent.hooks.tool_hooks import ToolHooks

_CHUNK_BYTES = 1 << 18
MIN_FREE_BYTES = 1 << 18
"""Bytes that must remain free on the disk for a log file to be kept."""

ReadOutput: TypeAlias = Callable[[ToolCall, str, Iterator[bytes], int], Awaitable[str | None]]
"""Has a model read a long output, given the call, its purpose, the content and its size; returns what the model found,
or None if no model could be asked."""


@dataclass(frozen=True, slots=True)
class OutputIntake:
    """Stores the outputs of one session and builds their visible form."""

    archive: Archive | None = None
    """Stores outputs; None if nothing can be stored, so that long outputs are cut."""
    settings: OffloadLimits = OffloadLimits()
    emit: Callable[[Event], None] = lambda event: None
    read_output: ReadOutput | None = None
    """Has a model read long outputs; None if the user has not enabled that."""
    debug: DebugLog = field(default_factory=DebugLog)
    hooks: "ToolHooks | None" = None
    """Hooks that receive outputs; None if there are none."""

    async def preview(
        self,
        call: ToolCall,
        position: CallPosition,
        status: OutputStatus,
        raw: Result,
        request: PermissionRequest | None = None,
    ) -> ToolOutput:
        """Store an output in full, and return it as shown to the model. Hooks receive the raw output once, before it is
        stored or cut; their feedback is appended."""
        feedback = ""
        if self.hooks is not None and request is not None:
            root, permission_request = self.hooks.root, request
            feedback, raw = await self.hooks.run_after(
                call,
                status,
                raw,
                reads_only=request.is_read_only,
                is_for=lambda rule: is_about_call(parse_rule(rule), permission_request, root),
            )
        output = await self._build_output(call, position, status, raw, feedback)
        self._log_intake(call, position, output)
        return output

    async def _build_output(
        self, call: ToolCall, position: CallPosition, status: OutputStatus, raw: Result, feedback: str
    ) -> ToolOutput:
        """Build the output. `feedback` is always shown, even if only a part of the output is."""
        raw = sort_attachments(raw)
        images = tuple([await self._stored_image(picture) for picture in raw.pictures])
        files, extra_lines = await self._store_attachments(call, position, raw)
        if len(extra_lines) > self.settings.preview_bytes and raw.log is None and raw.full_text is None:
            raw, extra_lines = replace(raw, text=_append_lines(raw.text, extra_lines)), ""
        extra_lines = "\n".join(part for part in (extra_lines, feedback) if part)
        output = ToolOutput(call.id, raw.text, status, images, files=files, extent=raw.extent, program=raw.program)
        output = replace(output, problems=raw.problems)
        try:
            output = await self._visible_output(call, position, raw, extra_lines, output)
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            output = self._visible_without_archive(call, position, raw, extra_lines, output)
        return replace(output, text=_append_lines(output.text, extra_lines)) if extra_lines else output

    async def store(self, call: ToolCall, position: CallPosition, output: ToolOutput) -> ArchivedOutput:
        """Store the whole output. Called for an output that does not fit into the window, before it is cut."""
        if is_recall_tool(call.name):
            return ArchivedOutput(output)
        try:
            stored = output.stored or await self._store_chunks(iter([_encode_text(output.text)]), StreamedPreview())
            pictures = [await self._image_blob(image) for image in output.images]
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            return ArchivedOutput(output, f"all of it is in {output.whole}" if output.whole else "")
        archived = replace(output, stored=stored, pictures=tuple(pictures))
        return ArchivedOutput(archived, f'read_result with ref_id="r{position.number}" shows all of it')

    async def _stored_image(self, picture: Picture) -> Image:
        """Return the image. It is stored in the archive if possible; otherwise only in its message."""
        image = Image(picture.media_type, base64.b64encode(picture.data).decode("ascii"))
        with suppress(StoreFailed):
            return replace(image, digest=(await self._store_chunks(iter([picture.data]), StreamedPreview())).digest)
        return image

    async def _image_blob(self, image: Image) -> StoredBlob:
        """Return the stored blob of an image that will not be shown."""
        digest = (
            image.digest or (await self._store_chunks(iter([base64.b64decode(image.data)]), StreamedPreview())).digest
        )
        return StoredBlob(digest, decoded_size(image.data), 0, image.media_type)

    async def _store_attachments(
        self, call: ToolCall, position: CallPosition, raw: Result
    ) -> tuple[tuple[StoredBlob, ...], str]:
        """Store the attachments of an output. Return their blobs and the lines about them in the output. If one cannot
        be stored, no blobs are returned."""
        if not raw.files:
            return (), ""
        try:
            blobs = [await self._store_chunks(iter([file.data]), StreamedPreview()) for file in raw.files]
        except StoreFailed as error:
            self.emit(Noticed(f"attachments of the output of `{call.name}` could not be stored: {error}"))
            return (), media_lines(raw.files, [None] * len(raw.files))
        first = len(raw.pictures) + 1
        refs = [f"r{position.number}:tool-{number}" for number in range(first, first + len(blobs))]
        stored = (
            replace(blob, lines=0, media_type=file.media_type) for blob, file in zip(blobs, raw.files, strict=True)
        )
        return tuple(stored), media_lines(raw.files, refs)

    async def _visible_output(
        self, call: ToolCall, position: CallPosition, raw: Result, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """Return the output as shown. `extra_lines` are added after the text and stored with it, unless the text is an
        exact copy of bytes; then they become its frame."""
        ref = f"r{position.number}"
        if raw.log is not None:
            return await self._visible_log(call, position, raw.log, lines, output)
        if raw.full_text is not None:
            uncut = _append_lines(raw.full_text, lines) if lines else raw.full_text
            stored = await self._store_chunks(iter([_encode_text(uncut)]), StreamedPreview())
            text = f"{raw.text}\n{read_hint(ref)}"
            return replace(output, text=text, stored=stored, inserted=((len(raw.text), len(text)),))
        data = _encode_text(raw.text)
        if should_show_whole(call, len(data), self.settings):
            return output
        preview = StreamedPreview()
        extra_bytes = _encode_text(_append_lines(raw.text, lines))[len(data) :] if lines else b""
        stored = await self._store_chunks(_split_chunks(data), preview, extra_bytes)
        # The line count is that of the tool's extent: lines that the tool added are stored, but not counted.
        has_lines = raw.extent is not None and raw.extent.unit == "lines"
        counted_blob = replace(stored, lines=raw.extent.shown) if raw.extent and has_lines else stored
        excerpt = await self._excerpt(call, position, preview, counted_blob)
        return output if len(excerpt.text) >= len(raw.text) else _with_excerpt(output, excerpt, stored)

    async def _visible_log(
        self, call: ToolCall, position: CallPosition, log: PrintedLog, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """Return a program's output as shown. It is copied from its log file to the archive without being loaded as a
        whole."""
        should_show_all, stored = should_show_whole(call, log.end - log.start, self.settings), None
        text = lossless_text(b"".join(_log_chunks(log))) if should_show_all else None
        part = Excerpt(text or "", ())
        if text is None:
            preview = StreamedPreview()
            stored = await self._store_chunks(_log_chunks(log), preview)
            is_readable = should_show_all and not preview.is_binary
            part = (
                Excerpt(decoded_text(b"".join(_log_chunks(log))), ())
                if is_readable
                else await self._excerpt(call, position, preview, stored)
            )
        if log.is_finished:
            log.path.unlink(missing_ok=True)
        frame = "\n".join(part for part in (output.text, lines) if part) if stored else ""
        return replace(_with_excerpt(output, part, stored), text=_append_lines(part.text, output.text), frame=frame)

    async def _excerpt(
        self, call: ToolCall, position: CallPosition, preview: StreamedPreview, stored: StoredBlob
    ) -> Excerpt:
        """Return the excerpt of an output that is not shown in full."""
        ref = f"r{position.number}"
        if self.settings.mode == "truncate":
            return truncated_excerpt(preview, ref, self.settings)
        digest = None if preview.is_binary else await self._read_by_model(call, position, stored)
        ends = (digest, "") if digest else preview.ends_and_matches(self.settings)
        return stored_excerpt(call.name, ref, stored.size, stored.lines, *ends)

    async def _read_by_model(self, call: ToolCall, position: CallPosition, stored: StoredBlob) -> str | None:
        """Return what a model found in the output; None if this is disabled or no model could be asked."""
        if self.settings.mode != "full-chunked" or self.read_output is None or self.archive is None:
            return None
        with closing(await self.archive.content(stored, f"r{position.number}")) as content:
            return await self.read_output(call, position.purpose, content.chunks(), content.size)

    async def _store_chunks(
        self, chunks: Iterator[bytes], preview: StreamedPreview, extra_bytes: bytes = b""
    ) -> StoredBlob:
        """Store chunks of bytes, and feed them to the preview `preview`. `extra_bytes` are stored as well, but not
        previewed."""
        if self.archive is None:
            raise StoreFailed("this session stores no outputs", "missing")

        def previewed_chunks() -> Iterator[bytes]:
            for chunk in chunks:
                preview.add_chunk(chunk)
                yield chunk
            if extra_bytes:
                yield extra_bytes

        return await self.archive.put(previewed_chunks())

    def _visible_without_archive(
        self, call: ToolCall, position: CallPosition, raw: Result, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """Return an output that could not be stored, cut if it is too long to be shown in full. The log file of a
        program is kept, and the output names it."""
        preview = StreamedPreview()
        with suppress(FileNotFoundError):  # the log file may have been removed
            for chunk in _log_chunks(raw.log) if raw.log else _split_chunks(_encode_text(raw.text)):
                preview.add_chunk(chunk)
        should_show_all = should_show_whole(call, preview.size, self.settings)
        if raw.log is None:
            return output if should_show_all else _with_excerpt(output, truncated_excerpt(preview, None, self.settings))
        is_log_retained = _keep_complete_log(raw.log)
        part = (
            Excerpt(decoded_text(preview.first_bytes), ())
            if should_show_all and preview.size == len(preview.first_bytes)
            else truncated_excerpt(preview, f"r{position.number}" if is_log_retained else None, self.settings)
        )
        if not is_log_retained:
            return replace(_with_excerpt(output, part), text=_append_lines(part.text, raw.text))
        return replace(
            _with_excerpt(output, part),
            text=_append_lines(part.text, f"all of it is in {raw.log.path}\n{raw.text}"),
            whole=str(raw.log.path),
            frame="\n".join(part for part in (raw.text, lines) if part),
        )

    def _log_intake(self, call: ToolCall, position: CallPosition, output: ToolOutput) -> None:
        blob = output.stored or inline_blob(output)
        self.debug.log(
            "context/ingest",
            tool=call.name,
            ref=f"r{position.number}",
            bytes=blob.size,
            lines=blob.lines,
            form="preview" if output.stored is not None else "full",
        )


def _with_excerpt(output: ToolOutput, excerpt: Excerpt, stored: StoredBlob | None = None) -> ToolOutput:
    return replace(output, text=excerpt.text, inserted=excerpt.inserted, stored=stored)


def _append_lines(text: str, lines: str) -> str:
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{lines}"


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _split_chunks(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _CHUNK_BYTES):
        yield data[at : at + _CHUNK_BYTES]


def _keep_complete_log(log: PrintedLog) -> bool:
    """Keep a program's log file whose content could not be stored, and return whether the log is complete. It is
    deleted if it is incomplete, or if so little disk space is left that the session itself needs it."""
    with suppress(OSError):
        if log.is_finished and (not log.is_complete or shutil.disk_usage(log.path.parent).free < MIN_FREE_BYTES):
            log.path.unlink()
            return False
    return log.is_complete


def _log_chunks(log: PrintedLog) -> Iterator[bytes]:
    with log.path.open("rb") as file:
        file.seek(log.start)
        left = log.end - log.start
        while left > 0 and (chunk := file.read(min(_CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk

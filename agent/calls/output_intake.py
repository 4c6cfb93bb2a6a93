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
from ebbtide.agent.calls.policy import parse_rule, rule_matches_call
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Image, OutputStatus, StoredBlob, ToolCall, ToolOutput
from ebbtide.agent.records.rows import decoded_size, inline_blob
from ebbtide.agent.view.output_media import attachment_lines, classify_attachments
from ebbtide.agent.view.previews import (
    Excerpt,
    OffloadLimits,
    StreamedPreview,
    decode_output,
    read_hint,
    reads_archive,
    should_show_in_full,
    stored_excerpt,
    truncated_excerpt,
)
from ebbtide.tools.base import ImageData, LoggedOutput, Result
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import lossless_text

if TYPE_CHECKING:  # imported only for their types, because most runs have no hooks
    from ebbtide.agent.hooks.tool_hooks import ToolHooks

_CHUNK_BYTES = 1 << 18
MIN_FREE_BYTES_FOR_LOG = 1 << 18
"""A log file is kept only if at least this many bytes remain free on the disk."""

AskReaderModel: TypeAlias = Callable[[ToolCall, str, Iterator[bytes], int], Awaitable[str | None]]
"""Asks a model to read a long output, given the call, its purpose, the content and its size. Returns what the model
found, or None if no model could be asked."""


@dataclass(frozen=True, slots=True)
class OutputArchiver:
    """Stores the outputs of one session and builds their visible form."""

    archive: Archive | None = None
    """Stores outputs. If None, nothing can be stored, and long outputs are cut."""
    limits: OffloadLimits = OffloadLimits()
    emit: Callable[[Event], None] = lambda event: None
    ask_reader_model: AskReaderModel | None = None
    """Asks a model to read long outputs; None if the user has not enabled that."""
    debug: DebugLog = field(default_factory=DebugLog)
    hooks: "ToolHooks | None" = None
    """Hooks that receive outputs; None if there are none."""

    async def store_and_show(
        self,
        call: ToolCall,
        position: CallPosition,
        status: OutputStatus,
        result: Result,
        request: PermissionRequest | None = None,
    ) -> ToolOutput:
        """Store an output in full, and return it as shown to the model. Hooks receive the raw output once, before it is
        stored or cut; their feedback is appended."""
        feedback = ""
        if self.hooks is not None and request is not None:
            root, permission_request = self.hooks.root, request
            feedback, result = await self.hooks.run_after_call(
                call,
                status,
                result,
                reads_only=request.is_read_only,
                rule_matches=lambda rule: rule_matches_call(parse_rule(rule), permission_request, root),
            )
        output = await self._build_output(call, position, status, result, feedback)
        self._debug_log_output(call, position, output)
        return output

    async def _build_output(
        self, call: ToolCall, position: CallPosition, status: OutputStatus, result: Result, feedback: str
    ) -> ToolOutput:
        """Build the output. `feedback` is always shown, even if only a part of the output is."""
        result = classify_attachments(result)
        images = tuple([await self._store_image(image) for image in result.images])
        files, extra_text = await self._store_attachments(call, position, result)
        if len(extra_text) > self.limits.preview_bytes and result.log is None and result.full_text is None:
            result, extra_text = replace(result, text=_append_lines(result.text, extra_text)), ""
        extra_text = "\n".join(text for text in (extra_text, feedback) if text)
        output = ToolOutput(
            call.id, result.text, status, images, files=files, extent=result.extent, program=result.program
        )
        output = replace(output, problems=result.problems)
        try:
            output = await self._build_visible_output(call, position, result, extra_text, output)
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            output = self._build_without_archive(call, position, result, extra_text, output)
        return replace(output, text=_append_lines(output.text, extra_text)) if extra_text else output

    async def store_full_output(self, call: ToolCall, position: CallPosition, output: ToolOutput) -> ArchivedOutput:
        """Store the full output. Called for an output that does not fit into the window, before it is cut."""
        if reads_archive(call.name):
            return ArchivedOutput(output)
        try:
            stored = output.stored or await self._store_chunks(iter([_encode_text(output.text)]), StreamedPreview())
            hidden_images = [await self._store_hidden_image(image) for image in output.images]
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            return ArchivedOutput(output, f"all of it is in {output.whole}" if output.whole else "")
        archived = replace(output, stored=stored, pictures=tuple(hidden_images))
        return ArchivedOutput(archived, f'read_result with ref_id="r{position.output_number}" shows all of it')

    async def _store_image(self, image_data: ImageData) -> Image:
        """Store an image in the archive if possible, otherwise only in its message."""
        image = Image(image_data.media_type, base64.b64encode(image_data.data).decode("ascii"))
        with suppress(StoreFailed):
            return replace(image, digest=(await self._store_chunks(iter([image_data.data]), StreamedPreview())).digest)
        return image

    async def _store_hidden_image(self, image: Image) -> StoredBlob:
        """Store an image that will not be shown."""
        digest = (
            image.digest or (await self._store_chunks(iter([base64.b64decode(image.data)]), StreamedPreview())).digest
        )
        return StoredBlob(digest, decoded_size(image.data), 0, image.media_type)

    async def _store_attachments(
        self, call: ToolCall, position: CallPosition, result: Result
    ) -> tuple[tuple[StoredBlob, ...], str]:
        """Store the attachments of an output. Return their blobs and the lines about them in the output. If any
        attachment cannot be stored, no blobs are returned."""
        if not result.files:
            return (), ""
        try:
            blobs = [await self._store_chunks(iter([file.data]), StreamedPreview()) for file in result.files]
        except StoreFailed as error:
            self.emit(Noticed(f"attachments of the output of `{call.name}` could not be stored: {error}"))
            return (), attachment_lines(result.files, [None] * len(result.files))
        first_number = len(result.images) + 1
        refs = [f"r{position.output_number}:tool-{number}" for number in range(first_number, first_number + len(blobs))]
        stored = (
            replace(blob, lines=0, media_type=file.media_type) for blob, file in zip(blobs, result.files, strict=True)
        )
        return tuple(stored), attachment_lines(result.files, refs)

    async def _build_visible_output(
        self, call: ToolCall, position: CallPosition, result: Result, extra_text: str, output: ToolOutput
    ) -> ToolOutput:
        """Build the output as shown, after storing it if it is too long to be shown in full. `extra_text` is stored
        after the output's text. If the text is a program's log, `extra_text` is not stored but becomes part of
        `ToolOutput.frame`."""
        ref = f"r{position.output_number}"
        if result.log is not None:
            return await self._build_visible_log(call, position, result.log, extra_text, output)
        if result.full_text is not None:
            full_text = _append_lines(result.full_text, extra_text) if extra_text else result.full_text
            stored = await self._store_chunks(iter([_encode_text(full_text)]), StreamedPreview())
            text = f"{result.text}\n{read_hint(ref)}"
            return replace(output, text=text, stored=stored, inserted=((len(result.text), len(text)),))
        data = _encode_text(result.text)
        if should_show_in_full(call, len(data), self.limits):
            return output
        preview = StreamedPreview()
        extra_bytes = _encode_text(_append_lines(result.text, extra_text))[len(data) :] if extra_text else b""
        stored = await self._store_chunks(_split_chunks(data), preview, extra_bytes)
        # Use the tool's own line count. Lines that the tool added are stored, but not counted.
        has_lines = result.extent is not None and result.extent.unit == "lines"
        blob_with_tool_line_count = (
            replace(stored, lines=result.extent.shown) if result.extent and has_lines else stored
        )
        excerpt = await self._make_excerpt(call, position, preview, blob_with_tool_line_count)
        return output if len(excerpt.text) >= len(result.text) else _with_excerpt(output, excerpt, stored)

    async def _build_visible_log(
        self, call: ToolCall, position: CallPosition, log: LoggedOutput, extra_text: str, output: ToolOutput
    ) -> ToolOutput:
        """Build a program's output in the form that the model sees. If it is not shown in full, it is copied in chunks
        from its log file to the archive."""
        should_show_all = should_show_in_full(call, log.end - log.start, self.limits)
        stored = None
        text = lossless_text(b"".join(_log_chunks(log))) if should_show_all else None
        excerpt = Excerpt(text or "", ())
        if text is None:
            preview = StreamedPreview()
            stored = await self._store_chunks(_log_chunks(log), preview)
            should_decode = should_show_all and not preview.is_binary
            excerpt = (
                Excerpt(decode_output(b"".join(_log_chunks(log))), ())
                if should_decode
                else await self._make_excerpt(call, position, preview, stored)
            )
        if log.is_finished:
            log.path.unlink(missing_ok=True)
        frame = "\n".join(text for text in (output.text, extra_text) if text) if stored else ""
        return replace(
            _with_excerpt(output, excerpt, stored), text=_append_lines(excerpt.text, output.text), frame=frame
        )

    async def _make_excerpt(
        self, call: ToolCall, position: CallPosition, preview: StreamedPreview, stored_blob: StoredBlob
    ) -> Excerpt:
        """Return the excerpt of an output that is not shown in full."""
        ref = f"r{position.output_number}"
        if self.limits.mode == "truncate":
            return truncated_excerpt(preview, ref, self.limits)
        findings = None if preview.is_binary else await self._ask_reader_model(call, position, stored_blob)
        head_tail_and_matches = (findings, "") if findings else preview.excerpt_and_error_lines(self.limits)
        return stored_excerpt(call.name, ref, stored_blob.size, stored_blob.lines, *head_tail_and_matches)

    async def _ask_reader_model(self, call: ToolCall, position: CallPosition, stored_blob: StoredBlob) -> str | None:
        """Return what a model found in the output; None if this is disabled or no model could be asked."""
        if self.limits.mode != "full-chunked" or self.ask_reader_model is None or self.archive is None:
            return None
        with closing(await self.archive.open_blob(stored_blob, f"r{position.output_number}")) as content:
            return await self.ask_reader_model(call, position.purpose, content.chunks(), content.size)

    async def _store_chunks(
        self, chunks: Iterator[bytes], preview: StreamedPreview, extra_bytes: bytes = b""
    ) -> StoredBlob:
        """Store chunks of bytes, and feed them to `preview`. `extra_bytes` are stored as well, but not previewed."""
        if self.archive is None:
            raise StoreFailed("this session stores no outputs", "missing")

        def previewed_chunks() -> Iterator[bytes]:
            for chunk in chunks:
                preview.add_chunk(chunk)
                yield chunk
            if extra_bytes:
                yield extra_bytes

        return await self.archive.put(previewed_chunks())

    def _build_without_archive(
        self, call: ToolCall, position: CallPosition, result: Result, extra_text: str, output: ToolOutput
    ) -> ToolOutput:
        """Build an output that could not be stored, and cut it if it is too long to be shown in full. If a program's
        log file is complete, it is kept, and the output names it."""
        preview = StreamedPreview()
        with suppress(FileNotFoundError):  # the log file may have been removed
            for chunk in _log_chunks(result.log) if result.log else _split_chunks(_encode_text(result.text)):
                preview.add_chunk(chunk)
        should_show_all = should_show_in_full(call, preview.size, self.limits)
        if result.log is None:
            return output if should_show_all else _with_excerpt(output, truncated_excerpt(preview, None, self.limits))
        is_log_retained = _keep_or_delete_log(result.log)
        excerpt = (
            Excerpt(decode_output(preview.head_bytes), ())
            if should_show_all and preview.size == len(preview.head_bytes)
            else truncated_excerpt(preview, f"r{position.output_number}" if is_log_retained else None, self.limits)
        )
        if not is_log_retained:
            return replace(_with_excerpt(output, excerpt), text=_append_lines(excerpt.text, result.text))
        return replace(
            _with_excerpt(output, excerpt),
            text=_append_lines(excerpt.text, f"all of it is in {result.log.path}\n{result.text}"),
            whole=str(result.log.path),
            frame="\n".join(text for text in (result.text, extra_text) if text),
        )

    def _debug_log_output(self, call: ToolCall, position: CallPosition, output: ToolOutput) -> None:
        blob = output.stored or inline_blob(output)
        self.debug.log(
            "context/ingest",
            tool=call.name,
            ref=f"r{position.output_number}",
            bytes=blob.size,
            lines=blob.lines,
            form="preview" if output.stored is not None else "full",
        )


def _with_excerpt(output: ToolOutput, excerpt: Excerpt, stored_blob: StoredBlob | None = None) -> ToolOutput:
    return replace(output, text=excerpt.text, inserted=excerpt.inserted, stored=stored_blob)


def _append_lines(text: str, extra_text: str) -> str:
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{extra_text}"


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _split_chunks(data: bytes) -> Iterator[bytes]:
    for offset in range(0, len(data), _CHUNK_BYTES):
        yield data[offset : offset + _CHUNK_BYTES]


def _keep_or_delete_log(log: LoggedOutput) -> bool:
    """Keep or delete a log file whose content could not be stored. A finished log is deleted if it is incomplete, or if
    the session itself needs the remaining disk space. Return whether the log is complete and was kept."""
    with suppress(OSError):
        if log.is_finished and (
            not log.is_complete or shutil.disk_usage(log.path.parent).free < MIN_FREE_BYTES_FOR_LOG
        ):
            log.path.unlink()
            return False
    return log.is_complete


def _log_chunks(log: LoggedOutput) -> Iterator[bytes]:
    with log.path.open("rb") as file:
        file.seek(log.start)
        remaining_bytes = log.end - log.start
        while remaining_bytes > 0 and (chunk := file.read(min(_CHUNK_BYTES, remaining_bytes))):
            remaining_bytes -= len(chunk)
            yield chunk

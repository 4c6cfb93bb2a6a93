"""Takes in the outputs of calls: stores them in full, and shows the model all or part. What is shown is decided in
`ebbtide.agent.context.offload`."""

import base64
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.calls.execute import CallPosition, Guard, no_checkpoint
from ebbtide.agent.calls.output_budget import ArchivedOutput
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.option_values import AfterTool
from ebbtide.agent.context.offload import (
    Excerpt,
    Offloading,
    StreamedPreview,
    cut_form,
    how_to_see,
    is_recall_tool,
    readable,
    should_show_whole,
    stored_form,
)
from ebbtide.agent.context.output_media import lines_for, sorted_out
from ebbtide.agent.debug import Debug
from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Image, OutputStatus, StoredBlob, ToolCall, ToolOutput
from ebbtide.agent.records.rows import decoded_size, in_message
from ebbtide.tools.base import Picture, PrintedLog, Result, Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import as_text

if TYPE_CHECKING:  # types only: most runs have no hooks
    from ebbtide.agent.calls.hooks import OutputHooks
    from ebbtide.agent.calls.tool_hooks import ToolHooks
    from ebbtide.agent.hooks.session_hooks import SessionHooks

_CHUNK = 1 << 18
NO_AGENT: Mapping[str, object] = {}
MIN_FREE_BYTES = 1 << 18
"""Bytes that must stay free if a log file is kept."""

Digest: TypeAlias = Callable[[ToolCall, str, Iterator[bytes], int], Awaitable[str | None]]
"""Returns what a model found in a long output for the purpose of its call; None if no model could."""


@dataclass(frozen=True, slots=True)
class OutputIntake:
    """Takes in the outputs of one session."""

    archive: Archive | None = None
    """None if nothing can be stored: long outputs are then cut."""
    settings: Offloading = Offloading()
    emit: Callable[[Event], None] = lambda event: None
    digest: Digest | None = None
    """Reads long outputs, if the user has enabled that."""
    debug: Debug = field(default_factory=Debug)
    hooks: "OutputHooks | None" = None
    """The user's output hooks, if any."""
    tool_hooks: "ToolHooks | None" = None
    """Hooks for all tool events, if any."""

    async def preview(
        self,
        call: ToolCall,
        place: CallPosition,
        status: OutputStatus,
        raw: Result,
        ran: PermissionRequest | None = None,
    ) -> ToolOutput:
        """The output as shown to the model, stored in full. Hooks see the raw output once, before it is stored or
        cut; their feedback is appended."""
        said = await self.hooks.feedback_on(call, ran, status, raw) if self.hooks and ran else ""
        if self.tool_hooks and ran:
            heard, raw = await self.tool_hooks.feedback_on(call, ran, status, raw)
            said = "\n".join(filter(None, (said, heard)))
        output = await self._build_output(call, place, status, raw, said)
        self._log_intake(call, place, output)
        return output

    async def _build_output(
        self, call: ToolCall, place: CallPosition, status: OutputStatus, raw: Result, said: str
    ) -> ToolOutput:
        """Build the output. `said` is appended to it, whatever is shown of the rest."""
        raw = sorted_out(raw)
        images = tuple([await self._image(picture) for picture in raw.pictures])
        files, lines = await self._files(call, place, raw)
        if len(lines) > self.settings.preview and raw.log is None and raw.uncut is None:
            raw, lines = replace(raw, text=_append_lines(raw.text, lines)), ""
        lines = "\n".join(part for part in (lines, said) if part)
        output = ToolOutput(call.id, raw.text, status, images, files=files, extent=raw.extent, program=raw.program)
        output = replace(output, problems=raw.problems)
        try:
            output = await self._form(call, place, raw, lines, output)
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            output = self._without_archive(call, place, raw, lines, output)
        return replace(output, text=_append_lines(output.text, lines)) if lines else output

    async def store(self, call: ToolCall, place: CallPosition, output: ToolOutput) -> ArchivedOutput:
        """Store the whole output, if less than its text is going to be shown."""
        if is_recall_tool(call.name):
            return ArchivedOutput(output)
        try:
            stored = output.stored or await self._store_chunks(iter([_encode_text(output.text)]), StreamedPreview())
            pictures = [await self._picture(image) for image in output.images]
        except StoreFailed as error:
            self.emit(Noticed(f"the output of `{call.name}` could not be stored, so it is shown in part: {error}"))
            return ArchivedOutput(output, f"all of it is in {output.whole}" if output.whole else "")
        kept = replace(output, stored=stored, pictures=tuple(pictures))
        return ArchivedOutput(kept, f'read_result with ref_id="r{place.number}" shows all of it')

    async def _image(self, picture: Picture) -> Image:
        """The image, stored in the archive if possible, else in the session's log."""
        image = Image(picture.media_type, base64.b64encode(picture.data).decode("ascii"))
        with suppress(StoreFailed):
            return replace(image, digest=(await self._store_chunks(iter([picture.data]), StreamedPreview())).digest)
        return image

    async def _picture(self, image: Image) -> StoredBlob:
        """The stored form of an image that is not shown."""
        digest = (
            image.digest or (await self._store_chunks(iter([base64.b64decode(image.data)]), StreamedPreview())).digest
        )
        return StoredBlob(digest, decoded_size(image.data), 0, image.media_type)

    async def _files(self, call: ToolCall, place: CallPosition, raw: Result) -> tuple[tuple[StoredBlob, ...], str]:
        """The stored attachments, and the lines that represent them. All are stored or none."""
        if not raw.files:
            return (), ""
        try:
            kept = [await self._store_chunks(iter([file.data]), StreamedPreview()) for file in raw.files]
        except StoreFailed as error:
            self.emit(Noticed(f"attachments of the output of `{call.name}` could not be stored: {error}"))
            return (), lines_for(raw.files, [None] * len(raw.files))
        first = len(raw.pictures) + 1
        refs = [f"r{place.number}:tool-{number}" for number in range(first, first + len(kept))]
        stored = (replace(one, lines=0, media_type=file.media_type) for one, file in zip(kept, raw.files, strict=True))
        return tuple(stored), lines_for(raw.files, refs)

    async def _form(
        self, call: ToolCall, place: CallPosition, raw: Result, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """Build what is shown of the output. `lines` follow the text. They are stored with it, unless the text is a
        copy of bytes; then they become its frame."""
        ref = f"r{place.number}"
        if raw.log is not None:
            return await self._log_form(call, place, raw.log, lines, output)
        if raw.uncut is not None:
            uncut = _append_lines(raw.uncut, lines) if lines else raw.uncut
            stored = await self._store_chunks(iter([_encode_text(uncut)]), StreamedPreview())
            text = f"{raw.text}\n{how_to_see(ref)}"
            return replace(output, text=text, stored=stored, inserted=((len(raw.text), len(text)),))
        data = _encode_text(raw.text)
        if should_show_whole(call, len(data), self.settings):
            return output
        skim = StreamedPreview()
        ending = _encode_text(_append_lines(raw.text, lines))[len(data) :] if lines else b""
        stored = await self._store_chunks(_pieces(data), skim, ending)
        # Lines added by the tool are stored, but not counted.
        has_lines = raw.extent is not None and raw.extent.unit == "lines"
        counted = replace(stored, lines=raw.extent.shown) if raw.extent and has_lines else stored
        part = await self._part(call, place, skim, counted)
        return output if len(part.text) >= len(raw.text) else _in_part(output, part, stored)

    async def _log_form(
        self, call: ToolCall, place: CallPosition, log: PrintedLog, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """Build what is shown of a program's output, which is copied from its log file to the archive without
        loading it whole."""
        is_whole, stored = should_show_whole(call, log.end - log.start, self.settings), None
        text = as_text(b"".join(_printed_chunks(log))) if is_whole else None
        part = Excerpt(text or "", ())
        if text is None:
            skim = StreamedPreview()
            stored = await self._store_chunks(_printed_chunks(log), skim)
            is_readable = is_whole and not skim.is_binary
            part = (
                Excerpt(readable(b"".join(_printed_chunks(log))), ())
                if is_readable
                else await self._part(call, place, skim, stored)
            )
        if log.is_finished:
            log.path.unlink(missing_ok=True)
        frame = "\n".join(part for part in (output.text, lines) if part) if stored else ""
        return replace(_in_part(output, part, stored), text=_append_lines(part.text, output.text), frame=frame)

    async def _part(self, call: ToolCall, place: CallPosition, skim: StreamedPreview, stored: StoredBlob) -> Excerpt:
        """The excerpt of an output that is not shown in full."""
        ref = f"r{place.number}"
        if self.settings.mode == "truncate":
            return cut_form(skim, ref, self.settings)
        shown = None if skim.is_binary else await self._digest_output(call, place, stored)
        ends = (shown, "") if shown else skim.ends_and_matches(self.settings)
        return stored_form(call.name, ref, stored.size, stored.lines, *ends)

    async def _digest_output(self, call: ToolCall, place: CallPosition, stored: StoredBlob) -> str | None:
        """What a model found in the output."""
        if self.settings.mode != "full-chunked" or self.digest is None or self.archive is None:
            return None
        with closing(await self.archive.content(stored, f"r{place.number}")) as content:
            return await self.digest(call, place.purpose, content.chunks(), content.size)

    async def _store_chunks(self, chunks: Iterator[bytes], skim: StreamedPreview, ending: bytes = b"") -> StoredBlob:
        """Store chunks of bytes. `ending` is stored as well, but is not part of the preview."""
        if self.archive is None:
            raise StoreFailed("this session stores no outputs", "missing")

        def seen() -> Iterator[bytes]:
            for chunk in chunks:
                skim.take(chunk)
                yield chunk
            if ending:
                yield ending

        return await self.archive.put(seen())

    def _without_archive(
        self, call: ToolCall, place: CallPosition, raw: Result, lines: str, output: ToolOutput
    ) -> ToolOutput:
        """As much of an output as may be shown in full, and the log file that a program's output stays in."""
        skim = StreamedPreview()
        with suppress(FileNotFoundError):  # the file was removed
            for chunk in _printed_chunks(raw.log) if raw.log else _pieces(_encode_text(raw.text)):
                skim.take(chunk)
        is_whole = should_show_whole(call, skim.size, self.settings)
        if raw.log is None:
            return output if is_whole else _in_part(output, cut_form(skim, None, self.settings))
        stays = _keeps_log(raw.log)
        part = (
            Excerpt(readable(skim.beginning), ())
            if is_whole and skim.size == len(skim.beginning)
            else cut_form(skim, f"r{place.number}" if stays else None, self.settings)
        )
        if not stays:
            return replace(_in_part(output, part), text=_append_lines(part.text, raw.text))
        return replace(
            _in_part(output, part),
            text=_append_lines(part.text, f"all of it is in {raw.log.path}\n{raw.text}"),
            whole=str(raw.log.path),
            frame="\n".join(part for part in (raw.text, lines) if part),
        )

    def _log_intake(self, call: ToolCall, place: CallPosition, output: ToolOutput) -> None:
        kept = output.stored or in_message(output)
        self.debug.log(
            "context/ingest",
            tool=call.name,
            ref=f"r{place.number}",
            bytes=kept.size,
            lines=kept.lines,
            form="preview" if output.stored is not None else "full",
        )


def hooks_of(
    configured: Sequence[AfterTool],
    session: str,
    workspace: Workspace,
    interrupt: Interrupt,
    emit: Callable[[Event], None],
    guard: Guard = no_checkpoint,
) -> "OutputHooks | None":
    """The user's output hooks, if there are any."""
    if not configured:
        return None
    from ebbtide.agent.calls.hooks import OutputHooks  # noqa: PLC0415  # deferred: most runs have none

    return OutputHooks(configured, session, workspace, interrupt, emit, guard)


def around_calls(
    hooks: "SessionHooks | None",
    workspace: Workspace,
    emit: Callable[[Event], None],
    guard: Guard,
    agent: Mapping[str, object] = NO_AGENT,
) -> "ToolHooks | None":
    """The tool hooks, if there are any. `agent`: what they are told about the agent that makes the calls."""
    if hooks is None:
        return None
    from ebbtide.agent.calls.tool_hooks import ToolHooks  # noqa: PLC0415  # deferred: as above

    return ToolHooks(hooks, workspace, emit, guard, agent)


def _in_part(output: ToolOutput, part: Excerpt, stored: StoredBlob | None = None) -> ToolOutput:
    return replace(output, text=part.text, inserted=part.inserted, stored=stored)


def _append_lines(text: str, ending: str) -> str:
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{ending}"


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _CHUNK):
        yield data[at : at + _CHUNK]


def _keeps_log(log: PrintedLog) -> bool:
    """Whether a program's log file is kept because its output could not be stored. It is deleted if it is
    incomplete, or takes the last space, which the session itself needs."""
    with suppress(OSError):
        if log.is_finished and (not log.is_whole or shutil.disk_usage(log.path.parent).free < MIN_FREE_BYTES):
            log.path.unlink()
            return False
    return log.is_whole


def _printed_chunks(log: PrintedLog) -> Iterator[bytes]:
    with log.path.open("rb") as file:
        file.seek(log.start)
        left = log.end - log.start
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk

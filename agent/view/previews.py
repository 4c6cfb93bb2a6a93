"""Decides how much of an output is shown: all of it, or only its start, its end and the error lines. Other modules
store the full output."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Ranges, ToolCall, ToolOutput
from ebbtide.agent.view.error_line_collector import MAX_MATCH_BYTES, MIN_MATCH_BYTES, ErrorLineCollector
from ebbtide.agent.view.error_lines import is_routine_line, normalise_name_numbers
from ebbtide.agent.view.name_index import MAX_INDEX_SHARE, MAX_INDEXED_BYTES, build_name_index, max_index_bytes
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize, truncate
from ebbtide.tools.outputs.plain_text import is_mostly_binary, terminal_text
from ebbtide.tools.tool_traits import OutputLimit, traits_of

OffloadMode: TypeAlias = Literal["auto", "full-chunked", "read-grep", "truncate"]

_HEAD_SHARE = 0.6
"""Share of the visible text taken from the start, for an output that is cut for lack of room."""
_PREVIEW_HEAD_SHARE = 0.3
"""Share of a preview taken from the start. The end gets more, because the end of a program's output is more
informative."""
_MAX_ROUTINE_LINES = 5
"""Maximum number of consecutive routine lines that are shown."""
_MAX_LINE_CHARS = 400
"""Maximum length of a line in a preview, in characters."""
_MAX_END_BYTES = 1 << 14
"""Number of bytes kept from each end of an output, to build its preview."""


@dataclass(frozen=True, slots=True)
class OffloadLimits:
    """Limits for showing outputs."""

    max_output_bytes: int = 4096
    """Largest output of a program or server that is shown in full, in bytes."""
    preview_bytes: int = 2048
    """Size of a preview, in bytes."""
    max_file_bytes: int = 51_200
    """Largest output, in bytes, that is shown in full if it contains files or matches in files. Applies to every tool
    and command."""
    mode: OffloadMode = "auto"


def should_show_in_full(call: ToolCall, size: int, limits: OffloadLimits) -> bool:
    """Whether to show an output of `size` bytes in full. Recalled output is always shown in full. Files and other
    agents' reports have a higher limit, because most of their content is needed in the next steps."""
    match _limit_of(call):
        case "whole":
            return True
        case "file":
            return size <= limits.max_file_bytes
        case "program":
            return size <= limits.max_output_bytes


def _limit_of(call: ToolCall) -> OutputLimit:
    traits = traits_of(call.name)
    return "file" if traits.shows_files(call.arguments) else traits.output_limit


def reads_archive(tool: str) -> bool:
    """Whether the tool's outputs come from the archive. Such outputs are not stored again."""
    return traits_of(tool).output_limit == "whole"


def cut_output(
    output: ToolOutput, max_tokens: int, token_count: int, count_tokens: Callable[[ToolOutput], int], hint: str
) -> ToolOutput:
    """Remove the middle of the output so that it fits into `max_tokens` tokens, and remove its images. A note contains
    `hint`, which says how to get the rest. If there is no room, only the note remains. `token_count`: tokens of the
    full output."""
    retained_chars = len(output.text) * max(max_tokens, 0) // max(token_count, 1)
    shortened = _without_middle(output, retained_chars, hint)
    while retained_chars and count_tokens(shortened) > max_tokens:
        retained_chars = retained_chars * 3 // 4 if retained_chars > 40 else 0
        shortened = _without_middle(output, retained_chars, hint)
    return shortened


def _without_middle(output: ToolOutput, retained_chars: int, hint: str) -> ToolOutput:
    image_note = f"its images ({len(output.images)}) are not shown; look at one at a time" if output.images else ""
    text, ranges = output.text, output.inserted
    if len(ranges) > 1 and ranges[0][0] == 0:  # a preview: keep the text around it that describes it
        start, end, closing_range = ranges[0][1], ranges[1][0], ranges[-1]
        visible_text = _head_and_tail(
            text[start:end], retained_chars, lambda _: f"[… {image_note} …]" if image_note else "[…]"
        )
        inserted = (ranges[0], *shift_ranges((closing_range,), start + len(visible_text) - closing_range[0]))
        return replace(
            output, text=f"{text[:start]}{visible_text}{text[closing_range[0] :]}", images=(), inserted=inserted
        )

    retained_chars, names = _reserve_index(text, retained_chars)

    def build_note(omitted: int) -> str:
        advice = "; ".join(filter(None, (hint or "ask for less at a time to see it", image_note)))
        return f"[… {pluralize(omitted, 'character')} left out: the context window is nearly full; {advice} …]{names}"

    visible_text = _head_and_tail(text, retained_chars, build_note)
    head, tail = _cut_positions(text, retained_chars)
    note_end = len(visible_text) - (len(text) - tail)
    ranges_before = [(start, min(end, head)) for start, end in ranges if start < head]
    ranges_after = [(max(start, tail), end) for start, end in ranges if end > tail]
    inserted = (*ranges_before, (head + 1 if head else 0, note_end), *shift_ranges(ranges_after, note_end - tail))
    return replace(output, text=visible_text, images=(), inserted=inserted)


def _reserve_index(text: str, retained_chars: int) -> tuple[int, str]:
    """Reserve part of `retained_chars` for a line of names. Return two things: how many characters remain for the text,
    and the line of names."""
    max_index_chars = int(MAX_INDEX_SHARE * retained_chars)
    head, tail = _cut_positions(text, retained_chars - max_index_chars)
    middle = text[head : min(tail, head + MAX_INDEXED_BYTES)]
    names = build_name_index(middle, text[:head] + text[tail:], max_index_chars) if middle else ""
    return retained_chars - len(names), names


def _head_and_tail(text: str, retained_chars: int, build_note: Callable[[int], str]) -> str:
    """Return the start and end of `text`, `retained_chars` characters in total, with a note between them. `build_note`:
    builds the note from the number of omitted characters."""
    head, tail = _cut_positions(text, retained_chars)
    return "\n".join(piece for piece in (text[:head], build_note(tail - head), text[tail:]) if piece)


def _cut_positions(text: str, retained_chars: int) -> tuple[int, int]:
    head = int(retained_chars * _HEAD_SHARE)
    return head, max(len(text) - (retained_chars - head), head)


def shift_ranges(ranges: Iterable[tuple[int, int]], offset: int) -> Ranges:
    """Shift all ranges by `offset` characters."""
    return tuple((start + offset, end + offset) for start, end in ranges)


def text_without_insertions(text: str, inserted: Ranges) -> str:
    """Remove what Ebbtide added to the text. `inserted`: the ranges to remove."""
    pieces, offset = list[str](), 0
    for start, end in inserted:
        pieces.append(text[offset:start])
        offset = end
    return "".join((*pieces, text[offset:]))


def decode_output(data: bytes) -> str:
    """Decode a program's output as a terminal would show it."""
    return terminal_text(data.decode("utf-8", "replace"))


@dataclass(slots=True)
class StreamedPreview:
    """Collects the data for a preview from output that arrives in chunks."""

    size: int = 0
    newline_count: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytes = b""
    _partial_line: bytes = b""
    """The beginning of a line that is not yet complete."""
    _error_lines: ErrorLineCollector = field(default_factory=ErrorLineCollector)
    _indexed_bytes: bytearray = field(default_factory=bytearray)
    """The start of the output. If it grows longer than `MAX_INDEXED_BYTES`, the preview gets no index of names."""

    def add_chunk(self, chunk: bytes) -> None:
        if self.size <= MAX_INDEXED_BYTES:
            self._indexed_bytes += chunk[: MAX_INDEXED_BYTES + 1 - len(self._indexed_bytes)]
        if len(self._head) < _MAX_END_BYTES:
            self._head += chunk[: _MAX_END_BYTES - len(self._head)]
        self._tail = chunk[-_MAX_END_BYTES:] if len(chunk) >= _MAX_END_BYTES else (self._tail + chunk)[-_MAX_END_BYTES:]
        self._collect_error_lines(chunk)
        self.size += len(chunk)
        self.newline_count += chunk.count(b"\n")

    @property
    def head_bytes(self) -> bytes:
        """The first bytes of the output, or all of it if it is short."""
        return bytes(self._head)

    @property
    def line_count(self) -> int:
        return self.newline_count + (self.size > 0 and not self._tail.endswith(b"\n"))

    @property
    def is_binary(self) -> bool:
        ends = bytes(self._head) if self.size <= _MAX_END_BYTES else bytes(self._head) + self._tail
        return is_mostly_binary(ends.decode("utf-8", "replace"))

    def _collect_error_lines(self, chunk: bytes) -> None:
        """Collect lines that report errors."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._partial_line = (self._partial_line + chunk)[:_MAX_END_BYTES]
            return
        self._error_lines.add_lines(self._partial_line + chunk[:end], self.newline_count + 1)
        self._partial_line = chunk[end:][:_MAX_END_BYTES]

    def preview(self, limits: OffloadLimits) -> str:
        """Build the preview: start, end, the error lines between them, and an index of the names left out."""
        return "".join(self.excerpt_and_error_lines(limits))

    def excerpt_and_error_lines(self, limits: OffloadLimits) -> tuple[str, str]:
        """Build the preview in two parts: the start and end, then the error lines and the index of names."""
        ends, matches = self._head_tail_and_matches(limits)
        if self.is_binary or self.size > MAX_INDEXED_BYTES:
            return ends, matches
        return ends, matches + build_name_index(
            _plain_text(self._indexed_bytes), ends + matches, max_index_bytes(self.size)
        )

    def _head_tail_and_matches(self, limits: OffloadLimits) -> tuple[str, str]:
        """Build two parts of the preview: the start and end, and the error lines. Error lines take at most half of the
        room."""
        if self.is_binary:
            return f"not text; it begins with {bytes(self._head[:32]).hex(' ')}", ""
        if self.line_count <= 3:
            return self._ends_by_bytes(limits.preview_bytes), ""
        max_match_bytes = max(min(MAX_MATCH_BYTES, limits.preview_bytes // 2), MIN_MATCH_BYTES)
        ends, matches = self._head_and_tail(limits.preview_bytes), ""
        for _ in range(2):  # head and tail get shorter, so more error lines may fall between them
            matches = self._error_lines.excerpt_between(ends.head_end, ends.tail_start, max_match_bytes)
            if not matches:
                break
            ends = self._head_and_tail(max(limits.preview_bytes - len(matches.encode()), limits.preview_bytes // 2))
        return ends.text, f"\nmatches: {matches}" if matches else ""

    def _head_and_tail(self, max_bytes: int) -> "_HeadAndTail":
        max_head_bytes = int(max_bytes * _PREVIEW_HEAD_SHARE)
        head = _complete_lines(self._head, max_head_bytes, may_be_partial=self.size > len(self._head))
        tail = _complete_lines(
            self._tail, max_bytes - max_head_bytes, from_end=True, may_be_partial=self.size > len(self._tail)
        )[::-1]
        head_end, tail_start = len(head), max(self.line_count - len(tail) + 1, len(head) + 1)
        tail = tail[len(tail) - (self.line_count - tail_start + 1) :]
        omission_lines = [f"[… lines {head_end + 1}-{tail_start - 1} left out …]"] if tail_start > head_end + 1 else []
        return _HeadAndTail(
            "\n".join([*_collapse_routine(head), *omission_lines, *_collapse_routine(tail)]), head_end, tail_start
        )

    def _ends_by_bytes(self, max_bytes: int) -> str:
        """Return the start and end of an output that has hardly any line breaks."""
        max_head_bytes = int(max_bytes * _PREVIEW_HEAD_SHARE)
        max_tail_bytes = max_bytes - max_head_bytes
        head, tail = bytes(self._head[:max_head_bytes]), self._tail[-max_tail_bytes:]
        note = f"[… bytes {len(head)}-{self.size - len(tail)} left out …]"
        return f"{_plain_text(head)}\n{note}\n{_plain_text(tail)}"


def _collapse_routine(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, but replace the middle of a long run of routine or similar lines with a note."""
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and (
            normalise_name_numbers(lines[end]) == normalise_name_numbers(lines[end - 1])
            or (is_routine_line(lines[start]) and is_routine_line(lines[end]))
        ):
            end += 1
        if end - start > _MAX_ROUTINE_LINES:
            yield lines[start]
            yield f"[… {end - start - 4} more like these …]"
            start = end - 3
        yield from lines[start:end]
        start = end


@dataclass(frozen=True, slots=True)
class _HeadAndTail:
    text: str
    head_end: int
    """Number of the last line shown at the start."""
    tail_start: int
    """Number of the first line shown at the end."""


def _complete_lines(
    data: bytes | bytearray, max_bytes: int, *, from_end: bool = False, may_be_partial: bool
) -> list[str]:
    """Return as many lines as fit into `max_bytes`, but at least one. With `from_end`, take them from the end, last
    line first. Long lines are shortened. `may_be_partial`: skip the line at the far end of the data, which may be
    incomplete."""
    lines = bytes(data).removesuffix(b"\n").split(b"\n") if from_end else bytes(data).split(b"\n")
    if not from_end and (may_be_partial or not lines[-1]) and len(lines) > 1:
        lines.pop()
    if from_end and may_be_partial and len(lines) > 1:
        lines.pop(0)
    fitting_lines = list[str]()
    for line in reversed(lines) if from_end else lines:
        text = truncate(_plain_text(line), _MAX_LINE_CHARS)
        max_bytes -= len(text.encode()) + 1
        if max_bytes < 0 and fitting_lines:
            break
        fitting_lines.append(text)
    return fitting_lines


def _plain_text(data: bytes | bytearray) -> str:
    return terminal_text(data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The visible part of an output that is stored elsewhere."""

    text: str
    inserted: Ranges
    """Same as `ToolOutput.inserted`."""


def stored_excerpt(tool: str, ref: str, size: int, lines: int, excerpt: str, matches: str = "") -> Excerpt:
    """Build the visible form of a stored output: its size, the excerpt, the error lines, and how to read the rest."""
    heading = f'[Tool result stored — {pluralize(size, "byte")}, {pluralize(lines, "line")} from "{tool}".\n'
    end = len(heading) + len(excerpt)
    text = f"{heading}{excerpt}{matches}]\n{read_hint(ref)}"
    ranges = (0, len(heading)), (end, end + len(matches)), (end + len(matches), len(text))
    return Excerpt(text, tuple((start, end) for start, end in ranges if start < end))


def build_preview(text: str, limits: OffloadLimits = OffloadLimits()) -> tuple[str, int, int]:  # noqa: B008  # a frozen value
    """Build a preview of `text`. Also return the text's size in bytes and its number of lines."""
    collected = StreamedPreview()
    collected.add_chunk(text.encode("utf-8", "surrogatepass"))
    return collected.preview(limits), collected.size, collected.line_count


def read_hint(ref: str) -> str:
    return f'Use the "read_result" tool with ref_id="{ref}" to read specific portions.'


def truncated_excerpt(preview: StreamedPreview, ref: str | None, limits: OffloadLimits) -> Excerpt:
    """Return the start and end of an output, up to the size limit for full outputs, with a note that says where the
    rest is stored."""
    larger_limits = OffloadLimits(preview_bytes=limits.max_output_bytes)
    note = f'cut; `read_result` with ref_id="{ref}" shows all of it' if ref else "cut; the rest could not be kept"
    ends, matches = preview.excerpt_and_error_lines(larger_limits)
    text = f"{ends}{matches}\n[{pluralize(preview.size, 'byte')}, {pluralize(preview.line_count, 'line')}, {note}]"
    return Excerpt(text, ((len(ends), len(text)),))

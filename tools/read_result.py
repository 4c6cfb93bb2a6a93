"""The `read_result` tool: reads part of a stored output."""

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ebbtide.tools import search
from ebbtide.tools.base import Arguments, Effect, ImageData, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.image_types import IMAGE_TYPES, MAX_IMAGE_BYTES
from ebbtide.tools.grep import normalise_pattern
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.cap import MAX_ANSWER_BYTES, RESERVED_NOTE_BYTES, Cap
from ebbtide.tools.outputs.extent import Extent, join_limited, pluralize
from ebbtide.tools.outputs.plain_text import MAX_LINE_CHARS, is_mostly_binary, terminal_text
from ebbtide.tools.outputs.stored_content import Content, StoredContent
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, text_argument

if TYPE_CHECKING:  # for type checking only: imported in `matching_lines` when needed
    from ebbtide.tools.search.output_search import FilteredLine, FilterResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContinuationHint:
    """How the model can continue reading, expressed in arguments of the tool that it called."""

    pattern: str = "pattern"
    """Name of the tool's argument for a search pattern."""
    parts_in_reference: Literal["nothing", "bytes", "all"] = "nothing"
    """Which ranges must be part of the reference because the tool has no arguments for them: none (`nothing`), byte
    ranges (`bytes`), or line ranges too (`all`)."""

    def at_offset(self, stored_content: StoredContent, offset: int) -> str:
        """Return the arguments for a call that reads on from a byte offset."""
        return (
            f"offset={offset}"
            if self.parts_in_reference == "nothing"
            else f'ref_id="{_base_reference(stored_content)}:B{offset}-"'
        )

    def at_lines(self, stored_content: StoredContent, first: int, last: int) -> str:
        """Return the arguments for a call that reads a range of lines."""
        return (
            f'ref_id="{_base_reference(stored_content)}:L{first}-{last}"'
            if self.parts_in_reference == "all"
            else f'lines="{first}-{last}"'
        )


def _base_reference(stored_content: StoredContent) -> str:
    """Return the reference to the whole output, without the suffix for a part."""
    return _PART_SUFFIX.sub("", stored_content.ref)


_PART_SUFFIX = regex(r":(?:L\d+-\d*|B\d+-\d*|match-\d+)$")
"""Matches the suffix of a reference to a part."""
READ_RESULT_HINT = ContinuationHint()
"""How to continue with `read_result`."""
_DEFAULT_CAP = Cap()
_MIN_LINE_BYTES = 16
"""Lines are never truncated to fewer bytes than this."""
DEFAULT_LIMIT_BYTES = 4096
MAX_CONTEXT_LINES = 50
"""Maximum number of context lines."""
MAX_LISTED_IMAGES = 5
"""Maximum number of images listed."""
MAX_SEARCHED_BYTES = 1 << 20
"""A long line is searched in pieces of this size, in bytes. Only the first match in each piece is shown."""
MAX_HEX_BYTES = 1024
"""Maximum number of bytes shown if data is not text."""
HEXADECIMAL_NOTE = "(not text; shown in hexadecimal)"
ESCAPED_NOTE = "(not entirely text: `\\xff` stands for a byte, `\\\\` for a backslash)"
"""First line of an answer whose content is not entirely text."""


def _subject(arguments: Arguments) -> str:
    selection = text_argument(arguments, "pattern") or text_argument(arguments, "lines")
    return f"{text_argument(arguments, 'ref_id')}  {selection}".rstrip()


class ReadResult:
    name = "read_result"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="recall_output",
        output_limit="whole",
        acp_kind="read",
        get_subject=_subject,
        lookup_words=("looked up", "stored output"),
        clamped_arguments=("offset", "limit"),
        small_window_policy="always",
        short_form=ShortForm(
            'A stored output: `lines` "10-50", or what matches `pattern`.', ("ref_id", "lines", "pattern")
        ),
        is_for_read_only_agents=True,
    )
    schema = object_schema(
        {
            "ref_id": {"type": "string"},
            "lines": {"type": "string"},
            "offset": {"type": "integer", "minimum": 0},
            "limit": {"type": "integer", "minimum": 1},
            "pattern": {"type": "string"},
            "before": {"type": "integer"},
            "after": {"type": "integer"},
        },
        required=("ref_id",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        line_range = parse_line_range(get_text(arguments, "lines", ""))
        if line_range and ("offset" in arguments or "limit" in arguments):
            raise ToolError(
                "`lines` cannot be combined with `offset` and `limit`, which count bytes: give one or the other"
            )
        stored = await workspace.get_stored_content(get_text(arguments, "ref_id"))
        with closing(stored.content):
            return with_attachments_listed(await _requested_part(stored, arguments, line_range), stored)


async def _requested_part(
    stored_content: StoredContent, arguments: Arguments, line_range: tuple[int, int] | None
) -> Result:
    if "pattern" in arguments:
        start = get_number(arguments, "offset", -1)
        return await build_matching_lines_result(
            stored_content,
            get_text(arguments, "pattern"),
            context_line_counts(arguments),
            line_range,
            start=start if start > 0 else None,
        )
    if stored_content.media_type in IMAGE_TYPES:
        return await run_shielded(lambda: build_image_result(stored_content))
    if not (
        line_range or stored_content.media_type.startswith("text/") or "offset" in arguments or "limit" in arguments
    ):
        return await run_shielded(lambda: binary_summary(stored_content))
    if line_range or (stored_content.line_range and "offset" not in arguments and "limit" not in arguments):
        first, last = line_range or stored_content.line_range or (1, 1)
        return await run_shielded(lambda: build_numbered_lines_result(stored_content, first, last))
    start, end = stored_content.byte_range or (0, DEFAULT_LIMIT_BYTES)
    offset = get_number(arguments, "offset", start)
    limit = get_number(arguments, "limit", DEFAULT_LIMIT_BYTES if "offset" in arguments else end - start)
    return await run_shielded(lambda: build_byte_range_result(stored_content, offset, limit))


def with_attachments_listed(result: Result, stored_content: StoredContent) -> Result:
    """Add the output's note, which is not part of its text, and references to its images."""
    if stored_content.trailing_note:
        result = replace(result, text=f"{result.text}\n{stored_content.trailing_note}")
    if not stored_content.image_refs:
        return result
    names = join_limited(stored_content.image_refs, MAX_LISTED_IMAGES)
    return replace(result, text=f"{result.text}\n(with images: {names})")


async def run_shielded(work: Callable[[], T]) -> T:
    """Run `work` in a thread. If the caller is cancelled, wait for `work` to finish before raising, so that nothing it
    uses is closed too early."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def parse_line_range(range_text: str) -> tuple[int, int] | None:
    """Parse a range of lines, counted from 1. The last line may be omitted. None for an empty string. Raises
    `ToolError`."""
    if not range_text:
        return None
    match = re.fullmatch(r"\s*L?(\d{1,18})\s*(?:(-)\s*L?(\d{1,18})?)?\s*", range_text)
    if match is None or int(match[1]) < 1:
        raise ToolError('`lines` must be written as "10-50", counted from 1')
    first = int(match[1])
    last = int(match[3]) if match[3] else 10**18 if match[2] else first
    if last < first:
        raise ToolError(f'`lines` ends before it begins: write "{last}-{first}"')
    return first, last


def context_line_counts(arguments: Arguments) -> tuple[int, int]:
    """Return the number of context lines before and after each match."""
    before, after = (min(max(get_number(arguments, name, 0), 0), MAX_CONTEXT_LINES) for name in ("before", "after"))
    return before, after


def build_numbered_lines_result(
    stored_content: StoredContent,
    first: int,
    last: int,
    cap: Cap = _DEFAULT_CAP,
    hint: ContinuationHint = READ_RESULT_HINT,
) -> Result:
    """Number the lines: as many as fit, but at least one. If the lines are already numbered, those numbers are used to
    select and show them."""
    content, preceding_count = stored_content.content, (stored_content.first_line or 1) - 1
    first, last = _clamp_lines(stored_content, first, last)
    starts, used_bytes, numbered_texts = [content.line_start(first - preceding_count)], 0, list[str]()
    while first + len(numbered_texts) <= last and (used_bytes < cap.max_bytes or not numbered_texts):
        end = content.line_end(starts[-1])
        numbered_texts.append(_numbered_line(stored_content, first + len(numbered_texts), starts[-1], end, hint))
        used_bytes += len(numbered_texts[-1].encode("utf-8", "replace")) + 1
        starts.append(end + 1)
    del numbered_texts[max(cap.count_fitting_lines(numbered_texts), 1) :]
    width = MAX_LINE_CHARS
    while len(numbered_texts) == 1 and width > _MIN_LINE_BYTES and not cap.fits(numbered_texts[0]):
        width //= 2
        numbered_texts = [_numbered_line(stored_content, first, starts[0], starts[1] - 1, hint, width)]
    next_line = first + len(numbered_texts)
    total_text = (
        f"{stored_content.last_line:,}"
        if stored_content.first_line is None
        else f"{stored_content.first_line}-{stored_content.last_line}"
    )
    if next_line > stored_content.last_line and stored_content.unnumbered_lines:
        start = content.line_start(content.lines - stored_content.unnumbered_lines + 1)
        numbered_texts.append(_visible_line(stored_content, start, content.size, RESERVED_NOTE_BYTES, hint))
    position_note = f"lines {first}-{next_line - 1} of {total_text}"
    if next_line <= last:
        position_note += f"; continue at {hint.at_lines(stored_content, next_line, last)}"
    extent = Extent("lines", next_line - first, last - first + 1, first)
    return Result(
        "\n".join([*numbered_texts, f"({position_note})"]) if content.size else f"`{stored_content.ref}` is empty",
        extent=extent,
    )


def referenced_range(stored_content: StoredContent) -> tuple[int, int]:
    """Return the start and end offset of the lines or bytes that a reference specifies. If it specifies none, this is
    the full content. Raises `ToolError` if they are out of range."""
    content = stored_content.content
    if stored_content.byte_range is not None:
        start, end = stored_content.byte_range
        _check_offset(stored_content, start)
        return start, min(end, content.size)
    if stored_content.line_range is None:
        return 0, content.size
    preceding_count = (stored_content.first_line or 1) - 1
    first, last = _clamp_lines(stored_content, *stored_content.line_range)
    return content.line_start(first - preceding_count), content.line_start(last + 1 - preceding_count)


def _clamp_lines(stored_content: StoredContent, first: int, last: int) -> tuple[int, int]:
    """Limit the requested lines to those that exist. If lines are already numbered, the request refers to those
    numbers. Raises `ToolError` if none of them exists."""
    preceding_count = (stored_content.first_line or 1) - 1
    line_count = stored_content.last_line - preceding_count
    if last <= preceding_count:
        raise ToolError(f"`{stored_content.ref}` {_line_extent_text(stored_content)}: {last} is before its beginning")
    if first > max(line_count, 1) + preceding_count:
        raise ToolError(f"`{stored_content.ref}` {_line_extent_text(stored_content)}: {first} is beyond its end")
    return max(first, preceding_count + 1), min(last, line_count + preceding_count)


def _check_offset(stored_content: StoredContent, offset: int) -> None:
    size = stored_content.content.size
    if offset >= size and size:
        raise ToolError(f"`{stored_content.ref}` has {pluralize(size, 'byte')}: offset={offset} is beyond its end")


def _line_extent_text(stored_content: StoredContent) -> str:
    line_count, first_line = stored_content.last_line - (stored_content.first_line or 1) + 1, stored_content.first_line
    if first_line is None:
        return f"has {pluralize(line_count, 'line')}"
    return f"has lines {first_line}-{first_line + line_count - 1}" if line_count > 1 else f"has only line {first_line}"


def _numbered_line(
    stored_content: StoredContent,
    number: int,
    start: int,
    end: int,
    hint: ContinuationHint,
    width: int = MAX_LINE_CHARS,
) -> str:
    line = _visible_line(stored_content, start, end, width, hint)
    return f"{number}\t{line}" if stored_content.first_line is None else line


def _visible_line(stored_content: StoredContent, start: int, end: int, width: int, hint: ContinuationHint) -> str:
    if end - start <= width:
        return terminal_text(stored_content.content.read(start, end - start).decode("utf-8", "replace"))
    data = stored_content.content.read(start, width)
    decoded = data.decode("utf-8", "ignore")
    next_offset = start + (len(decoded.encode()) if data.startswith(decoded.encode()) else len(data))
    continuation = hint.at_offset(stored_content, next_offset)
    return f"{terminal_text(decoded)}… [cut: {end - start:,} bytes; continue at {continuation}]"


def build_byte_range_result(
    stored_content: StoredContent,
    offset: int,
    limit: int,
    cap: Cap = _DEFAULT_CAP,
    hint: ContinuationHint = READ_RESULT_HINT,
) -> Result:
    """Return up to `limit` bytes from `offset` on: as many as fit, but at least a few."""
    content = stored_content.content
    _check_offset(stored_content, offset)
    data = content.read(offset, min(limit, MAX_ANSWER_BYTES - RESERVED_NOTE_BYTES))
    while True:
        content_text, used_bytes = unambiguous_text(data, is_at_end=offset + len(data) >= content.size)
        if cap.fits(content_text) or len(data) <= _MIN_LINE_BYTES:
            break
        data = data[: max(len(data) // 2, _MIN_LINE_BYTES)]
    end = offset + used_bytes
    position_note = f"bytes {offset}-{end} of {content.size:,}"
    if end < content.size:
        position_note += f"; continue at {hint.at_offset(stored_content, end)}"
    shows_all = end >= min(offset + limit, content.size)
    extent = None if shows_all else Extent("lines", content_text.count("\n") + 1)
    return Result(
        f"{content_text}\n({position_note})" if content.size else f"`{stored_content.ref}` is empty", extent=extent
    )


def unambiguous_text(data: bytes, *, is_at_end: bool) -> tuple[str, int]:
    r"""Show bytes as unambiguous text. Also return the number of bytes shown.

    Text is unchanged, except that an incomplete character at its end is omitted. Other bytes are shown in hexadecimal,
    or as `\xff` if there are only a few in otherwise readable text. The first line then says so.
    """
    for omitted_bytes in range(1 if is_at_end else min(4, len(data))):
        try:
            decoded = data[: len(data) - omitted_bytes].decode("utf-8")
        except UnicodeDecodeError:
            continue
        if _is_text(decoded) and not decoded.startswith((ESCAPED_NOTE, HEXADECIMAL_NOTE)):
            return decoded, len(data) - omitted_bytes
        break
    if _is_text(data.decode("utf-8", "replace")):
        data = data[: MAX_ANSWER_BYTES // 5]
        escaped = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
        return f"{ESCAPED_NOTE}\n{escaped}", len(data)
    data = data[:MAX_HEX_BYTES]
    rows = [data[offset : offset + 16].hex(" ") for offset in range(0, len(data), 16)]
    return "\n".join([HEXADECIMAL_NOTE, *rows]), len(data)


def _is_text(decoded: str) -> bool:
    return "\0" not in decoded and not is_mostly_binary(decoded)


async def build_matching_lines_result(
    stored_content: StoredContent,
    pattern: str,
    context: tuple[int, int],
    line_range: tuple[int, int] | None,
    cap: Cap = _DEFAULT_CAP,
    start: int | None = None,
    hint: ContinuationHint = READ_RESULT_HINT,
) -> Result:
    """Return as many matching lines as fit, with their context.

    `start`: the byte offset at which the search begins; by default, the beginning of the range in the reference.
    """
    content, preceding_count = stored_content.content, (stored_content.first_line or 1) - 1
    first, last = line_range or stored_content.line_range or (1, 10**18)
    last = min(last, stored_content.last_line)
    if start is None and line_range is None and stored_content.byte_range is not None:
        start = stored_content.byte_range[0] or None
    searched_lines = max(first - preceding_count, 1), last - preceding_count
    if start is not None:
        _check_offset(stored_content, start)
        searched_lines = _line_number_at(content, start), last - preceding_count
    filter_result = await search.output_search.filter_lines(
        content,
        normalise_pattern(pattern),
        *context,
        searched_lines,
        max(cap.max_bytes - RESERVED_NOTE_BYTES, 1),
        start=start,
        has_line_numbers=stored_content.first_line is not None,
    )
    entries = list(_render_lines(filter_result.lines, preceding_count, with_gaps=any(context)))
    fitting_count = max(cap.count_fitting_lines([text for _, text in entries]), min(len(entries), 1))
    visible = [text for _, text in entries[:fitting_count]]
    if fitting_count == 1:
        visible = [cap.truncate(visible[0])]
    if fitting_count < len(entries):
        visible.append(
            _continuation_note(
                stored_content,
                entries[fitting_count - 1][0],
                entries[fitting_count][0].line_number,
                preceding_count,
                hint,
            )
        )
    elif filter_result.ending == "timed_out":
        search_start = content.line_start(searched_lines[0]) if start is None else start
        visible.append(
            _interrupted_note(
                stored_content,
                filter_result,
                search_start,
                preceding_count,
                f"stopped after {search.output_search.SEARCH_TIMEOUT_S:.0f} s",
                hint,
            )
        )
    elif filter_result.ending == "stopped_early":
        visible.append(
            _continuation_note(stored_content, entries[-1][0], entries[-1][0].line_number + 1, preceding_count, hint)
        )
    shows_all = fitting_count == len(entries) and filter_result.ending == "complete"
    extent = Extent("lines", fitting_count, fitting_count if shows_all else None)
    return Result("\n".join(visible) or "no lines match", extent=extent)


def _line_number_at(content: Content, offset: int) -> int:
    """Return the number, counted from 1, of the line that contains a byte."""
    return max(bisect_right(range(1, content.lines + 1), offset, key=content.line_start), 1)


def _continuation_note(
    stored_content: StoredContent,
    last_line: "FilteredLine",
    next_number: int,
    preceding_count: int,
    hint: ContinuationHint,
) -> str:
    """Build a note on how to continue. If the last line is too long to be searched in one piece, the note continues
    within that line."""
    content = stored_content.content
    next_offset = (
        content.line_start(last_line.line_number)
        + last_line.cut_offset
        + len(last_line.text.encode("utf-8", "replace"))
    )
    if (
        last_line.cut_offset >= 0
        and next_number <= last_line.line_number + 1
        and content.line_end(next_offset) - next_offset > MAX_SEARCHED_BYTES
    ):
        return (
            f"(there is more; continue at {hint.at_offset(stored_content, next_offset)} with the same {hint.pattern})"
        )
    return f'(there is more; continue at lines="{next_number + preceding_count}-" with the same {hint.pattern})'


def _interrupted_note(
    stored_content: StoredContent,
    filter_result: "FilterResult",
    search_start: int,
    preceding_count: int,
    reason: str,
    hint: ContinuationHint,
) -> str:
    """Build a note on how far a stopped search got and how to continue. `reason`: why it was stopped, worded as the
    beginning of the note."""
    content = stored_content.content
    searched_end = min(search_start + filter_result.searched_bytes, content.size)
    progress_text = (
        f"{reason} at line {filter_result.next_line + preceding_count:,} of {content.lines + preceding_count:,}, byte "
        f"{searched_end:,} of {content.size:,}; "
    )
    line_start = content.line_start(filter_result.next_line)
    if line_start > search_start:
        next_line = filter_result.next_line + preceding_count
        return f'({progress_text}continue at lines="{next_line}-" with the same {hint.pattern})'
    if filter_result.searched_bytes:
        return (
            f"({progress_text}continue at {hint.at_offset(stored_content, searched_end)} with the same {hint.pattern})"
        )
    return f"({progress_text}so lines may be missing: use a simpler `{hint.pattern}` or other `lines`)"


def _render_lines(
    hits: Sequence["FilteredLine"], preceding_count: int, *, with_gaps: bool
) -> Iterator[tuple["FilteredLine", str]]:
    """Yield each line found, with the text shown for it."""
    previous = 0
    for hit in hits:
        number = hit.line_number + preceding_count
        if with_gaps and previous and number > previous + 1:
            yield hit, "--"
        position_text = f"[byte {hit.cut_offset:,} of the line] " if hit.cut_offset >= 0 else ""
        yield hit, f"{number}{':' if hit.is_match else '-'}{position_text}{terminal_text(hit.text)}"
        previous = number


def build_image_result(stored_content: StoredContent) -> Result:
    content = stored_content.content
    description = f"image, {stored_content.media_type}, {pluralize(content.size, 'byte')}"
    if content.size > MAX_IMAGE_BYTES:
        raise ToolError(
            f"`{stored_content.ref}` is a {description}, more than 3.9 MB: scale the file down and read that"
        )
    return Result(description, images=(ImageData(stored_content.media_type, content.read(0, content.size)),))


def binary_summary(stored_content: StoredContent, hint: ContinuationHint = READ_RESULT_HINT) -> Result:
    """Describe binary data: its type and size, how the user can save it, and its first bytes."""
    description = f"{stored_content.media_type}, {pluralize(stored_content.content.size, 'byte')}, no text"
    save_advice = f"the user can save it with `ebb sessions show ID {stored_content.ref} > FILE`"
    start = stored_content.byte_range[0] if stored_content.byte_range else 0
    return Result(
        f"{description}; {save_advice}\n{build_byte_range_result(stored_content, start, MAX_HEX_BYTES, hint=hint).text}"
    )

"""The `read_result` tool: reads part of a stored output."""

import asyncio
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ebbtide.tools.base import Arguments, Effect, Picture, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, PICTURE_TYPES
from ebbtide.tools.grep import check_pattern
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.cap import MAX_ANSWER_BYTES, NOTE_BYTES, Cap
from ebbtide.tools.outputs.extent import Extent, join_limited, pluralize
from ebbtide.tools.outputs.plain_text import MAX_LINE_CHARS, is_mostly_noise, plain
from ebbtide.tools.outputs.stored import Content, StoredContent
from ebbtide.tools.schema import number, object_of, text

if TYPE_CHECKING:  # a type only: see `matches`
    from ebbtide.tools.search.outputs import FilteredLine, FilterResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Onward:
    """How to tell the model to continue, in the arguments of the tool it uses."""

    pattern: str = "pattern"
    """The tool's name for a search pattern."""
    by_reference: Literal["nothing", "bytes", "all"] = "nothing"
    """Which parts the tool takes only within the reference, having no argument for them."""

    def at(self, found: StoredContent, offset: int) -> str:
        """Return the arguments that continue at a byte offset."""
        return f"offset={offset}" if self.by_reference == "nothing" else f'ref_id="{_bare(found)}:B{offset}-"'

    def lines(self, found: StoredContent, first: int, last: int) -> str:
        """Return the arguments for a range of lines."""
        return f'ref_id="{_bare(found)}:L{first}-{last}"' if self.by_reference == "all" else f'lines="{first}-{last}"'


def _bare(found: StoredContent) -> str:
    """Return the reference to the whole output."""
    return _PLACE.sub("", found.ref)


_PLACE = regex(r":(?:L\d+-\d*|B\d+-\d*|match-\d+)$")
"""Suffix of a reference to a part."""
HERE = Onward()
"""The arguments of `read_result`."""
_WHOLE = Cap()
_NARROWEST = 16
"""Minimum number of bytes that a line is cut to."""
DEFAULT_LIMIT_BYTES = 4096
MAX_CONTEXT_LINES = 50
"""Lines."""
MAX_NAMED_PICTURES = 5
"""Maximum number of pictures listed."""
MAX_SEARCHED_BYTES = 1 << 20
"""Bytes of a line that are searched at once. Only the first match of each piece is shown."""
HEX = 1024
"""Bytes shown at once if they are not text."""
HEXADECIMAL_NOTE = "(not text; as hexadecimal numbers)"
ESCAPED_NOTE = "(not all of it is text: `\\xff` stands for a byte, `\\\\` for a backslash)"
"""First line of output that is not, or not entirely, text."""


class ReadResult:
    name = "read_result"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
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
        wanted = lines_of(text(arguments, "lines", ""))
        if wanted and ("offset" in arguments or "limit" in arguments):
            raise ToolError(
                "`lines` cannot be combined with `offset` and `limit`, which count bytes: give one or the other"
            )
        found = await workspace.stored_content(text(arguments, "ref_id"))
        with closing(found.content):
            return with_pictures_named(await _requested_part(found, arguments, wanted), found)


async def _requested_part(found: StoredContent, arguments: Arguments, wanted: tuple[int, int] | None) -> Result:
    if "pattern" in arguments:
        start = number(arguments, "offset", -1)
        return await matches(
            found, text(arguments, "pattern"), lines_around(arguments), wanted, start=start if start > 0 else None
        )
    if found.media_type in PICTURE_TYPES:
        return await run_shielded(lambda: picture_of(found))
    if not (wanted or found.media_type.startswith("text/") or "offset" in arguments or "limit" in arguments):
        return await run_shielded(lambda: medium_of(found))
    if wanted or (found.lines and "offset" not in arguments and "limit" not in arguments):
        first, last = wanted or found.lines or (1, 1)
        return await run_shielded(lambda: numbered_lines(found, first, last))
    start, end = found.span or (0, DEFAULT_LIMIT_BYTES)
    offset = number(arguments, "offset", start)
    limit = number(arguments, "limit", DEFAULT_LIMIT_BYTES if "offset" in arguments else end - start)
    return await run_shielded(lambda: byte_range(found, offset, limit))


def with_pictures_named(result: Result, found: StoredContent) -> Result:
    """Add what goes with the output but is not part of its text, and where to find its pictures."""
    if found.frame:
        result = replace(result, text=f"{result.text}\n{found.frame}")
    if not found.attachments:
        return result
    shown = join_limited(found.attachments, MAX_NAMED_PICTURES)
    return replace(result, text=f"{result.text}\n(pictures came with it: {shown})")


async def run_shielded(work: Callable[[], T]) -> T:
    """Run the work in a thread. A cancelled caller still waits for it, so that nothing it uses is closed early."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def lines_of(wanted: str) -> tuple[int, int] | None:
    """Return the first and last line, counted from 1. The last may be omitted."""
    if not wanted:
        return None
    match = re.fullmatch(r"\s*L?(\d{1,18})\s*(?:(-)\s*L?(\d{1,18})?)?\s*", wanted)
    if match is None or int(match[1]) < 1:
        raise ToolError('`lines` is written "10-50", counted from 1')
    first = int(match[1])
    last = int(match[3]) if match[3] else 10**18 if match[2] else first
    if last < first:
        raise ToolError(f'`lines` ends before it begins: write "{last}-{first}"')
    return first, last


def lines_around(arguments: Arguments) -> tuple[int, int]:
    """Return the number of context lines before and after each match."""
    before, after = (min(max(number(arguments, name, 0), 0), MAX_CONTEXT_LINES) for name in ("before", "after"))
    return before, after


def numbered_lines(found: StoredContent, first: int, last: int, cap: Cap = _WHOLE, onward: Onward = HERE) -> Result:
    """Return numbered lines, as many as fit but at least one. Lines with numbers of their own are selected and shown by
    those."""
    content, before = found.content, (found.first or 1) - 1
    first, last = _within(found, first, last)
    starts, size, shown = [content.line_start(first - before)], 0, list[str]()
    while first + len(shown) <= last and (size < cap.size or not shown):
        end = content.line_end(starts[-1])
        shown.append(_numbered_line(found, first + len(shown), starts[-1], end, onward))
        size += len(shown[-1].encode("utf-8", "replace")) + 1
        starts.append(end + 1)
    del shown[max(cap.fitting(shown), 1) :]
    width = MAX_LINE_CHARS
    while len(shown) == 1 and width > _NARROWEST and not cap.holds(shown[0]):
        width //= 2
        shown = [_numbered_line(found, first, starts[0], starts[1] - 1, onward, width)]
    next_line = first + len(shown)
    among = f"{found.last:,}" if found.first is None else f"{found.first}-{found.last}"
    if next_line > found.last and found.unnumbered:
        start = content.line_start(content.lines - found.unnumbered + 1)
        shown.append(_line(found, start, content.size, NOTE_BYTES, onward))
    where = f"lines {first}-{next_line - 1} of {among}"
    if next_line <= last:
        where += f"; continue at {onward.lines(found, next_line, last)}"
    extent = Extent("lines", next_line - first, last - first + 1, first)
    return Result("\n".join([*shown, f"({where})"]) if content.size else f"`{found.ref}` is empty", extent=extent)


def part_of(found: StoredContent) -> tuple[int, int]:
    """Return start and end offsets of the lines or bytes that a reference names, or of everything. Raises `ToolError`
    if out of range."""
    content = found.content
    if found.span is not None:
        start, end = found.span
        _within_bytes(found, start)
        return start, min(end, content.size)
    if found.lines is None:
        return 0, content.size
    before = (found.first or 1) - 1
    first, last = _within(found, *found.lines)
    return content.line_start(first - before), content.line_start(last + 1 - before)


def _within(found: StoredContent, first: int, last: int) -> tuple[int, int]:
    """Clip the requested lines to those that exist, using the lines' own numbers. Raises `ToolError`."""
    before = (found.first or 1) - 1
    lines = found.last - before
    if last <= before:
        raise ToolError(f"`{found.ref}` {_holds(found)}: {last} is before its beginning")
    if first > max(lines, 1) + before:
        raise ToolError(f"`{found.ref}` {_holds(found)}: {first} is beyond its end")
    return max(first, before + 1), min(last, lines + before)


def _within_bytes(found: StoredContent, offset: int) -> None:
    size = found.content.size
    if offset >= size and size:
        raise ToolError(f"`{found.ref}` has {pluralize(size, 'byte')}: offset={offset} is beyond its end")


def _holds(found: StoredContent) -> str:
    lines, first = found.last - (found.first or 1) + 1, found.first
    if first is None:
        return f"has {pluralize(lines, 'line')}"
    return f"has lines {first}-{first + lines - 1}" if lines > 1 else f"has only line {first}"


def _numbered_line(
    found: StoredContent, number: int, start: int, end: int, onward: Onward, width: int = MAX_LINE_CHARS
) -> str:
    line = _line(found, start, end, width, onward)
    return f"{number}\t{line}" if found.first is None else line


def _line(found: StoredContent, start: int, end: int, width: int, onward: Onward) -> str:
    if end - start <= width:
        return plain(found.content.read(start, end - start).decode("utf-8", "replace"))
    data = found.content.read(start, width)
    decoded = data.decode("utf-8", "ignore")
    behind = start + (len(decoded.encode()) if data.startswith(decoded.encode()) else len(data))
    return f"{plain(decoded)}… [cut: {end - start:,} bytes; continue at {onward.at(found, behind)}]"


def byte_range(found: StoredContent, offset: int, limit: int, cap: Cap = _WHOLE, onward: Onward = HERE) -> Result:
    """Return up to `limit` bytes from an offset, as many as fit but at least some."""
    content = found.content
    _within_bytes(found, offset)
    data = content.read(offset, min(limit, MAX_ANSWER_BYTES - NOTE_BYTES))
    while True:
        shown, taken = exact(data, is_end=offset + len(data) >= content.size)
        if cap.holds(shown) or len(data) <= _NARROWEST:
            break
        data = data[: max(len(data) // 2, _NARROWEST)]
    end = offset + taken
    where = f"bytes {offset}-{end} of {content.size:,}"
    if end < content.size:
        where += f"; continue at {onward.at(found, end)}"
    is_all = end >= min(offset + limit, content.size)
    extent = None if is_all else Extent("lines", shown.count("\n") + 1)
    return Result(f"{shown}\n({where})" if content.size else f"`{found.ref}` is empty", extent=extent)


def exact(data: bytes, *, is_end: bool) -> tuple[str, int]:
    r"""Return the bytes as unambiguous text, and the number of bytes shown.

    Text is unchanged, without an incomplete character at its end. Other bytes are shown in hexadecimal, or as `\xff` if
    there are few among text; a first line says so.
    """
    for cut in range(1 if is_end else min(4, len(data))):
        try:
            decoded = data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        if _is_text(decoded) and not decoded.startswith((ESCAPED_NOTE, HEXADECIMAL_NOTE)):
            return decoded, len(data) - cut
        break
    if _is_text(data.decode("utf-8", "replace")):
        data = data[: MAX_ANSWER_BYTES // 5]
        shown = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
        return f"{ESCAPED_NOTE}\n{shown}", len(data)
    data = data[:HEX]
    rows = [data[at : at + 16].hex(" ") for at in range(0, len(data), 16)]
    return "\n".join([HEXADECIMAL_NOTE, *rows]), len(data)


def _is_text(decoded: str) -> bool:
    return "\0" not in decoded and not is_mostly_noise(decoded)


async def matches(
    found: StoredContent,
    pattern: str,
    around: tuple[int, int],
    wanted: tuple[int, int] | None,
    cap: Cap = _WHOLE,
    start: int | None = None,
    onward: Onward = HERE,
) -> Result:
    """Return the matching lines with their context, as many as fit.

    `start`: byte at which the search begins, if not at the beginning of the range that the reference names.
    """
    from ebbtide.tools.search.outputs import SEARCH_TIMEOUT_S, filter_lines  # noqa: PLC0415  # deferred: rare

    content, before = found.content, (found.first or 1) - 1
    first, last = wanted or found.lines or (1, 10**18)
    last = min(last, found.last)
    if start is None and wanted is None and found.span is not None:
        start = found.span[0] or None
    lines = max(first - before, 1), last - before
    if start is not None:
        _within_bytes(found, start)
        lines = _line_at(content, start), last - before
    sifted = await filter_lines(
        content,
        check_pattern(pattern),
        *around,
        lines,
        max(cap.size - NOTE_BYTES, 1),
        start=start,
        numbered=found.first is not None,
    )
    entries = list(_entries(sifted.hits, before, with_gaps=any(around)))
    fitting = max(cap.fitting([text for _, text in entries]), min(len(entries), 1))
    shown = [text for _, text in entries[:fitting]]
    if fitting == 1:
        shown = [cap.truncate(shown[0])]
    if fitting < len(entries):
        shown.append(_continuation_note(found, entries[fitting - 1][0], entries[fitting][0].number, before, onward))
    elif sifted.ending == "late":
        began = content.line_start(lines[0]) if start is None else start
        shown.append(_late(found, sifted, began, before, f"stopped after {SEARCH_TIMEOUT_S:.0f} s", onward))
    elif sifted.ending == "enough":
        shown.append(_continuation_note(found, entries[-1][0], entries[-1][0].number + 1, before, onward))
    is_all = fitting == len(entries) and sifted.ending == "complete"
    extent = Extent("lines", fitting, fitting if is_all else None)
    return Result("\n".join(shown) or "no lines match", extent=extent)


def _line_at(content: Content, offset: int) -> int:
    """Return the number of the line that contains a byte, counted from 1."""
    return max(bisect_right(range(1, content.lines + 1), offset, key=content.line_start), 1)


def _continuation_note(found: StoredContent, last: "FilteredLine", following: int, before: int, onward: Onward) -> str:
    """Return how to continue: in the same line if it is too long to be searched at once."""
    content = found.content
    behind = content.line_start(last.number) + last.at + len(last.text.encode("utf-8", "replace"))
    if last.at >= 0 and following <= last.number + 1 and content.line_end(behind) - behind > MAX_SEARCHED_BYTES:
        return f"(there is more; continue at {onward.at(found, behind)} with the same {onward.pattern})"
    return f'(there is more; continue at lines="{following + before}-" with the same {onward.pattern})'


def _late(found: StoredContent, sifted: "FilterResult", began: int, before: int, why: str, onward: Onward) -> str:
    """Return how far a search got before it timed out, and how to continue."""
    content = found.content
    done = min(began + sifted.searched, content.size)
    where = f"{why} at line {sifted.line + before:,} of {content.lines + before:,}, byte {done:,} of {content.size:,}; "
    line_start = content.line_start(sifted.line)
    if line_start > began:
        return f'({where}continue at lines="{sifted.line + before}-" with the same {onward.pattern})'
    if sifted.searched:
        return f"({where}continue at {onward.at(found, done)} with the same {onward.pattern})"
    return f"({where}so lines may be missing: use a simpler `{onward.pattern}` or other `lines`)"


def _entries(hits: Sequence["FilteredLine"], before: int, *, with_gaps: bool) -> Iterator[tuple["FilteredLine", str]]:
    """Yield the lines found, each as it is shown."""
    previous = 0
    for hit in hits:
        number = hit.number + before
        if with_gaps and previous and number > previous + 1:
            yield hit, "--"
        place = f"[byte {hit.at:,} of the line] " if hit.at >= 0 else ""
        yield hit, f"{number}{':' if hit.is_match else '-'}{place}{plain(hit.text)}"
        previous = number


def picture_of(found: StoredContent) -> Result:
    content = found.content
    told = f"picture, {found.media_type}, {pluralize(content.size, 'byte')}"
    if content.size > MAX_PICTURE_BYTES:
        raise ToolError(f"`{found.ref}` is a {told}, more than 3.9 MB: scale the file down and read that")
    return Result(told, pictures=(Picture(found.media_type, content.read(0, content.size)),))


def medium_of(found: StoredContent, onward: Onward = HERE) -> Result:
    """Return what is known about binary data: how it begins, and how the user can save it."""
    told = f"{found.media_type}, {pluralize(found.content.size, 'byte')}, no text"
    saved = f"the user saves it with `ebb sessions show ID {found.ref} > FILE`"
    start = found.span[0] if found.span else 0
    return Result(f"{told}; {saved}\n{byte_range(found, start, HEX, onward=onward).text}")

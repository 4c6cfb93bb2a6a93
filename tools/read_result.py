"""The `read_result` tool: a part of an output that is stored apart from the view."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tools.arguments import number, text
from tools.base import Arguments, Effect, Picture, Result, ToolError, Workspace
from tools.described import description_beside
from tools.grep import checked
from tools.kept import Content, Found
from tools.pictures import LARGEST_PICTURE, PICTURE_TYPES
from tools.schema import object_of
from tools.truncate import LONGEST_LINE, is_mostly_noise, plain

T = TypeVar("T")

MOST = 51_200
"""Bytes of one answer."""
NOTES = 200
"""Bytes of that for what is said besides."""
LIMIT = 4096
MOST_AROUND = 50
"""Lines."""
MOST_NAMED = 5
"""Pictures that are named."""
HEX = 1024
"""Bytes that are shown at once when they are no text."""
HEXADECIMAL = "(not text; as hexadecimal numbers)"
ESCAPED = "(not all of it is text: `\\xff` stands for a byte, `\\\\` for a backslash)"
"""How bytes begin that are no text, or not only."""


class ReadResult:
    name = "read_result"
    description = description_beside(__file__)
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
            raise ToolError("`lines` goes without `offset` and `limit`, which count bytes: give one or the other")
        found = await workspace.kept(text(arguments, "ref_id"))
        try:
            return with_pictures_named(await _shown(found, arguments, wanted), found)
        finally:
            found.content.close()


async def _shown(found: Found, arguments: Arguments, wanted: tuple[int, int] | None) -> Result:
    if "pattern" in arguments:
        return await matches(found, text(arguments, "pattern"), lines_around(arguments), wanted)
    if found.media_type in PICTURE_TYPES:
        return await unhurried(lambda: picture_of(found))
    if not (wanted or found.media_type.startswith("text/") or "offset" in arguments or "limit" in arguments):
        return await unhurried(lambda: medium_of(found))
    if wanted or (found.lines and "offset" not in arguments and "limit" not in arguments):
        first, last = wanted or found.lines or (1, 1)
        return await unhurried(lambda: numbered_lines(found, first, last))
    start, end = found.span or (0, LIMIT)
    offset = number(arguments, "offset", start)
    limit = number(arguments, "limit", LIMIT if "offset" in arguments else end - start)
    return await unhurried(lambda: _bytes(found, offset, min(limit, MOST - NOTES)))


def with_pictures_named(result: Result, found: Found) -> Result:
    """The result with where the pictures are that came with what was found."""
    if not found.beside:
        return result
    shown = ", ".join(found.beside[:MOST_NAMED])
    more = f" and {len(found.beside) - MOST_NAMED} more" if len(found.beside) > MOST_NAMED else ""
    return replace(result, text=f"{result.text}\n(pictures came with it: {shown}{more})")


async def unhurried(work: Callable[[], T]) -> T:
    """The work done in a thread; a cancelled caller still waits for its end, so that nothing is closed under it."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def lines_of(wanted: str) -> tuple[int, int] | None:
    """First and last line, counted from 1. The last may be left out."""
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
    """How many lines before and after each match are wanted."""
    before, after = (min(max(number(arguments, name, 0), 0), MOST_AROUND) for name in ("before", "after"))
    return before, after


def numbered_lines(found: Found, first: int, last: int, most: int = MOST) -> Result:
    """The lines with their numbers, as many as fit into so many bytes, but always one."""
    content = found.content
    if first > max(content.lines, 1):
        raise ToolError(f"`{found.ref}` has {content.lines:,} lines: {first} is beyond its end")
    last = min(last, content.lines)
    at, line, size, shown = content.line_start(first), first, 0, list[str]()
    while line <= last:
        end = content.line_end(at)
        entry = f"{line}\t{_line(content, at, end)}"
        size += len(entry.encode("utf-8", "replace")) + 1
        if size > most - NOTES and shown:
            break
        shown.append(entry)
        at, line = end + 1, line + 1
    where = f"lines {first}-{line - 1} of {content.lines:,}"
    if line <= last:
        where += f'; continue at lines="{line}-{last}"'
    return Result("\n".join([*shown, f"({where})"]) if content.size else f"`{found.ref}` is empty")


def _line(content: Content, start: int, end: int) -> str:
    if end - start <= LONGEST_LINE:
        return plain(content.read(start, end - start).decode("utf-8", "replace"))
    shown = plain(content.read(start, LONGEST_LINE).decode("utf-8", "ignore"))
    return f"{shown}… [cut: {end - start:,} bytes; continue at offset={start + LONGEST_LINE}]"


def _bytes(found: Found, offset: int, limit: int) -> Result:
    content = found.content
    if offset >= content.size and content.size:
        raise ToolError(f"`{found.ref}` has {content.size:,} bytes: offset={offset} is beyond its end")
    data = content.read(offset, limit)
    shown, taken = exact(data, is_end=offset + len(data) >= content.size)
    end = offset + taken
    where = f"bytes {offset}-{end} of {content.size:,}"
    if end < content.size:
        where += f"; continue at offset={end}"
    return Result(f"{shown}\n({where})" if content.size else f"`{found.ref}` is empty")


def exact(data: bytes, *, is_end: bool) -> tuple[str, int]:
    """The bytes as text from which they can be told, and how many of them it shows. Text stands as it is, without half
    a character at its end. Other bytes stand as hexadecimal numbers, a few of them among text as `\\xff`, and a first
    line says so."""
    for cut in range(1 if is_end else min(4, len(data))):
        try:
            decoded = data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        if _is_text(decoded) and not decoded.startswith((ESCAPED, HEXADECIMAL)):
            return decoded, len(data) - cut
        break
    if _is_text(data.decode("utf-8", "replace")):
        data = data[: MOST // 5]
        shown = data.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
        return f"{ESCAPED}\n{shown}", len(data)
    data = data[:HEX]
    rows = [data[at : at + 16].hex(" ") for at in range(0, len(data), 16)]
    return "\n".join([HEXADECIMAL, *rows]), len(data)


def _is_text(decoded: str) -> bool:
    return "\0" not in decoded and not is_mostly_noise(decoded)


async def matches(
    found: Found, pattern: str, around: tuple[int, int], wanted: tuple[int, int] | None, most: int = MOST
) -> Result:
    """The lines that match, and those around them, as many as fit into so many bytes."""
    from tools.sift import SECONDS, sift  # noqa: PLC0415  # deferred: only a pattern needs it

    first, last = wanted or found.lines or (1, 10**18)
    sifted = await sift(found.content, checked(pattern), *around, (first, last), max(most - 2 * NOTES, 1))
    shown, previous = list[str](), 0
    for hit in sifted.hits:
        if previous and hit.number > previous + 1 and any(around):
            shown.append("--")
        place = f"[byte {hit.at:,} of the line] " if hit.at >= 0 else ""
        shown.append(f"{hit.number}{':' if hit.is_match else '-'}{place}{plain(hit.text)}")
        previous = hit.number
    if sifted.ending == "late":
        shown.append(f"(stopped after {SECONDS:.0f} s, so lines may be missing: take a simpler `pattern` or `lines`)")
    if sifted.ending == "enough":
        shown.append(f'(there is more; continue at lines="{previous + 1}-" with the same pattern)')
    return Result("\n".join(shown) or "no lines match")


def picture_of(found: Found) -> Result:
    content = found.content
    told = f"picture, {found.media_type}, {content.size:,} bytes"
    if content.size > LARGEST_PICTURE:
        raise ToolError(f"`{found.ref}` is a {told}, more than 5 MB: scale the file down and read that")
    return Result(told, pictures=(Picture(found.media_type, content.read(0, content.size)),))


def medium_of(found: Found) -> Result:
    """What can be said of bytes that are neither text nor a picture: how they begin, and how a person gets them."""
    told = f"{found.media_type}, {found.content.size:,} bytes, no text"
    saved = f"the user saves it with `ebb sessions show ID {found.ref} > FILE`"
    start = found.span[0] if found.span else 0
    return Result(f"{told}; {saved}\n{_bytes(found, start, HEX).text}")

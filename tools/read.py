"""The `read` tool: shows a text file with line numbers, a picture, a folder, a notebook or pages of a PDF."""

import asyncio
import codecs
import os
from dataclasses import replace
from pathlib import Path
from typing import IO

from ebbtide.tools.base import Arguments, Effect, Picture, ReadLimits, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.change import text_of
from ebbtide.tools.files.large import page_of_file
from ebbtide.tools.files.paths import display, kind_of, resolve_existing
from ebbtide.tools.files.pictures import MAX_PICTURE_BYTES, picture_type
from ebbtide.tools.files.read_write import MAX_FILE_BYTES, open_regular, read_bytes, run_exclusive
from ebbtide.tools.files.text import binary_kind, showable
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import number_lines, printable
from ebbtide.tools.schema import number, object_of, text

MAX_LINES = 2000
_PDF = b"%PDF-"


class Read:
    name = "read"
    description = read_description(__file__)
    effect: Effect = "read"
    schema = object_of(
        {
            "path": {"type": "string"},
            "offset": {"type": "integer", "minimum": 1, "description": "first line, cell or page"},
            "limit": {"type": "integer", "minimum": 1, "description": "lines, default 2000"},
            "encoding": {"type": "string"},
        },
        required=("path",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_existing(text(arguments, "path"), workspace)[0]),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        path, note = resolve_existing(text(arguments, "path"), workspace)
        result = await self._read_path(path, arguments, workspace)
        if not note:
            return result
        uncut = None if result.uncut is None else f"{result.uncut}\n{note}"
        return replace(result, text=f"{result.text}\n{note}", uncut=uncut)

    async def _read_path(self, path: Path, arguments: Arguments, workspace: Workspace) -> Result:
        offset, limit = number(arguments, "offset", 1), number(arguments, "limit", MAX_LINES)
        if kind_of(path) == "folder":
            from ebbtide.tools.search.listing import listing  # noqa: PLC0415  # deferred: few calls list folders

            most = limit if "limit" in arguments else None
            return await asyncio.to_thread(listing, path, workspace.root, offset, most)
        encoding = text(arguments, "encoding", "")
        found = await run_exclusive(lambda: _read(path, offset, limit, workspace, encoding))
        if found is None:
            from ebbtide.tools.documents.pdf import pages_of  # noqa: PLC0415  # deferred: few calls read PDFs

            return await pages_of(path, display(path, workspace.root), offset, limit, workspace.reads)
        return found


@dataclass(frozen=True, slots=True)
class FilePage:
    text: str
    last: int
    """The number of the last line shown."""


def _read(path: Path, offset: int, limit: int, workspace: Workspace, encoding: str) -> Result | None:
    """Return None for a PDF, which another process reads."""
    name = display(path, workspace.root)
    if not os.path.lexists(path):
        raise ToolError(f"`{name}` does not exist{_where_to_look(path, workspace.root)}")
    with open_regular(path) as (file, size):
        if file.read(len(_PDF)) == _PDF:
            return None
        file.seek(0)
        if size > MAX_FILE_BYTES:
            return _part_of_large(file, size, offset, limit, name, workspace.reads)
    raw = read_bytes(path)
    media_type = picture_type(raw)
    if media_type is not None:
        if len(raw) > MAX_PICTURE_BYTES:
            raise ToolError(f"the picture `{name}` has {len(raw)} bytes, more than 3.9 MB: scale it down first")
        return Result(
            f"picture `{name}`, {media_type}, {pluralize(len(raw), 'byte')}", pictures=(Picture(media_type, raw),)
        )
    kind = binary_kind(raw)
    if kind is not None:
        raise ToolError(f"`{name}` is {kind}, not text: look at it in bash, with xxd or a program made for it")
    content = text_of(path, raw, workspace, encoding)
    workspace.seen.note(path, raw)
    if path.suffix == ".ipynb":
        from ebbtide.tools.files.notebook_view import cells_of  # noqa: PLC0415  # deferred: few files are notebooks

        cells = cells_of(raw, offset, limit, name, workspace.reads)
        if cells is not None:
            return cells
    page = _lines_result(showable(content.normalised_text), offset, limit, name, workspace.reads)
    if not content.is_guess:
        return page
    note = f"\n(not in UTF-8; shown as {content.codec}, a guess: name its `encoding` before you add text outside ASCII)"
    return replace(page, text=page.text + note, uncut=None if page.uncut is None else page.uncut + note)


def _part_of_large(file: IO[bytes], size: int, offset: int, limit: int, name: str, limits: ReadLimits) -> Result:
    """Return lines of a large file without loading more of it than is shown."""
    head = file.read(8192)
    kind = "a picture" if picture_type(head) else binary_kind(head)
    if kind is not None or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        about = f"{kind or 'text in UTF-16 or UTF-32'} of {size / 1e6:,.0f} MB"
        raise ToolError(f"`{name}` is {about}: look at parts of it in bash, with a program made for it")
    page = page_of_file(file, name, offset, limit, limits)
    more = f"; go on with offset={page.last + 1}" if page.lines is None or page.last < page.lines else ""
    lines = f"of {page.lines}, " if page.lines is not None else "of a file of "
    where = f"(lines {offset}-{page.last} {lines}{size / 1e6:,.0f} MB{more}; grep finds lines in it)"
    return Result(f"{page.text}\n{where}", extent=Extent("lines", page.last - offset + 1, page.lines, offset))


def _lines_result(content: str, offset: int, limit: int, name: str, limits: ReadLimits) -> Result:
    if not content:
        return Result(f"`{name}` is empty", extent=Extent("lines", 0, 0))
    lines = content.removesuffix("\n").split("\n")
    if offset > len(lines):
        raise ToolError(f"`{name}` has {pluralize(len(lines), 'line')}: offset={offset} is beyond its end")
    page = page_of(lines, offset, limit, limits)
    uncut = None
    if any(len(line) > limits.longest_line for line in lines[offset - 1 : page.last]):
        uncut = "\n".join(f"{number}\t{lines[number - 1]}" for number in range(offset, page.last + 1))
    extent = Extent("lines", page.last - offset + 1, len(lines), offset)
    if extent.is_all:
        return Result(page.text, uncut=uncut, extent=extent)
    more = f"; go on with offset={page.last + 1}" if page.last < len(lines) else ""
    where = f"(lines {offset}-{page.last} of {len(lines)}{more})"
    return Result(f"{page.text}\n{where}", uncut=f"{uncut}\n{where}" if uncut else None, extent=extent)


def page_of(lines: list[str], offset: int, limit: int, limits: ReadLimits) -> FilePage:
    """Return numbered lines from `offset`, as many as fit but at least one."""
    shown: list[str] = []
    size = 0
    for line in lines[offset - 1 : offset - 1 + limit]:
        shown.append(number_lines([line], offset + len(shown), limits.longest_line))
        size += len(shown[-1].encode()) + 1
        if size > limits.most_bytes and len(shown) > 1:
            del shown[-1]
            break
    return FilePage("\n".join(shown), offset + len(shown) - 1)


def _where_to_look(path: Path, root: Path) -> str:
    """Return a suggestion of what path was meant or where to look, as the end of a sentence."""
    from ebbtide.tools.search.similar_paths import path_suggestion  # noqa: PLC0415  # deferred: rarely needed

    if told := path_suggestion(path, root):
        return told
    folder = path.parent
    if not os.path.isdir(folder):
        existing = next(parent for parent in folder.parents if os.path.isdir(parent))
        return f", nor does its folder; `{printable(str(existing))}` does: look there with glob"
    return ": look for it with glob" if os.access(folder, os.R_OK) else " or is not accessible"

"""The `read` tool: shows a text file with line numbers, an image, a folder, a notebook, or pages of a PDF."""

import asyncio
import codecs
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import IO

from ebbtide.tools import documents, search
from ebbtide.tools import files as tools_files
from ebbtide.tools.base import Arguments, Effect, ImageData, ReadLimits, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import (
    FILE_ARGUMENTS,
    FOLDER_ARGUMENTS,
    LISTING_TOOLS,
    is_editor_call,
    normalise_name,
    parse_json_list,
    pop_argument,
    to_integer,
)
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.change import decode_seen_file
from ebbtide.tools.files.image_types import MAX_IMAGE_BYTES, image_type
from ebbtide.tools.files.large import read_numbered_page
from ebbtide.tools.files.paths import display_path, path_kind, resolve_existing
from ebbtide.tools.files.read_write import MAX_FILE_BYTES, open_regular, read_bytes, run_exclusive
from ebbtide.tools.files.text import binary_kind, without_surrogates
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import number_lines, printable_name
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, number_argument, path_argument

MAX_LINES = 2000
_PDF_MAGIC = b"%PDF-"


def _subject(arguments: Arguments) -> str:
    start, line_count = number_argument(arguments, "offset"), number_argument(arguments, "limit")
    if start is None and line_count is None:
        return path_argument(arguments)
    first_line = start or 1
    return f"{path_argument(arguments)}:{first_line}-" + (
        str(first_line + line_count - 1) if line_count is not None else ""
    )


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    if called_name in LISTING_TOOLS:
        arguments.setdefault("path", pop_argument(arguments, *map(normalise_name, FOLDER_ARGUMENTS.split())) or ".")
    if (
        isinstance(paths := arguments.get("files", arguments.get("paths")), list)
        and len(paths) > 1
        and "path" not in arguments
    ):
        raise ToolError(f"`read` shows one file per call: call it {len(paths)} times, once for each")
    end_line = pop_argument(arguments, "endline", "endlineoneindexedinclusive", "endlineoneindexed", "lineend")
    files = arguments.get("files")
    if isinstance(files, list) and len(files) == 1 and "path" not in arguments:
        del arguments["files"]
        arguments["path"] = files[0].get("path") if isinstance(files[0], dict) else files[0]
    line_range = pop_argument(arguments, "viewrange", "readrange", "linerange", "range", "lines")
    line_range = (
        (parse_json_list(line_range) or re.findall(r"\d+", line_range)) if isinstance(line_range, str) else line_range
    )
    first, last = to_integer(arguments.get("offset")), to_integer(end_line)
    if isinstance(line_range, list) and len(line_range) == 2:
        first, last = to_integer(line_range[0]), to_integer(line_range[1])
        arguments["offset"] = first or 1
    if first is not None and first < 1:
        arguments.pop("offset", None)
    if last is not None and last >= (first or 1):
        arguments["limit"] = last - max(first or 1, 1) + 1
    if (limit := to_integer(arguments.get("limit"))) is not None and limit < 1:
        arguments.pop("limit")


class Read:
    name = "read"
    description = read_description(__file__)
    effect: Effect = "read"
    traits = ToolTraits(
        role="read_file",
        output_limit="file",
        output_content="file",
        stub_template="Viewed {path}",
        stub_result="viewed",
        acp_kind="read",
        get_subject=_subject,
        lookup_words=("read", "file"),
        aliases="read_file view view_file open_file cat read_text_file show_file notebook_read view_image LS "
        "list_directory list_dir list_files list repo_browser.open_file repo_browser.print_tree",
        accepts_alias_call=lambda called_name, arguments: is_editor_call(called_name, arguments, "view"),
        argument_aliases={
            "path": FILE_ARGUMENTS,
            "offset": "start_line start_line_one_indexed line_start line_offset",
            "limit": "max_lines num_lines line_count n_lines",
        },
        adapt_arguments=_adapt_arguments,
        clamped_arguments=("offset", "limit"),
        claude_names=("Read",),
        claude_arguments={"path": "file_path"},
        small_window_policy="always",
        short_form=ShortForm("Reads a file.", ("path", "offset", "limit")),
        small_model_form=ShortForm("Shows a file.", ("path",)),
        is_for_read_only_agents=True,
    )
    schema = object_schema(
        {
            "path": {"type": "string"},
            "offset": {"type": "integer", "minimum": 1, "description": "first line, cell or page"},
            "limit": {"type": "integer", "minimum": 1, "description": "lines, default 2000"},
            "encoding": {"type": "string"},
        },
        required=("path",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_existing(get_text(arguments, "path"), workspace)[0]),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        path, note = resolve_existing(get_text(arguments, "path"), workspace)
        result = await self._read_path(path, arguments, workspace)
        if not note:
            return result
        full_text = None if result.full_text is None else f"{result.full_text}\n{note}"
        return replace(result, text=f"{result.text}\n{note}", full_text=full_text)

    async def _read_path(self, path: Path, arguments: Arguments, workspace: Workspace) -> Result:
        offset, limit = get_number(arguments, "offset", 1), get_number(arguments, "limit", MAX_LINES)
        if path_kind(path) == "folder":
            max_entries = limit if "limit" in arguments else None
            return await asyncio.to_thread(search.listing.list_folder, path, workspace.root, offset, max_entries)
        encoding = get_text(arguments, "encoding", "")
        result = await run_exclusive(lambda: _file_result(path, offset, limit, workspace, encoding))
        if result is None:
            return await documents.pdf.read_pages(
                path, display_path(path, workspace.root), offset, limit, workspace.read_limits
            )
        return result


@dataclass(frozen=True, slots=True)
class FilePage:
    text: str
    last_line: int
    """Number of the last line shown."""


def _file_result(path: Path, offset: int, limit: int, workspace: Workspace, encoding: str) -> Result | None:
    """Read a file and return its content. None for a PDF, which is read in another process."""
    name = display_path(path, workspace.root)
    if not os.path.lexists(path):
        raise ToolError(f"`{name}` does not exist{_location_hint(path, workspace.root)}")
    with open_regular(path) as (file, size):
        if file.read(len(_PDF_MAGIC)) == _PDF_MAGIC:
            return None
        file.seek(0)
        if size > MAX_FILE_BYTES:
            return _large_file_part(file, size, offset, limit, name, workspace.read_limits)
    raw = read_bytes(path)
    media_type = image_type(raw)
    if media_type is not None:
        if len(raw) > MAX_IMAGE_BYTES:
            raise ToolError(f"the image `{name}` has {len(raw)} bytes, more than 3.9 MB: scale it down first")
        return Result(
            f"image `{name}`, {media_type}, {pluralize(len(raw), 'byte')}", images=(ImageData(media_type, raw),)
        )
    kind = binary_kind(raw)
    if kind is not None:
        raise ToolError(f"`{name}` is {kind}, not text: look at it in bash, with xxd or a program made for it")
    text_file = decode_seen_file(path, raw, workspace, encoding)
    workspace.seen_files.record_content(path, raw)
    if path.suffix == ".ipynb":
        cells_result = tools_files.notebook_view.render_cells(raw, offset, limit, name, workspace.read_limits)
        if cells_result is not None:
            return cells_result
    page = _lines_result(without_surrogates(text_file.normalised_text), offset, limit, name, workspace.read_limits)
    if not text_file.is_guess:
        return page
    note = f"\n(not in UTF-8; shown as {text_file.codec}, a guess: give its `encoding` before you add non-ASCII text)"
    return replace(page, text=page.text + note, full_text=None if page.full_text is None else page.full_text + note)


def _large_file_part(file: IO[bytes], size: int, offset: int, limit: int, name: str, limits: ReadLimits) -> Result:
    """Read lines of a large file without loading the whole file."""
    sample = file.read(8192)
    kind = "an image" if image_type(sample) else binary_kind(sample)
    if kind is not None or sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        description = f"{kind or 'text in UTF-16 or UTF-32'} of {size / 1e6:,.0f} MB"
        raise ToolError(f"`{name}` is {description}: look at parts of it in bash, with a program made for it")
    page = read_numbered_page(file, name, offset, limit, limits)
    continuation = (
        f"; go on with offset={page.last_line + 1}"
        if page.line_count is None or page.last_line < page.line_count
        else ""
    )
    total_text = f"of {page.line_count}, " if page.line_count is not None else "of a file of "
    position_note = (
        f"(lines {offset}-{page.last_line} {total_text}{size / 1e6:,.0f} MB{continuation}; grep finds lines in it)"
    )
    return Result(
        f"{page.text}\n{position_note}", extent=Extent("lines", page.last_line - offset + 1, page.line_count, offset)
    )


def _lines_result(content: str, offset: int, limit: int, name: str, limits: ReadLimits) -> Result:
    if not content:
        return Result(f"`{name}` is empty", extent=Extent("lines", 0, 0))
    lines = content.removesuffix("\n").split("\n")
    if offset > len(lines):
        raise ToolError(f"`{name}` has {pluralize(len(lines), 'line')}: offset={offset} is beyond its end")
    page = number_page(lines, offset, limit, limits)
    full_text = None
    if any(len(line) > limits.max_line_chars for line in lines[offset - 1 : page.last_line]):
        full_text = "\n".join(f"{number}\t{lines[number - 1]}" for number in range(offset, page.last_line + 1))
    extent = Extent("lines", page.last_line - offset + 1, len(lines), offset)
    if extent.shows_all:
        return Result(page.text, full_text=full_text, extent=extent)
    continuation = f"; go on with offset={page.last_line + 1}" if page.last_line < len(lines) else ""
    position_note = f"(lines {offset}-{page.last_line} of {len(lines)}{continuation})"
    return Result(
        f"{page.text}\n{position_note}", full_text=f"{full_text}\n{position_note}" if full_text else None, extent=extent
    )


def number_page(lines: list[str], offset: int, limit: int, limits: ReadLimits) -> FilePage:
    """Number lines from `offset` on: as many as fit, but at least one."""
    page: list[str] = []
    page_bytes = 0
    for line in lines[offset - 1 : offset - 1 + limit]:
        page.append(number_lines([line], offset + len(page), limits.max_line_chars))
        page_bytes += len(page[-1].encode()) + 1
        if page_bytes > limits.max_bytes and len(page) > 1:
            del page[-1]
            break
    return FilePage("\n".join(page), offset + len(page) - 1)


def _location_hint(path: Path, root: Path) -> str:
    """Suggest which path was probably meant or where to look, worded as the end of a sentence."""
    if suggestion := search.similar_paths.path_suggestion(path, root):
        return suggestion
    folder = path.parent
    if not os.path.isdir(folder):
        existing = next(parent for parent in folder.parents if os.path.isdir(parent))
        return f", nor does its folder; `{printable_name(str(existing))}` does: look there with glob"
    return ": look for it with glob" if os.access(folder, os.R_OK) else " or is not accessible"

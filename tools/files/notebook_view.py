"""The cells of a notebook as `read` shows them, with long outputs shortened."""

from collections.abc import Mapping
from typing import Any

from ebbtide.tools.base import ReadLimits, Result, ToolError
from ebbtide.tools.files.notebook import Cell, parse_notebook, source_text
from ebbtide.tools.files.text import without_surrogates
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import terminal_text, truncate_line

HEAD_LINES, TAIL_LINES = 12, 6
"""Number of lines shown from the beginning and from the end of an output."""
MAX_OUTPUT_LINE_CHARS = 300
"""Maximum number of characters shown per output line."""


def render_cells(raw: bytes, offset: int, limit: int, name: str, limits: ReadLimits) -> Result | None:
    """Format cells from number `offset` on: as many as fit, but at least one. None if the file is not a notebook.
    Raises `ToolError`."""
    notebook = parse_notebook(raw)
    if notebook is None:
        return None
    cell_count = len(notebook.cells)
    if not cell_count:
        return Result(f"notebook `{name}` has no cells", extent=Extent("cells", 0, 0))
    if offset > cell_count:
        raise ToolError(f"`{name}` has {pluralize(cell_count, 'cell')}: offset={offset} is beyond its end")
    texts, page_bytes = list[str](), 0
    for number, cell in enumerate(notebook.cells[offset - 1 : offset - 1 + limit], offset):
        texts.append(_with_cut_lines(render_cell(cell, number), limits))
        page_bytes += len(texts[-1].encode("utf-8", "replace")) + 1
        if page_bytes > limits.max_bytes and len(texts) > 1:
            del texts[-1]
            break
    last = offset + len(texts) - 1
    page = "\n".join(texts)
    full_page = "\n".join(
        render_cell(notebook.cells[number - 1], number, is_full=True) for number in range(offset, last + 1)
    )
    visible_page = page.encode("utf-8", "replace")[: limits.max_bytes].decode("utf-8", "ignore")
    continuation = f"; go on with offset={last + 1}" if last < cell_count else ""
    note = f"\n(cells {offset}-{last} of {cell_count}{continuation})" if last - offset + 1 < cell_count else ""
    heading = f"notebook `{name}`, {', '.join(filter(None, (notebook.language, pluralize(cell_count, 'cell'))))}\n"
    text = without_surrogates(f"{heading}{visible_page}{'' if visible_page == page else '… [cut]'}{note}")
    full_text = None if visible_page == full_page else without_surrogates(f"{heading}{full_page}{note}")
    return Result(text, full_text=full_text, extent=Extent("cells", len(texts), cell_count, offset))


def _with_cut_lines(text: str, limits: ReadLimits) -> str:
    return "\n".join(truncate_line(line, limits.max_line_chars) for line in text.split("\n"))


def render_cell(cell: Cell, number: int, *, is_full: bool = False) -> str:
    """Format a cell with a header line. Long outputs are shortened unless `is_full`."""
    execution_count = cell.value.get("execution_count")
    execution_note = f", ran as [{execution_count}]" if isinstance(execution_count, int) else ""
    sections = [f"[cell {number}: {cell.kind}{execution_note}]", *([terminal_text(cell.source)] if cell.source else [])]
    outputs = cell.value.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        text = _output_text(output) if isinstance(output, dict) else ""
        if text:
            sections.append(f"[output]\n{text if is_full else _trim_output(text)}")
    return "\n".join(section.removesuffix("\n") for section in sections)


def _output_text(output: Mapping[str, Any]) -> str:
    """Return the text of an output. Content that is not text is described briefly."""
    if output.get("output_type") == "error":
        traceback = output.get("traceback")
        lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
        return terminal_text("\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}")
    if "text" in output:
        return terminal_text(source_text(output["text"]))
    data = output.get("data")
    values_by_type = data if isinstance(data, dict) else {}
    text = terminal_text(source_text(values_by_type.get("text/plain", "")))
    other_types = [
        media_type
        for media_type in values_by_type
        if media_type != "text/plain" and (not text or media_type.startswith("image/"))
    ]
    placeholders = [
        _placeholder(media_type, len(source_text(values_by_type[media_type]))) for media_type in other_types
    ]
    return "\n".join([*([text] if text else []), *placeholders])


def _placeholder(media_type: str, char_count: int) -> str:
    if media_type.startswith("image/") and media_type != "image/svg+xml":
        return f"[image {media_type}, {max(char_count * 3 // 4 // 1000, 1):,} kB]"
    return f"[{media_type}, {pluralize(char_count, 'character')}, not shown]"


def _trim_output(text: str) -> str:
    lines = [
        line if len(line) <= MAX_OUTPUT_LINE_CHARS else f"{line[:MAX_OUTPUT_LINE_CHARS]}… [cut]"
        for line in text.rstrip("\n").split("\n")
    ]
    omitted_count = len(lines) - HEAD_LINES - TAIL_LINES
    if omitted_count <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[:HEAD_LINES], f"[… {pluralize(omitted_count, 'line')} left out …]", *lines[-TAIL_LINES:]])

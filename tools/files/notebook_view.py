"""The cells of a notebook as `read` shows them, with long outputs shortened. Pure."""

from collections.abc import Mapping
from typing import Any

from ebbtide.tools.base import ReadLimits, Result, ToolError
from ebbtide.tools.files.notebook import Cell, parse_notebook, source_text
from ebbtide.tools.files.text import without_surrogates
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import cut_line, terminal_text

HEAD_LINES, TAIL_LINES = 12, 6
"""Number of lines shown from the beginning and from the end of an output."""
MAX_OUTPUT_LINE_CHARS = 300
"""Maximum number of characters shown of a line of output."""


def cells_result(raw: bytes, offset: int, limit: int, name: str, limits: ReadLimits) -> Result | None:
    """Return the cells from number `offset` on, as many as fit but at least one; None if the file is not a notebook.
    Raises `ToolError`."""
    notebook = parse_notebook(raw)
    if notebook is None:
        return None
    total = len(notebook.cells)
    if not total:
        return Result(f"notebook `{name}` has no cells", extent=Extent("cells", 0, 0))
    if offset > total:
        raise ToolError(f"`{name}` has {pluralize(total, 'cell')}: offset={offset} is beyond its end")
    texts, size = list[str](), 0
    for number, cell in enumerate(notebook.cells[offset - 1 : offset - 1 + limit], offset):
        texts.append(_with_cut_lines(render_cell(cell, number), limits))
        size += len(texts[-1].encode("utf-8", "replace")) + 1
        if size > limits.max_bytes and len(texts) > 1:
            del texts[-1]
            break
    last = offset + len(texts) - 1
    page = "\n".join(texts)
    full_page = "\n".join(render_cell(notebook.cells[at - 1], at, is_full=True) for at in range(offset, last + 1))
    cut = page.encode("utf-8", "replace")[: limits.max_bytes].decode("utf-8", "ignore")
    more = f"; go on with offset={last + 1}" if last < total else ""
    note = f"\n(cells {offset}-{last} of {total}{more})" if last - offset + 1 < total else ""
    heading = f"notebook `{name}`, {', '.join(filter(None, (notebook.language, pluralize(total, 'cell'))))}\n"
    text = without_surrogates(f"{heading}{cut}{'' if cut == page else '… [cut]'}{note}")
    uncut = None if cut == full_page else without_surrogates(f"{heading}{full_page}{note}")
    return Result(text, full_text=uncut, extent=Extent("cells", len(texts), total, offset))


def _with_cut_lines(text: str, limits: ReadLimits) -> str:
    return "\n".join(cut_line(line, limits.max_line_chars) for line in text.split("\n"))


def render_cell(cell: Cell, number: int, *, is_full: bool = False) -> str:
    """Return a cell as text, with a header line. Long outputs are shortened unless `is_full`."""
    count = cell.value.get("execution_count")
    ran = f", ran as [{count}]" if isinstance(count, int) else ""
    parts = [f"[cell {number}: {cell.kind}{ran}]", *([terminal_text(cell.source)] if cell.source else [])]
    outputs = cell.value.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        text = _output_text(output) if isinstance(output, dict) else ""
        if text:
            parts.append(f"[output]\n{text if is_full else _trim_output(text)}")
    return "\n".join(part.removesuffix("\n") for part in parts)


def _output_text(output: Mapping[str, Any]) -> str:
    """Return the text of an output, with short descriptions of content that is not text."""
    if output.get("output_type") == "error":
        traceback = output.get("traceback")
        lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
        return terminal_text("\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}")
    if "text" in output:
        return terminal_text(source_text(output["text"]))
    data = output.get("data")
    forms = data if isinstance(data, dict) else {}
    text = terminal_text(source_text(forms.get("text/plain", "")))
    others = [form for form in forms if form != "text/plain" and (not text or form.startswith("image/"))]
    placeholders = [_placeholder(form, len(source_text(forms[form]))) for form in others]
    return "\n".join([*([text] if text else []), *placeholders])


def _placeholder(form: str, size: int) -> str:
    if form.startswith("image/") and form != "image/svg+xml":
        return f"[picture {form}, {max(size * 3 // 4 // 1000, 1):,} kB]"
    return f"[{form}, {pluralize(size, 'character')}, not shown]"


def _trim_output(text: str) -> str:
    lines = [
        line if len(line) <= MAX_OUTPUT_LINE_CHARS else f"{line[:MAX_OUTPUT_LINE_CHARS]}… [cut]"
        for line in text.rstrip("\n").split("\n")
    ]
    left_out = len(lines) - HEAD_LINES - TAIL_LINES
    if left_out <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[:HEAD_LINES], f"[… {pluralize(left_out, 'line')} left out …]", *lines[-TAIL_LINES:]])

"""The cells of a notebook as `read` shows them, with long outputs shortened. Pure."""

from collections.abc import Mapping
from typing import Any

from ebbtide.tools.base import ReadLimits, Result, ToolError
from ebbtide.tools.files.notebook import Cell, notebook_of, source_text
from ebbtide.tools.files.text import showable
from ebbtide.tools.outputs.extent import Extent, pluralize
from ebbtide.tools.outputs.plain_text import cut_line, plain

HEAD_LINES, TAIL_LINES = 12, 6
"""Number of lines shown of the beginning and end of an output."""
MAX_LINE_CHARS = 300
"""Maximum number of characters shown of an output line."""


def cells_of(raw: bytes, offset: int, limit: int, name: str, limits: ReadLimits) -> Result | None:
    """Return the cells from the `offset`-th, as many as fit but at least one, or None if the file is not a notebook.
    Raises `ToolError`."""
    notebook = notebook_of(raw)
    if notebook is None:
        return None
    total = len(notebook.cells)
    if not total:
        return Result(f"notebook `{name}` has no cells", extent=Extent("cells", 0, 0))
    if offset > total:
        raise ToolError(f"`{name}` has {pluralize(total, 'cell')}: offset={offset} is beyond its end")
    texts, size = list[str](), 0
    for number, cell in enumerate(notebook.cells[offset - 1 : offset - 1 + limit], offset):
        texts.append(_lines_cut(render_cell(cell, number), limits))
        size += len(texts[-1].encode("utf-8", "replace")) + 1
        if size > limits.most_bytes and len(texts) > 1:
            del texts[-1]
            break
    last = offset + len(texts) - 1
    page = "\n".join(texts)
    whole = "\n".join(render_cell(notebook.cells[at - 1], at, whole=True) for at in range(offset, last + 1))
    cut = page.encode("utf-8", "replace")[: limits.most_bytes].decode("utf-8", "ignore")
    more = f"; go on with offset={last + 1}" if last < total else ""
    note = f"\n(cells {offset}-{last} of {total}{more})" if last - offset + 1 < total else ""
    heading = f"notebook `{name}`, {', '.join(filter(None, (notebook.language, pluralize(total, 'cell'))))}\n"
    text = showable(f"{heading}{cut}{'' if cut == page else '… [cut]'}{note}")
    uncut = None if cut == whole else showable(f"{heading}{whole}{note}")
    return Result(text, uncut=uncut, extent=Extent("cells", len(texts), total, offset))


def _lines_cut(text: str, limits: ReadLimits) -> str:
    return "\n".join(cut_line(line, limits.longest_line) for line in text.split("\n"))


def render_cell(cell: Cell, number: int, *, whole: bool = False) -> str:
    """Return a cell as text, with a header line. Long outputs are shortened unless `whole`."""
    count = cell.value.get("execution_count")
    ran = f", ran as [{count}]" if isinstance(count, int) else ""
    parts = [f"[cell {number}: {cell.kind}{ran}]", *([plain(cell.source)] if cell.source else [])]
    outputs = cell.value.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        text = _output(output) if isinstance(output, dict) else ""
        if text:
            parts.append(f"[output]\n{text if whole else _trim_output(text)}")
    return "\n".join(part.removesuffix("\n") for part in parts)


def _output(output: Mapping[str, Any]) -> str:
    """Return the text of an output, and a short description of its other content."""
    if output.get("output_type") == "error":
        traceback = output.get("traceback")
        lines = [str(line) for line in traceback] if isinstance(traceback, list) else []
        return plain("\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}")
    if "text" in output:
        return plain(source_text(output["text"]))
    data = output.get("data")
    forms = data if isinstance(data, dict) else {}
    text = plain(source_text(forms.get("text/plain", "")))
    others = [form for form in forms if form != "text/plain" and (not text or form.startswith("image/"))]
    told = [_placeholder(form, len(source_text(forms[form]))) for form in others]
    return "\n".join([*([text] if text else []), *told])


def _placeholder(form: str, size: int) -> str:
    if form.startswith("image/") and form != "image/svg+xml":
        return f"[picture {form}, {max(size * 3 // 4 // 1000, 1):,} kB]"
    return f"[{form}, {pluralize(size, 'character')}, not shown]"


def _trim_output(text: str) -> str:
    lines = [
        line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}… [cut]"
        for line in text.rstrip("\n").split("\n")
    ]
    left_out = len(lines) - HEAD_LINES - TAIL_LINES
    if left_out <= 1:
        return "\n".join(lines)
    return "\n".join([*lines[:HEAD_LINES], f"[… {pluralize(left_out, 'line')} left out …]", *lines[-TAIL_LINES:]])

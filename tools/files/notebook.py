"""Jupyter notebooks: their cells, and edits of a cell that preserve all other bytes.

Edits are made in the file's text, within the cell's span. Rewriting the whole file would lose the style in which other
programs wrote it: key order, numbers, escapes.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import pluralize

CellKind: TypeAlias = Literal["code", "markdown", "raw"]

_WHITESPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cell:
    kind: str
    source: str
    value: Mapping[str, Any]
    """The parsed JSON of the cell."""
    span: Span
    """The cell's span in the file's text."""


@dataclass(frozen=True, slots=True)
class Notebook:
    text: str
    cells: tuple[Cell, ...]
    cells_span: Span
    """The span of the `cells` list in `text`."""
    language: str
    has_ids: bool
    """Whether the notebook's format version requires cell ids."""

    def encode(self) -> bytes:
        return self.text.encode()


class NotebookError(ValueError):
    """Raised if a notebook cannot be changed. The message says why, worded for the model."""


def parse_notebook(content: bytes) -> Notebook | None:
    """Parse a notebook. None if the bytes are not a notebook in format 4 or later."""
    try:
        text = content.decode()
        value = json.loads(text.removeprefix(_BOM))
        if not isinstance(value, dict) or not all(map(_is_cell, value["cells"])) or value["nbformat"] < 4:
            return None
        cells_span = _member_spans(text, _skip_whitespace(text, text.startswith(_BOM)))["cells"]
        spans = _element_spans(text, cells_span.start)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    cells = tuple(
        Cell(cell["cell_type"], source_text(cell["source"]), cell, span)
        for cell, span in zip(value["cells"], spans, strict=True)
    )
    metadata = value.get("metadata")
    language_info = metadata.get("language_info") if isinstance(metadata, dict) else None
    language = str(language_info.get("name", "")) if isinstance(language_info, dict) else ""
    format_minor = value.get("nbformat_minor")
    return Notebook(
        text, cells, cells_span, language, isinstance(format_minor, int) and (value["nbformat"], format_minor) >= (4, 5)
    )


def _is_cell(cell: object) -> bool:
    return (
        isinstance(cell, dict)
        and isinstance(cell.get("cell_type"), str)
        and isinstance(source := cell.get("source"), str | list)
        and all(isinstance(line, str) for line in source)
    )


def source_text(source: object) -> str:
    """Return the text of a notebook's multi-line string, which may be stored as a string or a list of lines."""
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def replace_cell(notebook: Notebook, number: int, source: str, kind: CellKind | None) -> Notebook:
    """Replace the source of a cell and remove its outputs. Raises `NotebookError`."""
    cell = _get_cell(notebook, number)
    if kind is not None and kind != cell.kind:
        value = {
            name: field_value for name, field_value in cell.value.items() if name not in ("outputs", "execution_count")
        }
        new_cell = {**value, **_default_cell_fields(kind), "source": _match_source_style(source, cell.value["source"])}
        new_cell = dict(sorted(new_cell.items())) if list(cell.value) == sorted(cell.value) else new_cell
        return _splice(notebook, cell.span, _render_value(new_cell, notebook, cell.span.start))
    members = _member_spans(notebook.text, cell.span.start)
    new_values: dict[str, object] = {"source": _match_source_style(source, cell.value["source"])}
    if cell.kind == "code":
        new_values |= {
            name: value
            for name, value in _default_cell_fields("code").items()
            if name in members and name != "cell_type"
        }
    text = notebook.text
    for name, span in sorted(members.items(), key=lambda member: -member[1].start):
        if name in new_values:
            text = text[: span.start] + _render_value(new_values[name], notebook, span.start) + text[span.end :]
    return _reparse(text)


def insert_cell(notebook: Notebook, number: int, source: str, kind: CellKind) -> Notebook:
    """Insert a cell after cell `number`, or at the start if it is 0. Raises `NotebookError`."""
    if number:
        _get_cell(notebook, number)
    style_example = notebook.cells[0].value["source"] if notebook.cells else []
    value: dict[str, object] = {**_default_cell_fields(kind), "metadata": {}}
    if notebook.has_ids:
        value["id"] = _create_cell_id(notebook, number, source)
    new_cell = dict(sorted({**value, "source": _match_source_style(source, style_example)}.items()))
    if not notebook.cells:
        list_indent = _indent_at(notebook.text, notebook.cells_span.start)
        indent_unit = _indent_unit(notebook)
        cell_indent = f"{list_indent}{indent_unit}" if list_indent is not None and indent_unit else None
        text = _dump_json(new_cell, notebook, cell_indent)
        body = f"[{text}]" if cell_indent is None else f"[{cell_indent}{text}{list_indent}]"
        return _splice(notebook, notebook.cells_span, body)
    neighbour_span = notebook.cells[max(number, 1) - 1].span
    indent = _indent_at(notebook.text, neighbour_span.start)
    text = _dump_json(new_cell, notebook, indent)
    separator = _cell_separator(notebook, indent)
    if number:
        return _splice(notebook, Span(neighbour_span.end, neighbour_span.end), f"{separator}{text}")
    return _splice(notebook, Span(neighbour_span.start, neighbour_span.start), f"{text}{separator}")


def delete_cell(notebook: Notebook, number: int) -> Notebook:
    """Delete a cell. Raises `NotebookError`."""
    span = _get_cell(notebook, number).span
    if len(notebook.cells) == 1:
        return _splice(notebook, notebook.cells_span, "[]")
    if number < len(notebook.cells):
        return _splice(notebook, Span(span.start, notebook.cells[number].span.start), "")
    return _splice(notebook, Span(notebook.cells[number - 2].span.end, span.end), "")


def _get_cell(notebook: Notebook, number: int) -> Cell:
    if not 1 <= number <= len(notebook.cells):
        raise NotebookError(f"there is no cell {number}: it has {pluralize(len(notebook.cells), 'cell')}")
    return notebook.cells[number - 1]


def _default_cell_fields(kind: CellKind) -> dict[str, object]:
    code_fields: dict[str, object] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, **code_fields}


def _match_source_style(source: str, style_example: object) -> object:
    """Convert the source to the form of `style_example`: a string or a list of lines."""
    if isinstance(style_example, str):
        return source
    lines = re.split(r"(?<=\n)", source)
    return lines if lines[-1] else lines[:-1]


def _create_cell_id(notebook: Notebook, number: int, source: str) -> str:
    """Create an unused id. It is the same in the preview of a change and in the change itself."""
    used_ids, salt = {str(cell.value.get("id")) for cell in notebook.cells}, 0
    while True:
        seed = f"{salt}\0{number}\0{source}\0{notebook.text}".encode("utf-8", "surrogatepass")
        cell_id = hashlib.sha256(seed).hexdigest()[:8]
        if cell_id not in used_ids:
            return cell_id
        salt += 1


def _splice(notebook: Notebook, span: Span, text: str) -> Notebook:
    return _reparse(notebook.text[: span.start] + text + notebook.text[span.end :])


def _reparse(text: str) -> Notebook:
    try:
        notebook = parse_notebook(text.encode())
    except UnicodeEncodeError as error:
        raise NotebookError("the source contains half a surrogate pair: write the whole character") from error
    if notebook is None:
        raise AssertionError("the changed file would not be a valid notebook")
    return notebook


def _render_value(value: object, notebook: Notebook, offset: int) -> str:
    """Format a value as JSON in the file's style, indented to fit at `offset`."""
    line_start = notebook.text.rfind("\n", 0, offset) + 1
    indent = _WHITESPACE.match(notebook.text, line_start)
    is_multiline = _indent_unit(notebook) is not None
    newline = "\r\n" if "\r\n" in notebook.text else "\n"
    return _dump_json(value, notebook, f"{newline}{indent[0]}" if is_multiline and indent else None)


def _dump_json(value: object, notebook: Notebook, indent: str | None) -> str:
    """Format JSON in the file's style. `indent`: the newline and spaces before each line; None for a single line."""
    is_ascii = notebook.text.isascii() and "\\u" in notebook.text
    unit = _indent_unit(notebook)
    if indent is None or unit is None:
        return json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":") if _is_compact_json(notebook) else None)
    text = json.dumps(value, ensure_ascii=is_ascii, indent=unit, separators=(",", ": "))
    return text.replace("\n", indent)


def _cell_separator(notebook: Notebook, indent: str | None) -> str:
    """Return the text between two cells."""
    if len(notebook.cells) > 1:
        return notebook.text[notebook.cells[0].span.end : notebook.cells[1].span.start]
    return f",{indent}" if indent is not None else "," if _is_compact_json(notebook) else ", "


def _is_compact_json(notebook: Notebook) -> bool:
    """Whether the notebook is written without spaces between JSON tokens."""
    return re.match(r'\ufeff?\{"[^"\\]*":[^ ]', notebook.text) is not None


def _indent_unit(notebook: Notebook) -> str | None:
    """Return the indentation of one level; None if everything is on one line."""
    match = re.match(r"\ufeff?\s*\{\r?\n([ \t]*)", notebook.text)
    return match[1] or None if match else None


def _indent_at(text: str, offset: int) -> str | None:
    """Return the newline and spaces before an offset. None if something else comes before it."""
    match = re.search(r"(\r?\n)([ \t]*)(?:\"cells\"\s*:\s*)?\Z", text[max(offset - 200, 0) : offset])
    return f"{match[1]}{match[2]}" if match else None


def _skip_whitespace(text: str, offset: int) -> int:
    match = _WHITESPACE.match(text, offset)
    return match.end() if match else offset


def _member_spans(text: str, offset: int) -> dict[str, Span]:
    """Return the spans of the values in the JSON object at an offset. The object must be valid. If a name occurs twice,
    the last value counts."""
    spans: dict[str, Span] = {}
    offset = _skip_whitespace(text, offset + 1)
    while text[offset] != "}":
        name, offset = _DECODER.raw_decode(text, offset)
        start = _skip_whitespace(text, _skip_whitespace(text, offset) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        spans[name] = Span(start, end)
        offset = _skip_comma(text, end)
    return spans


def _element_spans(text: str, offset: int) -> Sequence[Span]:
    """Return the spans of the elements in the JSON list at an offset. The list must be valid."""
    spans: list[Span] = []
    offset = _skip_whitespace(text, offset + 1)
    while text[offset] != "]":
        end = _DECODER.raw_decode(text, offset)[1]
        spans.append(Span(offset, end))
        offset = _skip_comma(text, end)
    return spans


def _skip_comma(text: str, offset: int) -> int:
    offset = _skip_whitespace(text, offset)
    return _skip_whitespace(text, offset + 1) if text[offset] == "," else offset

"""Asks language servers for definitions and uses of names, and formats the answers for the model."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.integrations.lsp.client import LanguageClient, LanguageServerError
from ebbtide.tools.integrations.lsp.diagnostics import range_start
from ebbtide.tools.integrations.lsp.documents import path_from_uri
from ebbtide.tools.integrations.lsp.pool import MAX_FILE_BYTES, LanguageServers
from ebbtide.tools.integrations.lsp.server import LanguageServer
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text
from ebbtide.tools.secrets.files import may_contain_secrets

SymbolQuestion: TypeAlias = Literal["definition", "references", "in_file", "in_project"]

REPLY_TIMEOUT_S = 20.0
"""Seconds within which a server must answer, including its start."""
MAX_RESULTS = 100
"""Maximum number of positions or symbols shown."""
_MAX_LINE_CHARS = 160
_MAX_OUTLINE_DEPTH = 8
_METHODS: Mapping[SymbolQuestion, tuple[str, str]] = {
    "definition": ("textDocument/definition", "definitionProvider"),
    "references": ("textDocument/references", "referencesProvider"),
    "in_file": ("textDocument/documentSymbol", "documentSymbolProvider"),
    "in_project": ("workspace/symbol", "workspaceSymbolProvider"),
}
_SYMBOL_KINDS = tuple(
    """
    file module namespace package class method property field constructor enum interface function variable constant
    string number boolean array object key null member struct event operator parameter
    """.split()  # noqa: SIM905  # easier to read as one string
)
"""The symbol kinds of the protocol, numbered from 1."""
_LOCAL_KINDS, _FUNCTION_KINDS = ("variable", "constant", "parameter"), ("function", "method", "constructor")


@dataclass(frozen=True, slots=True)
class SymbolQuery:
    """A request for symbols."""

    question: SymbolQuestion
    path: Path
    text: str
    """The content of the file."""
    line: int = 1
    name: str = ""


async def answer_symbol_query(query: SymbolQuery, servers: LanguageServers, root: Path) -> tuple[str, int]:
    """Return the answer of the first server that finds anything: text for the model, and the number of positions in it.
    Raises `LanguageServerError`."""
    method, capability = _METHODS[query.question]
    capable_count = 0
    problems = list[str]()
    for server in await servers.servers_for(query.path):

        async def request_symbols(client: LanguageClient, server: LanguageServer = server) -> object:
            if capability not in server.capabilities or server.capabilities[capability] is False:
                return NotImplemented
            await server.send_text(query.path, query.text, client)
            return await client.request(method, _request_parameters(query, server.column_encoding))

        try:
            answer = await servers.run_with_client(server, request_symbols, REPLY_TIMEOUT_S)
        except LanguageServerError as error:
            problems.append(str(error))
            continue
        if answer is NotImplemented:
            continue
        capable_count += 1
        lines = await asyncio.to_thread(_list_answer_lines, query, answer, root)
        if lines:
            omission_note = [f"and {len(lines) - MAX_RESULTS} more"] if len(lines) > MAX_RESULTS else []
            return "\n".join((*lines[:MAX_RESULTS], *omission_note)), len(lines)
    if not capable_count:
        raise LanguageServerError("; ".join(problems) or "no language server for this kind of file can answer this")
    return _NO_RESULT_TEXTS[query.question].format(name=printable_name(query.name)), 0


_NO_RESULT_TEXTS: Mapping[SymbolQuestion, str] = {
    "definition": "no definition of `{name}` was found",
    "references": "no references to `{name}` were found",
    "in_file": "the file has no symbols",
    "in_project": "no symbol matches `{name}`",
}


def name_column(line: str, name: str) -> int | None:
    """Return the column at which a name occurs in a line, in characters. Whole words are preferred. None if the line
    does not contain the name."""
    offsets = [offset for offset in range(len(line)) if line.startswith(name, offset)] if name else []
    whole_words = (
        offset
        for offset in offsets
        if not _is_name_char(line[:offset][-1:]) and not _is_name_char(line[offset + len(name) :][:1])
    )
    return next(whole_words, offsets[0] if offsets else None)


def _is_name_char(character: str) -> bool:
    """Whether the character can be part of a name."""
    return character.isalnum() or character == "_"


def _request_parameters(query: SymbolQuery, encoding: str) -> Mapping[str, object]:
    document = {"textDocument": {"uri": query.path.as_uri()}}
    match query.question:
        case "in_file":
            return document
        case "in_project":
            return {"query": query.name}
        case "definition" | "references":
            line = query.text.split("\n")[query.line - 1]
            prefix = line[: name_column(line, query.name) or 0]
            column = (
                len(prefix) if encoding == "utf-32" else len(prefix.encode(_CODECS[encoding])) // _UNIT_BYTES[encoding]
            )
            parameters = {**document, "position": {"line": query.line - 1, "character": column}}
            return (
                {**parameters, "context": {"includeDeclaration": True}}
                if query.question == "references"
                else parameters
            )


_CODECS, _UNIT_BYTES = {"utf-8": "utf-8", "utf-16": "utf-16-le"}, {"utf-8": 1, "utf-16": 2}


def _list_answer_lines(query: SymbolQuery, answer: object, root: Path) -> list[str]:
    return list(_answer_lines(query, answer, root))


def _answer_lines(query: SymbolQuery, answer: object, root: Path) -> Iterator[str]:
    items = [item for item in (answer if isinstance(answer, list) else [answer]) if isinstance(item, dict)]
    if query.question in ("definition", "references"):
        yield from _location_lines(items, root)
    elif query.question == "in_file":
        yield from _outline(items, 0)
    else:
        for item in items:
            location = _parse_location(item.get("location"))
            if location is not None:
                path, line = location
                container = (
                    f" in {_printable_symbol_name(item.get('containerName'))}" if item.get("containerName") else ""
                )
                yield (
                    f"{_display_path(path, root)}:{line}: {_kind_name(item)} "
                    f"{_printable_symbol_name(item.get('name'))}{container}"
                )


def _location_lines(locations: Sequence[Mapping[str, object]], root: Path) -> Iterator[str]:
    """Yield the positions in order. Each comes with the text of its line, unless it is outside the project."""
    positions = sorted({position for location in locations if (position := _parse_location(location)) is not None})
    read_line = _line_reader(root)
    for path, line in positions:
        text = read_line(path, line)
        yield f"{_display_path(path, root)}:{line}" + (f": {text}" if text else "")


def _line_reader(root: Path) -> Callable[[Path, int], str]:
    lines_by_path: dict[Path, list[str]] = {}

    def read_line(path: Path, line: int) -> str:
        if path not in lines_by_path:
            lines_by_path[path] = []
            real_path = path.resolve()
            if real_path.is_relative_to(root) and not may_contain_secrets(str(real_path)):
                try:
                    lines_by_path[path] = read_prefix(real_path, MAX_FILE_BYTES).decode("utf-8", "replace").split("\n")
                except OSError:
                    return ""
        return (
            ellipsize(terminal_text(lines_by_path[path][line - 1]).strip(), _MAX_LINE_CHARS)
            if line <= len(lines_by_path[path])
            else ""
        )

    return read_line


def _outline(symbols: Sequence[object], depth: int, *, in_function: bool = False) -> Iterator[str]:
    """Yield the symbols as an outline, without functions' local variables."""
    for symbol in symbols:
        if (
            isinstance(symbol, dict)
            and depth <= _MAX_OUTLINE_DEPTH
            and not (in_function and _kind_name(symbol) in _LOCAL_KINDS)
        ):
            location = symbol.get("location")
            start = symbol.get("selectionRange") or (location.get("range") if isinstance(location, dict) else None)
            name = _printable_symbol_name(symbol.get("name"))
            yield f"{'  ' * depth}{range_start(start)[0] + 1}: {_kind_name(symbol)} {name}"
            children = symbol.get("children")
            is_function = _kind_name(symbol) in _FUNCTION_KINDS
            yield from _outline(children if isinstance(children, list) else (), depth + 1, in_function=is_function)


def _parse_location(value: object) -> tuple[Path, int] | None:
    """Parse a location or location link into a file and a line, counted from 1. None if it is invalid."""
    if not isinstance(value, dict):
        return None
    path = path_from_uri(value.get("uri") or value.get("targetUri"))
    position = value.get("range") or value.get("targetSelectionRange")
    return (path, range_start(position)[0] + 1) if path is not None else None


def _display_path(path: Path, root: Path) -> str:
    return display_path(path, root)


def _kind_name(symbol: Mapping[str, object]) -> str:
    kind_number = symbol.get("kind")
    return (
        _SYMBOL_KINDS[kind_number - 1]
        if isinstance(kind_number, int) and 0 < kind_number <= len(_SYMBOL_KINDS)
        else "symbol"
    )


def _printable_symbol_name(value: object) -> str:
    return ellipsize(printable_name(str(value)), _MAX_LINE_CHARS)

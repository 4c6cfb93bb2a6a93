"""Definitions and uses of names from language servers: sends requests, and formats the answers for the model."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.paths import display
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.lsp.client import LanguageClient, LanguageServerError
from ebbtide.tools.lsp.diagnostics import start_of
from ebbtide.tools.lsp.documents import path_of
from ebbtide.tools.lsp.pool import MAX_FILE_BYTES, LanguageServers
from ebbtide.tools.lsp.server import LanguageServer
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import plain, printable
from ebbtide.tools.secrets.files import holds_secrets

SymbolQuestion: TypeAlias = Literal["definition", "references", "in_file", "in_project"]

REPLY_TIMEOUT_S = 20.0
"""Seconds for a server to answer, including its start."""
MAX_RESULTS = 100
"""Maximum number of positions or symbols shown."""
_MAX_LINE_CHARS = 160
_MAX_DEPTH = 8
_METHODS: Mapping[SymbolQuestion, tuple[str, str]] = {
    "definition": ("textDocument/definition", "definitionProvider"),
    "references": ("textDocument/references", "referencesProvider"),
    "in_file": ("textDocument/documentSymbol", "documentSymbolProvider"),
    "in_project": ("workspace/symbol", "workspaceSymbolProvider"),
}
_KINDS = tuple(
    """
    file module namespace package class method property field constructor enum interface function variable constant
    string number boolean array object key null member struct event operator parameter
    """.split()  # noqa: SIM905  # easier to read as one string
)
"""The protocol's symbol kinds, numbered from 1."""
_LOCAL, _FUNCTIONS = ("variable", "constant", "parameter"), ("function", "method", "constructor")


@dataclass(frozen=True, slots=True)
class SymbolQuery:
    """A question about symbols."""

    find: SymbolQuestion
    path: Path
    text: str
    """The content of the file."""
    line: int = 1
    name: str = ""


async def answer_to(asked: SymbolQuery, servers: LanguageServers, root: Path) -> tuple[str, int]:
    """Return the answer of the first server that has one, as text for the model, and its number of positions. Raises
    `LanguageServerError`."""
    method, capability = _METHODS[asked.find]
    able, problems = 0, list[str]()
    for server in await servers.servers_for(asked.path):

        async def ask(client: LanguageClient, server: LanguageServer = server) -> object:
            if capability not in server.capabilities or server.capabilities[capability] is False:
                return NotImplemented
            await server.show(asked.path, asked.text, client)
            return await client.ask(method, _parameters(asked, server.encoding))

        try:
            answer = await servers.ask(server, ask, REPLY_TIMEOUT_S)
        except LanguageServerError as error:
            problems.append(str(error))
            continue
        if answer is NotImplemented:
            continue
        able += 1
        lines = await asyncio.to_thread(_all_lines, asked, answer, root)
        if lines:
            more = [f"and {len(lines) - MAX_RESULTS} more"] if len(lines) > MAX_RESULTS else []
            return "\n".join((*lines[:MAX_RESULTS], *more)), len(lines)
    if not able:
        raise LanguageServerError("; ".join(problems) or "no language server for this kind of file can answer this")
    return _NOTHING[asked.find].format(name=printable(asked.name)), 0


_NOTHING: Mapping[SymbolQuestion, str] = {
    "definition": "no definition of `{name}` was found",
    "references": "no references to `{name}` were found",
    "in_file": "the file has no symbols",
    "in_project": "no symbol matches `{name}`",
}


def column_of(line: str, name: str) -> int | None:
    """Return the column of a name in a line, in characters, preferring whole words; None if it is not there."""
    places = [at for at in range(len(line)) if line.startswith(name, at)] if name else []
    alone = (at for at in places if not _is_name_char(line[:at][-1:]) and not _is_name_char(line[at + len(name) :][:1]))
    return next(alone, places[0] if places else None)


def _is_name_char(sign: str) -> bool:
    """Whether the character can be part of a name."""
    return sign.isalnum() or sign == "_"


def _parameters(asked: SymbolQuery, encoding: str) -> Mapping[str, object]:
    document = {"textDocument": {"uri": asked.path.as_uri()}}
    match asked.find:
        case "in_file":
            return document
        case "in_project":
            return {"query": asked.name}
        case "definition" | "references":
            line = asked.text.split("\n")[asked.line - 1]
            before = line[: column_of(line, asked.name) or 0]
            column = len(before) if encoding == "utf-32" else len(before.encode(_CODECS[encoding])) // _UNITS[encoding]
            place = {**document, "position": {"line": asked.line - 1, "character": column}}
            return {**place, "context": {"includeDeclaration": True}} if asked.find == "references" else place


_CODECS, _UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le"}, {"utf-8": 1, "utf-16": 2}


def _all_lines(asked: SymbolQuery, answer: object, root: Path) -> list[str]:
    return list(_lines(asked, answer, root))


def _lines(asked: SymbolQuery, answer: object, root: Path) -> Iterator[str]:
    found = [one for one in (answer if isinstance(answer, list) else [answer]) if isinstance(one, dict)]
    if asked.find in ("definition", "references"):
        yield from _places(found, root)
    elif asked.find == "in_file":
        yield from _outline(found, 0)
    else:
        for one in found:
            place = _place(one.get("location"))
            if place is not None:
                within = f" in {_name(one.get('containerName'))}" if one.get("containerName") else ""
                yield f"{_display_path(place[0], root)}:{place[1]}: {_kind(one)} {_name(one.get('name'))}{within}"


def _places(found: Sequence[Mapping[str, object]], root: Path) -> Iterator[str]:
    """Yield each position in order with its line. Lines outside the project are not shown."""
    places = sorted({place for one in found if (place := _place(one)) is not None})
    read = _reader(root)
    for path, line in places:
        text = read(path, line)
        yield f"{_display_path(path, root)}:{line}" + (f": {text}" if text else "")


def _reader(root: Path) -> Callable[[Path, int], str]:
    lines: dict[Path, list[str]] = {}

    def read(path: Path, line: int) -> str:
        if path not in lines:
            lines[path] = []
            real = path.resolve()
            if real.is_relative_to(root) and not holds_secrets(str(real)):
                try:
                    lines[path] = beginning_of(real, MAX_FILE_BYTES).decode("utf-8", "replace").split("\n")
                except OSError:
                    return ""
        return ellipsize(plain(lines[path][line - 1]).strip(), _MAX_LINE_CHARS) if line <= len(lines[path]) else ""

    return read


def _outline(found: Sequence[object], depth: int, *, in_function: bool = False) -> Iterator[str]:
    """Yield the symbols as an outline, without local variables of functions."""
    for one in found:
        if isinstance(one, dict) and depth <= _MAX_DEPTH and not (in_function and _kind(one) in _LOCAL):
            location = one.get("location")
            where = one.get("selectionRange") or (location.get("range") if isinstance(location, dict) else None)
            yield f"{'  ' * depth}{start_of(where)[0] + 1}: {_kind(one)} {_name(one.get('name'))}"
            inner = one.get("children")
            is_function = _kind(one) in _FUNCTIONS
            yield from _outline(inner if isinstance(inner, list) else (), depth + 1, in_function=is_function)


def _place(value: object) -> tuple[Path, int] | None:
    """Return file and line, from 1, of a location or location link."""
    if not isinstance(value, dict):
        return None
    path = path_of(value.get("uri") or value.get("targetUri"))
    where = value.get("range") or value.get("targetSelectionRange")
    return (path, start_of(where)[0] + 1) if path is not None else None


def _display_path(path: Path, root: Path) -> str:
    return display(path, root)


def _kind(symbol: Mapping[str, object]) -> str:
    number = symbol.get("kind")
    return _KINDS[number - 1] if isinstance(number, int) and 0 < number <= len(_KINDS) else "symbol"


def _name(value: object) -> str:
    return ellipsize(printable(str(value)), _MAX_LINE_CHARS)

"""The `symbols` tool: definitions and uses of names, from language servers."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, cast

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, ToolSupport, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_number, get_text, object_schema
from ebbtide.tools.files.change import require_text
from ebbtide.tools.files.paths import display_path, resolve_path
from ebbtide.tools.files.read_write import read_bytes
from ebbtide.tools.files.text import decode_file
from ebbtide.tools.integrations import lsp
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.tool_traits import ToolTraits, number_argument, path_argument, text_argument

if TYPE_CHECKING:  # imported for types only: few runs use a language server
    from ebbtide.tools.integrations.lsp.pool import LanguageServers
    from ebbtide.tools.integrations.lsp.symbols import SymbolQuestion

NO_SERVERS_ERROR = "this session has no language servers: use grep"


def _subject(arguments: Arguments) -> str:
    line = number_argument(arguments, "line")
    position = path_argument(arguments) + (f":{line}" if line is not None else "")
    query = f"{text_argument(arguments, 'find').replace('_', ' ')} {text_argument(arguments, 'name')}".strip()
    return f"{query}  in {position}"


class LanguageServerTool:
    """Base class of the tools that query language servers."""

    effect: Effect = "read"
    kind: Literal["rare"] = "rare"

    def __init__(self, servers: "Callable[[], LanguageServers] | None" = None) -> None:
        self._servers = servers

    @classmethod
    def for_session(cls, support: ToolSupport) -> Self:
        return cls(cast("Callable[[], LanguageServers] | None", support.get_language_servers))


class Symbols(LanguageServerTool):
    name = "symbols"
    description = read_description(__file__)
    traits = ToolTraits(
        acp_kind="search",
        get_subject=_subject,
        small_window_policy="optional",
        is_useful=lambda project: project.has_language_server(),
    )
    schema = object_schema(
        {
            "find": {"enum": ["definition", "references", "in_file", "in_project"]},
            "path": {"type": "string"},
            "line": {"type": "integer", "minimum": 1},
            "name": {"type": "string"},
        },
        required=("find", "path"),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        path = resolve_path(get_text(arguments, "path"), workspace)
        return (str(path),) if arguments.get("find") == "in_file" else (str(path), str(workspace.root))

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if self._servers is None:
            raise ToolError(NO_SERVERS_ERROR)
        path = resolve_path(get_text(arguments, "path"), workspace)
        content = read_text_for_server(path, workspace)
        find, name = cast("SymbolQuestion", get_text(arguments, "find")), get_text(arguments, "name", "")
        line = get_number(arguments, "line", 1)
        if find in ("definition", "references"):
            lines = content.split("\n")
            if line > len(lines) or lsp.symbols.name_column(lines[line - 1], name) is None:
                file_label = display_path(path, workspace.root)
                raise ToolError(f"`{name}` is not in line {line} of `{file_label}`: give `name` and its `line`")
        try:
            answer, count = await lsp.symbols.answer_symbol_query(
                lsp.symbols.SymbolQuery(find, path, content, line, name), self._servers(), workspace.root
            )
        except lsp.client.LanguageServerError as error:
            raise ToolError(f"{error}; use grep instead") from error
        return Result(answer, extent=Extent("entries", min(count, 100), count))


def read_text_for_server(path: Path, workspace: Workspace) -> str:
    """Read the text of a file that a server will be asked about. Raises `ToolError`."""
    content = read_bytes(path)
    require_text(path, content, workspace)
    return decode_file(content).text

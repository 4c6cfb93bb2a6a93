"""The `symbols` tool: definitions and uses of names, from language servers."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.change import require_text
from ebbtide.tools.files.paths import display, resolve
from ebbtide.tools.files.read_write import read_bytes
from ebbtide.tools.files.text import decode
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.schema import number, object_of, text

if TYPE_CHECKING:  # types only: few runs ask such a server
    from ebbtide.tools.lsp.pool import LanguageServers
    from ebbtide.tools.lsp.symbols import SymbolQuestion

NONE = "this session has no language servers: use grep"


class Symbols:
    name = "symbols"
    description = read_description(__file__)
    effect: Effect = "read"
    kind: Literal["rare"] = "rare"
    schema = object_of(
        {
            "find": {"enum": ["definition", "references", "in_file", "in_project"]},
            "path": {"type": "string"},
            "line": {"type": "integer", "minimum": 1},
            "name": {"type": "string"},
        },
        required=("find", "path"),
    )

    def __init__(self, servers: "Callable[[], LanguageServers] | None" = None) -> None:
        self._servers = servers

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        path = resolve(text(arguments, "path"), workspace)
        return (str(path),) if arguments.get("find") == "in_file" else (str(path), str(workspace.root))

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.lsp.client import LanguageServerError  # noqa: PLC0415  # deferred: see above
        from ebbtide.tools.lsp.symbols import SymbolQuery, answer_to, column_of  # noqa: PLC0415  # deferred: see above

        if self._servers is None:
            raise ToolError(NONE)
        path = resolve(text(arguments, "path"), workspace)
        content = content_for(path, workspace)
        find, name = cast("SymbolQuestion", text(arguments, "find")), text(arguments, "name", "")
        line = number(arguments, "line", 1)
        if find in ("definition", "references"):
            lines = content.split("\n")
            if line > len(lines) or column_of(lines[line - 1], name) is None:
                shown = display(path, workspace.root)
                raise ToolError(f"`{name}` is not in line {line} of `{shown}`: give `name` and its `line`")
        try:
            told, count = await answer_to(SymbolQuery(find, path, content, line, name), self._servers(), workspace.root)
        except LanguageServerError as error:
            raise ToolError(f"{error}; use grep instead") from error
        return Result(told, extent=Extent("entries", min(count, 100), count))


def content_for(path: Path, workspace: Workspace) -> str:
    """Return the text of the file to ask the server about. Raises `ToolError`."""
    content = read_bytes(path)
    require_text(path, content, workspace)
    return decode(content).text

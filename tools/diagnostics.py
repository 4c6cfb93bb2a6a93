"""The `diagnostics` tool: problems that language servers report for a file, or for all open files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.files.paths import display, resolve
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.schema import object_of, text
from ebbtide.tools.symbols import NONE, content_for

if TYPE_CHECKING:  # types only: few runs ask such a server
    from ebbtide.tools.lsp.client import LanguageClient
    from ebbtide.tools.lsp.diagnostics import Problem
    from ebbtide.tools.lsp.pool import LanguageServers
    from ebbtide.tools.lsp.server import LanguageServer

MAX_PROBLEMS = 60
"""Maximum number of problems shown."""
REPLY_TIMEOUT_S = 20.0
"""Seconds for a server to answer, including its start."""


class Diagnostics:
    name = "diagnostics"
    description = read_description(__file__)
    effect: Effect = "read"
    kind: Literal["rare"] = "rare"
    schema = object_of({"path": {"type": "string"}}, required=())

    def __init__(self, servers: "Callable[[], LanguageServers] | None" = None) -> None:
        self._servers = servers

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve(text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        from ebbtide.tools.lsp.diagnostics import in_order, lines_of  # noqa: PLC0415  # deferred: see above

        if self._servers is None:
            raise ToolError(NONE)
        servers, notes = self._servers(), list[str]()
        if not text(arguments, "path", ""):
            found = servers.known_problems()
            nothing = "the language servers report no problems in the files they have checked"
        else:
            path = resolve(text(arguments, "path"), workspace)
            found = {path: await _problems(path, content_for(path, workspace), servers, notes)}
            nothing = f"no problems in `{display(path, workspace.root)}`"
        shown = {display(path, workspace.root): problems for path, problems in found.items()}
        count = sum(map(len, shown.values()))
        lines = [*lines_of(in_order(shown), MAX_PROBLEMS), *notes] if count else [nothing, *notes]
        return Result("\n".join(lines), extent=Extent("entries", min(count, MAX_PROBLEMS), count))


async def _problems(path: Path, content: str, servers: "LanguageServers", notes: list[str]) -> "tuple[Problem, ...]":
    """Return the problems that all servers report for the file. `notes` collects failures. Raises `ToolError` if every
    server fails."""
    from ebbtide.tools.lsp.client import LanguageServerError  # noqa: PLC0415  # deferred: see above

    found: list[Problem] = []
    asked = await servers.servers_for(path)
    for server in asked:

        async def ask(client: "LanguageClient", server: "LanguageServer" = server) -> "tuple[Problem, ...]":
            return (await server.problems_of({path: content}, client))[path]

        try:
            found += await servers.ask(server, ask, REPLY_TIMEOUT_S)
        except LanguageServerError as error:
            notes.append(f"({error})")
    if len(notes) == len(asked):
        raise ToolError(" ".join(notes) or "there is no language server for this kind of file: run its checks in bash")
    return tuple(found)

"""The `diagnostics` tool: the problems that language servers report for a file, or for all open files."""

from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tools.base import Arguments, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.files.paths import display_path, resolve_path
from ebbtide.tools.integrations import lsp
from ebbtide.tools.integrations.lsp.symbols_tool import NO_SERVERS_ERROR, LanguageServerTool, read_text_for_server
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.tool_traits import ToolTraits

if TYPE_CHECKING:  # imported for types only: few runs use a language server
    from ebbtide.tools.integrations.lsp.client import LanguageClient
    from ebbtide.tools.integrations.lsp.diagnostics import Problem
    from ebbtide.tools.integrations.lsp.pool import LanguageServers
    from ebbtide.tools.integrations.lsp.server import LanguageServer

MAX_VISIBLE_PROBLEMS = 60
"""Maximum number of problems shown."""
REPLY_TIMEOUT_S = 20.0
"""Seconds within which a server must answer, including its start."""


class Diagnostics(LanguageServerTool):
    name = "diagnostics"
    description = read_description(__file__)
    traits = ToolTraits(
        acp_kind="read",
        small_window_policy="optional",
        is_useful=lambda project: project.has_language_server(),
    )
    schema = object_schema({"path": {"type": "string"}}, required=())

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (str(resolve_path(get_text(arguments, "path", "."), workspace)),)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if self._servers is None:
            raise ToolError(NO_SERVERS_ERROR)
        servers, notes = self._servers(), list[str]()
        if not get_text(arguments, "path", ""):
            problems_by_path = servers.known_problems()
            no_problems = "the language servers report no problems in the files they have checked"
        else:
            path = resolve_path(get_text(arguments, "path"), workspace)
            problems_by_path = {
                path: await _reported_problems(path, read_text_for_server(path, workspace), servers, notes)
            }
            no_problems = f"no problems in `{display_path(path, workspace.root)}`"
        problems_by_name = {display_path(path, workspace.root): problems for path, problems in problems_by_path.items()}
        problem_count = sum(map(len, problems_by_name.values()))
        lines = (
            [
                *lsp.diagnostics.problem_lines(
                    lsp.diagnostics.ordered_problems(problems_by_name), MAX_VISIBLE_PROBLEMS
                ),
                *notes,
            ]
            if problem_count
            else [no_problems, *notes]
        )
        return Result(
            "\n".join(lines), extent=Extent("entries", min(problem_count, MAX_VISIBLE_PROBLEMS), problem_count)
        )


async def _reported_problems(
    path: Path, content: str, servers: "LanguageServers", notes: list[str]
) -> "tuple[Problem, ...]":
    """Return the problems that all servers report for the file. `notes` collects the failures of individual servers.
    Raises `ToolError` if every server fails."""
    problems: list[Problem] = []
    file_servers = await servers.servers_for(path)
    for server in file_servers:

        async def request_problems(
            client: "LanguageClient", server: "LanguageServer" = server
        ) -> "tuple[Problem, ...]":
            return (await server.problems_of({path: content}, client))[path]

        try:
            problems += await servers.run_with_client(server, request_problems, REPLY_TIMEOUT_S)
        except lsp.client.LanguageServerError as error:
            notes.append(f"({error})")
    if len(notes) == len(file_servers):
        raise ToolError(" ".join(notes) or "there is no language server for this kind of file: run its checks in bash")
    return tuple(problems)

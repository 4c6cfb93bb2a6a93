"""The MCP server: its tools, and the dispatch of calls."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from ebbtide.agent.config.values import Config
from ebbtide.agent.crash import crash_error
from ebbtide.agent.errors import AgentError
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.base import ToolError
from ebbtide.tools.schema import mismatches
from ebbtide.tools.version import VERSION
from ebbtide.tui.acp.transport import LineTransport
from ebbtide.tui.mcp_server.definitions import INSTRUCTIONS, READ_RESULT, RECALL, SESSIONS_SEARCH, TASK, WITH_TASKS
from ebbtide.tui.mcp_server.lookups import SessionLookups
from ebbtide.tui.mcp_server.streams import FromClient, ToClient
from ebbtide.tui.mcp_server.task import OpenSessions, Tasks
from ebbtide.tui.terminal.signals import shut_down_on_signals

Context: TypeAlias = ServerRequestContext[Any, Any]
Answer: TypeAlias = Callable[[Mapping[str, Any], Context], Awaitable[types.CallToolResult]]


class ToolServer:
    """Serves one client."""

    def __init__(self, config: Config, open_sessions: OpenSessions, *, offers_tasks: bool) -> None:
        self._config = config
        self._sessions: Sessions = open_sessions(config)
        self._tasks = Tasks(config, open_sessions)
        lookups = SessionLookups(self._sessions)
        self._tools: dict[str, tuple[types.Tool, Answer]] = {
            "recall": (RECALL, lambda arguments, _: lookups.recall(arguments)),
            "read_result": (READ_RESULT, lambda arguments, _: lookups.read_result(arguments)),
            "sessions_search": (SESSIONS_SEARCH, lambda arguments, _: lookups.search(arguments)),
        }
        if offers_tasks:
            self._tools["task"] = (TASK, self._task)
        self._server: Server[Any] = Server(
            "ebbtide",
            version=VERSION,
            title="Ebbtide",
            instructions=INSTRUCTIONS + (WITH_TASKS if offers_tasks else ""),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def serve(self, transport: LineTransport) -> int:
        """Serve until the client disconnects or the program is terminated; return the exit code."""
        with shut_down_on_signals(transport.end) as ending:
            try:
                options = self._server.create_initialization_options()
                await self._server.run(FromClient(transport), ToClient(transport), options)
            finally:
                await self._tasks.close()
                await self._sessions.close()
                await transport.close()
        return ending.code

    async def _list(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, _ in self._tools.values()])

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in self._tools:
            told = f"there is no tool `{params.name[:100]}`; there are {', '.join(self._tools)}"
            raise MCPError(types.INVALID_PARAMS, told)
        tool, answer = self._tools[params.name]
        arguments = params.arguments or {}
        problems = mismatches(arguments, tool.input_schema)
        if problems:
            return _error_result(f"these arguments do not fit: {'; '.join(problems)}")
        try:
            return await answer(arguments, context)
        except (ToolError, AgentError) as error:
            return _error_result(str(error))
        except Exception as error:  # noqa: BLE001  # the outermost place of a call: what nobody expected is told here
            return _error_result(str(crash_error(error, self._config.folders.logs)))

    async def _task(self, arguments: Mapping[str, Any], context: Context) -> types.CallToolResult:
        async def report(count: float, said: str) -> None:
            await context.session.report_progress(count, None, said)

        return await self._tasks.run(arguments, report)


def _error_result(told: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=told)], is_error=True)

"""The MCP server: its tools and the dispatch of calls."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.logs.crash_reports import crash_error
from ebbtide.tools.base import ToolError
from ebbtide.tools.call_arguments.schema import schema_violations
from ebbtide.tui.integrations.line_transport import LineTransport
from ebbtide.tui.integrations.mcp_server.definitions import (
    INSTRUCTIONS,
    READ_RESULT_TOOL,
    RECALL_TOOL,
    SESSIONS_SEARCH_TOOL,
    TASK_INSTRUCTIONS,
    TASK_TOOL,
)
from ebbtide.tui.integrations.mcp_server.lookups import SessionLookups
from ebbtide.tui.integrations.mcp_server.streams import ClientInput, ClientOutput
from ebbtide.tui.integrations.mcp_server.task import OpenSessions, RunningTasks
from ebbtide.tui.terminal.signals import shut_down_on_signals
from ebbtide.version import VERSION

RequestContext: TypeAlias = ServerRequestContext[Any, Any]
ToolHandler: TypeAlias = Callable[[Mapping[str, Any], RequestContext], Awaitable[types.CallToolResult]]


class ToolServer:
    """Serves one client."""

    def __init__(self, config: Config, open_sessions: OpenSessions, *, offers_tasks: bool) -> None:
        self._config = config
        self._sessions: ProjectSessions = open_sessions(config)
        self._tasks = RunningTasks(config, open_sessions)
        lookups = SessionLookups(self._sessions)
        self._tools: dict[str, tuple[types.Tool, ToolHandler]] = {
            RECALL_TOOL.name: (RECALL_TOOL, lambda arguments, _: lookups.recall(arguments)),
            READ_RESULT_TOOL.name: (READ_RESULT_TOOL, lambda arguments, _: lookups.read_result(arguments)),
            SESSIONS_SEARCH_TOOL.name: (SESSIONS_SEARCH_TOOL, lambda arguments, _: lookups.search_sessions(arguments)),
        }
        if offers_tasks:
            self._tools[TASK_TOOL.name] = (TASK_TOOL, self._run_task)
        self._server: Server[Any] = Server(
            "ebbtide",
            version=VERSION,
            title="Ebbtide",
            instructions=INSTRUCTIONS + (TASK_INSTRUCTIONS if offers_tasks else ""),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def serve(self, transport: LineTransport) -> int:
        """Serve until the client disconnects or the program is terminated; return the exit code."""
        with shut_down_on_signals(transport.stop_reading) as shutdown:
            try:
                options = self._server.create_initialization_options()
                await self._server.run(ClientInput(transport), ClientOutput(transport), options)
            finally:
                await self._tasks.close()
                await self._sessions.close()
                await transport.close()
        return shutdown.exit_code

    async def _list_tools(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool for tool, _ in self._tools.values()])

    async def _call_tool(self, context: RequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in self._tools:
            message = f"unknown tool `{params.name[:100]}`; available: {', '.join(self._tools)}"
            raise MCPError(types.INVALID_PARAMS, message)
        tool, handler = self._tools[params.name]
        arguments = params.arguments or {}
        problems = schema_violations(arguments, tool.input_schema)
        if problems:
            return _error_result(f"invalid arguments: {'; '.join(problems)}")
        try:
            return await handler(arguments, context)
        except (ToolError, AgentError) as error:
            return _error_result(str(error))
        except Exception as error:  # noqa: BLE001  # unexpected errors of a call are reported here
            return _error_result(str(crash_error(error, self._config.folders.logs)))

    async def _run_task(self, arguments: Mapping[str, Any], context: RequestContext) -> types.CallToolResult:
        async def report_progress(count: float, message: str) -> None:
            await context.session.report_progress(count, None, message)

        return await self._tasks.run(arguments, report_progress)


def _error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)

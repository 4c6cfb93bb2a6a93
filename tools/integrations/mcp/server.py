"""The lifecycle of one MCP server: started, queried, restarted after failures, closed. The SDK is only loaded when a
server starts."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from ebbtide.tools.base import Arguments, Result, ToolError
from ebbtide.tools.integrations import mcp
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.offers import (
    LoginRequiredError,
    PostNotSupportedError,
    PromptMessage,
    ServerPhase,
    ServerState,
    SessionExpiredError,
)
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.texts import error_text, one_line
from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.tools.process.groups import TERMINATE_GRACE_S
from ebbtide.tools.secrets.redaction import redact_text

if TYPE_CHECKING:
    from ebbtide.tools.integrations.mcp.connection import ListKind, McpConnection

FIRST_RESTART_DELAY_S = 1.0
"""Seconds before the first restart after a failure. The delay doubles with each further restart."""
MAX_RESTARTS = 5
_STEADY_RUN_S = 60.0
"""Earlier failures no longer count after this many seconds of operation."""
_RELIST_TIMEOUT_S = 3.0
"""How long a call that changed the lists waits for their update, in seconds."""
_RELIST_INTERVAL_S = 0.5
"""Minimum number of seconds between two updates of the lists."""
_CLOSE_MARGIN_S = 1.0
"""Extra time for closing a server, after its program's grace period, in seconds."""
_ALL_LISTS: "frozenset[ListKind]" = frozenset(("tools", "resources", "prompts"))

T = TypeVar("T")

ServerCommand: TypeAlias = Literal["close", "restart"]
"""What a running server has been told to do."""


class McpServer:
    """A server, and the only task that communicates with it. That task never raises an error: an error changes the
    server's state, or becomes a `ToolError` of the call that it affects."""

    def __init__(
        self,
        spec: ServerSpec,
        handlers: ClientHandlers,
        log: Path,
        credentials_path: Path,
        first_restart_delay: float = FIRST_RESTART_DELAY_S,
    ) -> None:
        """`log`: the file for the server's error output. `credentials_path`: the file for its login."""
        self.spec = spec
        self.log = log
        self.state = ServerState("disabled")
        self._handlers = handlers
        self._credentials = credentials_path
        self._first_restart_delay = first_restart_delay
        self._task: asyncio.Task[None] | None = None
        self._connection: McpConnection | None = None
        self._wake = asyncio.Event()
        self._start_finished = asyncio.Event()
        self._command: ServerCommand | None = None
        self._start_timeout: asyncio.Timeout | None = None
        """The timeout of the current start."""
        self._is_logging_in = False
        """Whether the current start may ask the user to log in."""

    def start(self) -> None:
        """Start the server in the background, unless it has already been started."""
        if self._task is None or self._task.done():
            self._command = None
            self._set_phase("starting")
            self._task = asyncio.create_task(self._run_until_closed(), name=f"mcp server {self.spec.name}")

    async def wait_until_started(self) -> ServerState:
        """Wait until the server is no longer starting; return its state."""
        while self.state.phase == "starting":
            await self._start_finished.wait()
        return self.state

    async def restart(self) -> ServerState:
        """Restart the server, even if it is busy, and return its new state."""
        if self._task is None or self._task.done():
            self.start()
        else:
            self._set_phase("starting")
            self._send_command("restart")
        return await self.wait_until_started()

    async def login(self) -> ServerState:
        """Restart the server, and let the user log in if it requires that. Cancelling aborts the login."""
        self._is_logging_in = True
        try:
            return await self.restart()
        except asyncio.CancelledError:
            if self.state.phase == "starting":
                self._send_command("restart")
            raise
        finally:
            self._is_logging_in = False

    async def close(self) -> None:
        """Close the server. If it does not end within its program's grace period, abort it."""
        if self._task is None:
            self._set_phase("closed")
            return
        self._send_command("close")
        done_tasks, _ = await asyncio.wait([self._task], timeout=TERMINATE_GRACE_S + _CLOSE_MARGIN_S)
        if not done_tasks:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._set_phase("closed")

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """Call a tool and return its result. `name`: the server's own name for the tool. Cancelling affects only this
        call. Raises `ToolError`.

        If the call changes the server's lists, wait briefly until they are updated, because the next call may need
        them.
        """

        def call_tool(connection: "McpConnection") -> Awaitable[Result]:
            if all(tool.original_name != name for tool in self.state.tools):
                raise ToolError(f"the server `{self.spec.label}` no longer offers `{one_line(name)}`")
            return connection.call_tool(name, arguments, progress)

        if all(tool.original_name != name for tool in self.state.tools):
            await self._wait_for_lists()
        previous_change_count = self._connection.change_count if self._connection is not None else 0
        result = await self._request(call_tool)
        if self._connection is not None and self._connection.change_count != previous_change_count:
            await self._wait_for_lists()
        return result

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""
        return await self._request(lambda connection: connection.read_resource(uri))

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises `ToolError`."""
        return await self._request(lambda connection: connection.get_prompt(name, dict(arguments)))

    async def _request(self, send_request: "Callable[[McpConnection], Awaitable[T]]") -> T:
        """Send a request once the server is ready. If the server no longer knows the session, send the request
        again."""
        try:
            return await send_request(await self._ready_connection())
        except SessionExpiredError:
            return await send_request(await self._ready_connection())

    async def _wait_for_lists(self) -> None:
        """Wait until the lists are up to date, but only for a limited time."""
        if self._connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELIST_TIMEOUT_S):
                    await self._connection.lists_up_to_date.wait()

    async def _ready_connection(self) -> "McpConnection":
        await self.wait_until_started()
        if self._connection is None:
            detail = f": {self.state.detail}" if self.state.detail else ""
            raise ToolError(f"the server `{self.spec.label}` cannot be used ({self.state.phase}){detail}")
        return self._connection

    # The background task

    async def _run_until_closed(self) -> None:
        """Run and restart the server until it is closed."""
        log = ServerLog(self.log, secrets=self.spec.secrets)
        restart_count = 0
        command: ServerCommand = "restart"
        try:
            while command != "close":
                ended = await self._run(log)
                if ended.was_steady:
                    restart_count = 0
                match ended.outcome:
                    case "close" | "restart":
                        command, restart_count = ended.outcome, 0
                    case "needs login":
                        self._set_phase("needs_login", ended.reason)
                        command, restart_count = await self._wait_for_command(), 0
                    case "lost" if restart_count < MAX_RESTARTS and (ended.was_ready or restart_count):
                        pause = self._first_restart_delay * 2**restart_count
                        restart_count += 1
                        self._set_phase("starting", f"{ended.reason}; restarting ({restart_count} of {MAX_RESTARTS})")
                        command = await self._wait_for_command(pause)
                    case "lost":
                        self._set_phase("failed", ended.reason)
                        command, restart_count = await self._wait_for_command(), 0
        finally:
            self._connection = None
            log.close()
            self._set_phase("closed")

    async def _run(self, log: ServerLog) -> "_RunEnd":
        """Start the server and serve it until the connection ends."""
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        was_ready = False
        outcome: ServerCommand | Literal["lost", "needs login"] = "lost"
        try:
            async with self._open_connection(log) as connection:
                was_ready = True
                outcome = await self._serve(connection)
                reason = connection.loss_reason
        except LoginRequiredError as error:
            outcome, reason = "needs login", str(error)
        except Exception as error:  # noqa: BLE001  # isolates servers from each other
            reason = self._failure_reason(error, log) if self._command is None else ""
        self._connection = None
        if self._command is not None:
            outcome = self._take_command()
        elif outcome == "restart":
            self._set_phase("starting")
        return _RunEnd(outcome, reason, was_ready, was_steady=loop.time() - started_at > _STEADY_RUN_S)

    @asynccontextmanager
    async def _open_connection(self, log: ServerLog) -> "AsyncIterator[McpConnection]":
        """Yield a connection whose lists are loaded. If the server gets a command in the meantime, the connection is
        abandoned."""
        await asyncio.to_thread(import_module, f"{__package__}.connection")
        allow_login = self._is_logging_in
        timeout = self.spec.startup_timeout + (self.spec.login.timeout if allow_login else 0)
        async with self._limit_start(timeout) as mark_started, AsyncExitStack() as stack:

            async def connect(spec: ServerSpec) -> "McpConnection":
                connection_context = mcp.connection.open_connection(
                    spec, self._handlers, log, self._credentials, allow_login, self._mark_restarting
                )
                return await stack.enter_async_context(connection_context)

            try:
                connection = await connect(self.spec)
            except PostNotSupportedError as refused:
                try:
                    connection = await connect(replace(self.spec, is_sse=True))
                except ConnectionError:
                    raise refused from None
            state = await connection.fetch_state(_ALL_LISTS, ServerState("ready"), self)
            mark_started()
            connection.is_serving = True
            self._connection, self.state = connection, state
            self._notify_changed()
            yield connection

    @asynccontextmanager
    async def _limit_start(self, seconds: float) -> AsyncIterator[Callable[[], None]]:
        """Abort a start that takes too long or is interrupted by a command. Yield a function to call when the start is
        complete."""
        async with asyncio.timeout(seconds) as timeout:

            def mark_started() -> None:
                timeout.reschedule(None)
                self._start_timeout = None

            try:
                self._start_timeout = timeout
                if self._command is not None:
                    raise TimeoutError
                yield mark_started
            finally:
                self._start_timeout = None

    async def _serve(self, connection: "McpConnection") -> "ServerCommand | Literal['lost']":
        """Serve the connection until it ends, updating the lists whenever they change."""
        loop = asyncio.get_running_loop()
        last_update = loop.time()
        while True:
            await self._run_until_command(connection.changed.wait())
            connection.changed.clear()
            if self._command is not None:
                return self._take_command()
            if connection.loss_reason:
                return "lost"
            if connection.stale_lists:
                await self._run_until_command(asyncio.sleep(last_update + _RELIST_INTERVAL_S - loop.time()))
                last_update = loop.time()
                await self._run_until_command(self._refresh_lists(connection))

    async def _refresh_lists(self, connection: "McpConnection") -> None:
        await self._fetch_stale_lists(connection)
        connection.lists_up_to_date.set()  # not waiting for later changes, which might never end

    async def _fetch_stale_lists(self, connection: "McpConnection") -> None:
        kinds = frozenset(connection.stale_lists)
        connection.stale_lists.clear()
        try:
            async with asyncio.timeout(self.spec.startup_timeout):
                state = await connection.fetch_state(kinds, self.state, self)
        except Exception as error:  # noqa: BLE001  # the server continues with its old lists
            if not connection.loss_reason:
                self.state = replace(self.state, detail=f"its lists could not be updated: {error_text(error)}")
                self._notify_changed()
            return
        self.state = replace(state, phase=self.state.phase)  # a restart may have been ordered meanwhile
        self._notify_changed()

    async def _wait_for_command(self, seconds: float | None = None) -> ServerCommand:
        """Wait for the next command and return it. Return "restart" after a timeout."""
        try:
            async with asyncio.timeout(seconds):
                while self._command is None:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return "restart"
        return self._take_command()

    async def _run_until_command(self, coroutine: Coroutine[object, object, object]) -> None:
        """Run the coroutine until it is done or the server gets a command."""
        self._wake.clear()
        if self._command is not None:
            coroutine.close()
            return
        tasks = [asyncio.ensure_future(awaitable) for awaitable in (coroutine, self._wake.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _mark_restarting(self) -> None:
        """Make calls wait until the server has been restarted."""
        if self._connection is not None:
            self._connection = None
            self._set_phase("starting")

    def _take_command(self) -> ServerCommand:
        order, self._command = self._command, None
        return order or "restart"

    def _send_command(self, order: ServerCommand) -> None:
        self._command = order
        self._wake.set()
        if self._start_timeout is not None and not self._start_timeout.expired():
            self._start_timeout.reschedule(asyncio.get_running_loop().time())

    def _failure_reason(self, error: Exception, log: ServerLog) -> str:
        """Say in one line why the start failed, and log the details."""
        log.write("".join(traceback.format_exception(error)).encode("utf-8", "replace"))
        if isinstance(error, TimeoutError) and not str(error):
            return f"it was not ready within {self.spec.startup_timeout:g} seconds"
        return error_text(error)

    def _set_phase(self, phase: ServerPhase, detail: str = "") -> None:
        self.state = replace(self.state, phase=phase, detail=redact_text(detail, {}, self.spec.secrets))
        self._notify_changed()

    def _notify_changed(self) -> None:
        if self.state.phase == "starting":
            self._start_finished.clear()
        else:
            self._start_finished.set()
        self._handlers.notify_change(self.spec.name)


async def close_all(servers: Iterable[McpServer]) -> None:
    """Close all servers at the same time."""
    await asyncio.gather(*(server.close() for server in servers))


@dataclass(frozen=True, slots=True)
class _RunEnd:
    """How a run of a server ended."""

    outcome: ServerCommand | Literal["lost", "needs login"]
    reason: str
    was_ready: bool
    was_steady: bool

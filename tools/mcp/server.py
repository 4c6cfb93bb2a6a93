"""The lifecycle of one MCP server: started, queried, restarted after failures, closed. The protocol's library is loaded
only when a server starts."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from ebbtide.tools.base import Arguments, Result, ToolError
from ebbtide.tools.mcp.client_handlers import ClientHandlers
from ebbtide.tools.mcp.offers import NeedsLogin, Phase, PromptMessage, ServerState, SessionOver, TakesNoPosts
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.mcp.texts import error_text, one_line
from ebbtide.tools.process.groups import TERMINATE_GRACE_S
from ebbtide.tools.secrets.redaction import redact_text
from ebbtide.tools.server_log import ServerLog

if TYPE_CHECKING:
    from ebbtide.tools.mcp.connection import ListKind, McpConnection

FIRST_PAUSE = 1.0
"""Seconds before the first restart after a failure, doubled for each further one."""
MAX_RESTARTS = 5
_STEADY = 60.0
"""Seconds of operation after which earlier failures are forgotten."""
_RELIST_TIMEOUT_S = 3.0
"""Seconds that a call waits for the lists it has changed."""
_RELIST_EVERY = 0.5
"""Minimum number of seconds between two updates of the lists."""
_MARGIN = 1.0
"""Seconds for closing a server in addition to the grace period of its program."""
_EVERYTHING: "frozenset[ListKind]" = frozenset(("tools", "resources", "prompts"))

T = TypeVar("T")

ServerOrder: TypeAlias = Literal["close", "restart"]
"""Instructions to a server."""


class Server:
    """A server, and the single task that communicates with it. Errors never propagate: they become its state, or a
    `ToolError` of the call concerned."""

    def __init__(
        self, spec: ServerSpec, handlers: ClientHandlers, log: Path, credentials: Path, first_pause: float = FIRST_PAUSE
    ) -> None:
        """`log`: the file for its error output. `credentials`: the file for its login."""
        self.spec = spec
        self.log = log
        self.state = ServerState("disabled")
        self._handlers = handlers
        self._credentials = credentials
        self._first_pause = first_pause
        self._task: asyncio.Task[None] | None = None
        self._connection: McpConnection | None = None
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._wish: ServerOrder | None = None
        self._starting: asyncio.Timeout | None = None
        """The timeout of the current start."""
        self._is_logging_in = False
        """Whether a start may ask the user to log in."""

    def start(self) -> None:
        """Start the server in the background, unless it is already started."""
        if self._task is None or self._task.done():
            self._wish = None
            self._set_phase("starting")
            self._task = asyncio.create_task(self._live(), name=f"mcp server {self.spec.name}")

    async def ready(self) -> ServerState:
        """Wait until it is no longer starting, and return its state."""
        while self.state.phase == "starting":
            await self._settled.wait()
        return self.state

    async def restart(self) -> ServerState:
        """Restart it, whatever it is doing, and return its new state."""
        if self._task is None or self._task.done():
            self.start()
        else:
            self._set_phase("starting")
            self._do("restart")
        return await self.ready()

    async def login(self) -> ServerState:
        """Restart it, with a login by the user if required. Cancelling aborts the login."""
        self._is_logging_in = True
        try:
            return await self.restart()
        except asyncio.CancelledError:
            if self.state.phase == "starting":
                self._do("restart")
            raise
        finally:
            self._is_logging_in = False

    async def close(self) -> None:
        """Close it, by force after the grace period of its program."""
        if self._task is None:
            self._set_phase("closed")
            return
        self._do("close")
        done, _ = await asyncio.wait([self._task], timeout=TERMINATE_GRACE_S + _MARGIN)
        if not done:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._set_phase("closed")

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """Return the result of a tool call. Raises `ToolError`. `name` is the server's name of the tool. Cancelling
        affects only this call. If the call changed the lists, they are updated first if that is quick, since the next
        call may need them."""

        def ask(connection: "McpConnection") -> Awaitable[Result]:
            if all(tool.original != name for tool in self.state.tools):
                raise ToolError(f"the server `{self.spec.label}` does not offer `{one_line(name)}` any more")
            return connection.call(name, arguments, progress)

        if all(tool.original != name for tool in self.state.tools):
            await self._offers_known()
        before = self._connection.changes if self._connection is not None else 0
        result = await self._answer(ask)
        if self._connection is not None and self._connection.changes != before:
            await self._offers_known()
        return result

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""
        return await self._answer(lambda connection: connection.read_resource(uri))

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises `ToolError`."""
        return await self._answer(lambda connection: connection.get_prompt(name, dict(arguments)))

    async def _answer(self, ask: "Callable[[McpConnection], Awaitable[T]]") -> T:
        """Send a request once the server is ready, and a second time if the server had lost the session."""
        try:
            return await ask(await self._ready_connection())
        except SessionOver:
            return await ask(await self._ready_connection())

    async def _offers_known(self) -> None:
        """Wait until the lists are up to date, or for a limited time."""
        if self._connection is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELIST_TIMEOUT_S):
                    await self._connection.is_known.wait()

    async def _ready_connection(self) -> "McpConnection":
        await self.ready()
        if self._connection is None:
            detail = f": {self.state.detail}" if self.state.detail else ""
            raise ToolError(f"the server `{self.spec.label}` cannot be used ({self.state.phase}){detail}")
        return self._connection

    # The background task.

    async def _live(self) -> None:
        """Run and restart the server until it is closed."""
        log = ServerLog(self.log, secrets=self.spec.secrets)
        restarts = 0
        wish: ServerOrder = "restart"
        try:
            while wish != "close":
                ended = await self._run(log)
                if ended.was_steady:
                    restarts = 0
                match ended.how:
                    case "close" | "restart":
                        wish, restarts = ended.how, 0
                    case "needs login":
                        self._set_phase("needs_login", ended.why)
                        wish, restarts = await self._next_order(), 0
                    case "lost" if restarts < MAX_RESTARTS and (ended.was_ready or restarts):
                        pause = self._first_pause * 2**restarts
                        restarts += 1
                        self._set_phase("starting", f"{ended.why}; restarting ({restarts} of {MAX_RESTARTS})")
                        wish = await self._next_order(pause)
                    case "lost":
                        self._set_phase("failed", ended.why)
                        wish, restarts = await self._next_order(), 0
        finally:
            self._connection = None
            log.close()
            self._set_phase("closed")

    async def _run(self, log: ServerLog) -> "_RunEnd":
        """Start it and serve until the connection ends."""
        loop = asyncio.get_running_loop()
        began, was_ready = loop.time(), False
        how: ServerOrder | Literal["lost", "needs login"] = "lost"
        try:
            async with self._open_connection(log) as connection:
                was_ready = True
                how = await self._serve(connection)
                why = connection.lost
        except NeedsLogin as error:
            how, why = "needs login", str(error)
        except Exception as error:  # noqa: BLE001  # isolates servers from each other
            why = self._reason(error, log) if self._wish is None else ""
        self._connection = None
        if self._wish is not None:
            how = self._take_wish()
        elif how == "restart":
            self._set_phase("starting")
        return _RunEnd(how, why, was_ready, was_steady=loop.time() - began > _STEADY)

    @asynccontextmanager
    async def _open_connection(self, log: ServerLog) -> "AsyncIterator[McpConnection]":
        """Yield a connection with its lists loaded. It is abandoned if the server gets another instruction
        meanwhile."""
        await asyncio.to_thread(import_module, f"{__package__}.connection")
        from ebbtide.tools.mcp.connection import open_connection  # noqa: PLC0415  # deferred: takes a second

        with_user = self._is_logging_in
        patience = self.spec.startup_timeout + (self.spec.login.patience if with_user else 0)
        async with self._in_time(patience) as started, AsyncExitStack() as stack:

            async def connect(spec: ServerSpec) -> "McpConnection":
                opened = open_connection(spec, self._handlers, log, self._credentials, with_user, self._note_lost)
                return await stack.enter_async_context(opened)

            try:
                connection = await connect(self.spec)
            except TakesNoPosts as refused:
                try:
                    connection = await connect(replace(self.spec, is_sse=True))
                except ConnectionError:
                    raise refused from None
            state = await connection.state(_EVERYTHING, ServerState("ready"), self)
            started()
            connection.is_serving = True
            self._connection, self.state = connection, state
            self._notify_changed()
            yield connection

    @asynccontextmanager
    async def _in_time(self, seconds: float) -> AsyncIterator[Callable[[], None]]:
        """Abort a start that takes too long, or during which the server gets another instruction."""
        async with asyncio.timeout(seconds) as patience:

            def started() -> None:
                patience.reschedule(None)
                self._starting = None

            try:
                self._starting = patience
                if self._wish is not None:
                    raise TimeoutError
                yield started
            finally:
                self._starting = None

    async def _serve(self, connection: "McpConnection") -> "ServerOrder | Literal['lost']":
        """Serve until the connection ends, and update the lists whenever they change."""
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await self._first_of(connection.news.wait())
            connection.news.clear()
            if self._wish is not None:
                return self._take_wish()
            if connection.lost:
                return "lost"
            if connection.stale:
                await self._first_of(asyncio.sleep(looked + _RELIST_EVERY - loop.time()))
                looked = loop.time()
                await self._first_of(self._relist(connection))

    async def _relist(self, connection: "McpConnection") -> None:
        await self._look_again(connection)
        connection.is_known.set()  # not repeated for later changes, which might never end

    async def _look_again(self, connection: "McpConnection") -> None:
        kinds = frozenset(connection.stale)
        connection.stale.clear()
        try:
            async with asyncio.timeout(self.spec.startup_timeout):
                state = await connection.state(kinds, self.state, self)
        except Exception as error:  # noqa: BLE001  # it continues with its old lists
            if not connection.lost:
                self.state = replace(self.state, detail=f"what it offers now is unknown: {error_text(error)}")
                self._notify_changed()
            return
        self.state = replace(state, phase=self.state.phase)  # it may have been told to restart meanwhile
        self._notify_changed()

    async def _next_order(self, seconds: float | None = None) -> ServerOrder:
        """Return the next instruction, or "restart" after a timeout."""
        try:
            async with asyncio.timeout(seconds):
                while self._wish is None:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return "restart"
        return self._take_wish()

    async def _first_of(self, other: Coroutine[object, object, object]) -> None:
        """Wait until the other is done or the server gets an instruction."""
        self._wake.clear()
        if self._wish is not None:
            other.close()
            return
        tasks = [asyncio.ensure_future(each) for each in (other, self._wake.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _note_lost(self) -> None:
        """Make calls wait until the restart."""
        if self._connection is not None:
            self._connection = None
            self._set_phase("starting")

    def _take_wish(self) -> ServerOrder:
        wish, self._wish = self._wish, None
        return wish or "restart"

    def _do(self, wish: ServerOrder) -> None:
        self._wish = wish
        self._wake.set()
        if self._starting is not None and not self._starting.expired():
            self._starting.reschedule(asyncio.get_running_loop().time())

    def _reason(self, error: Exception, log: ServerLog) -> str:
        """Return in one line why it failed to start, and log the details."""
        log.write("".join(traceback.format_exception(error)).encode("utf-8", "replace"))
        if isinstance(error, TimeoutError) and not str(error):
            return f"it was not ready within {self.spec.startup_timeout:g} seconds"
        return error_text(error)

    def _set_phase(self, phase: Phase, detail: str = "") -> None:
        self.state = replace(self.state, phase=phase, detail=redact_text(detail, {}, self.spec.secrets))
        self._notify_changed()

    def _notify_changed(self) -> None:
        if self.state.phase == "starting":
            self._settled.clear()
        else:
            self._settled.set()
        self._handlers.notify_change(self.spec.name)


async def close_all(servers: Iterable[Server]) -> None:
    """Close all servers concurrently."""
    await asyncio.gather(*(server.close() for server in servers))


@dataclass(frozen=True, slots=True)
class _RunEnd:
    """How a run of a server ended."""

    how: ServerOrder | Literal["lost", "needs login"]
    why: str
    was_ready: bool
    was_steady: bool

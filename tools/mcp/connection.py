"""One connection to an MCP server. Only this module and those that it alone imports load the SDK, which takes a
second."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ebbtide.tools.base import Arguments, Result, ToolError
from ebbtide.tools.mcp.client_handlers import AcceptedAnswer, ClientHandlers
from ebbtide.tools.mcp.listing import all_listed, prompts_of, resource_of, tools_of
from ebbtide.tools.mcp.offers import (
    Caller,
    NeedsLogin,
    PromptMessage,
    ServerState,
    SessionOver,
    TakesNoPosts,
    instructions_of,
)
from ebbtide.tools.mcp.questions import ask_to_open, callbacks
from ebbtide.tools.mcp.repairs import repair_streams
from ebbtide.tools.mcp.results import messages_of, result_of, result_of_resource
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.mcp.sse import sse
from ebbtide.tools.mcp.texts import error_text, one_line
from ebbtide.tools.mcp.transport import http, status_of, stdio
from ebbtide.tools.server_log import ServerLog
from ebbtide.tools.version import VERSION

# Otherwise Python would print warnings logged by the SDK over the interface.
for name in ("mcp", "client"):
    logging.getLogger(name).addHandler(logging.NullHandler())

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]
KINDS: tuple[ListKind, ...] = ("tools", "resources", "prompts")
_CHANGES: Mapping[str, ListKind] = {f"notifications/{kind}/list_changed": kind for kind in KINDS}

_MAX_EXTENSIONS = 60
"""Maximum duration of a call with progress, as a multiple of its timeout."""
_MAX_LEFT_OUT = 10
"""Maximum number of omitted list entries that are reported one by one."""
_SESSION_OVER = "Session terminated"
"""The SDK's message when a remote server no longer knows the session."""
_CLOSED_MESSAGE = "Connection closed"
"""The SDK's message when the connection is lost as a whole."""
_PROGRESS_EVERY = 0.1
"""Minimum number of seconds between progress lines."""
_FIRST_LISTS, _LATER_LISTS = 1.0, 10.0
"""Seconds for a server to list its resources or prompts, at its start and later."""
_MAX_DATA_CHARS = 1_000
"""Maximum number of characters shown of an error's details."""
_LISTEN_AGAIN = 5.0
"""Seconds before change notifications are requested again after they stopped."""


E = TypeVar("E", bound=BaseException)


@asynccontextmanager
async def open_connection(
    spec: ServerSpec,
    handlers: ClientHandlers,
    log: ServerLog,
    credentials: Path,
    with_user: bool,
    lost: Callable[[], None],
) -> "AsyncIterator[McpConnection]":
    """Yield a ready connection, which the task that entered it must leave.

    Raises `ConnectionError` if the server says or shows why it fails (`TakesNoPosts` if it may use the older
    transport), `NeedsLogin`, and other errors of the SDK. `with_user`: log in if the server requires it. `lost` is
    called as soon as the connection ends unexpectedly.
    """
    connection = McpConnection(spec, handlers, log, lost)
    client = Client(
        _transport(connection, log, credentials, with_user),
        logging_callback=connection.on_log_message,
        client_info=types.Implementation(name="ebbtide", version=VERSION),
        cache=None,
        **callbacks(spec.name, handlers, connection.patience.question),
    )
    try:
        async with client:
            connection.use(client)
            listening = asyncio.create_task(connection.listen())
            try:
                yield connection
            finally:
                connection.leave()
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
    except (MCPError, ExceptionGroup) as error:  # the SDK wraps some errors, and some more than once
        if (login := _find_error(error, NeedsLogin)) is not None:
            raise login from error
        if connection.refused_post and not connection.lost:
            raise TakesNoPosts(connection.refused_post) from error
        raise ConnectionError(connection.lost or error_text(error)) from error


@asynccontextmanager
async def _transport(
    connection: "McpConnection", log: ServerLog, credentials: Path, with_user: bool
) -> AsyncIterator[TransportStreams]:
    spec = connection.spec
    if spec.command:
        over = stdio(spec, log, connection.lose)
    elif spec.is_sse:
        over = sse(spec, credentials, connection.handlers, with_user)
    else:
        over = http(spec, credentials, connection.handlers, with_user, connection.on_post_response)
    async with over as streams:
        yield repair_streams(streams, connection.on_notification, connection.left_out.append, connection.lose)


def _find_error(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of a type in nested exception groups."""
    if isinstance(error, kind):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for each in inner if (found := _find_error(each, kind)) is not None), None)


class McpConnection:
    """The connection to a server. Sets `news` when it is lost or the server's lists change."""

    def __init__(self, spec: ServerSpec, handlers: ClientHandlers, log: ServerLog, on_lost: Callable[[], None]) -> None:
        self.patience = ServerTimeouts(spec.call_timeout)
        self.news = asyncio.Event()
        self.lost = ""
        """Why it was lost, or an empty string."""
        self.stale: set[ListKind] = set()
        """Lists that have changed since they were fetched."""
        self.is_known = asyncio.Event()
        """Set while the lists are up to date."""
        self.changes = 0
        """Number of change notifications so far."""
        self.is_known.set()
        self.refused_post = ""
        """Status of the last POST if the address refused it."""
        self.left_out: list[str] = []
        """One line per omitted list entry, with the reason."""
        self.spec = spec
        self.handlers = handlers
        self.is_serving = False
        """Whether the tools are known, so that other lists may take longer."""
        self._log = log
        self._on_lost = on_lost
        self._is_left = False
        self._client: Client

    def use(self, client: Client) -> None:
        self._client = client
        # The SDK would otherwise discard a result that violates the tool's output schema.
        client.session.validate_tool_result = _as_it_is  # type: ignore[method-assign]  # the SDK has no setting for it

    async def state(self, kinds: frozenset[ListKind], before: ServerState, caller: Caller) -> ServerState:
        """Return the server's details and its current lists of these kinds. Everything else is taken from `before`."""
        client, has = self._client, self._client.server_capabilities
        info = client.server_info
        title, version = (one_line(info.title or info.name), one_line(info.version)) if info else ("", "")
        state = replace(before, detail="", name=title, version=version, protocol=client.protocol_version)
        state = replace(state, instructions=instructions_of(client.instructions or "", caller))
        self.left_out.clear()
        if "tools" in kinds and (has.tools is not None or not has.model_dump(exclude_none=True)):
            offered = await all_listed(lambda at: client.list_tools(cursor=at), lambda page: page.tools, self.left_out)
            tools, notes = await asyncio.to_thread(tools_of, offered, caller)  # ten thousand tools take seconds
            state = replace(state, tools=tools, notes=notes)
        if "resources" in kinds and has.resources is not None:
            state = await self._unless_it_fails("resources", self._with_resources, state)
        if "prompts" in kinds and has.prompts is not None:
            state = await self._unless_it_fails("prompts", self._with_prompts, state)
        unknown = tuple(f"its {kind} are not known" for kind in kinds)
        state = replace(state, notes=tuple(note for note in state.notes if not note.startswith(unknown)))
        left_out = (line for line in self.left_out[:_MAX_LEFT_OUT] if line not in state.notes)
        return replace(state, notes=(*state.notes, *left_out))

    async def _unless_it_fails(
        self, kind: ListKind, listed: Callable[[ServerState], Awaitable[ServerState]], before: ServerState
    ) -> ServerState:
        """Return the state with a list added. If that fails or is late, the server still has its tools."""
        patience = _LATER_LISTS if self.is_serving else _FIRST_LISTS
        try:
            async with asyncio.timeout(patience):
                return await listed(before)
        except TimeoutError:
            self.left_out.append(f"its {kind} are not known: it has not answered `{kind}/list` in {patience:g} s")
            if not self.is_serving:
                self.stale.add(kind)
                self.news.set()
        except (MCPError, ToolError, RuntimeError) as error:
            if self.lost or (isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED):
                raise
            if not (isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND):
                self.left_out.append(f"its {kind} are not known: {_detailed_error(error)}")
        return before

    async def _with_resources(self, state: ServerState) -> ServerState:
        fetch = self._client.list_resources
        found = await all_listed(lambda at: fetch(cursor=at), lambda page: page.resources, self.left_out)
        state = replace(state, resources=tuple(map(resource_of, found)))
        return replace(state, templates=tuple(map(resource_of, await self._templates())))

    async def _with_prompts(self, state: ServerState) -> ServerState:
        fetch = self._client.list_prompts
        found = await all_listed(lambda at: fetch(cursor=at), lambda page: page.prompts, self.left_out)
        return replace(state, prompts=prompts_of(self.spec, found))

    async def call(self, name: str, arguments: Arguments, show: Callable[[str], None]) -> Result:
        """Return the result of a tool call. Raises `ToolError`. Cancelling cancels only this call."""
        _require_text(arguments)
        shown = 0.0
        loop = asyncio.get_running_loop()
        async with self._answering(f"`{one_line(name)}`") as go_on:

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                nonlocal shown
                go_on()
                if loop.time() - shown >= _PROGRESS_EVERY:
                    shown = loop.time()
                    show(_progress_line(progress, total, message))

            try:
                answer = await self._client.call_tool(name, dict(arguments), progress_callback=hear)
            except MCPError as error:
                await self._open_pages(error)
                answer = await self._client.call_tool(name, dict(arguments), progress_callback=hear)
            return result_of(answer)

    async def _open_pages(self, error: MCPError) -> None:
        """Ask the user to open the pages that a server requires before a call. Raises the error if it is a different
        one or the user declines."""
        is_such = error.code == types.URL_ELICITATION_REQUIRED and isinstance(error.data, dict)
        if not is_such or "elicitation" not in self.handlers.services:
            raise error
        for page in UrlElicitationRequiredError.from_error(error.error).elicitations:
            with self.patience.question():
                if not isinstance(await ask_to_open(self.spec.name, self.handlers, page), AcceptedAnswer):
                    raise error

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""
        _require_text(uri)
        async with self._answering(f"the resource `{one_line(uri)}`"):
            return result_of_resource(await self._client.read_resource(uri))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises `ToolError`."""
        _require_text(arguments)
        async with self._answering(f"the prompt `{one_line(name)}`"):
            return messages_of(await self._client.get_prompt(name, arguments))

    @asynccontextmanager
    async def _answering(self, what: str) -> AsyncIterator[Callable[[], None]]:
        """Translate every failure into a `ToolError` of one line."""
        label = self.spec.label
        try:
            async with self.patience.call() as go_on:
                yield go_on
        except TimeoutError as error:
            limit = self.spec.call_timeout
            span = f"{limit:g} second{'' if limit == 1 else 's'}"
            raise ToolError(
                f"the server `{label}` did not answer {what} within {span}, so it was told to stop; "
                "it may be partly done"
            ) from error
        except MCPError as error:
            if error.code == types.INVALID_REQUEST and error.message == _SESSION_OVER:
                self.lose("it no longer knows this session")
                raise SessionOver(f"the server `{label}` no longer knows this session") from error
            if error.code == types.CONNECTION_CLOSED:
                if error.message == _CLOSED_MESSAGE:
                    self.lose("its connection has ended")
                why = one_line(self.lost or error.message)
                raise ToolError(
                    f"the server `{label}` was lost during {what} ({why}); it may be partly done"
                ) from error
            raise ToolError(f"the server `{label}` refused {what}: {_detailed_error(error)}") from error
        except ValidationError as error:
            raise ToolError(f"the server `{label}` answered {what} with something unknown to the protocol") from error
        except RuntimeError as error:
            raise ToolError(f"{what} of the server `{label}` failed: {one_line(str(error))}") from error

    # Notifications.

    async def listen(self) -> None:
        """Subscribe to change notifications, as newer protocol versions require."""
        has = self._client.server_capabilities
        tools = bool(has.tools and has.tools.list_changed)
        resources = bool(has.resources and has.resources.list_changed)
        prompts = bool(has.prompts and has.prompts.list_changed)
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or resources or prompts):
            return
        while True:
            try:
                async with self._client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as changes:
                    async for _ in changes:
                        pass  # `on_notification` handles each one already
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError):
                await asyncio.sleep(_LISTEN_AGAIN)
                self._note_changed(*KINDS)

    def on_notification(self, method: str) -> None:
        """Called for every notification before later messages are read."""
        if (kind := _CHANGES.get(method)) is not None:
            self._note_changed(kind)

    def on_post_response(self, response: httpx2.Response) -> None:
        is_refused = response.status_code in (httpx2.codes.NOT_FOUND, httpx2.codes.METHOD_NOT_ALLOWED)
        self.refused_post = status_of(response) if is_refused else ""

    async def on_log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        said = params.data if isinstance(params.data, str) else json.dumps(params.data, ensure_ascii=False, default=str)
        self._log.write(f"[{params.level}] {one_line(said, 1000)}\n".encode())

    def _note_changed(self, *kinds: ListKind) -> None:
        self.stale.update(kinds)
        self.changes += 1
        self.is_known.clear()
        self.news.set()

    def lose(self, why: str) -> None:
        if not self.lost and not self._is_left:
            self.lost = why
            self._on_lost()
            self.news.set()
            self.is_known.set()

    def leave(self) -> None:
        """Mark the end of the connection as intended."""
        self._is_left = True
        self.is_known.set()

    async def _templates(self) -> list[types.ResourceTemplate]:
        """Return the resource templates, which servers with resources need not support."""
        try:
            return await all_listed(
                lambda at: self._client.list_resource_templates(cursor=at),
                lambda page: page.resource_templates,
                self.left_out,
            )
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return []
            raise


async def _as_it_is(name: str, result: Any) -> None:  # noqa: ANN401  # replaces a method of the SDK
    """Accept every result."""


def _detailed_error(error: Exception) -> str:
    """Return a server's error with its details, which often name the invalid field."""
    data = error.data if isinstance(error, MCPError) else None
    if data is None or data in ("", {}, []):
        return error_text(error)
    details = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return f"{error_text(error)} ({one_line(details, _MAX_DATA_CHARS)})"


def _require_text(sent: object) -> None:
    """Raise `ToolError` for lone surrogates, on which the SDK would end the connection."""
    try:
        json.dumps(sent, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ToolError("the request contains half a character, so nothing was sent: write it whole") from error


def _progress_line(done: float, total: float | None, message: str | None) -> str:
    share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{share}: {one_line(message)}\n" if message else f"{share}\n"


class ServerTimeouts:
    """Timeouts of the calls of a server. They are paused while the server waits for an answer from us."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: dict[asyncio.Timeout, float] = {}
        """The running calls, with their latest possible end."""
        self._questions = 0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Callable[[], None]]:
        """Yield a function to call on every sign of progress. Raises `TimeoutError`."""
        async with asyncio.timeout(None) as timeout:
            self._running[timeout] = _now() + _MAX_EXTENSIONS * self._seconds
            self._wind(timeout)
            try:
                yield lambda: self._wind(timeout)
            finally:
                del self._running[timeout]

    @contextmanager
    def question(self) -> Iterator[None]:
        """Pause all timeouts while the server waits for us, since it is unknown which call is waiting."""
        self._questions += 1
        self._wind_all()
        try:
            yield
        finally:
            self._questions -= 1
            self._wind_all()

    def _wind_all(self) -> None:
        for timeout in self._running:
            self._wind(timeout)

    def _wind(self, timeout: asyncio.Timeout) -> None:
        if timeout in self._running and not timeout.expired():
            timeout.reschedule(None if self._questions else min(_now() + self._seconds, self._running[timeout]))


def _now() -> float:
    return asyncio.get_running_loop().time()

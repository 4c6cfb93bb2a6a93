"""One connection to an MCP server. Loading the SDK takes a second, so it is loaded only by this module and the modules
that only this module imports."""

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
from ebbtide.tools.integrations.mcp.client_handlers import AcceptedAnswer, ClientHandlers
from ebbtide.tools.integrations.mcp.listing import fetch_all_pages, parse_resource, select_usable_tools, usable_prompts
from ebbtide.tools.integrations.mcp.offers import (
    Caller,
    LoginRequiredError,
    PostNotSupportedError,
    PromptMessage,
    ServerState,
    SessionExpiredError,
    instructions_tool,
)
from ebbtide.tools.integrations.mcp.questions import ask_to_open_page, create_client_callbacks
from ebbtide.tools.integrations.mcp.repairs import repair_streams
from ebbtide.tools.integrations.mcp.results import prompt_messages, resource_result, tool_result
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.sse import open_sse
from ebbtide.tools.integrations.mcp.texts import error_text, one_line
from ebbtide.tools.integrations.mcp.transport import open_http, open_stdio, status_text
from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.version import VERSION

# Without a handler, Python would print the SDK's log warnings over the interface.
for logger_name in ("mcp", "client"):
    logging.getLogger(logger_name).addHandler(logging.NullHandler())

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]
LIST_KINDS: tuple[ListKind, ...] = ("tools", "resources", "prompts")
_LIST_CHANGE_METHODS: Mapping[str, ListKind] = {f"notifications/{kind}/list_changed": kind for kind in LIST_KINDS}

_MAX_TIMEOUT_FACTOR = 60
"""Maximum duration of a call that reports progress, as a multiple of its timeout."""
_MAX_REPORTED_OMISSIONS = 10
"""Maximum number of omitted list entries that are reported one by one."""
_SESSION_OVER_MESSAGE = "Session terminated"
"""The SDK's message when a remote server no longer knows the session."""
_CLOSED_MESSAGE = "Connection closed"
"""The SDK's message when the whole connection is lost."""
_PROGRESS_INTERVAL_S = 0.1
"""Minimum number of seconds between progress lines."""
_STARTUP_LIST_S, _LATER_LIST_S = 1.0, 10.0
"""Timeouts for listing resources or prompts, during the server's start and later, in seconds."""
_MAX_DATA_CHARS = 1_000
"""Maximum number of characters shown of an error's details."""
_RESUBSCRIBE_S = 5.0
"""Delay before a subscription to change notifications is renewed after it has ended, in seconds."""


ErrorT = TypeVar("ErrorT", bound=BaseException)


@asynccontextmanager
async def open_connection(
    spec: ServerSpec,
    handlers: ClientHandlers,
    log: ServerLog,
    credentials_path: Path,
    allow_login: bool,
    on_lost: Callable[[], None],
) -> "AsyncIterator[McpConnection]":
    """Yield a ready connection. The task that entered the context must also leave it.

    Raises `ConnectionError` if the server fails for a known reason (`PostNotSupportedError` if it might use the older
    transport), `LoginRequiredError`, and other errors of the SDK. `allow_login`: log in if the server requires it.
    `on_lost`: called as soon as the connection ends unexpectedly.
    """
    connection = McpConnection(spec, handlers, log, on_lost)
    client = Client(
        _transport(connection, log, credentials_path, allow_login),
        logging_callback=connection.on_log_message,
        client_info=types.Implementation(name="ebbtide", version=VERSION),
        cache=None,
        **create_client_callbacks(spec.name, handlers, connection.timeouts.paused),
    )
    try:
        async with client:
            connection.attach_client(client)
            listen_task = asyncio.create_task(connection.listen())
            try:
                yield connection
            finally:
                connection.mark_closing()
                listen_task.cancel()
                await asyncio.gather(listen_task, return_exceptions=True)
    except (MCPError, ExceptionGroup) as error:  # the SDK wraps some errors, a few of them repeatedly
        if (login := _find_error(error, LoginRequiredError)) is not None:
            raise login from error
        if connection.post_refusal_status and not connection.loss_reason:
            raise PostNotSupportedError(connection.post_refusal_status) from error
        raise ConnectionError(connection.loss_reason or error_text(error)) from error


@asynccontextmanager
async def _transport(
    connection: "McpConnection", log: ServerLog, credentials_path: Path, allow_login: bool
) -> AsyncIterator[TransportStreams]:
    spec = connection.spec
    if spec.command:
        transport = open_stdio(spec, log, connection.record_loss)
    elif spec.is_sse:
        transport = open_sse(spec, credentials_path, connection.handlers, allow_login)
    else:
        transport = open_http(spec, credentials_path, connection.handlers, allow_login, connection.on_post_response)
    async with transport as streams:
        yield repair_streams(streams, connection.on_notification, connection.omissions.append, connection.record_loss)


def _find_error(error: BaseException, kind: type[ErrorT]) -> ErrorT | None:
    """Find the first error of this type in nested exception groups. None if there is none."""
    if isinstance(error, kind):
        return error
    nested_errors = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((match for nested in nested_errors if (match := _find_error(nested, kind)) is not None), None)


class McpConnection:
    """The connection to a server. Sets `changed` when it is lost, and when one of the server's lists has changed."""

    def __init__(self, spec: ServerSpec, handlers: ClientHandlers, log: ServerLog, on_lost: Callable[[], None]) -> None:
        self.timeouts = ServerTimeouts(spec.call_timeout)
        self.changed = asyncio.Event()
        self.loss_reason = ""
        """Why the connection was lost; empty while it exists."""
        self.stale_lists: set[ListKind] = set()
        """Lists that have changed since they were last fetched."""
        self.lists_up_to_date = asyncio.Event()
        """Set while the lists are up to date."""
        self.change_count = 0
        """Number of change notifications so far."""
        self.lists_up_to_date.set()
        self.post_refusal_status = ""
        """Status of the last POST if the server rejected POST or the address; otherwise empty."""
        self.omissions: list[str] = []
        """One line for each omitted list entry, with the reason for omitting it."""
        self.spec = spec
        self.handlers = handlers
        self.is_serving = False
        """Whether the server's tools are known. Once they are, fetching the other lists may take longer."""
        self._log = log
        self._on_lost = on_lost
        self._is_closing = False
        self._client: Client

    def attach_client(self, client: Client) -> None:
        self._client = client
        # Without this, the SDK would discard a result that does not match the tool's output schema.
        client.session.validate_tool_result = _accept_any_result  # type: ignore[method-assign]  # the SDK has no setting for it

    async def fetch_state(self, kinds: frozenset[ListKind], previous_state: ServerState, caller: Caller) -> ServerState:
        """Return the server's details and its current lists of these kinds; everything else is copied from
        `previous_state`."""
        client = self._client
        capabilities = client.server_capabilities
        info = client.server_info
        title, version = (one_line(info.title or info.name), one_line(info.version)) if info else ("", "")
        state = replace(previous_state, detail="", name=title, version=version, protocol=client.protocol_version)
        state = replace(state, instructions=instructions_tool(client.instructions or "", caller))
        self.omissions.clear()
        if "tools" in kinds and (capabilities.tools is not None or not capabilities.model_dump(exclude_none=True)):
            listed_tools = await fetch_all_pages(
                lambda cursor: client.list_tools(cursor=cursor), lambda page: page.tools, self.omissions
            )
            tools, notes = await asyncio.to_thread(
                select_usable_tools, listed_tools, caller
            )  # seconds for ten thousand tools
            state = replace(state, tools=tools, notes=notes)
        if "resources" in kinds and capabilities.resources is not None:
            state = await self._with_optional_list("resources", self._with_resources, state)
        if "prompts" in kinds and capabilities.prompts is not None:
            state = await self._with_optional_list("prompts", self._with_prompts, state)
        resolved_notes = tuple(f"its {kind} are unknown" for kind in kinds)
        state = replace(state, notes=tuple(note for note in state.notes if not note.startswith(resolved_notes)))
        new_notes = (line for line in self.omissions[:_MAX_REPORTED_OMISSIONS] if line not in state.notes)
        return replace(state, notes=(*state.notes, *new_notes))

    async def _with_optional_list(
        self, kind: ListKind, add_list: Callable[[ServerState], Awaitable[ServerState]], state: ServerState
    ) -> ServerState:
        """Add one more list to the state. If fetching it fails or takes too long, return the state unchanged, because
        the server's tools can still be used."""
        timeout = _LATER_LIST_S if self.is_serving else _STARTUP_LIST_S
        try:
            async with asyncio.timeout(timeout):
                return await add_list(state)
        except TimeoutError:
            self.omissions.append(f"its {kind} are unknown: it did not answer `{kind}/list` within {timeout:g} s")
            if not self.is_serving:
                self.stale_lists.add(kind)
                self.changed.set()
        except (MCPError, ToolError, RuntimeError) as error:
            if self.loss_reason or (isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED):
                raise
            if not (isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND):
                self.omissions.append(f"its {kind} are unknown: {_detailed_error(error)}")
        return state

    async def _with_resources(self, state: ServerState) -> ServerState:
        fetch = self._client.list_resources
        resources = await fetch_all_pages(
            lambda cursor: fetch(cursor=cursor), lambda page: page.resources, self.omissions
        )
        state = replace(state, resources=tuple(map(parse_resource, resources)))
        return replace(state, templates=tuple(map(parse_resource, await self._fetch_templates())))

    async def _with_prompts(self, state: ServerState) -> ServerState:
        fetch = self._client.list_prompts
        prompts = await fetch_all_pages(lambda cursor: fetch(cursor=cursor), lambda page: page.prompts, self.omissions)
        return replace(state, prompts=usable_prompts(self.spec, prompts))

    async def call_tool(self, name: str, arguments: Arguments, show_progress: Callable[[str], None]) -> Result:
        """Call a tool and return its result. Cancelling affects only this call. Raises `ToolError`."""
        _require_encodable(arguments)
        last_report = 0.0
        loop = asyncio.get_running_loop()
        async with self._translate_errors(f"`{one_line(name)}`") as report_progress:

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                nonlocal last_report
                report_progress()
                if loop.time() - last_report >= _PROGRESS_INTERVAL_S:
                    last_report = loop.time()
                    show_progress(_progress_line(progress, total, message))

            try:
                answer = await self._client.call_tool(name, dict(arguments), progress_callback=on_progress)
            except MCPError as error:
                await self._open_required_pages(error)
                answer = await self._client.call_tool(name, dict(arguments), progress_callback=on_progress)
            return tool_result(answer)

    async def _open_required_pages(self, error: MCPError) -> None:
        """Ask the user to open the web pages that a server requires before a call. Re-raises `error` if it is about
        anything else, or if the user declines."""
        requires_pages = error.code == types.URL_ELICITATION_REQUIRED and isinstance(error.data, dict)
        if not requires_pages or "elicitation" not in self.handlers.services:
            raise error
        for page in UrlElicitationRequiredError.from_error(error.error).elicitations:
            with self.timeouts.paused():
                if not isinstance(await ask_to_open_page(self.spec.name, self.handlers, page), AcceptedAnswer):
                    raise error

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""
        _require_encodable(uri)
        async with self._translate_errors(f"the resource `{one_line(uri)}`"):
            return resource_result(await self._client.read_resource(uri))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[PromptMessage, ...]:
        """Return the messages of a prompt. Raises `ToolError`."""
        _require_encodable(arguments)
        async with self._translate_errors(f"the prompt `{one_line(name)}`"):
            return prompt_messages(await self._client.get_prompt(name, arguments))

    @asynccontextmanager
    async def _translate_errors(self, subject: str) -> AsyncIterator[Callable[[], None]]:
        """Limit a request's duration, and turn its failures into a `ToolError` with a one-line message. Yield a
        function to call on progress."""
        label = self.spec.label
        try:
            async with self.timeouts.limit_call() as report_progress:
                yield report_progress
        except TimeoutError as error:
            max_seconds = self.spec.call_timeout
            duration_text = f"{max_seconds:g} second{'' if max_seconds == 1 else 's'}"
            raise ToolError(
                f"the server `{label}` did not answer {subject} within {duration_text}, so it was told to stop; "
                "it may be partly done"
            ) from error
        except MCPError as error:
            if error.code == types.INVALID_REQUEST and error.message == _SESSION_OVER_MESSAGE:
                self.record_loss("it no longer knows this session")
                raise SessionExpiredError(f"the server `{label}` no longer knows this session") from error
            if error.code == types.CONNECTION_CLOSED:
                if error.message == _CLOSED_MESSAGE:
                    self.record_loss("its connection has ended")
                reason = one_line(self.loss_reason or error.message)
                raise ToolError(
                    f"the server `{label}` was lost during {subject} ({reason}); it may be partly done"
                ) from error
            raise ToolError(f"the server `{label}` refused {subject}: {_detailed_error(error)}") from error
        except ValidationError as error:
            raise ToolError(f"the server `{label}` sent an invalid response to {subject}") from error
        except RuntimeError as error:
            raise ToolError(f"{subject} of the server `{label}` failed: {one_line(str(error))}") from error

    # Notifications

    async def listen(self) -> None:
        """Subscribe to change notifications, as newer protocol versions require."""
        capabilities = self._client.server_capabilities
        notifies_tools = bool(capabilities.tools and capabilities.tools.list_changed)
        notifies_resources = bool(capabilities.resources and capabilities.resources.list_changed)
        notifies_prompts = bool(capabilities.prompts and capabilities.prompts.list_changed)
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (
            notifies_tools or notifies_resources or notifies_prompts
        ):
            return
        while True:
            try:
                async with self._client.listen(
                    tools_list_changed=notifies_tools,
                    prompts_list_changed=notifies_prompts,
                    resources_list_changed=notifies_resources,
                ) as changes:
                    async for _ in changes:
                        pass  # `on_notification` already handles each one
            except (ListenNotSupportedError, MCPError):
                return
            except (SubscriptionLost, TimeoutError):
                await asyncio.sleep(_RESUBSCRIBE_S)
                self._mark_stale(*LIST_KINDS)

    def on_notification(self, method: str) -> None:
        """Called for every notification, before later messages are read."""
        if (kind := _LIST_CHANGE_METHODS.get(method)) is not None:
            self._mark_stale(kind)

    def on_post_response(self, response: httpx2.Response) -> None:
        is_refused = response.status_code in (httpx2.codes.NOT_FOUND, httpx2.codes.METHOD_NOT_ALLOWED)
        self.post_refusal_status = status_text(response) if is_refused else ""

    async def on_log_message(self, params: types.LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else json.dumps(params.data, ensure_ascii=False, default=str)
        self._log.write(f"[{params.level}] {one_line(text, 1000)}\n".encode())

    def _mark_stale(self, *kinds: ListKind) -> None:
        self.stale_lists.update(kinds)
        self.change_count += 1
        self.lists_up_to_date.clear()
        self.changed.set()

    def record_loss(self, reason: str) -> None:
        if not self.loss_reason and not self._is_closing:
            self.loss_reason = reason
            self._on_lost()
            self.changed.set()
            self.lists_up_to_date.set()

    def mark_closing(self) -> None:
        """Record that the connection is being closed on purpose."""
        self._is_closing = True
        self.lists_up_to_date.set()

    async def _fetch_templates(self) -> list[types.ResourceTemplate]:
        """Return the resource templates; empty if the server does not support them."""
        try:
            return await fetch_all_pages(
                lambda cursor: self._client.list_resource_templates(cursor=cursor),
                lambda page: page.resource_templates,
                self.omissions,
            )
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return []
            raise


async def _accept_any_result(name: str, result: Any) -> None:  # noqa: ANN401  # replaces a method of the SDK
    """Accept any result."""


def _detailed_error(error: Exception) -> str:
    """Return a server's error with its details, which often name the invalid field."""
    data = error.data if isinstance(error, MCPError) else None
    if data is None or data in ("", {}, []):
        return error_text(error)
    details = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    return f"{error_text(error)} ({one_line(details, _MAX_DATA_CHARS)})"


def _require_encodable(value: object) -> None:
    """Raise `ToolError` if the value contains lone surrogates. Sending one would make the SDK end the connection."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            "the request contains an incomplete character, so it was not sent: write the full character"
        ) from error


def _progress_line(progress: float, total: float | None, message: str | None) -> str:
    progress_text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    return f"{progress_text}: {one_line(message)}\n" if message else f"{progress_text}\n"


class ServerTimeouts:
    """Timeouts of the calls to a server. They are paused while the server waits for this program to answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[asyncio.Timeout, float] = {}
        """The running calls, each with its deadline."""
        self._open_questions = 0

    @asynccontextmanager
    async def limit_call(self) -> AsyncIterator[Callable[[], None]]:
        """Limit the duration of a call. Yield a function to call on every progress report. Raises `TimeoutError`."""
        async with asyncio.timeout(None) as timeout:
            self._deadlines[timeout] = _now() + _MAX_TIMEOUT_FACTOR * self._seconds
            self._reschedule(timeout)
            try:
                yield lambda: self._reschedule(timeout)
            finally:
                del self._deadlines[timeout]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause all timeouts while the server waits for an answer from this program, because it is unknown which call
        its question belongs to."""
        self._open_questions += 1
        self._reschedule_all()
        try:
            yield
        finally:
            self._open_questions -= 1
            self._reschedule_all()

    def _reschedule_all(self) -> None:
        for timeout in self._deadlines:
            self._reschedule(timeout)

    def _reschedule(self, timeout: asyncio.Timeout) -> None:
        if timeout in self._deadlines and not timeout.expired():
            timeout.reschedule(None if self._open_questions else min(_now() + self._seconds, self._deadlines[timeout]))


def _now() -> float:
    return asyncio.get_running_loop().time()

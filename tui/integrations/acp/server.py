"""Implements the protocol's methods for all of an editor's sessions, and the server loop."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeAlias, TypeVar

from acp import PROTOCOL_VERSION, Agent, Client, RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    StopReason,
    Usage,
)

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, AuthFailed, UsageError
from ebbtide.agent.events.session import TurnEnd
from ebbtide.agent.logs.crash_reports import config_secrets, crash_error
from ebbtide.agent.messages import Usage as TokenUsage
from ebbtide.tui.integrations.acp.client_settings import McpServer, with_client_settings
from ebbtide.tui.integrations.acp.content import ContentBlock
from ebbtide.tui.integrations.acp.editor_session import EditorSession
from ebbtide.tui.integrations.acp.open_files import EditorFileSaver
from ebbtide.tui.integrations.acp.options import EFFORT_ID, MODE_ID, MODEL_ID, build_config_options, build_mode_state
from ebbtide.tui.integrations.acp.updates import TERMINAL_CAPABILITY
from ebbtide.tui.integrations.line_transport import LineTransport
from ebbtide.tui.terminal.signals import shut_down_on_signals
from ebbtide.version import VERSION

OpenedSessions: TypeAlias = tuple[ProjectSessions, Sequence[str]]
OpenSessions: TypeAlias = Callable[[str, Callable[[Config], Config]], OpenedSessions]
"""Opens the sessions of a folder, changing its settings with the given function. Also returns warnings."""
P = ParamSpec("P")
T = TypeVar("T")

SESSIONS_PER_PAGE = 50
"""Number of sessions per page of the list."""
LOGIN_METHOD_ID = "key"
LOGIN_INSTRUCTIONS = (
    "Run `ebb key set anthropic` (or openai) in a terminal, or start the editor with ANTHROPIC_API_KEY set"
)
INTERNAL_ERROR, AUTH_REQUIRED, INVALID_PARAMS = -32603, -32000, -32602
_STOP_REASONS: dict[TurnEnd, StopReason] = {
    "answered": "end_turn", "interrupted": "cancelled", "step_limit": "max_turn_requests", "cost_limit":
    "max_turn_requests", "repeated_calls": "max_turn_requests", "repeated_text": "max_tokens",
    "context_limit": "max_tokens", "failed": "end_turn",
}  # fmt: skip


def _with_rpc_errors(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a method so that errors become one-sentence error responses. Bugs also write a crash report."""

    @functools.wraps(method)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except AgentError as error:
            _raise_rpc_error(str(error), error.code)
        except (RequestError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  # unexpected errors are reported here
            server = args[0]
            assert isinstance(server, AcpServer)
            crash = crash_error(error, server.logs, server.secrets)
            _raise_rpc_error(str(crash), crash.code)

    return wrapper


def _raise_rpc_error(message: str, code: str) -> NoReturn:
    rpc_code = {AuthFailed.code: AUTH_REQUIRED, UsageError.code: INVALID_PARAMS}.get(code, INTERNAL_ERROR)
    raise RequestError(rpc_code, message, {"code": code}) from None


class AcpServer(Agent):
    """Serves one editor."""

    def __init__(self, open_sessions: OpenSessions, logs: Path) -> None:
        self.logs = logs
        self.secrets: tuple[str, ...] = ()
        """Strings to mask in crash reports."""
        self._open_sessions = open_sessions
        self._client: Client | None = None
        self._capabilities = ClientCapabilities()
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    @_with_rpc_errors
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: object,
    ) -> InitializeResponse:
        self._capabilities = client_capabilities or ClientCapabilities()
        login = AuthMethodAgent(id=LOGIN_METHOD_ID, name="API key", description=LOGIN_INSTRUCTIONS)
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="ebbtide", title="Ebbtide", version=VERSION),
            auth_methods=[] if await self._has_key() else [login],
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                    fork=SessionForkCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    delete=SessionDeleteCapabilities(),
                ),
            ),
        )

    @_with_rpc_errors
    async def authenticate(self, method_id: str, **_: object) -> AuthenticateResponse:
        """Check that the configured model has a key; there is no other login."""
        if method_id != LOGIN_METHOD_ID:
            raise UsageError(f"unknown method `{method_id}`; use `{LOGIN_METHOD_ID}`")
        await self._check_key()
        return AuthenticateResponse()

    async def _has_key(self) -> bool:
        """Whether the configured model has its key, so that no login is needed. Without this, clients may refuse to
        start a session."""
        try:
            await self._check_key()
        except AgentError:
            return False
        return True

    async def _check_key(self) -> None:
        """Check that the configured model has its key. Raises `AgentError`."""
        async with self._temporary_sessions(os.getcwd()) as sessions:
            sessions.check_api_key()

    @asynccontextmanager
    async def _temporary_sessions(self, cwd: str) -> AsyncIterator[ProjectSessions]:
        """Open the sessions of a folder for the duration of the context."""
        sessions, _notices = self._open_sessions(cwd, lambda config: config)
        try:
            yield sessions
        finally:
            await sessions.close()

    @_with_rpc_errors
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: object,
    ) -> NewSessionResponse:
        session = await self._open_session(cwd, additional_directories, mcp_servers)
        options = session.current_options
        return NewSessionResponse(
            session_id=session.id, modes=build_mode_state(options), config_options=[*build_config_options(options)]
        )

    @_with_rpc_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: object,
    ) -> LoadSessionResponse:
        session = await self._open_session(cwd, additional_directories, mcp_servers, session_id, replay=True)
        options = session.current_options
        return LoadSessionResponse(modes=build_mode_state(options), config_options=[*build_config_options(options)])

    @_with_rpc_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: object,
    ) -> ResumeSessionResponse:
        session = await self._open_session(cwd, additional_directories, mcp_servers, session_id)
        options = session.current_options
        return ResumeSessionResponse(modes=build_mode_state(options), config_options=[*build_config_options(options)])

    @_with_rpc_errors
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: object,
    ) -> ForkSessionResponse:
        session = await self._open_session(cwd, additional_directories, mcp_servers, session_id, fork=True)
        options = session.current_options
        return ForkSessionResponse(
            session_id=session.id, modes=build_mode_state(options), config_options=[*build_config_options(options)]
        )

    @_with_rpc_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> ListSessionsResponse:
        start = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 9 else 0
        async with self._temporary_sessions(cwd or os.getcwd()) as sessions:
            infos = await sessions.recent_sessions(in_all_projects=cwd is None, limit=start + SESSIONS_PER_PAGE + 1)
        page = [
            SessionInfo(
                session_id=info.id,
                cwd=info.project,
                title=info.title,
                updated_at=datetime.fromtimestamp(info.updated_at, UTC).isoformat(timespec="seconds"),
            )
            for info in infos[start : start + SESSIONS_PER_PAGE]
        ]
        next_cursor = str(start + SESSIONS_PER_PAGE) if len(infos) > start + SESSIONS_PER_PAGE else None
        return ListSessionsResponse(sessions=page, next_cursor=next_cursor)

    @_with_rpc_errors
    async def set_session_mode(self, session_id: str, mode_id: str, **_: object) -> SetSessionModeResponse:
        await self._session_by_id(session_id).change_mode(mode_id)
        return SetSessionModeResponse()

    @_with_rpc_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: object
    ) -> SetSessionConfigOptionResponse:
        session = self._session_by_id(session_id)
        change_option = {
            MODE_ID: session.change_mode,
            MODEL_ID: session.change_model,
            EFFORT_ID: session.change_effort,
        }.get(config_id)
        if change_option is None:
            raise UsageError(f"unknown option `{config_id}`; use `{MODE_ID}`, `{MODEL_ID}` or `{EFFORT_ID}`")
        await change_option(str(value))
        return SetSessionConfigOptionResponse(config_options=[*build_config_options(session.current_options)])

    @_with_rpc_errors
    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: object) -> PromptResponse:
        outcome = await self._session_by_id(session_id).prompt(prompt)
        if outcome.failure is not None:
            _raise_rpc_error(outcome.failure.message, outcome.failure.code)
        return PromptResponse(stop_reason=_STOP_REASONS[outcome.end], usage=_protocol_usage(outcome.usage))

    @_with_rpc_errors
    async def cancel(self, session_id: str, **_: object) -> None:
        if session_id in self._sessions:  # a session that is not open has nothing to cancel
            self._sessions[session_id].cancel()

    @_with_rpc_errors
    async def close_session(self, session_id: str, **_: object) -> CloseSessionResponse:
        session = self._session_by_id(session_id)
        del self._sessions[session_id]
        await session.close()
        return CloseSessionResponse()

    @_with_rpc_errors
    async def delete_session(self, session_id: str) -> None:
        """Delete a session, closing it first if it is open. Does nothing if it does not exist."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.close()
        async with self._temporary_sessions(os.getcwd()) as sessions:
            library = await sessions.open_library()
            if await library.has_session(session_id):
                await library.delete(session_id)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Handle methods of the protocol that the library does not support."""
        if method == "session/delete" and isinstance(session_id := params.get("sessionId"), str):
            await self.delete_session(session_id)
            return {}
        if method == "session/delete":
            raise RequestError.invalid_params({"sessionId": "expected text"})
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore unknown notifications."""

    async def close(self) -> None:
        """Close all sessions, even if one fails to close."""
        sessions, self._sessions = [*self._sessions.values()], {}
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)

    def handle_disconnection(self) -> None:
        """Handle the editor's disconnection: interrupt turns but leave questions open."""
        for session in self._sessions.values():
            session.session.end_turn_for_exit()

    async def _open_session(
        self,
        cwd: str,
        folders: Sequence[str] | None,
        servers: Sequence[McpServer] | None,
        session_id: str | None = None,
        *,
        fork: bool = False,
        replay: bool = False,
    ) -> EditorSession:
        if not os.path.isabs(cwd):
            raise UsageError(f"the working folder `{cwd}` must be an absolute path")
        sessions, notices = self._open_sessions(
            cwd, lambda config: with_client_settings(config, servers or (), folders or ())
        )
        try:
            self.secrets = (*self.secrets, *filter(None, config_secrets(sessions.config, os.environ)))
            if session_id is not None and not fork and session_id in self._sessions:
                raise UsageError(f"the session `{session_id}` is already open; close it first")
            if fork and session_id is not None:
                session_id = (await (await sessions.open_library()).fork(session_id)).id
            assert self._client is not None
            file_saver = EditorFileSaver(self._client)
            if (
                self._capabilities.fs is not None
                and self._capabilities.fs.read_text_file
                and self._capabilities.fs.write_text_file
            ):
                sessions.save_open_files = file_saver.request_save
            session = await sessions.open(session_id)
        except BaseException:
            await sessions.close()
            raise
        file_saver.session_id = session.id
        elicitation = self._capabilities.elicitation
        has_forms = elicitation is not None and elicitation.form is not None
        has_terminals = bool((self._capabilities.field_meta or {}).get(TERMINAL_CAPABILITY))
        editor_session = self._sessions[session.id] = EditorSession(
            sessions, session, self._client, has_forms=has_forms, has_terminals=has_terminals
        )
        if replay:
            await editor_session.replay()
        editor_session.schedule_initial_updates(notices)
        return editor_session

    def _session_by_id(self, session_id: str) -> EditorSession:
        editor_session = self._sessions.get(session_id)
        if editor_session is None:
            raise UsageError(f"the session `{session_id}` is not open; load it first")
        return editor_session


def _protocol_usage(usage: TokenUsage) -> Usage:
    return Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        total_tokens=usage.total,
        cached_read_tokens=usage.cache_read,
        cached_write_tokens=usage.cache_write,
        thought_tokens=usage.reasoning,
    )


async def serve(server: AcpServer, transport: LineTransport) -> int:
    """Serve until the editor disconnects or the program is terminated; return the exit code."""
    connection = AgentSideConnection(server, transport, listening=False, use_unstable_protocol=True)
    with shut_down_on_signals(transport.stop_reading) as shutdown:
        try:
            await connection.listen()
        finally:
            server.handle_disconnection()
            await connection.close()
            await server.close()
    return shutdown.exit_code

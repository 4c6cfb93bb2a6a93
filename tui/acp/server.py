"""The protocol's methods, for any number of sessions, and the server loop."""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Sequence
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

from ebbtide.agent.config.values import Config
from ebbtide.agent.crash import crash_error, secrets_of
from ebbtide.agent.errors import AgentError, AuthFailed, UsageError
from ebbtide.agent.events.session import TurnEnd
from ebbtide.agent.messages import Usage as Counted
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.version import VERSION
from ebbtide.tui.acp.client_settings import McpServer, with_client
from ebbtide.tui.acp.content import Block
from ebbtide.tui.acp.editor_session import EditorSession
from ebbtide.tui.acp.open_files import OpenFiles
from ebbtide.tui.acp.options import EFFORT, MODE, MODEL, modes_of, options_of
from ebbtide.tui.acp.transport import LineTransport
from ebbtide.tui.acp.updates import SHOWS_TERMINALS
from ebbtide.tui.terminal.signals import shut_down_on_signals

OpenedFolder: TypeAlias = tuple[Sessions, Sequence[str]]
OpenFolder: TypeAlias = Callable[[str, Callable[[Config], Config]], OpenedFolder]
"""Opens the sessions of a folder, after the second argument has changed its settings, and returns warnings as well."""
P = ParamSpec("P")
T = TypeVar("T")

PAGE = 50
"""Sessions per page of a list."""
KEY = "key"
HOW_TO_LOG_IN = "Say `ebb key set anthropic` (or openai) in a terminal; or start the editor with ANTHROPIC_API_KEY"
INTERNAL_ERROR, NO_KEY, BAD_PARAMETERS = -32603, -32000, -32602
_STOPS: dict[TurnEnd, StopReason] = {
    "answered": "end_turn", "interrupted": "cancelled", "step_limit": "max_turn_requests", "cost_limit":
    "max_turn_requests", "repeated_calls": "max_turn_requests", "repeated_text": "max_tokens",
    "context_limit": "max_tokens", "failed": "end_turn",
}  # fmt: skip


def _with_rpc_errors(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wraps a method so that errors are returned as one sentence; for bugs a crash report is written as well."""

    @functools.wraps(method)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except AgentError as error:
            _refuse(str(error), error.code)
        except (RequestError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  # the outermost place: what nobody expected is told here
            server = args[0]
            assert isinstance(server, AcpServer)
            fault = crash_error(error, server.logs, server.secrets)
            _refuse(str(fault), fault.code)

    return answered


def _refuse(why: str, code: str) -> NoReturn:
    number = {AuthFailed.code: NO_KEY, UsageError.code: BAD_PARAMETERS}.get(code, INTERNAL_ERROR)
    raise RequestError(number, why, {"code": code}) from None


class AcpServer(Agent):
    """Serves one editor."""

    def __init__(self, open_folder: OpenFolder, logs: Path) -> None:
        self.logs = logs
        self.secrets: tuple[str, ...] = ()
        """Strings to mask in crash reports."""
        self._open_folder = open_folder
        self._client: Client | None = None
        self._can = ClientCapabilities()
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
        self._can = client_capabilities or ClientCapabilities()
        login = AuthMethodAgent(id=KEY, name="Key of a provider", description=HOW_TO_LOG_IN)
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
        """No login exists; checks that a model is reachable."""
        if method_id != KEY:
            raise UsageError(f"there is no method `{method_id}`; there is `{KEY}`")
        await self._check_key()
        return AuthenticateResponse()

    async def _has_key(self) -> bool:
        """Whether no login is needed. Clients may not start a session while one is."""
        try:
            await self._check_key()
        except AgentError:
            return False
        return True

    async def _check_key(self) -> None:
        """Raises `AgentError`."""
        sessions, _notices = self._open_folder(os.getcwd(), lambda config: config)
        try:
            sessions.check_key()
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
        opened = await self._open_session(cwd, additional_directories, mcp_servers)
        chosen = opened.current_options
        return NewSessionResponse(session_id=opened.id, modes=modes_of(chosen), config_options=[*options_of(chosen)])

    @_with_rpc_errors
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: object,
    ) -> LoadSessionResponse:
        opened = await self._open_session(cwd, additional_directories, mcp_servers, session_id, replays=True)
        chosen = opened.current_options
        return LoadSessionResponse(modes=modes_of(chosen), config_options=[*options_of(chosen)])

    @_with_rpc_errors
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: object,
    ) -> ResumeSessionResponse:
        opened = await self._open_session(cwd, additional_directories, mcp_servers, session_id)
        chosen = opened.current_options
        return ResumeSessionResponse(modes=modes_of(chosen), config_options=[*options_of(chosen)])

    @_with_rpc_errors
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: object,
    ) -> ForkSessionResponse:
        opened = await self._open_session(cwd, additional_directories, mcp_servers, session_id, forks=True)
        chosen = opened.current_options
        return ForkSessionResponse(session_id=opened.id, modes=modes_of(chosen), config_options=[*options_of(chosen)])

    @_with_rpc_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> ListSessionsResponse:
        start = int(cursor) if cursor is not None and cursor.isdecimal() and len(cursor) < 9 else 0
        sessions, _notices = self._open_folder(cwd or os.getcwd(), lambda config: config)
        try:
            found = await sessions.recent(everywhere=cwd is None, limit=start + PAGE + 1)
        finally:
            await sessions.close()
        page = [
            SessionInfo(
                session_id=info.id,
                cwd=info.project,
                title=info.title,
                updated_at=datetime.fromtimestamp(info.updated_at, UTC).isoformat(timespec="seconds"),
            )
            for info in found[start : start + PAGE]
        ]
        more = str(start + PAGE) if len(found) > start + PAGE else None
        return ListSessionsResponse(sessions=page, next_cursor=more)

    @_with_rpc_errors
    async def set_session_mode(self, session_id: str, mode_id: str, **_: object) -> SetSessionModeResponse:
        await self._session_by_id(session_id).change_mode(mode_id)
        return SetSessionModeResponse()

    @_with_rpc_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: object
    ) -> SetSessionConfigOptionResponse:
        held = self._session_by_id(session_id)
        change = {MODE: held.change_mode, MODEL: held.change_model, EFFORT: held.change_effort}.get(config_id)
        if change is None:
            raise UsageError(f"there is no option `{config_id}`; there are `{MODE}`, `{MODEL}` and `{EFFORT}`")
        await change(str(value))
        return SetSessionConfigOptionResponse(config_options=[*options_of(held.current_options)])

    @_with_rpc_errors
    async def prompt(self, session_id: str, prompt: list[Block], **_: object) -> PromptResponse:
        ended = await self._session_by_id(session_id).prompt(prompt)
        if ended.failure is not None:
            _refuse(ended.failure.message, ended.failure.code)
        return PromptResponse(stop_reason=_STOPS[ended.end], usage=_usage(ended.usage))

    @_with_rpc_errors
    async def cancel(self, session_id: str, **_: object) -> None:
        if session_id in self._sessions:  # of one that is not open there is nothing to end, and nobody to be told
            self._sessions[session_id].cancel()

    @_with_rpc_errors
    async def close_session(self, session_id: str, **_: object) -> CloseSessionResponse:
        held = self._session_by_id(session_id)
        del self._sessions[session_id]
        await held.close()
        return CloseSessionResponse()

    @_with_rpc_errors
    async def delete_session(self, session_id: str) -> None:
        """Delete a session, closing it first if open; a missing one is no error."""
        if (held := self._sessions.pop(session_id, None)) is not None:
            await held.close()
        sessions, _notices = self._open_folder(os.getcwd(), lambda config: config)
        try:
            library = await sessions.library()
            if await library.holds(session_id):
                await library.delete(session_id)
        finally:
            await sessions.close()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Handle protocol methods that the library does not know."""
        if method == "session/delete" and isinstance(id := params.get("sessionId"), str):
            await self.delete_session(id)
            return {}
        if method == "session/delete":
            raise RequestError.invalid_params({"sessionId": "it must be a text"})
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore unknown notifications."""

    async def close(self) -> None:
        """Close all sessions, even if one fails to close."""
        held, self._sessions = [*self._sessions.values()], {}
        await asyncio.gather(*(each.close() for each in held), return_exceptions=True)

    def leave(self) -> None:
        """The editor has disconnected: interrupt turns and leave questions open."""
        for held in self._sessions.values():
            held.session.leave_turn()

    async def _open_session(
        self,
        cwd: str,
        folders: Sequence[str] | None,
        servers: Sequence[McpServer] | None,
        resume: str | None = None,
        *,
        forks: bool = False,
        replays: bool = False,
    ) -> EditorSession:
        if not os.path.isabs(cwd):
            raise UsageError(f"the working folder `{cwd}` must be named from the root on")
        sessions, notices = self._open_folder(cwd, lambda config: with_client(config, servers or (), folders or ()))
        try:
            self.secrets = (*self.secrets, *filter(None, secrets_of(sessions.config, os.environ)))
            if resume is not None and not forks and resume in self._sessions:
                raise UsageError(f"the session `{resume}` is open already; close it first")
            if forks and resume is not None:
                resume = (await (await sessions.library()).fork(resume)).id
            assert self._client is not None
            files = OpenFiles(self._client)
            if self._can.fs is not None and self._can.fs.read_text_file and self._can.fs.write_text_file:
                sessions.save_open_files = files.save
            session = await sessions.open(resume)
        except BaseException:
            await sessions.close()
            raise
        files.session = session.id
        elicitation = self._can.elicitation
        has_forms = elicitation is not None and elicitation.form is not None
        has_terminals = bool((self._can.field_meta or {}).get(SHOWS_TERMINALS))
        held = self._sessions[session.id] = EditorSession(
            sessions, session, self._client, has_forms=has_forms, has_terminals=has_terminals
        )
        if replays:
            await held.replay()
        held.begin_to_greet(notices)
        return held

    def _session_by_id(self, session: str) -> EditorSession:
        held = self._sessions.get(session)
        if held is None:
            raise UsageError(f"no session `{session}` is open; load it first")
        return held


def _usage(counted: Counted) -> Usage:
    return Usage(
        input_tokens=counted.input,
        output_tokens=counted.output,
        total_tokens=counted.total,
        cached_read_tokens=counted.cache_read,
        cached_write_tokens=counted.cache_write,
        thought_tokens=counted.reasoning,
    )


async def serve(server: AcpServer, transport: LineTransport) -> int:
    """Serve until the editor disconnects or the program is terminated; return the exit code."""
    connection = AgentSideConnection(server, transport, listening=False, use_unstable_protocol=True)
    with shut_down_on_signals(transport.end) as ending:
        try:
            await connection.listen()
        finally:
            server.leave()
            await connection.close()
            await server.close()
    return ending.code
